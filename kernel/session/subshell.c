/* subshell.c - requests that don't wait for the cell that runs.
 *
 * A client may ask for a subshell, and name it in the header of a request. Such
 * requests have a queue of their own, and the main worker serves them in a thread of
 * their own, beside the running cell (Jupyter enhancement proposal 91). JupyterLab
 * sends the messages of widgets so. A subshell changes variables in the main worker.
 * While a recorded cell runs in another process, these changes are like those of a
 * thread of the user's. A subshell runs plain cells only: the frontend's commands
 * belong to the main shell.
 *
 * Subshells belong to the frontend, which names them, and answers create, delete and
 * list by itself. So a main worker that dies and is started again serves them as
 * before. The main worker's own channel is read by its main thread, which runs user
 * code. So there is a second channel, which a thread reads. A new main worker gets it
 * before any request. Replies, output and requests for input come through the main
 * worker's own channel.
 *
 * Execution counts are the main shell's, because In and Out are. Interrupts and
 * shutdown are for the kernel, so an interrupt ends what runs in every subshell.
 * One thread.
 */
#include "session/beside.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/commits.h"
#include "session/workers.h"
#include "session/request.h"
#include "session/publish.h"
#include "session/rest.h"
#include "workers/program.h"

typedef struct shell {
    struct shell *next;
    char id[64];
    hfi_queue queue;
    hfi_request *running; /* the main worker has it */
    int silent, stop_on_error;
    int input_wanted;
    int deleted; /* ends when its running request ends */
} shell;

struct hfi_subshell {
    shell *first;             /* oldest first */
    unsigned long long count; /* ever made */
    /* the second channel, to the main worker's threads; NULL: not made yet */
    hfi_control *aside;
};

static void
fini_subshell(hf_kernel *kernel) {
    shell *next;
    hfi_control_close(kernel->subshell->aside);
    for (shell *at = kernel->subshell->first; at != NULL; at = next) {
        next = at->next;
        hfi_queue_fini(&at->queue);
        hfi_request_close(at->running);
        free(at);
    }
}

const hfi_owner hfi_subshell_owner = {offsetof(hf_kernel, subshell),
                                      sizeof(struct hfi_subshell), NULL, fini_subshell};

static shell *
find_shell(hf_kernel *kernel, const char *id, size_t size) {
    for (shell *at = kernel->subshell->first; at != NULL; at = at->next)
        if (!at->deleted && strlen(at->id) == size && memcmp(at->id, id, size) == 0)
            return at;
    return NULL;
}

/* The subshell that a JSON object names; NULL if it names none that exists. */
static shell *
find_named(hf_kernel *kernel, const json_t *object) {
    const json_t *id = json_object_get(object, "subshell_id");
    return json_is_string(id)
               ? find_shell(kernel, json_string_value(id), json_string_length(id))
               : NULL;
}

static int
is_cell(const hfi_request *request) {
    return strcmp(request->message.type, "execute_request") == 0;
}

/* ---- ends of requests ----------------------------------------------------------- */

static void
finish_running(hf_kernel *kernel, shell *subshell, int error) {
    hfi_request *request = subshell->running;
    int stop = error && is_cell(request) && subshell->stop_on_error;
    subshell->running = NULL;
    subshell->input_wanted = 0;
    if (stop)
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_STOPS_QUEUE});
    hfi_publish_idle(kernel, request);
    if (stop)
        hfi_ends_abort(kernel, &subshell->queue);
    hfi_request_close(request);
}

static void
fail_running(hf_kernel *kernel, shell *subshell, const char *name, const char *value) {
    hfi_reply_error(kernel, subshell->running, subshell->silent, name, value);
    finish_running(kernel, subshell, 1);
}

/* Refuse a request that no subshell has begun. */
static void
refuse_consume(hf_kernel *kernel, hfi_request *request) {
    hfi_publish_busy(kernel, request);
    hfi_reply_error(kernel, request, 0, "UnknownSubshell",
                    "there is no subshell of this name");
    hfi_publish_idle(kernel, request);
    hfi_request_close(request);
}

static int
has_subshells(const hf_kernel *kernel) {
    const json_t *features = json_object_get(kernel->info, "supported_features");
    for (size_t i = 0; i < json_array_size(features); i++) {
        const char *feature = json_string_value(json_array_get(features, i));
        if (feature != NULL && strcmp(feature, "kernel subshells") == 0)
            return 1;
    }
    return 0;
}

/* ---- control -------------------------------------------------------------------- */

static void
answer_error(hf_kernel *kernel, const hfi_request *request, const char *name,
             const char *value) {
    hfi_textbuf content = {0};
    hfi_write_error(&content, name, value, kernel->count);
    hfi_reply(kernel, request, hfi_textbuf_part(&content), hfi_part_text("{}"), NULL,
              0);
    hfi_textbuf_fini(&content);
}

