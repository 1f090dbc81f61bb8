/* backlog.h - output that subscribers have yet to take, and how much of it is kept. */
#ifndef HFI_BACKLOG_H
#define HFI_BACKLOG_H

#include <stdint.h>
#include <zmq.h>

#include "holdfast/error.h"
#include "wire/part.h"

#define HFI_BACKLOG_DEFAULT_BYTES (1ull << 30)

typedef struct hfi_backlog hfi_backlog;

/* For an XPUB socket, which is borrowed. `limit_bytes` of 0 is the default.
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_backlog_create(void *socket, uint64_t limit_bytes,
                                      hfi_backlog **ret_backlog, hf_error *reterr);
/* Once the socket's context has ended: until then libzmq may hold counted parts. NULL
 * is fine. */
void hfi_backlog_close(hfi_backlog *backlog);

/* Make the part of a message that stands for it: while anybody has yet to take it,
 * `weight_bytes` wait. Caller sends or closes it. HF_E_NOMEM. */
HF_CHECK hf_status hfi_backlog_count(hfi_backlog *backlog, hfi_part part,
                                     uint64_t weight_bytes, zmq_msg_t *ret_message,
                                     hf_error *reterr);
/* Send the first part of a message, its topic, with more to follow. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_backlog_send_topic(hfi_backlog *backlog, hfi_part topic,
                                          hf_error *reterr);
/* Nonzero once after somebody has missed something and nothing waits any more. */
int hfi_backlog_take_missed(hfi_backlog *backlog);

#endif
