/* escalate.h - interrupts that are not taken. */
#ifndef HFI_ESCALATE_H
#define HFI_ESCALATE_H

#include "session/session.h"

extern const hfi_owner hfi_escalate_owner;
/* The grace: `seconds`, or where 0 the environment's; negative: never. HF_E_INVALID. */
HF_CHECK hf_status hfi_escalate_configure(hf_kernel *kernel, long seconds,
                                          hf_error *reterr);
/* Interrupt the cell, which a worker has: at once, or when it has begun. A
 * main worker that is dead, and whose rollback hasn't said yet what becomes
 * of it, hears nothing. */
void hfi_escalate_interrupt(hf_kernel *kernel);
/* Whether an interrupt has become an exception in the cell. */
int hfi_escalate_has_reached(const hf_kernel *kernel);
/* Sends the interrupt that waited for the cell to begin; forgets all when it ends. */
hfi_listener hfi_escalate_hear;
void hfi_escalate_taken(hf_kernel *kernel, hfi_worker *worker,
                        const msgpack_object *map);
void hfi_escalate_tick(hf_kernel *kernel, long long now_ns);
long long hfi_escalate_deadline_ns(const hf_kernel *kernel);

#endif
