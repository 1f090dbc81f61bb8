/* asked.c - the request that this worker handles, and its answer.
 *
 * Jupyter counts places in a cell's code in characters, and a language in C in bytes. Both
 * ways are counted here. JSON that a language gives is checked, since the frontend signs
 * and sends it as it is, and no client could read it.
 *
 * A request is answered once. An answer is kept until the thread that handles frames sends
 * it: only that one knows what comes before it, such as the commit of a cell.
 */
#include "asked.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "wire/message.h"

/* ---- opening --------------------------------------------------------------------- */

/* With a NUL behind it, which the caller frees. */
static char *
copy_text(const char *data, size_t size) {
    char *copy = malloc(size + 1);
    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

/* The bytes of so many characters at the beginning; of all if there are fewer. */
static size_t
bytes_of(const char *text, size_t size, int64_t characters) {
    size_t at = 0;
    while (at < size && characters > 0) {
        size_t length = hfi_utf8_length(text + at, size - at);
        at += length > 0 ? length : 1;
        characters--;
    }
    return at;
}

static int64_t
characters_of(const char *text, size_t size, size_t bytes) {
    int64_t count = 0;
    size_t at = 0;
    while (at < size && at < bytes) {
        size_t length = hfi_utf8_length(text + at, size - at);
        at += length > 0 ? length : 1;
        count++;
    }
    return count;
}

static bool
is_true(const json_t *content, const char *name, bool otherwise) {
    const json_t *value = json_object_get(content, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* What the content says, beside the code if the frame has that. */
static hf_status
read_content(hfi_asked *asked, const hfi_to_worker_request *frame, hf_error *reterr) {
    hf_worker_request *request = &asked->public;
    json_error_t why;
    json_t *content =
        json_loadb(frame->content.data, frame->content.size, JSON_ALLOW_NUL, &why);
    if (content == NULL)
        return hf_error_set(reterr, HF_E_PROTOCOL, "the content can't be read: %s",
                            why.text);
    const json_t *code = json_object_get(content, "code");
    hfi_part text = frame->code;
    if (text.data == NULL && json_is_string(code))
        text = hfi_part_of(json_string_value(code), json_string_length(code));
    asked->copies[0] = copy_text(text.data, text.size);
    request->code_size = text.size;
    request->silent = is_true(content, "silent", false);
    request->allow_stdin = is_true(content, "allow_stdin", false);
    asked->cursor = (int64_t)json_number_value(json_object_get(content, "cursor_pos"));
    json_decref(content);
    asked->copies[1] = copy_text(frame->content.data, frame->content.size);
    asked->copies[2] = copy_text(frame->metadata.data, frame->metadata.size);
    asked->copies[3] = copy_text(frame->header.data, frame->header.size);
    for (int i = 0; i < 4; i++)
        if (asked->copies[i] == NULL)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for a request");
    request->code = asked->copies[0];
    request->content = asked->copies[1];
    request->metadata = asked->copies[2];
    request->header = asked->copies[3];
    request->cursor = bytes_of(text.data != NULL ? request->code : "",
                               request->code_size, asked->cursor);
    return HF_OK;
}

/* A request's type, which the language may compare: one of the table's words. */
static const char *
find_type(hfi_part type) {
    static const char *const TYPES[] = {"execute_request", "complete_request",
                                        "inspect_request", "is_complete_request",
                                        "history_request", "comm_info_request",
                                        "comm_open",       "comm_msg",
                                        "comm_close",      "debug_request"};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (hfi_part_is(type, TYPES[i]))
            return TYPES[i];
    return "";
}

hf_status
hfi_asked_read_consume(hf_worker *worker, hfi_incoming *incoming, hfi_asked *ret_asked,
                       hf_error *reterr) {
    hfi_asked *asked = ret_asked;
    const hfi_to_worker_request *frame = &asked->frame.to_worker_request;
    *asked = (hfi_asked){.incoming = incoming};
    hf_status status = hfi_frame_read(&incoming->received, &hfi_row_to_worker_request,
                                      &asked->frame.head, reterr);
    if (status == HF_OK)
        status = read_content(asked, frame, reterr);
    if (status != HF_OK) {
        hfi_asked_free(asked);
        return status;
    }
    asked->instrument = frame->instrument;
    asked->public.struct_size = sizeof asked->public;
    asked->public.id = frame->id;
    asked->public.type = find_type(frame->type);
    asked->public.number = frame->execution_count;
    asked->public.role = worker->role;
    asked->public.is_fork = worker->way == HFI_WAY_FORKED;
    return HF_OK;
}

void
hfi_asked_free(hfi_asked *asked) {
    for (int i = 0; i < 4; i++)
        free(asked->copies[i]);
    free(asked->content);
    free(asked->error_name);
    free(asked->error);
    free(asked->error_lines);
    hfi_incoming_free(asked->incoming);
    *asked = (hfi_asked){0};
}

hf_status
hfi_asked_open_consume(hf_worker *worker, hfi_incoming *incoming, hf_error *reterr) {
    hfi_asked asked;
    hf_status status = hfi_asked_read_consume(worker, incoming, &asked, reterr);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&worker->mutex);
    worker->asked = asked;
    pthread_mutex_unlock(&worker->mutex);
    return HF_OK;
}

void
hfi_asked_close(hf_worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    hfi_asked asked = worker->asked;
    worker->asked = (hfi_asked){0};
    pthread_mutex_unlock(&worker->mutex);
    hfi_asked_free(&asked);
}

/* ---- how it went ----------------------------------------------------------------- */

bool
hfi_asked_is_answered(hf_worker *worker, hf_status *ret_outcome) {
    pthread_mutex_lock(&worker->mutex);
    bool is_answered = worker->asked.is_answered;
    if (is_answered)
        *ret_outcome = worker->asked.outcome;
    pthread_mutex_unlock(&worker->mutex);
    return is_answered;
}

bool
hfi_asked_fail(hf_worker *worker, const char *name, const char *value,
               const char *lines) {
    hfi_asked *asked = &worker->asked;
    char *copies[] = {strdup(name), strdup(value),
                      lines != NULL ? strdup(lines) : NULL};
    bool is_whole =
        copies[0] != NULL && copies[1] != NULL && (lines == NULL || copies[2] != NULL);
    pthread_mutex_lock(&worker->mutex);
    bool is_first = asked->public.id != 0 && !asked->has_failed;
    if (is_first)
        asked->has_failed = true;
    if (is_first && is_whole) {
        asked->error_name = copies[0];
        asked->error = copies[1];
        asked->error_lines = copies[2];
    }
    pthread_mutex_unlock(&worker->mutex);
    for (int i = 0; i < 3 && !(is_first && is_whole); i++)
        free(copies[i]);
    return is_first;
}

/* "ename", "evalue" and "traceback". With the mutex. */
static void
write_error(const hfi_asked *asked, hfi_textbuf *text) {
    bool is_whole = asked->error != NULL;
    const char *name = is_whole ? asked->error_name : hf_status_name(HF_E_NOMEM);
    const char *value = is_whole ? asked->error : "no memory for the cell's error";
    hfi_textbuf_add(text, "\"ename\": ");
    hfi_textbuf_append_json(text, name, strlen(name));
    hfi_textbuf_add(text, ", \"evalue\": ");
    hfi_textbuf_append_json(text, value, strlen(value));
    hfi_textbuf_add(text, ", \"traceback\": [");
    if (asked->error_lines != NULL) {
        hfi_textbuf_append_json(text, asked->error_lines, strlen(asked->error_lines));
    } else {
        hfi_textbuf whole = {0};
        hfi_textbuf_format(&whole, "%s: %s", name, value);
        hfi_textbuf_append_json(text, hfi_textbuf_string(&whole), whole.size);
        hfi_textbuf_fini(&whole);
    }
    hfi_textbuf_add(text, "]");
}

static char *
finish_text(hfi_textbuf *text) {
    char *made = text->failed ? NULL : hfi_textbuf_take(text);
    hfi_textbuf_fini(text);
    return made;
}

char *
hfi_asked_error(hf_worker *worker) {
    hfi_textbuf text = {0};
    hfi_textbuf_add(&text, "{");
    pthread_mutex_lock(&worker->mutex);
    if (worker->asked.has_failed)
        write_error(&worker->asked, &text);
    pthread_mutex_unlock(&worker->mutex);
    hfi_textbuf_add(&text, "}");
    return finish_text(&text);
}

char *
hfi_asked_outcome(hf_worker *worker) {
    hfi_textbuf text = {0};
    pthread_mutex_lock(&worker->mutex);
    const hfi_asked *asked = &worker->asked;
    hfi_textbuf_format(&text, "{\"status\": \"%s\", \"execution_count\": %lld, ",
                       asked->has_failed ? "error" : "ok",
                       (long long)asked->public.number);
    if (asked->has_failed)
        write_error(asked, &text);
    else
        hfi_textbuf_add(&text, "\"payload\": [], \"user_expressions\": {}");
    pthread_mutex_unlock(&worker->mutex);
    hfi_textbuf_add(&text, "}");
    return finish_text(&text);
}

static void
write_nothing(const hfi_asked *asked, hfi_textbuf *text) {
    const char *type = asked->public.type;
    if (strcmp(type, "complete_request") == 0)
        hfi_textbuf_format(text,
                           "{\"status\": \"ok\", \"matches\": [], \"metadata\": {}, "
                           "\"cursor_start\": %lld, \"cursor_end\": %lld}",
                           (long long)asked->cursor, (long long)asked->cursor);
    else if (strcmp(type, "inspect_request") == 0)
        hfi_textbuf_add(text, "{\"status\": \"ok\", \"found\": false, \"data\": {}, "
                              "\"metadata\": {}}");
    else if (strcmp(type, "is_complete_request") == 0)
        hfi_textbuf_add(text, "{\"status\": \"unknown\"}");
    else if (strcmp(type, "history_request") == 0)
        hfi_textbuf_add(text, "{\"status\": \"ok\", \"history\": []}");
    else if (strcmp(type, "comm_info_request") == 0)
        hfi_textbuf_add(text, "{\"status\": \"ok\", \"comms\": {}}");
    else
        hfi_textbuf_add(text, "{\"status\": \"error\", \"ename\": \"NotSupported\", "
                              "\"evalue\": \"this kernel doesn't answer that\", "
                              "\"traceback\": []}");
}

/* The debug adapter protocol's: there is no debugger. */
static void
refuse_debugging(const hfi_asked *asked, hfi_textbuf *text) {
    json_t *content = json_loads(asked->public.content, 0, NULL);
    const char *command = json_string_value(json_object_get(content, "command"));
    hfi_textbuf_format(
        text, "{\"type\": \"response\", \"success\": false, \"request_seq\": %lld, ",
        (long long)json_integer_value(json_object_get(content, "seq")));
    hfi_textbuf_add(text,
                    "\"message\": \"this kernel has no debugger\", \"command\": ");
    hfi_textbuf_append_json(text, command != NULL ? command : "",
                            command != NULL ? strlen(command) : 0);
    hfi_textbuf_add(text, "}");
    json_decref(content);
}

char *
hfi_asked_answer(hf_worker *worker) {
    hfi_asked *asked = &worker->asked;
    hfi_textbuf text = {0};
    const char *type = asked->public.type;
    if (strncmp(type, "comm_", 5) == 0 && strcmp(type, "comm_info_request") != 0)
        return NULL;
    pthread_mutex_lock(&worker->mutex);
    char *content = asked->content;
    asked->content = NULL;
    pthread_mutex_unlock(&worker->mutex);
    if (content != NULL)
        return content;
    if (strcmp(type, "debug_request") == 0)
        refuse_debugging(asked, &text);
    else
        write_nothing(asked, &text);
    return finish_text(&text);
}

/* ---- answers of the language ----------------------------------------------------- */

hf_status
hfi_asked_check_json(const char *what, const char *text, hf_error *reterr) {
    const char *problem = hfi_json_object_problem(hfi_part_text(text));
    if (problem == NULL)
        return HF_OK;
    return hf_error_set(reterr, HF_E_INVALID, "%s isn't a JSON object: it %s", what,
                        problem);
}

hf_status
hf_worker_reply(hf_worker *worker, int64_t id, hf_status outcome, const char *content,
                hf_error *reterr) {
    HFI_NEED(reterr, worker);
    hf_status status = HF_OK;
    char *copy = NULL;
    if (getpid() != worker->pid)
        return hf_error_set(reterr, HF_E_GONE,
                            "a child that a cell has forked can't reply");
    if (content != NULL) {
        status = hfi_asked_check_json("the content", content, reterr);
        if (status == HF_OK && (copy = strdup(content)) == NULL)
            status = hf_error_set(reterr, HF_E_NOMEM, "no memory for a reply");
        if (status != HF_OK)
            return status;
    }
    pthread_mutex_lock(&worker->mutex);
    hfi_asked *asked = &worker->asked;
    if (id == 0 || asked->public.id != id || asked->is_answered) {
        status = hf_error_set(reterr, HF_E_INVALID, "request %lld %s", (long long)id,
                              id != 0 && asked->public.id == id ? "was answered before"
                                                                : "isn't open");
    } else {
        asked->is_answered = true;
        asked->outcome = outcome;
        asked->content = copy;
        copy = NULL;
    }
    pthread_mutex_unlock(&worker->mutex);
    free(copy);
    ssize_t size = -1;
    while (status == HF_OK && (size = write(worker->wake[1], ".", 1)) < 0 &&
           errno == EINTR)
        continue;
    if (status == HF_OK && size < 0 && errno != EAGAIN) /* a full pipe wakes the loop */
        status = hf_error_set_errno(reterr, errno, "the worker can't be woken");
    return status;
}

/* Reply with a text that was made here, which is freed. */
static hf_status
reply_text(hf_worker *worker, int64_t id, hfi_textbuf *text, hf_error *reterr) {
    hf_status status =
        text->failed
            ? hf_error_set(reterr, HF_E_NOMEM, "no memory for a reply")
            : hf_worker_reply(worker, id, HF_OK, hfi_textbuf_string(text), reterr);
    hfi_textbuf_fini(text);
    return status;
}

hf_status
hf_worker_complete(hf_worker *worker, const hf_worker_request *request,
                   const char *const *matches, size_t count, size_t start, size_t end,
                   hf_error *reterr) {
    HFI_NEED(reterr, worker, request, matches || count == 0);
    hfi_textbuf text = {0};
    hfi_textbuf_add(&text, "{\"status\": \"ok\", \"metadata\": {}, \"matches\": [");
    for (size_t i = 0; i < count; i++) {
        hfi_textbuf_add(&text, i > 0 ? ", " : "");
        hfi_textbuf_append_json(&text, matches[i], strlen(matches[i]));
    }
    hfi_textbuf_format(
        &text, "], \"cursor_start\": %lld, \"cursor_end\": %lld}",
        (long long)characters_of(request->code, request->code_size, start),
        (long long)characters_of(request->code, request->code_size, end));
    return reply_text(worker, request->id, &text, reterr);
}

hf_status
hf_worker_inspect(hf_worker *worker, const hf_worker_request *request, const char *text,
                  hf_error *reterr) {
    HFI_NEED(reterr, worker, request, text);
    hfi_textbuf content = {0};
    hfi_textbuf_add(&content, "{\"status\": \"ok\", \"found\": true, \"metadata\": {}, "
                              "\"data\": {\"text/plain\": ");
    hfi_textbuf_append_json(&content, text, strlen(text));
    hfi_textbuf_add(&content, "}}");
    return reply_text(worker, request->id, &content, reterr);
}
