/* handover.h - recorded and isolated cells: where they run, and how the state gets
 * there and back.
 *
 * The main worker's answer to a commit says where the cell runs. handover.c publishes
 * the commit, gives the cell to a process, publishes the changes that come back,
 * replies, and has the main worker adopt them. handles.c passes descriptors between the
 * processes.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_HANDOVER_H
#define HFI_HANDOVER_H

#include "session/session.h"

/* handover.c: where a cell runs, and the way of its state there and back */

/* The main worker has answered the commit. */
void hfi_handover_committed(hf_kernel *kernel, const hfi_from_worker_reply *reply);
void hfi_handover_settled(hf_kernel *kernel, hfi_worker *worker,
                          const hfi_from_main_settled *frame);
/* Whether this is the cell's worker while the main worker has yet to settle. Its
 * channel isn't read until then, so that its reply isn't published too early. */
int hfi_handover_holds(const hf_kernel *kernel, const hfi_worker *worker);
void hfi_handover_forked(hf_kernel *kernel, hfi_worker *worker,
                         const hfi_from_main_forked *frame);
void hfi_handover_refused(hf_kernel *kernel, hfi_worker *worker,
                          const hfi_from_cell_refused *frame);
/* The main worker is dead. If it has made a fork for the cell and hasn't reported it,
 * that fork gets no cell: a cell worker runs the cell. */
void hfi_handover_lose_main(hf_kernel *kernel);
/* Give the running cell to a cell worker. With `is_fresh` it is forked now, if none is
 * ready. If no process can be started, the cell fails. */
void hfi_handover_start_cell(hf_kernel *kernel, int is_fresh);
/* The reply to a recorded cell has come: from a cell worker or a fork; from the main
 * worker. */
void hfi_handover_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply);
void hfi_handover_replied_in_process(hf_kernel *kernel,
                                     const hfi_from_worker_reply *reply);
/* The cell worker is gone: messages to its comms get no answer any more. */
void hfi_handover_forget_cell(hf_kernel *kernel);
/* An interrupt came before the cell worker began the cell: end both. */
void hfi_handover_cancel(hf_kernel *kernel);

/* handles.c: passing open files, sockets and pipes */

extern const hfi_owner hfi_handles_owner;
void hfi_handles_want(hf_kernel *kernel, hfi_worker *worker,
                      const hfi_from_worker_want_handle *frame);
void hfi_handles_take(hf_kernel *kernel, hfi_worker *worker,
                      const hfi_from_worker_handle *frame);
/* The cell's state was published: send the main worker the descriptors that the cell
 * made. */
void hfi_handles_adopt(hf_kernel *kernel);
/* The cell is gone: close the descriptors that it made. */
void hfi_handles_drop(hf_kernel *kernel);
/* The main worker is gone, and answers no more. */
void hfi_handles_lose_main(hf_kernel *kernel);

#endif
