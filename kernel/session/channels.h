/* channels.h - the five ZeroMQ sockets, and output that subscribers have yet to take.
 *
 * Send and receive never block: a message that nobody takes waits in libzmq, and the
 * backlog counts its bytes.
 *
 * Threads: one thread. Only the function that libzmq calls when it frees a counted part
 * may run in another.
 */
#ifndef HFI_CHANNELS_H
#define HFI_CHANNELS_H

#include <stdint.h>
#include <zmq.h>

#include "holdfast/error.h"
#include "wire/connection.h"
#include "wire/message.h"
#include "wire/textbuf.h"

/* ---- channels.c: the five ZeroMQ sockets ---- */

typedef struct hfi_channels hfi_channels;

/* Bind all five; ports of 0 are chosen and put into `connection`. At most
 * `backlog_bytes` (0: a GiB) wait for slow subscribers. HF_E_SYSTEM, HF_E_NOMEM,
 * HF_E_INVALID (keys). */
HF_CHECK hf_status hfi_channels_create(hfi_connection *connection,
                                       uint64_t backlog_bytes,
                                       hfi_channels **ret_channels, hf_error *reterr);
/* Sends waiting messages for up to a second, then closes; removes the files of ipc. */
void hfi_channels_close(hfi_channels *channels);

/* For poll(): readable if something may have come. What came may also be noticed by a
 * send or a receive, so ask hfi_channels_has_come() before each poll(), too. */
int hfi_channels_fd(const hfi_channels *channels, int channel);
/* Whether a message waits: `woken` if the descriptor was readable. It costs nothing if
 * it wasn't, and nothing was sent or received since it was asked last. Each message of a
 * cell is sent on iopub, on which only subscribers come: without `woken` it is asked
 * each 10 ms at most. */
int hfi_channels_has_come(hfi_channels *channels, int channel, int woken,
                          long long now_ns);
/* When to ask for iopub next; -1: when it is woken. */
long long hfi_channels_deadline_ns(const hfi_channels *channels);

/* Receive the next message. HF_AGAIN: none waits. After a failure the message is
 * dropped. */
HF_CHECK hf_status hfi_channels_receive(hfi_channels *channels, int channel,
                                        hfi_signer *signer, hfi_message *ret_message,
                                        hf_error *reterr);
/* Sign and send; to iopub with one ident, the topic. HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_channels_send(hfi_channels *channels, int channel,
                                     hfi_signer *signer, hfi_part header,
                                     const hfi_outgoing *message, hf_error *reterr);
/* Nonzero once after a subscriber has missed output, when everything else was taken. */
int hfi_channels_take_missed(hfi_channels *channels);
/* Answer the heartbeats that wait. */
void hfi_channels_echo(hfi_channels *channels);
/* The topic of the next new subscription, or HF_AGAIN. */
HF_CHECK hf_status hfi_channels_subscription(hfi_channels *channels,
                                             hfi_textbuf *ret_topic);

/* ---- backlog.c: output that waits for subscribers, and how much is kept ---- */

#define HFI_BACKLOG_DEFAULT_BYTES (1ull << 30)

typedef struct hfi_backlog hfi_backlog;

/* For an XPUB socket, which is borrowed. `limit_bytes` of 0 is the default.
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_backlog_create(void *socket, uint64_t limit_bytes,
                                      hfi_backlog **ret_backlog, hf_error *reterr);
/* Call it after the socket's context has ended: until then libzmq may hold counted
 * parts. NULL is fine. */
void hfi_backlog_close(hfi_backlog *backlog);

/* Make the one part by which a message is counted: `weight_bytes` count as waiting
 * until every subscriber has taken it. The caller sends or closes it. HF_E_NOMEM. */
HF_CHECK hf_status hfi_backlog_count(hfi_backlog *backlog, hfi_part part,
                                     uint64_t weight_bytes, zmq_msg_t *ret_message,
                                     hf_error *reterr);
/* Send the first part of a message, its topic, with more to follow. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_backlog_send_topic(hfi_backlog *backlog, hfi_part topic,
                                          hf_error *reterr);
/* Nonzero once after a subscriber has missed a message and nothing waits any more. */
int hfi_backlog_take_missed(hfi_backlog *backlog);

#endif
