/* shown.c - what a cell shows and asks: streams, values, errors, messages and input.
 *
 * Any thread may show, also after the reply: the frontend then gives it to the request
 * that came last. While a comm message is answered beside a cell that goes on, what is
 * shown belongs to that message (`parent`).
 *
 * Jupyter has a result's number in the message, so it is that of the cell.
 */
#include "shown.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asked.h"
#include "base/argument.h"

/* Text in UTF-8: itself, or a copy in `ret_copy` with what is none replaced. */
static hfi_part
whole_text(const char *text, size_t size, json_t **ret_copy) {
    hfi_textbuf quoted = {0};
    *ret_copy = NULL;
    if (hfi_utf8_is_valid(text, size))
        return hfi_part_of(text, size);
    hfi_textbuf_append_json(&quoted, text, size);
    *ret_copy = json_loadb(hfi_textbuf_string(&quoted), quoted.size,
                           JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    hfi_textbuf_fini(&quoted);
    return hfi_part_of(json_string_value(*ret_copy), json_string_length(*ret_copy));
}

/* The request that it belongs to; empty: the one that the frontend takes it for. */
static hfi_part
parent_of(const hf_worker *worker) {
    bool is_own = pthread_equal(pthread_self(), worker->thread);
    return is_own ? worker->parent : hfi_part_of(NULL, 0);
}

hf_status
hf_worker_write(hf_worker *worker, int is_error, const char *text, size_t size,
                hf_error *reterr) {
    HFI_NEED(reterr, worker, text || size == 0);
    json_t *copy;
    if (size == 0)
        return HF_OK;
    hfi_part part = whole_text(text, size, &copy);
    hf_status status =
        part.data == NULL
            ? hf_error_set(reterr, HF_E_NOMEM, "no memory for output")
            : hfi_self_send(
                  worker,
                  HFI_FRAME(from_worker_stream,
                            .name = hfi_part_text(is_error ? "stderr" : "stdout"),
                            .text = part, .parent = parent_of(worker)),
                  reterr);
    json_decref(copy);
    return status;
}

void
hfi_shown_notice(hf_worker *worker, const char *format, ...) {
    char words[1024];
    hf_error error = HF_ERROR_INIT;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(words, sizeof words - 1, format, arguments);
    va_end(arguments);
    if (size < 0)
        return;
    size_t end = (size_t)size < sizeof words - 2 ? (size_t)size : sizeof words - 2;
    words[end] = '\n';
    if (hf_worker_write(worker, 1, words, end + 1, &error) != HF_OK)
        hfi_self_complain("a notice can't be shown", &error);
}

/* `content`: JSON, which was checked. */
static hf_status
send_message(hf_worker *worker, const char *type, hfi_part content,
             const char *metadata, hf_error *reterr) {
    static const hfi_part none[1] = {{"", 0}};
    return hfi_self_send(
        worker,
        HFI_FRAME(from_worker_message, .channel = hfi_part_text("iopub"),
                  .type = hfi_part_text(type), .content = content,
                  .metadata = hfi_part_text(metadata != NULL ? metadata : "{}"),
                  .parent = parent_of(worker), .buffers = {none, 0}),
        reterr);
}

hf_status
hf_worker_message(hf_worker *worker, const char *type, const char *content,
                  const char *metadata, hf_error *reterr) {
    HFI_NEED(reterr, worker, type, content);
    hf_status status = hfi_asked_check_json("the content", content, reterr);
    if (status == HF_OK && metadata != NULL)
        status = hfi_asked_check_json("the metadata", metadata, reterr);
    return status != HF_OK
               ? status
               : send_message(worker, type, hfi_part_text(content), metadata, reterr);
}

static bool
is_json_type(const char *type) {
    size_t size = strlen(type);
    return size >= 4 && strcmp(type + size - 4, "json") == 0;
}

static hf_status
write_bundle(const hf_mime *items, size_t count, hfi_textbuf *text, hf_error *reterr) {
    for (size_t i = 0; i < count; i++) {
        const hf_mime *item = &items[i];
        HFI_NEED(reterr, item->type, item->text);
        hfi_textbuf_add(text, i > 0 ? ", " : "");
        hfi_textbuf_append_json(text, item->type, strlen(item->type));
        hfi_textbuf_add(text, ": ");
        if (!is_json_type(item->type)) {
            hfi_textbuf_append_json(text, item->text, item->size);
            continue;
        }
        json_t *value = json_loadb(item->text, item->size, JSON_DECODE_ANY, NULL);
        if (value == NULL)
            return hf_error_set(reterr, HF_E_INVALID, "the text of %s isn't JSON",
                                item->type);
        json_decref(value);
        hfi_textbuf_append(text, item->text, item->size);
    }
    return HF_OK;
}

hf_status
hf_worker_show(hf_worker *worker, int is_result, const hf_mime *items, size_t count,
               hf_error *reterr) {
    HFI_NEED(reterr, worker, items || count == 0);
    hfi_textbuf text = {0};
    pthread_mutex_lock(&worker->mutex);
    long long number = worker->asked.public.number;
    bool is_silent = worker->asked.public.silent;
    pthread_mutex_unlock(&worker->mutex);
    hfi_textbuf_add(&text, "{\"metadata\": {}, ");
    if (is_result)
        hfi_textbuf_format(&text, "\"execution_count\": %lld, ", number);
    hfi_textbuf_add(&text, "\"data\": {");
    hf_status status = write_bundle(items, count, &text, reterr);
    hfi_textbuf_add(&text, "}}");
    if (status == HF_OK && text.failed)
        status = hf_error_set(reterr, HF_E_NOMEM, "no memory for a value");
    if (status == HF_OK && !(is_result && is_silent))
        status = send_message(worker, is_result ? "execute_result" : "display_data",
                              hfi_textbuf_part(&text), NULL, reterr);
    hfi_textbuf_fini(&text);
    return status;
}

hf_status
hf_worker_fail(hf_worker *worker, const char *name, const char *value,
               const char *lines, hf_error *reterr) {
    HFI_NEED(reterr, worker, name, value);
    if (hfi_life_get(&worker->life) != HFI_LIFE_RUNNING &&
        hfi_life_get(&worker->life) != HFI_LIFE_PREPARING)
        return hf_error_set(reterr, HF_E_INVALID, "no cell runs that could fail");
    if (!hfi_asked_fail(worker, name, value, lines))
        return HF_OK;
    char *content = hfi_asked_error(worker);
    hf_status status =
        content == NULL
            ? hf_error_set(reterr, HF_E_NOMEM, "no memory for an error")
            : send_message(worker, "error", hfi_part_text(content), NULL, reterr);
    free(content);
    return status;
}

hf_status
hf_worker_input(hf_worker *worker, const char *prompt, int is_password, char **ret_text,
                hf_error *reterr) {
    HFI_NEED(reterr, worker, prompt, ret_text);
    hfi_incoming *incoming = NULL;
    hfi_any_frame frame;
    hf_status status = hfi_self_check_thread(worker, "hf_worker_input", reterr);
    if (status != HF_OK)
        return status;
    if (hfi_life_get(&worker->life) != HFI_LIFE_RUNNING)
        return hf_error_set(reterr, HF_E_INVALID, "only a cell that runs can ask");
    if (!worker->asked.public.allow_stdin)
        return hf_error_set(reterr, HF_DECLINED,
                            "the client that sent the cell can't ask for input");
    status = hfi_self_send(worker,
                           HFI_FRAME(from_worker_input_request,
                                     .prompt = hfi_part_text(prompt),
                                     .password = is_password != 0),
                           reterr);
    if (status == HF_OK)
        status = hfi_self_await(worker, "input_reply", true, &incoming, reterr);
    if (status != HF_OK)
        return status;
    status = hfi_frame_read(&incoming->received, &hfi_row_to_worker_input_reply,
                            &frame.head, reterr);
    if (status == HF_OK) {
        hfi_part value = frame.to_worker_input_reply.value;
        *ret_text = strndup(value.data, value.size);
        if (*ret_text == NULL)
            status = hf_error_set(reterr, HF_E_NOMEM, "no memory for the input");
    }
    hfi_incoming_free(incoming);
    return status;
}