static void
answer_create(hf_kernel *kernel, const hfi_request *request) {
    shell **last = &kernel->subshell->first;
    shell *subshell = calloc(1, sizeof *subshell);
    if (subshell == NULL) {
        answer_error(kernel, request, "HoldfastError", "no memory for a subshell");
        return;
    }
    snprintf(subshell->id, sizeof subshell->id, "%s-%llu", hfi_publish_name(kernel),
             ++kernel->subshell->count);
    while (*last != NULL)
        last = &(*last)->next;
    *last = subshell;
    json_t *content =
        json_pack("{s:s,s:s}", "status", "ok", "subshell_id", subshell->id);
    hfi_reply_json(kernel, request, content);
    json_decref(content);
}

static void
answer_list(hf_kernel *kernel, const hfi_request *request) {
    json_t *ids = json_array();
    for (shell *at = kernel->subshell->first; at != NULL; at = at->next)
        if (!at->deleted)
            (void)json_array_append_new(ids, json_string(at->id));
    json_t *content = json_pack("{s:s,s:o}", "status", "ok", "subshell_id", ids);
    hfi_reply_json(kernel, request, content);
    json_decref(content);
}

static void
answer_delete(hf_kernel *kernel, const hfi_request *request) {
    shell *subshell = find_named(kernel, request->message.body);
    hfi_request *waiting;
    hf_error error = HF_ERROR_INIT;
    if (subshell == NULL) {
        answer_error(kernel, request, "UnknownSubshell",
                     "there is no subshell of this name");
        return;
    }
    while ((waiting = hfi_queue_pop(&subshell->queue)) != NULL)
        refuse_consume(kernel, waiting);
    subshell->deleted = 1;
    if (kernel->subshell->aside != NULL &&
        hfi_control_send_consume(
            kernel->subshell->aside,
            HFI_FRAME(to_subshells_delete, .subshell = hfi_part_text(subshell->id)),
            &error) != HF_OK)
        hfi_log("subshell: %s", error.message);
    hfi_reply(kernel, request, hfi_part_text("{\"status\":\"ok\"}"),
              hfi_part_text("{}"), NULL, 0);
}

int
hfi_subshell_answer(hf_kernel *kernel, const hfi_request *request) {
    static const struct {
        const char *type;
        void (*answer)(hf_kernel *kernel, const hfi_request *request);
    } answers[] = {{"create_subshell_request", answer_create},
                   {"delete_subshell_request", answer_delete},
                   {"list_subshell_request", answer_list}};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (strcmp(request->message.type, answers[i].type) != 0)
            continue;
        if (has_subshells(kernel))
            answers[i].answer(kernel, request);
        else
            answer_error(kernel, request, "NotSupported",
                         "this kernel has no subshells");
        return 1;
    }
    return 0;
}

/* ---- requests ------------------------------------------------------------------- */

int
hfi_subshell_take(hf_kernel *kernel, hfi_request *request) {
    const json_t *id = json_object_get(request->message.head, "subshell_id");
    if (id == NULL || json_is_null(id))
        return 0;
    shell *subshell = find_named(kernel, request->message.head);
    if (subshell != NULL)
        hfi_queue_push(&subshell->queue, request);
    else
        refuse_consume(kernel, request);
    return 1;
}

static void
begin_cell(hf_kernel *kernel, shell *subshell) {
    const hfi_message *message = &subshell->running->message;
    json_t *code = json_object_get(message->body, "code");
    long long number = kernel->count + 1;
    subshell->silent = json_is_true(json_object_get(message->body, "silent"));
    subshell->stop_on_error =
        !json_is_false(json_object_get(message->body, "stop_on_error"));
    if (!json_is_string(code)) {
        fail_running(kernel, subshell, "ProtocolError",
                     "an execute_request without code");
        return;
    }
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_REQUEST_CAME});
    if (!subshell->silent) {
        hfi_publish_input(kernel, message->header, code, number);
        if (!json_is_false(json_object_get(message->body, "store_history")))
            kernel->count = number;
    }
    hfi_request_send_aside(kernel, kernel->subshell->aside, subshell->running,
                           subshell->id, number);
}

static void
begin_running(hf_kernel *kernel, shell *subshell,
              void (*answer)(hf_kernel *kernel, const hfi_request *request)) {
    const hfi_message *message = &subshell->running->message;
    hfi_publish_busy(kernel, subshell->running);
    if (message->fault[0] != '\0') {
        subshell->silent = 1;
        fail_running(kernel, subshell, "ProtocolError", message->fault);
    } else if (is_cell(subshell->running)) {
        begin_cell(kernel, subshell);
    } else if (hfi_request_is_for_worker(message->type)) {
        hfi_request_send_aside(kernel, kernel->subshell->aside, subshell->running,
                               subshell->id, 0);
    } else {
        answer(kernel, subshell->running);
        finish_running(kernel, subshell, 0);
    }
}

