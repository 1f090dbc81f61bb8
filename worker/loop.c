/* loop.c - the frames of a worker, one after the other.
 *
 * HANDLERS has a function for each frame that a worker handles. All others are for
 * languages and programs that record; their descriptors are closed with them.
 *
 * A cell may go on after `execute` has returned. Until it ends only comm messages are
 * answered, because the cell may be waiting for one. Whatever else comes waits.
 */
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "asked.h"
#include "base/argument.h"
#include "running.h"
#include "saving.h"
#include "shown.h"
#include "steps.h"
#include "ways.h"
#include "where.h"

static const char NO_MEMORY[] =
    "{\"status\": \"error\", \"ename\": \"HF_E_NOMEM\", "
    "\"evalue\": \"no memory for a reply\", \"traceback\": []}";

/* ---- requests -------------------------------------------------------------------- */

static bool
is_comm(const hfi_incoming *incoming) {
    const msgpack_object *type = hfi_map_get(incoming->received.object, "type");
    return hfi_part_is(hfi_received_op(&incoming->received), "request") &&
           type != NULL && type->type == MSGPACK_OBJECT_STR &&
           hfi_part_begins(hfi_part_of(type->via.str.ptr, type->via.str.size),
                           "comm_") &&
           !hfi_part_is(hfi_part_of(type->via.str.ptr, type->via.str.size),
                        "comm_info_request");
}

static hf_status
answer_asked(hf_worker *worker, hf_error *reterr) {
    char *content = hfi_asked_answer(worker);
    hfi_from_worker_reply reply = {.head.row = &hfi_row_from_worker_reply,
                                   .id = worker->asked.public.id};
    if (!is_comm(worker->asked.incoming)) {
        reply.content = hfi_part_text(content != NULL ? content : NO_MEMORY);
        reply.metadata = hfi_part_text("{}");
    }
    hf_status status = hfi_self_send(worker, &reply.head, reterr);
    free(content);
    hfi_asked_close(worker);
    hfi_life_move(&worker->life, HFI_LIFE_IDLE);
    return status;
}

static hf_status
begin_answer(hf_worker *worker, hf_error *reterr) {
    const hf_worker_language *language = &worker->language;
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_OK, ignored;
    hfi_life_move(&worker->life, HFI_LIFE_ANSWERING);
    if (worker->role == HF_WORKER_ASSISTANT)
        status =
            hfi_saving_bind(worker, HF_BIND_ANSWER, hfi_part_text(""), "", 0, &error);
    if (status == HF_OK && language->answer != NULL)
        status =
            language->answer(language->context, worker, &worker->asked.public, &error);
    if (getpid() != worker->pid)
        _exit(0);
    if (status == HF_PENDING && !hfi_asked_is_answered(worker, &ignored))
        return HF_OK;
    if (status < 0)
        hfi_self_complain("a request can't be answered", &error);
    return answer_asked(worker, reterr);
}

static hf_status
run_cell(hf_worker *worker, hf_error *reterr) {
    if (worker->asked.frame.to_worker_request.history != NULL)
        return hfi_steps_run(worker, reterr);
    switch (worker->way) {
    case HFI_WAY_FORKED:
        return hfi_forked_run(worker, reterr);
    case HFI_WAY_ISOLATED:
        return hfi_isolated_run(worker, reterr);
    case HFI_WAY_IN_PROCESS:
        break;
    }
    return hfi_in_process_run(worker, reterr);
}

/* A cell or an answer that went on has ended. */
static hf_status
end_pending(hf_worker *worker, hf_error *reterr) {
    return hfi_life_get(&worker->life) == HFI_LIFE_ANSWERING
               ? answer_asked(worker, reterr)
               : hfi_running_hand_back(worker, reterr);
}

/* A comm message, beside a cell or an answer that goes on. */
static hf_status
answer_beside(hf_worker *worker, hfi_incoming *incoming, hf_error *reterr) {
    const hf_worker_language *language = &worker->language;
    hf_error error = HF_ERROR_INIT;
    hfi_asked aside;
    hf_status status = hfi_asked_read_consume(worker, incoming, &aside, reterr);
    if (status != HF_OK)
        return status;
    worker->parent = aside.frame.to_worker_request.header;
    if (language->answer != NULL &&
        language->answer(language->context, worker, &aside.public, &error) < 0)
        hfi_self_complain("a comm message can't be handled", &error);
    if (getpid() != worker->pid)
        _exit(0);
    worker->parent = hfi_part_of(NULL, 0);
    status = hfi_self_send(worker, HFI_FRAME(from_worker_reply, .id = aside.public.id),
                           reterr);
    hfi_asked_free(&aside);
    return status;
}

