/* ways.h - the ways of running a cell, each a file with the same steps: prepare, run, hand
 * back.
 *
 *   in_process.c   in the main worker. What the cell changes is there; nothing is saved
 *   forked.c       in a fork of the main worker, which prepares a commit and ends
 *   isolated.c     in a cell worker, which binds the variables first, and does the same
 *
 * `run` begins with a cell that was opened (asked.h), and hands it back unless it goes on
 * (hfi_running_hand_back).
 *
 * Threads: the library's one. Statuses of hfi_self_send.
 */
#ifndef HFI_WAYS_H
#define HFI_WAYS_H

#include "self.h"

HF_CHECK hf_status hfi_in_process_run(hf_worker *worker, hf_error *reterr);
/* Make the fork that sleeps, from the three descriptors of the frame, which are taken. In
 * a fork that wakes the call returns, too. */
HF_CHECK hf_status hfi_in_process_protect(hf_worker *worker, hfi_incoming *incoming,
                                          int64_t id, hf_error *reterr);

HF_CHECK hf_status hfi_forked_run(hf_worker *worker, hf_error *reterr);
/* Make the fork, as above. It goes on with the frames of its own channel. */
HF_CHECK hf_status hfi_forked_make(hf_worker *worker, hfi_incoming *incoming,
                                   int64_t id, hf_error *reterr);

HF_CHECK hf_status hfi_isolated_run(hf_worker *worker, hf_error *reterr);

#endif