static void
drop_deleted(hf_kernel *kernel) {
    for (shell **at = &kernel->subshell->first; *at != NULL;) {
        shell *subshell = *at;
        if (subshell->deleted && subshell->running == NULL) {
            *at = subshell->next;
            free(subshell);
        } else {
            at = &subshell->next;
        }
    }
}

void
hfi_subshell_next(hf_kernel *kernel,
                  void (*answer)(hf_kernel *kernel, const hfi_request *request)) {
    hf_status status;
    hf_error error = HF_ERROR_INIT;
    if (kernel->subshell->aside == NULL)
        return;
    status = hfi_control_flush(kernel->subshell->aside, &error);
    if (status != HF_OK &&
        status != HF_E_GONE) /* a dead main worker is noticed elsewhere */
        hfi_log("subshells: %s", error.message);
    for (shell *at = kernel->subshell->first; at != NULL; at = at->next)
        while (at->running == NULL && (at->running = hfi_queue_pop(&at->queue)) != NULL)
            begin_running(kernel, at, answer);
    drop_deleted(kernel);
}

int
hfi_subshell_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    shell *at = kernel->subshell->first;
    while (at != NULL && (at->running == NULL || at->running->id != reply->id))
        at = at->next;
    if (at == NULL)
        return 0;
    int cell = is_cell(at->running);
    hfi_ends_reply(kernel, at->running, reply, reply->metadata);
    if (cell)
        hfi_commits_ran(kernel);
    hfi_rest_used(kernel);
    finish_running(kernel, at, cell && hfi_ends_read(reply).failed);
    return 1;
}

/* ---- main workers, input, interrupts, the end ------------------------------------ */

static void
open_aside(hf_kernel *kernel) {
    int fds[2];
    hf_error error = HF_ERROR_INIT;
    if (!has_subshells(kernel))
        return;
    hf_status status = hfi_program_pair(fds, &error);
    if (status == HF_OK) {
        status = hfi_control_create_consume(fds[0], &kernel->subshell->aside, &error);
        if (status == HF_OK)
            status = hfi_control_send_consume(
                hfi_workers_main(kernel)->control,
                HFI_FRAME(to_main_subshells, .head.fds = {fds[1]}), &error);
        else
            close(fds[1]);
    }
    if (status != HF_OK)
        hfi_log("subshells: %s", error.message);
}

void
hfi_subshell_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_MAIN_MADE)
        open_aside(kernel);
}

const hfi_request *
hfi_subshell_asks(hf_kernel *kernel, hfi_part id) {
    shell *subshell = find_shell(kernel, id.data, id.size);
    if (subshell == NULL || subshell->running == NULL)
        return NULL;
    subshell->input_wanted = 1;
    return subshell->running;
}

int
hfi_subshell_input(hf_kernel *kernel, const hfi_request *reply) {
    json_t *value = json_object_get(reply->message.body, "value");
    shell *at = find_named(kernel, reply->message.head);
    hf_error error = HF_ERROR_INIT;
    /* Input from clients that name no subshell goes to the main shell if it waits, else
     * to the first subshell that does. */
    if (at == NULL && !kernel->cell.input_wanted)
        for (at = kernel->subshell->first; at != NULL && !at->input_wanted;)
            at = at->next;
    if (at == NULL || !at->input_wanted || kernel->subshell->aside == NULL ||
        !json_is_string(value) || strcmp(reply->message.type, "input_reply") != 0)
        return 0;
    at->input_wanted = 0;
    if (hfi_control_send_consume(
            kernel->subshell->aside,
            HFI_FRAME(to_subshells_input_reply, .subshell = hfi_part_text(at->id),
                      .value = hfi_part_of(json_string_value(value),
                                           json_string_length(value))),
            &error) != HF_OK)
        hfi_log("input_reply: %s", error.message);
    return 1;
}

void
hfi_subshell_interrupt(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    int runs = 0;
    for (shell *at = kernel->subshell->first; at != NULL; at = at->next)
        runs |= at->running != NULL && is_cell(at->running);
    if (!runs || kernel->subshell->aside == NULL)
        return;
    if (hfi_control_send_consume(kernel->subshell->aside,
                                 HFI_FRAME_BARE(to_subshells_interrupt),
                                 &error) != HF_OK)
        hfi_log("interrupt: %s", error.message);
}

void
hfi_subshell_lose_main(hf_kernel *kernel) {
    hfi_control_close(kernel->subshell->aside);
    kernel->subshell->aside = NULL;
    for (shell *at = kernel->subshell->first; at != NULL; at = at->next)
        if (at->running != NULL)
            fail_running(kernel, at, "CellDied", "the notebook's process ended");
}

hfi_control *
hfi_subshell_channel(const hf_kernel *kernel) {
    return kernel->subshell->aside;
}
