/* escalate.h - interrupts, and the end of processes that ignore them.
 *
 * An interrupt sends SIGINT to the process of the running cell. If it raises no
 * exception there within the grace period, the process is ended.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_ESCALATE_H
#define HFI_ESCALATE_H

#include "session/session.h"

extern const hfi_owner hfi_escalate_owner;
/* Set the grace period to `seconds`; 0: use the environment's; negative: without end.
 * HF_E_INVALID. */
HF_CHECK hf_status hfi_escalate_configure(hf_kernel *kernel, long seconds,
                                          hf_error *reterr);
/* Interrupt the cell that a worker has, at once or when it begins. Nothing is sent to a
 * main worker that is dead and whose rollback hasn't answered yet. */
void hfi_escalate_interrupt(hf_kernel *kernel);
/* Whether an interrupt was raised as an exception in the cell. */
int hfi_escalate_has_reached(const hf_kernel *kernel);
/* Sends the interrupt that waited for the cell to begin; clears all state when it
 * ends. */
hfi_listener hfi_escalate_hear;
void hfi_escalate_taken(hf_kernel *kernel, hfi_worker *worker,
                        const hfi_from_worker_interrupted *frame);
void hfi_escalate_tick(hf_kernel *kernel, long long now_ns);
long long hfi_escalate_deadline_ns(const hf_kernel *kernel);

#endif
