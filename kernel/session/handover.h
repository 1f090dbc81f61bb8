/* handover.h - recorded and isolated cells, and the state that they need, on their way.
 *
 * The main worker's answer to a commit says where the cell runs. handover.c publishes
 * the commit, gives the cell to a process, publishes the changes that come back,
 * replies, and lets the main worker adopt them. handles.c passes descriptors between
 * the processes.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_HANDOVER_H
#define HFI_HANDOVER_H

#include "session/session.h"

/* ---- handover.c: the place of a cell, and its state's way there and back ---- */

/* The main worker's answer to a commit. */
void hfi_handover_committed(hf_kernel *kernel, const hfi_from_worker_reply *reply);
void hfi_handover_settled(hf_kernel *kernel, hfi_worker *worker,
                          const hfi_from_main_settled *frame);
/* Whether this is the cell's worker while the main worker has yet to settle: its
 * channel isn't read until then, so that its reply isn't published too early. */
int hfi_handover_holds(const hf_kernel *kernel, const hfi_worker *worker);
void hfi_handover_forked(hf_kernel *kernel, hfi_worker *worker,
                         const hfi_from_main_forked *frame);
void hfi_handover_refused(hf_kernel *kernel, hfi_worker *worker,
                          const hfi_from_cell_refused *frame);
/* The main worker is dead. A fork for the cell that it may have made, and hasn't
 * reported, gets no cell: a cell worker runs it. */
void hfi_handover_lose_main(hf_kernel *kernel);
/* A cell worker gets the running cell, with `is_fresh` one that is forked now if none
 * is ready; no process: the cell fails. */
void hfi_handover_start_cell(hf_kernel *kernel, int is_fresh);
/* The reply to a recorded cell: of a cell worker or a fork; of the main worker. */
void hfi_handover_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply);
void hfi_handover_replied_in_process(hf_kernel *kernel,
                                     const hfi_from_worker_reply *reply);
/* The cell worker is gone: its comm messages get no answer any more. */
void hfi_handover_forget_cell(hf_kernel *kernel);
/* An interrupt came before the cell worker began the cell: end both. */
void hfi_handover_cancel(hf_kernel *kernel);

/* ---- handles.c: open files, sockets and pipes on their way ---- */

extern const hfi_owner hfi_handles_owner;
void hfi_handles_want(hf_kernel *kernel, hfi_worker *worker,
                      const hfi_from_worker_want_handle *frame);
void hfi_handles_take(hf_kernel *kernel, hfi_worker *worker,
                      const hfi_from_worker_handle *frame);
/* The cell's state was published: the main worker gets the descriptors that the cell
 * made. */
void hfi_handles_adopt(hf_kernel *kernel);
/* The cell is gone: close the descriptors that it made. */
void hfi_handles_drop(hf_kernel *kernel);
/* The main worker is gone, and answers no more. */
void hfi_handles_lose_main(hf_kernel *kernel);

#endif
