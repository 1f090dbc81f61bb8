/* channel.h - a worker's end of the control channel (docs/control-protocol.md).
 *
 * Any thread may send. One thread receives, forks, and closes; a fork has only that one.
 * Nothing is called back, and no lock is held while the caller's code runs. A call that
 * can wait says so: a language releases its own lock around it.
 *
 * Frames are sent from the structs of workers/frame.h, and come as msgpack objects, which
 * hfi_frame_read makes structs of.
 */
#ifndef HFI_CHANNEL_H
#define HFI_CHANNEL_H

#include <sys/uio.h>

#include "workers/frame.h"

/* A text or bytes of so many aren't copied into a frame. */
#define HFI_CHANNEL_LARGE 65536u

typedef struct hfi_channel hfi_channel;

/* Takes the descriptor, on failure too. HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_channel_create_consume(int fd, hfi_channel **ret_channel,
                                              hf_error *reterr);
/* No thread may use it any more. */
void hfi_channel_destroy(hfi_channel *channel);

/* -1: it is closed. Any thread. */
int hfi_channel_fd(const hfi_channel *channel);
/* Close this end; safe to call again. Waits for a frame that is being sent. */
void hfi_channel_close(hfi_channel *channel);
/* In a fork whose descriptor is the end of another channel: nothing of the old one's. What
 * other threads held when the fork was made is free again. */
void hfi_channel_begin_anew(hfi_channel *channel);

/* ---- what is written to the pipes beside ----------------------------------------- */

/* From now on a frame can say how much had been written to these pipes by then. `tally`:
 * shared memory with what the frontend has read of them (hfi_tally); it is the channel's
 * from now on. The pipes are copied: the user may point 1 and 2 elsewhere. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_channel_watch_consume(hfi_channel *channel, int tally,
                                             const int pipes[2], hf_error *reterr);
/* The tally's descriptor; -1 if nothing is watched. */
int hfi_channel_tally(const hfi_channel *channel);
/* The bytes that were ever written to each pipe. HF_NOT_FOUND: the frontend has read all,
 * and no frame needs to say it. HF_AGAIN: the frontend is reading just now; waits for
 * that if `waits`, a second at most. Any thread. */
HF_CHECK hf_status hfi_channel_count(hfi_channel *channel, bool waits,
                                     int64_t ret_written[2]);
/* Whether the frame is something that users see among what is written to the pipes, and
 * so has to say its place. Before a reply or a question the frontend reads all. */
bool hfi_channel_has_place(const hfi_frame *frame);

/* ---- sending --------------------------------------------------------------------- */

/* A frame as the pieces that are sent one after the other. Large texts and bytes are the
 * caller's, and stay until it was sent; all else was copied. */
typedef struct hfi_packed {
    struct iovec
        *pieces; /* the first is for what was kept; then by turns ours, theirs */
    size_t piece_count;
    msgpack_sbuffer small;
    int fds[HFI_FRAME_FDS_MAX]; /* the caller's */
    size_t fd_count;
} hfi_packed;

/* Doesn't wait. Call hfi_packed_fini in any case. HF_E_NOMEM, HF_E_LIMIT. */
HF_CHECK hf_status hfi_packed_init(hfi_packed *packed, const hfi_frame *frame,
                                   hf_error *reterr);
void hfi_packed_fini(hfi_packed *packed);

/* Send it, whole or not at all; waits while the frontend is slow, whatever signals come.
 * Any thread. HF_E_GONE if the frontend is gone or this end is closed; HF_E_SYSTEM. */
HF_CHECK hf_status hfi_channel_send(hfi_channel *channel, hfi_packed *packed,
                                    hf_error *reterr);
/* The two in one: statuses of both. */
HF_CHECK hf_status hfi_channel_send_frame(hfi_channel *channel, const hfi_frame *frame,
                                          hf_error *reterr);
/* Send it together with the next frame: one system call for both, and the frontend wakes
 * up once. It has no descriptors. Waits for a frame that is being sent. Any thread.
 * HF_E_GONE, HF_E_NOMEM. */
HF_CHECK hf_status hfi_channel_keep(hfi_channel *channel, const hfi_packed *packed,
                                    hf_error *reterr);

/* ---- receiving: one thread ------------------------------------------------------- */

/* A frame that came, with its descriptors; -1 is one that the frontend announced and that
 * didn't come. Those that weren't taken (and set to -1) are closed with it. */
typedef struct hfi_incoming {
    struct hfi_incoming *next;
    hfi_received received;
    int fds[HFI_FRAME_FDS_MAX];
    size_t fd_count;
    char bytes[];
} hfi_incoming;

void hfi_incoming_free(hfi_incoming *incoming);

/* Read what has come; doesn't wait. After the call that finds the end of the channel,
 * which is one of its own, hfi_channel_has_ended is true. HF_E_GONE if this end is closed, HF_E_PROTOCOL, HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_channel_fill(hfi_channel *channel, hf_error *reterr);
/* The oldest frame that was read and not given yet, of this kind only if `op` isn't NULL:
 * others keep their order. The caller's; NULL: there is none. */
hfi_incoming *hfi_channel_next(hfi_channel *channel, const char *op);
/* Whether hfi_channel_next would give one. */
bool hfi_channel_has_frames(const hfi_channel *channel);
bool hfi_channel_has_ended(const hfi_channel *channel);
/* Wait until there is something to read, a signal comes or the time is over; false: it is
 * over. */
bool hfi_channel_wait(const hfi_channel *channel, int timeout_ms);

#endif
