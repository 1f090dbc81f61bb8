/* message.c - the parts of a multipart, checked and named.
 *
 *     ident ... <IDS|MSG> signature header parent metadata content buffer ...
 *
 * Everything that arrives is hostile until its signature is verified, and malformed
 * until it is parsed. So the delimiter is looked for among a bounded number of parts,
 * and the signature is verified before any JSON is read. Then each of the four parts
 * must be exactly one object that Python's decoder can read (jsontext.c), and the
 * header must have a msg_id and a msg_type.
 *
 * If the header is sound and another part isn't, the message has a `fault`: it can be
 * answered, but isn't passed on. Content is parsed, too. Python clients may put NaN
 * into a comm's data, which strict JSON doesn't have: then `body` is NULL, and the
 * bytes are still passed on. Code that needs the content refuses such a message.
 *
 * A message owns one allocation with all of its bytes, because it may wait in the
 * execution queue long after the ZeroMQ parts are gone. There are no sockets here, so
 * that a fuzzer can run it.
 */
#include "wire/message.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define DELIMITER "<IDS|MSG>"

static hf_status
find_delimiter(const hfi_part *parts, size_t count, size_t *ret_index,
               hf_error *reterr) {
    if (count > HFI_MESSAGE_PARTS_MAX)
        return hf_error_set(reterr, HF_E_PROTOCOL, "%zu parts are too many", count);
    for (size_t i = 0; i < count; i++) {
        if (!hfi_part_equal(parts[i], hfi_part_text(DELIMITER)))
            continue;
        if (count - i < 6)
            return hf_error_set(reterr, HF_E_PROTOCOL,
                                "%zu parts after the delimiter instead of 5 or more",
                                count - i - 1);
        *ret_index = i;
        return HF_OK;
    }
    return hf_error_set(reterr, HF_E_PROTOCOL, "no delimiter among %zu parts", count);
}

/* One allocation: the span tables, then all bytes. */
static hf_status
copy_parts(const hfi_part *parts, size_t count, size_t delimiter, hfi_message *message,
           hf_error *reterr) {
    size_t size = count * sizeof(hfi_part), weight = 0;
    for (size_t i = 0; i < count; i++) {
        size += parts[i].size;
        weight += i < delimiter + 6 ? 2 * parts[i].size : parts[i].size;
        if (weight > HFI_MESSAGE_SIZE_MAX)
            return hf_error_set(reterr, HF_E_PROTOCOL,
                                "a message of more than a gigabyte");
    }
    message->storage = malloc(size);
    if (message->storage == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a message");
    hfi_part *spans = message->storage;
    char *bytes = (char *)(spans + count);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size > 0)
            memcpy(bytes, parts[i].data, parts[i].size);
        spans[i] = hfi_part_of(bytes, parts[i].size);
        bytes += parts[i].size;
    }
    message->idents = spans;
    message->ident_count = delimiter;
    message->header = spans[delimiter + 2];
    message->parent = spans[delimiter + 3];
    message->metadata = spans[delimiter + 4];
    message->content = spans[delimiter + 5];
    message->buffers = spans + delimiter + 6;
    message->buffer_count = count - delimiter - 6;
    return HF_OK;
}

static void
find_fault(hfi_message *message) {
    static const char *const names[] = {"parent_header", "metadata", "content"};
    const hfi_part parts[] = {message->parent, message->metadata, message->content};
    for (size_t i = 0; i < 3 && message->fault[0] == '\0'; i++) {
        const char *problem = hfi_json_object_problem(parts[i]);
        if (problem != NULL)
            snprintf(message->fault, sizeof message->fault, "the message's %s %s",
                     names[i], problem);
    }
}

static json_t *
load_object(hfi_part text) {
    json_error_t where;
    json_t *value = json_loadb(text.data, text.size,
                               JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &where);
    if (value != NULL && !json_is_object(value)) {
        json_decref(value);
        value = NULL;
    }
    return value;
}

hf_status
hfi_message_parse(const hfi_part *parts, size_t count, hfi_signer *signer,
                  hfi_message *ret_message, hf_error *reterr) {
    hfi_message message = {0};
    size_t delimiter = 0;
    hf_status status = find_delimiter(parts, count, &delimiter, reterr);
    if (status != HF_OK)
        return status;
    status =
        hfi_signer_verify(signer, parts + delimiter + 2, parts[delimiter + 1], reterr);
    if (status == HF_OK)
        status = copy_parts(parts, count, delimiter, &message, reterr);
    if (status != HF_OK)
        return status;
    find_fault(&message);
    if (hfi_json_object_problem(message.header) == NULL)
        message.head = load_object(message.header);
    message.body = load_object(message.content);
    message.id = json_string_value(json_object_get(message.head, "msg_id"));
    message.type = json_string_value(json_object_get(message.head, "msg_type"));
    if (message.id == NULL || message.type == NULL) {
        hfi_message_fini(&message);
        return hf_error_set(reterr, HF_E_PROTOCOL,
                            "the header is not an object with msg_id and msg_type");
    }
    *ret_message = message;
    return HF_OK;
}

void
hfi_message_fini(hfi_message *message) {
    json_decref(message->head);
    json_decref(message->body);
    free(message->storage);
    memset(message, 0, sizeof *message);
}

/* "2026-01-31T12:00:00.123456Z" */
static void
write_date(hfi_textbuf *writer) {
    struct timeval now;
    struct tm parts;
    gettimeofday(&now, NULL);
    gmtime_r(&now.tv_sec, &parts);
    hfi_textbuf_format(writer, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ",
                       parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                       parts.tm_hour, parts.tm_min, parts.tm_sec, (long)now.tv_usec);
}

void
hfi_header_write(hfi_textbuf *writer, const char *type, const char *session,
                 unsigned long long number) {
    hfi_textbuf_format(writer, "{\"msg_id\":\"%s_%llu\",\"msg_type\":", session,
                       number);
    hfi_textbuf_append_json(writer, type, strlen(type));
    hfi_textbuf_format(writer,
                       ",\"username\":\"kernel\",\"session\":\"%s\","
                       "\"version\":\"" HFI_PROTOCOL_VERSION "\",\"date\":\"",
                       session);
    write_date(writer);
    hfi_textbuf_append(writer, "\"}", 2);
}
