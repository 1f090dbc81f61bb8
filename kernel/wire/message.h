/* message.h - a Jupyter message, from and to the parts of a ZeroMQ multipart.
 *
 * Threads: a message belongs to one thread at a time; there is no other state.
 */
#ifndef HFI_MESSAGE_H
#define HFI_MESSAGE_H

#include <stdint.h>

#include "holdfast/error.h"
#include "wire/signature.h"
#include "wire/textbuf.h"

typedef struct json_t json_t;

/* Version of the Jupyter messaging protocol, in every header and in kernel_info. */
#define HFI_PROTOCOL_VERSION  "5.5"
#define HFI_MESSAGE_PARTS_MAX 4096
/* Limit of all parts; those of JSON count twice. A worker gets a cell's code in
 * addition to the content that has it, and the frame has to fit the control channel. */
#define HFI_MESSAGE_SIZE_MAX ((size_t)INT32_MAX - (1u << 20))

/* A received message, in memory of its own. */
typedef struct hfi_message {
    hfi_part *idents;
    size_t ident_count;
    hfi_part header, parent, metadata, content; /* JSON, as it came */
    hfi_part *buffers;
    size_t buffer_count;
    json_t *head;     /* header, parsed: an object */
    json_t *body;     /* content, parsed: an object, or NULL if it isn't strict JSON */
    const char *id;   /* msg_id, of head */
    const char *type; /* msg_type, of head */
    char fault[96];   /* why it can't be handled; "" if it can */
    void *storage;
} hfi_message;

/* Check and copy a message. HF_E_PROTOCOL (no delimiter, parts missing, no header),
 * HF_E_ACCESS (signature) and HF_E_NOMEM, each with an error text. The caller calls
 * fini on success. If only a part other than the header is malformed, the message is
 * complete and has a `fault`, so that its sender can be answered. */
HF_CHECK hf_status hfi_message_parse(const hfi_part *parts, size_t count,
                                     hfi_signer *signer, hfi_message *ret_message,
                                     hf_error *reterr);
void hfi_message_fini(hfi_message *message);

/* A message to send; everything is borrowed. An empty part is sent as "{}". */
typedef struct hfi_outgoing {
    const char *type;
    hfi_part parent, metadata, content;
    const hfi_part *idents;
    size_t ident_count;
    const hfi_part *buffers;
    size_t buffer_count;
} hfi_outgoing;

/* Write a header for a message of `type` with a fresh id: `session` and `number` make
 * it unique. */
void hfi_header_write(hfi_textbuf *writer, const char *type, const char *session,
                      unsigned long long number);

/* ---- jsontext.c: whether bytes are one JSON object, before they are parsed ---- */

#define HFI_JSON_DEPTH_MAX  500  /* Python's own decoder gives up below 1,000 */
#define HFI_JSON_DIGITS_MAX 4300 /* of an integer: Python's own limit */

/* NULL if all of `text` is exactly one object in UTF-8, with nothing before or after
 * it. Otherwise the mistake as static text, such as "is nested too deeply". */
const char *hfi_json_object_problem(hfi_part text);

#endif
