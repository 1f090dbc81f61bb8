/* forking.h - forks of a worker, as fork.h makes them, and what makes one another worker.
 *
 * Threads: the library's one.
 */
#ifndef HFI_FORKING_H
#define HFI_FORKING_H

#include "fork.h"
#include "self.h"

#define HFI_OBSTACLE_SIZE 256

/* Why a fork of this process could not go on in its place, in words for people; NULL: it
 * could. The text is in `words`. */
const char *hfi_forking_obstacle(hf_worker *worker, char words[HFI_OBSTACLE_SIZE]);
/* Fork. The three descriptors of the frame become its channel and pipes, and are closed
 * here. `*ret_pid` is 0 in the fork, which has a channel of its own and may send.
 * Statuses of hfi_fork; HF_E_PROTOCOL: a descriptor is missing. */
HF_CHECK hf_status hfi_forking_make(hf_worker *worker, hf_worker_fork kind,
                                    hfi_incoming *incoming, pid_t *ret_pid,
                                    double *ret_seconds, hf_error *reterr);

#endif