/* ---- frames ---------------------------------------------------------------------- */

/* The frame as its row's struct is in the first argument's union. */
typedef hf_status frame_handler(hf_worker *worker, hfi_incoming *incoming,
                                const hfi_any_frame *frame, hf_error *reterr);

static hf_status
handle_output(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
              hf_error *reterr) {
    static const int pipes[2] = {1, 2};
    int tally = incoming->fds[0];
    (void)frame;
    incoming->fds[0] = -1;
    return tally < 0 ? HF_OK
                     : hfi_channel_watch_consume(worker->channel, tally, pipes, reterr);
}

static hf_status
handle_commit(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
              hf_error *reterr) {
    (void)incoming;
    return hfi_where_commit(worker, &frame->to_main_commit, reterr);
}

/* What failed here doesn't end the worker: the next cell or commit tries it again, and
 * fails if that does. */
static hf_status
end_binding(hf_worker *worker, hf_status status, const hf_error *error) {
    worker->owes_binding |= status != HF_OK;
    if (status != HF_OK)
        hfi_shown_notice(worker, "variables of another process can't be taken over: %s",
                         error->message[0] != '\0' ? error->message
                                                   : hf_status_name(status));
    hfi_life_move(&worker->life, HFI_LIFE_IDLE);
    return HF_OK;
}

static hf_status
handle_published(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *any,
                 hf_error *reterr) {
    const hfi_to_main_published *frame = &any->to_main_published;
    hf_error error = HF_ERROR_INIT;
    (void)incoming;
    hfi_life_move(&worker->life, HFI_LIFE_BINDING);
    hf_status status =
        hfi_saving_published(worker, (uint64_t)frame->generation, frame->name, &error);
    (void)end_binding(worker, status, &error);
    return hfi_self_send(
        worker, HFI_FRAME(from_main_settled, .generation = frame->generation), reterr);
}

static hf_status
handle_adopt(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *any,
             hf_error *reterr) {
    const hfi_to_main_adopt *frame = &any->to_main_adopt;
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_E_NOMEM;
    (void)incoming;
    hfi_life_move(&worker->life, HFI_LIFE_BINDING);
    worker->parent = frame->header;
    char *code =
        strndup(frame->code.size > 0 ? frame->code.data : "", frame->code.size);
    if (code != NULL)
        status = hfi_saving_bind(worker, HF_BIND_ADOPT, frame->name, code,
                                 frame->execution_count, &error);
    free(code);
    (void)end_binding(worker, status, &error);
    worker->parent = hfi_part_of(NULL, 0);
    if (frame->id == 0)
        return HF_OK;
    return hfi_self_send(worker, HFI_FRAME(from_worker_reply, .id = frame->id), reterr);
}

static hf_status
handle_checkout(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
                hf_error *reterr) {
    hf_error error = HF_ERROR_INIT;
    (void)incoming, (void)reterr;
    hfi_life_move(&worker->life, HFI_LIFE_BINDING);
    hf_status status = hfi_saving_bind(worker, HF_BIND_RETURN,
                                       frame->to_main_checkout.name, "", 0, &error);
    return end_binding(worker, status, &error);
}

static hf_status
handle_protect(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
               hf_error *reterr) {
    hfi_life_move(&worker->life, HFI_LIFE_FORKING);
    hf_status status =
        hfi_in_process_protect(worker, incoming, frame->to_main_protect.id, reterr);
    hfi_life_move(&worker->life, HFI_LIFE_IDLE);
    return status;
}

static hf_status
handle_fork(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
            hf_error *reterr) {
    hfi_life_move(&worker->life, HFI_LIFE_FORKING);
    hf_status status =
        hfi_forked_make(worker, incoming, frame->to_main_fork.id, reterr);
    hfi_life_move(&worker->life, HFI_LIFE_IDLE);
    return status;
}

