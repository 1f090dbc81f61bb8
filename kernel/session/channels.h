/* channels.h - the five ZeroMQ sockets. */
#ifndef HFI_CHANNELS_H
#define HFI_CHANNELS_H

#include <stdint.h>

#include "holdfast/error.h"
#include "wire/connection.h"
#include "wire/message.h"

typedef struct hfi_channels hfi_channels;

/* Bind all five; ports of 0 are chosen and put into `connection`. At most
 * `backlog_bytes` (0: a GiB) wait for slow subscribers. HF_E_SYSTEM, HF_E_NOMEM,
 * HF_E_INVALID (keys). */
HF_CHECK hf_status hfi_channels_create(hfi_connection *connection,
                                       uint64_t backlog_bytes,
                                       hfi_channels **ret_channels, hf_error *reterr);
/* Sends what waits for up to a second, then closes; removes the files of ipc. */
void hfi_channels_close(hfi_channels *channels);

/* Borrowed, for zmq_poll. */
void *hfi_channels_socket(const hfi_channels *channels, int channel);

/* The next message. HF_AGAIN where none waits; failures drop the message. */
HF_CHECK hf_status hfi_channels_receive(hfi_channels *channels, int channel,
                                        hfi_signer *signer, hfi_message *ret_message,
                                        hf_error *reterr);
/* Sign and send; to iopub with one ident, the topic. HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_channels_send(hfi_channels *channels, int channel,
                                     hfi_signer *signer, hfi_part header,
                                     const hfi_outgoing *message, hf_error *reterr);
/* Nonzero once after a subscriber has missed output and taken what it was left. */
int hfi_channels_take_missed(hfi_channels *channels);
/* Answer the heartbeats that wait. */
void hfi_channels_echo(hfi_channels *channels);
/* The topic of the next new subscription, or HF_AGAIN. */
HF_CHECK hf_status hfi_channels_subscription(hfi_channels *channels,
                                             hfi_textbuf *ret_topic);

#endif
