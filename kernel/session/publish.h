/* publish.h - messages to clients: output, statuses, replies, errors.
 *
 * Sending never blocks, and never fails for the caller: a message that can't be sent is
 * logged and dropped. Arguments are borrowed, unless a comment says otherwise. An empty
 * `parent` means that the message belongs to no request.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_PUBLISH_H
#define HFI_PUBLISH_H

#include "session/session.h"

extern const hfi_owner hfi_publish_owner;
void hfi_publish(hf_kernel *kernel, const char *type, hfi_part parent,
                 hfi_part content);
void hfi_publish_outgoing(hf_kernel *kernel, const hfi_outgoing *message);
void hfi_publish_starting(hf_kernel *kernel);
/* A request begins or ends: publish "busy" or "idle" with its header as parent. Clients
 * take the last status that they see for the kernel's, whichever request it belongs to.
 * So if an older request is still being handled, its "busy" is repeated after each
 * "idle". */
void hfi_publish_busy(hf_kernel *kernel, const hfi_request *request);
void hfi_publish_idle(hf_kernel *kernel, const hfi_request *request);
void hfi_publish_stream(hf_kernel *kernel, int name, hfi_part parent, hfi_part text);
void hfi_publish_input(hf_kernel *kernel, hfi_part parent, json_t *code,
                       long long number);
/* Answer new subscriptions. */
void hfi_publish_welcomes(hf_kernel *kernel);
/* Bind the sockets; ports of 0 are chosen. As hfi_channels_create. */
HF_CHECK hf_status hfi_publish_open(hf_kernel *kernel, hfi_connection *connection,
                                    uint64_t backlog_bytes, hf_error *reterr);
/* As hfi_channels_receive. */
HF_CHECK hf_status hfi_publish_receive(hf_kernel *kernel, int channel,
                                       hfi_message *ret_message, hf_error *reterr);
/* For the loop, which polls them. */
hfi_channels *hfi_publish_channels(const hf_kernel *kernel);
/* "session" in the headers of our messages. */
const char *hfi_publish_name(const hf_kernel *kernel);
/* The header of the last execute_request, under which late output is shown. */
hfi_part hfi_publish_last_parent(const hf_kernel *kernel);
void hfi_publish_keep_parent(hf_kernel *kernel, hfi_part header);
/* Report on stderr that a slow subscriber has missed output, once. */
void hfi_publish_missed(hf_kernel *kernel);
void hfi_reply(hf_kernel *kernel, const hfi_request *request, hfi_part content,
               hfi_part metadata, const hfi_part *buffers, size_t buffer_count);
void hfi_reply_json(hf_kernel *kernel, const hfi_request *request, json_t *content);
/* {"status": "error", "ename", "evalue", "traceback": [one line]} and optionally
 * more. */
void hfi_write_error(hfi_textbuf *writer, const char *name, const char *value,
                     long long execution_count);
/* A request has failed: its reply and, unless `silent`, a cell's output "error". */
void hfi_reply_error(hf_kernel *kernel, const hfi_request *request, int silent,
                     const char *name, const char *value);
/* The same with the reply's metadata, JSON. */
void hfi_reply_error_with(hf_kernel *kernel, const hfi_request *request, int silent,
                          const char *name, const char *value, hfi_part metadata);
void hfi_send(hf_kernel *kernel, int channel, const hfi_request *request,
              const char *type, hfi_part content);

#endif