static hf_status
handle_rest(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
            hf_error *reterr) {
    hf_error error = HF_ERROR_INIT;
    (void)incoming, (void)frame, (void)reterr;
    if (worker->session != NULL &&
        hf_session_reap(worker->session, 1, NULL, &error) != HF_OK)
        hfi_self_complain("free memory can't be given back", &error);
    return HF_OK;
}

static hf_status
handle_want_handle(hf_worker *worker, hfi_incoming *incoming,
                   const hfi_any_frame *frame, hf_error *reterr) {
    (void)incoming;
    return hfi_self_send(
        worker,
        HFI_FRAME(from_worker_handle, .handle = frame->to_main_want_handle.handle),
        reterr);
}

static hf_status
handle_perfreport(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
                  hf_error *reterr) {
    (void)incoming;
    return hfi_self_send(
        worker, HFI_FRAME(from_worker_reply, .id = frame->to_main_perfreport.id),
        reterr);
}

static hf_status
handle_environment(hf_worker *worker, hfi_incoming *incoming,
                   const hfi_any_frame *frame, hf_error *reterr) {
    hfi_texts values = frame->to_main_environment.values;
    (void)worker, (void)incoming;
    for (size_t i = 0; i < values.count; i++) {
        char *name = strndup(values.items[i].key.data, values.items[i].key.size);
        char *value = strndup(values.items[i].value.data, values.items[i].value.size);
        hf_status status = HF_OK;
        if (name == NULL || value == NULL || setenv(name, value, 1) != 0)
            status = hf_error_set_errno(reterr, errno, "the environment");
        free(name);
        free(value);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

static hf_status
handle_exit(hf_worker *worker, hfi_incoming *incoming, const hfi_any_frame *frame,
            hf_error *reterr) {
    (void)incoming, (void)frame, (void)reterr;
    hfi_life_move(&worker->life, HFI_LIFE_ENDED);
    return HF_OK;
}

/* `keeps`: the variables are the same after it. */
static const struct {
    const hfi_row *row;
    frame_handler *handle;
    bool keeps;
} HANDLERS[] = {
    {&hfi_row_to_worker_output, handle_output, true},
    {&hfi_row_to_main_commit, handle_commit, true},
    {&hfi_row_to_main_published, handle_published, false},
    {&hfi_row_to_main_adopt, handle_adopt, false},
    {&hfi_row_to_main_checkout, handle_checkout, false},
    {&hfi_row_to_main_protect, handle_protect, true},
    {&hfi_row_to_main_fork, handle_fork, true},
    {&hfi_row_to_main_rest, handle_rest, true},
    {&hfi_row_to_main_want_handle, handle_want_handle, true},
    {&hfi_row_to_main_perfreport, handle_perfreport, true},
    {&hfi_row_to_main_environment, handle_environment, false},
    {&hfi_row_to_main_exit, handle_exit, false},
};

static hf_status
handle_request_consume(hf_worker *worker, hfi_incoming *incoming, hf_error *reterr) {
    worker->is_protected = false;
    hf_status status = hfi_asked_open_consume(worker, incoming, reterr);
    if (status != HF_OK)
        return status;
    return strcmp(worker->asked.public.type, "execute_request") == 0
               ? run_cell(worker, reterr)
               : begin_answer(worker, reterr);
}

static hf_status
handle_frame_consume(hf_worker *worker, hfi_incoming *incoming, hf_error *reterr) {
    hfi_part op = hfi_received_op(&incoming->received);
    hfi_any_frame frame;
    hf_status status = HF_OK;
    if (hfi_part_is(op, "request"))
        return handle_request_consume(worker, incoming, reterr);
    for (size_t i = 0; i < sizeof HANDLERS / sizeof *HANDLERS; i++) {
        const hfi_row *row = HANDLERS[i].row;
        if (!hfi_part_is(op, row->op))
            continue;
        status = hfi_frame_read(&incoming->received, row, &frame.head, reterr);
        if (!HANDLERS[i].keeps)
            worker->is_protected = false;
        if (status == HF_OK)
            status = HANDLERS[i].handle(worker, incoming, &frame, reterr);
        break;
    }
    hfi_incoming_free(incoming);
    return status;
}

/* ---- the loop -------------------------------------------------------------------- */

static bool
is_pending(const hf_worker *worker) {
    hfi_life_state state = hfi_life_get(&worker->life);
    return state == HFI_LIFE_RUNNING || state == HFI_LIFE_ANSWERING;
}

/* The next frame: what waited for the end of a cell comes first. */
static hfi_incoming *
next_frame(hf_worker *worker) {
    hfi_incoming *first = worker->waiting;
    if (first == NULL || is_pending(worker))
        return hfi_channel_next(worker->channel, NULL);
    worker->waiting = first->next;
    if (worker->waiting == NULL)
        worker->last_waiting = &worker->waiting;
    first->next = NULL;
    return first;
}

static void
put_off(hf_worker *worker, hfi_incoming *incoming) {
    *worker->last_waiting = incoming;
    worker->last_waiting = &incoming->next;
}

/* Inside of a call of the language, which calls hf_worker_dispatch: only comm messages of
 * a cell that runs. What it replies to is ended when it has returned. */
static hf_status
handle_nested(hf_worker *worker, hf_error *reterr) {
    hf_status status = HF_OK;
    hfi_incoming *incoming;
    while (status == HF_OK &&
           (incoming = hfi_channel_next(worker->channel, NULL)) != NULL) {
        if (is_pending(worker) && is_comm(incoming))
            status = answer_beside(worker, incoming, reterr);
        else
            put_off(worker, incoming);
    }
    if (status == HF_OK && hfi_channel_has_ended(worker->channel))
        return HF_STOP;
    return status == HF_E_GONE ? HF_STOP : status;
}

/* Handle what was read; HF_STOP at the end. */
static hf_status
handle_frames(hf_worker *worker, hf_error *reterr) {
    hf_status status = HF_OK, ignored;
    while (status == HF_OK && hfi_life_get(&worker->life) != HFI_LIFE_ENDED) {
        if (is_pending(worker) && hfi_asked_is_answered(worker, &ignored)) {
            status = end_pending(worker, reterr);
            continue;
        }
        hfi_incoming *incoming = next_frame(worker);
        if (incoming == NULL)
            break;
        if (!is_pending(worker))
            status = handle_frame_consume(worker, incoming, reterr);
        else if (is_comm(incoming))
            status = answer_beside(worker, incoming, reterr);
        else
            put_off(worker, incoming);
    }
    bool ends = hfi_channel_has_ended(worker->channel);
    if (status == HF_OK && ends && hfi_life_get(&worker->life) == HFI_LIFE_IDLE)
        hfi_life_move(&worker->life, HFI_LIFE_ENDED);
    if (status == HF_OK && (ends || hfi_life_get(&worker->life) == HFI_LIFE_ENDED))
        return HF_STOP;
    return status == HF_E_GONE ? HF_STOP : status;
}

hf_status
hf_worker_dispatch(hf_worker *worker, hf_error *reterr) {
    HFI_NEED(reterr, worker);
    char bytes[64];
    hf_status status = hfi_self_check_thread(worker, "hf_worker_dispatch", reterr);
    if (status != HF_OK)
        return status;
    while (read(worker->wake[0], bytes, sizeof bytes) > 0) {
    }
    status = hfi_channel_fill(worker->channel, reterr);
    if (status == HF_E_GONE)
        return HF_STOP;
    if (status != HF_OK)
        return status;
    worker->dispatching++;
    status = worker->dispatching > 1 ? handle_nested(worker, reterr)
                                     : handle_frames(worker, reterr);
    worker->dispatching--;
    return status;
}

void
hf_worker_fds(const hf_worker *worker, int ret_fds[2]) {
    if (worker == NULL || ret_fds == NULL)
        return;
    ret_fds[0] = hfi_channel_fd(worker->channel);
    ret_fds[1] = worker->wake[0];
}

hf_status
hfi_loop_serve(hf_worker *worker, hf_error *reterr) {
    const hf_worker_language *language = &worker->language;
    hf_status status = HF_OK;
    if (language->run != NULL) {
        status = language->run(language->context, worker, reterr);
        return status == HF_STOP ? HF_OK : status;
    }
    while (status == HF_OK) {
        int fds[2];
        hf_worker_fds(worker, fds);
        struct pollfd at[2] = {{.fd = fds[0], .events = POLLIN},
                               {.fd = fds[1], .events = POLLIN}};
        if (poll(at, 2, -1) < 0 && errno != EINTR)
            return hf_error_set_errno(reterr, errno, "poll");
        status = hf_worker_dispatch(worker, reterr);
    }
    return status == HF_STOP ? HF_OK : status;
}
