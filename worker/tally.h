/* tally.h - how much was ever written to the pipes that are a worker's fds 1 and 2.
 *
 * Threads: one watches and forgets, any counts. Locks: its own, which no call waits with.
 * Statuses stand at each function.
 */
#ifndef HFI_TALLY_H
#define HFI_TALLY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/error.h>

struct hfi_tally;

typedef struct hfi_pipes {
    pthread_mutex_t mutex;
    int fds[3];              /* the two pipes, and the tally; -1: nothing is watched */
    struct hfi_tally *tally; /* mapped */
} hfi_pipes;

void hfi_pipes_init(hfi_pipes *pipes);
void hfi_pipes_fini(hfi_pipes *pipes);
/* As hfi_channel_watch_consume: HF_E_SYSTEM. */
HF_CHECK hf_status hfi_pipes_watch_consume(hfi_pipes *pipes, int tally,
                                           const int fds[2], hf_error *reterr);
void hfi_pipes_forget(hfi_pipes *pipes);
/* In a fork: another thread may have held the lock. */
void hfi_pipes_begin_anew(hfi_pipes *pipes);
/* As hfi_channel_count: HF_OK, HF_NOT_FOUND, HF_AGAIN. */
HF_CHECK hf_status hfi_pipes_count(hfi_pipes *pipes, bool waits,
                                   int64_t ret_written[2]);

#endif
