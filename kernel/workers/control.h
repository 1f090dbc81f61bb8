/* control.h - the control channel between the frontend and a worker.
 *
 * A Unix stream socket pair per worker. Each message is a frame: a 4-byte big-endian
 * length (of what follows, at most 2^31-1) and one msgpack map with string keys; "op"
 * says what it is. File descriptors travel as SCM_RIGHTS with the first byte of the
 * frame. End of file means that the peer is dead.
 *
 * The frames are in workers/protocol.h, and with all that a worker has to know in
 * docs/control-protocol.md.
 *
 * Threads: a channel belongs to one thread at a time. Of a worker's, one thread reads,
 * and others may write to its descriptor (worker/channel.h).
 */
#ifndef HFI_CONTROL_H
#define HFI_CONTROL_H

#include <stdatomic.h>

#include "holdfast/error.h"
#include "workers/frame.h"

/* How many bytes were read from each of a worker's two pipes. It is in memory that the
 * worker maps, too. An odd `turn` means that a pipe is being read. */
typedef struct hfi_tally {
    _Atomic uint32_t turn;
    uint32_t reserved;
    _Atomic uint64_t read[2];
} hfi_tally;

/* Most received descriptors that wait for their frame. Further ones are closed. */
#define HFI_CONTROL_FDS_HELD_MAX 256

/* One end of the channel. No call waits, though the descriptor may be a blocking one. */
typedef struct hfi_control hfi_control;

/* Takes the descriptor, also on failure. HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_control_create_consume(int fd, hfi_control **ret_control,
                                              hf_error *reterr);
void hfi_control_close(hfi_control *control);

/* In a fork whose descriptor is the end of another channel: nothing of the old one's. */
void hfi_control_begin_anew(hfi_control *control);

int hfi_control_fd(const hfi_control *control);
/* Whether something waits to be written. */
int hfi_control_is_full(const hfi_control *control);

/* Queue a frame, and write as much as fits. Its descriptors are closed once sent, and on
 * failure. HF_E_GONE if the peer is dead, HF_E_NOMEM, HF_E_LIMIT, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_control_send_consume(hfi_control *control,
                                            const hfi_frame *frame, hf_error *reterr);
HF_CHECK hf_status hfi_control_flush(hfi_control *control, hf_error *reterr);
/* A frame is missing that the peer can't do without: end the channel on both sides. The
 * peer exits, and we read the end of the channel as if it had died. */
void hfi_control_end(hfi_control *control);

/* Read a bounded number of the waiting bytes. HF_E_GONE at the end of the stream, by the
 * call after the one that read the last bytes; hfi_control_next still returns the frames that came before it. */
HF_CHECK hf_status hfi_control_fill(hfi_control *control, hf_error *reterr);
/* Free the read buffer if it is empty. Otherwise it keeps the size of the largest
 * frame. */
void hfi_control_trim(hfi_control *control);
/* The next whole frame, valid until the next call; HF_AGAIN: there is none.
 * HF_E_PROTOCOL: the bytes are no frame, or descriptors came that no frame announces;
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_control_next(hfi_control *control, hfi_received *ret_received,
                                    hf_error *reterr);
/* The bytes of the next whole frame, as before they are parsed. */
HF_CHECK hf_status hfi_control_cut(hfi_control *control, hfi_part *ret_bytes,
                                   hf_error *reterr);
/* The oldest descriptor that came and wasn't taken, which is the caller's; -1: it got
 * lost, or none has come. */
int hfi_control_take_fd(hfi_control *control);
/* Read that frame into the row's struct, with its descriptors, which the caller owns.
 * HF_E_PROTOCOL names the field that is missing or has another type; HF_E_NOMEM. */
HF_CHECK hf_status hfi_control_read(hfi_control *control, const hfi_received *received,
                                    const hfi_row *row, hfi_frame *ret_frame,
                                    hf_error *reterr);

#endif
