/* execute.c - one request after the other, and the life of a cell.
 *
 *   plain           home runs it -> reply
 *   instrumented    home commits -> publish -> a cell worker maps the generation and
 * runs
 *                   -> publish what it prepared -> reply -> the home adopts
 *                   or, where the home answers that it is to run there (road.c):
 *                   the home runs it -> reply
 *   answer          a command of the frontend itself: nothing runs
 *
 * The states of a request and its ways are in cell.h. Every way out goes through
 * hfi_execute_finish. A generation is published before the
 * reply is sent: who has the reply can rely on the state. Where a cell fails or dies
 * before that, nothing was published.
 *
 * The worker says when it has started a cell, with SIGINT in its hands. An interrupt
 * that comes before is kept until then, so that none is lost; in the cell worker it
 * ends the cell at once (handover.c). Repeating the signal until the cell ends was
 * rejected: it would hit the cell's own `except KeyboardInterrupt`, too.
 *
 * An interrupt names no cell. One that comes too late hits the next cell if that one is
 * there already: where a client sends both within a millisecond of the end of the cell
 * that it meant. The protocol has nothing to tell them apart; a pause in which
 * interrupts are dropped was rejected, since those that are meant would be lost.
 *
 * While `commit_id` is set the home works for us, and the queue waits. One thread.
 */
#include "session/session.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workers/program.h"

/* ---- ends ----------------------------------------------------------------------- */

void
hfi_execute_abort(hf_kernel *kernel, hfi_queue *queue) {
    hfi_request *request;
    while ((request = hfi_queue_pop_type(queue, "execute_request")) != NULL) {
        hfi_publish_status(kernel, request->message.header, "busy");
        hfi_reply(kernel, request, hfi_part_text("{\"status\":\"aborted\"}"),
                  hfi_part_text("{\"status\":\"aborted\"}"), NULL, 0);
        hfi_publish_status(kernel, request->message.header, "idle");
        hfi_request_close(request);
    }
}

void
hfi_execute_finish(hf_kernel *kernel, int error) {
    hfi_cell *cell = &kernel->cell;
    cell->failed = error;
    if (hfi_cell_is_execution(cell)) {
        hfi_observe_finished(kernel, error);
        if (hfi_cell_is_in_main(cell))
            hfi_rollback_ran(kernel, cell->ended_ns - cell->started_ns);
    }
    hfi_progress_end(kernel);
    hfi_cell_move(cell, HFI_CELL_REPLIED);
    if (!hfi_perfreport_begin(kernel))
        hfi_execute_end(kernel);
}

void
hfi_execute_end(hf_kernel *kernel) {
    hfi_request *request = kernel->cell.request;
    int executed = hfi_cell_is_execution(&kernel->cell);
    int stop = executed && kernel->cell.failed && kernel->cell.stop_on_error;
    hfi_cell_move(&kernel->cell, HFI_CELL_IDLE);
    kernel->cell.request = NULL;
    if (stop) /* what was sent by now is dropped too, but nothing that answers the idle
               */
        hfi_dispatch_shell(kernel);
    hfi_publish_status(kernel, request->message.header, "idle");
    if (executed) {
        hfi_timeline_end(kernel);
        hfi_verdict_fini(&kernel->cell.verdict);
        hfi_textbuf_fini(&kernel->cell.road_reason);
        hfi_trace_forget(kernel);
        hfi_textbuf_clear(&kernel->last_parent);
        hfi_textbuf_append(&kernel->last_parent, request->message.header.data,
                           request->message.header.size);
        kernel->idle_ns = hfi_clock_ns();
        if (stop)
            hfi_execute_abort(kernel, &kernel->queue);
    }
    hfi_request_close(request);
}

void
hfi_execute_fail(hf_kernel *kernel, const char *name, const char *value) {
    if (kernel->cell.request == NULL || hfi_perfreport_end(kernel))
        return;
    hfi_progress_end(kernel);
    kernel->cell.fate = name;
    hfi_reply_error(kernel, kernel->cell.request, kernel->cell.silent, name, value);
    hfi_execute_finish(kernel, 1);
}

/* The cell ends well without anything having run. */
static void
finish_answer(hf_kernel *kernel) {
    hfi_textbuf content = {0};
    hfi_textbuf_format(&content,
                       "{\"status\":\"ok\",\"execution_count\":%lld,\"payload\":[],"
                       "\"user_expressions\":{}}",
                       kernel->count);
    hfi_reply(kernel, kernel->cell.request, hfi_textbuf_part(&content),
              hfi_part_text("{\"status\":\"ok\",\"holdfast\":{\"road\":\"answer\"}}"),
              NULL, 0);
    hfi_textbuf_fini(&content);
    hfi_execute_finish(kernel, 0);
}

/* ---- begin ---------------------------------------------------------------------- */

static int
is_blank(json_t *code) {
    const char *text = json_string_value(code);
    size_t length = json_string_length(code), at = 0;
    while (at < length && isspace((unsigned char)text[at]))
        at++;
    return at == length;
}

static void
publish_verdict(hf_kernel *kernel, const hfi_verdict *verdict) {
    hfi_part parent = kernel->cell.request->message.header;
    size_t count = 0;
    if (verdict->out != NULL)
        hfi_publish_stream(kernel, HFI_STDOUT, parent, hfi_part_text(verdict->out));
    if (verdict->err != NULL)
        hfi_publish_stream(kernel, HFI_STDERR, parent, hfi_part_text(verdict->err));
    if (verdict->note != NULL) {
        hfi_textbuf content = {0};
        hfi_textbuf_format(&content, "{\"data\":{\"text/plain\":");
        hfi_textbuf_append_json(&content, verdict->note, strlen(verdict->note));
        hfi_textbuf_format(&content, "},\"metadata\":{},\"transient\":{}}");
        hfi_publish(kernel, "display_data", parent, hfi_textbuf_part(&content));
        hfi_textbuf_fini(&content);
    }
    while (verdict->environment != NULL && verdict->environment[count] != NULL)
        count++;
    if (count > 0) {
        hfi_frame frame;
        hfi_frame_init(&frame, "environment", 1);
        hfi_frame_add_map(&frame, "values", count / 2);
        for (size_t i = 0; i + 1 < count; i += 2)
            hfi_frame_add_text(&frame, verdict->environment[i],
                               hfi_part_text(verdict->environment[i + 1]));
        hfi_crew_tell_home(kernel, &frame);
    }
}

/* What the user's commands make of the cell. */
static hf_status
judge(hf_kernel *kernel, json_t *code, hf_error *reterr) {
    hfi_verdict *verdict = &kernel->cell.verdict;
    char directory[4096];
    if (kernel->cell.silent) {
        verdict->kind = HFI_RUN_PLAIN;
        return HF_OK;
    }
    hfi_crew_directory(kernel, directory, sizeof directory);
    return hfi_commands_feed(kernel->commands, json_string_value(code),
                             json_string_length(code), directory, getenv("PATH"),
                             verdict, reterr);
}

static void
read_options(hf_kernel *kernel, json_t *body) {
    hfi_cell *execution = &kernel->cell;
    json_t *history = json_object_get(body, "store_history");
    json_t *stop = json_object_get(body, "stop_on_error");
    execution->silent = json_is_true(json_object_get(body, "silent"));
    execution->store_history = !execution->silent && !json_is_false(history);
    execution->stop_on_error = !json_is_false(stop);
    execution->allow_stdin = json_is_true(json_object_get(body, "allow_stdin"));
    execution->number = kernel->count + 1;
}

/* What clients see of a request before anything of its worker's. */
static void
announce(hf_kernel *kernel) {
    const hfi_request *request = kernel->cell.request;
    hfi_part header = request->message.header;
    if (!request->begun)
        hfi_publish_status(kernel, header, "busy");
    if (strcmp(request->message.type, "execute_request") == 0 && !kernel->cell.silent) {
        hfi_publish_input(kernel, header,
                          json_object_get(request->message.body, "code"),
                          kernel->cell.number);
        hfi_takeup_tell(kernel, header);
    }
}

static void
send_home(hf_kernel *kernel) {
    int executes = hfi_cell_is_execution(&kernel->cell);
    kernel->cell.plan = HFI_PLAN_PLAIN;
    hfi_cell_move(&kernel->cell, executes ? HFI_CELL_STARTING : HFI_CELL_ANSWERING);
    if (executes && hfi_rollback_is_due(kernel))
        hfi_rollback_make(kernel);
    kernel->cell.sent_ns = hfi_clock_ns();
    hfi_request_send(kernel, kernel->home, kernel->cell.request);
}

/* Whether all of it is the home's: which may then begin while we announce it, since
 * what it sends is read afterwards. */
static int
is_homes(hf_kernel *kernel) {
    const hfi_verdict *verdict = &kernel->cell.verdict;
    return kernel->home != NULL && verdict->kind == HFI_RUN_PLAIN &&
           verdict->travel.kind == HFI_TRAVEL_NONE && verdict->out == NULL &&
           verdict->err == NULL && verdict->note == NULL &&
           verdict->environment == NULL && !hfi_timeline_wants_commit(kernel);
}

static void
run_verdict(hf_kernel *kernel) {
    hfi_cell *execution = &kernel->cell;
    if (is_homes(kernel)) {
        send_home(kernel);
        announce(kernel);
        return;
    }
    announce(kernel);
    publish_verdict(kernel, &execution->verdict);
    if (execution->verdict.kind == HFI_ANSWER) {
        finish_answer(kernel);
        return;
    }
    if (kernel->home == NULL) {
        hfi_execute_fail(kernel, "CellDied", "the notebook's process is not running");
        return;
    }
    if (execution->verdict.kind == HFI_RUN_PLAIN &&
        execution->verdict.travel.kind != HFI_TRAVEL_NONE &&
        !hfi_timeline_wants_commit(kernel)) {
        hfi_timeline_begin(kernel);
    } else if (execution->verdict.kind == HFI_RUN_PLAIN &&
               !hfi_timeline_wants_commit(kernel)) {
        send_home(kernel);
    } else {
        hfi_cell_move(&kernel->cell, HFI_CELL_COMMITTING);
        hfi_handover_ask_commit(kernel, hfi_clock_ns());
    }
}

static void
fail_at_once(hf_kernel *kernel, const char *name, const char *value) {
    announce(kernel);
    hfi_execute_fail(kernel, name, value);
}

/* Nothing was run that others should see, nor that should keep them from running. */
static void
refuse(hf_kernel *kernel, const char *why) {
    kernel->cell.silent = 1;
    kernel->cell.stop_on_error = 0;
    fail_at_once(kernel, "ProtocolError", why);
}

static void
begin_execute(hf_kernel *kernel) {
    json_t *body = kernel->cell.request->message.body;
    json_t *code = json_object_get(body, "code");
    hf_error error = HF_ERROR_INIT;
    int interrupted = kernel->interrupt_next;
    kernel->interrupt_next = 0;
    read_options(kernel, body);
    if (kernel->cell.request->message.fault[0] != '\0') {
        refuse(kernel, kernel->cell.request->message.fault);
        return;
    }
    if (!json_is_string(code)) {
        refuse(kernel, "an execute_request without code");
        return;
    }
    hf_status status = judge(kernel, code, &error);
    if (kernel->cell.store_history && !is_blank(code))
        kernel->count++;
    if (!kernel->cell.silent)
        hfi_cellnames_add(
            &kernel->cellnames,
            hfi_part_of(json_string_value(code), json_string_length(code)),
            kernel->cell.number);
    if (status != HF_OK)
        fail_at_once(kernel, "HoldfastError", error.message);
    else if (interrupted)
        fail_at_once(kernel, "KeyboardInterrupt", "");
    else
        run_verdict(kernel);
}

int
hfi_execute_is_for_worker(const char *type) {
    static const char *const types[] = {
        "complete_request", "inspect_request",   "is_complete_request",
        "history_request",  "comm_info_request", "comm_open",
        "comm_msg",         "comm_close",        "debug_request"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return 1;
    return 0;
}

static void
begin(hf_kernel *kernel) {
    const char *type = kernel->cell.request->message.type;
    const char *fault = kernel->cell.request->message.fault;
    if (strcmp(type, "execute_request") == 0) {
        begin_execute(kernel);
    } else if (fault[0] != '\0') {
        fail_at_once(kernel, "ProtocolError", fault);
    } else if (hfi_execute_is_for_worker(type) && kernel->home == NULL) {
        fail_at_once(kernel, "NotRunning", "the notebook's process is not running");
    } else if (hfi_execute_is_for_worker(type)) {
        send_home(kernel);
        announce(kernel);
    } else {
        announce(kernel);
        hfi_dispatch_answer(kernel, kernel->cell.request);
        hfi_execute_finish(kernel, 0);
    }
}

static void
take(hf_kernel *kernel, hfi_request *request) {
    hfi_cell *cell = &kernel->cell;
    hfi_cell_move(cell, HFI_CELL_TAKEN);
    *cell = (hfi_cell){
        .state = cell->state, .request = request, .begin_ns = hfi_clock_ns()};
}

void
hfi_execute_next(hf_kernel *kernel) {
    while (kernel->cell.state == HFI_CELL_IDLE && kernel->commit_id == 0 &&
           !kernel->stopping && kernel->rollback.state != HFI_ROLLBACK_WAKING &&
           !hfi_restart_is_due(kernel)) {
        hfi_request *request = hfi_queue_pop(&kernel->queue);
        if (request == NULL)
            return;
        take(kernel, request);
        begin(kernel);
    }
}

/* ---- interrupts ----------------------------------------------------------------- */

/* The cell is the worker's, or will be when it has come so far. A main worker that is
 * dead, and whose rollback hasn't said yet what becomes of it, hears nothing. */
static void
interrupt_worker(hf_kernel *kernel) {
    hfi_worker *worker = hfi_crew_at_work(kernel);
    if (worker == NULL)
        return;
    if (hfi_cell_has_begun(&kernel->cell))
        hfi_worker_kill(worker, SIGINT);
    else
        kernel->cell.escalation.waits = 1;
    hfi_escalate_begin(kernel, hfi_clock_ns());
}

void
hfi_execute_interrupt(hf_kernel *kernel) {
    hfi_cell *cell = &kernel->cell;
    hfi_dispatch_shell(kernel); /* the cell that is meant may not have been read yet */
    hfi_execute_next(kernel);
    hfi_subshell_interrupt(kernel);
    cell->input_wanted = 0;
    switch (cell->state) {
    case HFI_CELL_IDLE: /* the home commits, and a client sees a cell run */
        kernel->interrupt_next = kernel->queue.first != NULL;
        break;
    case HFI_CELL_COMMITTING:
    case HFI_CELL_SETTLING:
        hfi_execute_fail(kernel, "KeyboardInterrupt", "");
        break;
    case HFI_CELL_FORKING:
        hfi_handover_cancel(kernel);
        break;
    case HFI_CELL_STARTING:
        if (hfi_cell_is_in_worker(cell))
            hfi_handover_cancel(kernel);
        else
            interrupt_worker(kernel);
        break;
    case HFI_CELL_RUNNING:
    case HFI_CELL_COLLECTING:
        interrupt_worker(kernel);
        break;
    default: /* no cell, or one that is over */
        break;
    }
}

void
hfi_execute_started(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    if (kernel->cell.state != HFI_CELL_STARTING ||
        kernel->cell.request->id != hfi_map_integer(map, "id", 0) ||
        worker != hfi_crew_at_work(kernel))
        return;
    hfi_progress_end(kernel);
    hfi_cell_move(&kernel->cell, HFI_CELL_RUNNING);
    kernel->cell.started_ns = hfi_clock_ns();
    hfi_observe_started(kernel, worker, map);
    hfi_trace_note(kernel, map);
    if (kernel->cell.escalation.waits) {
        hfi_worker_kill(worker, SIGINT);
        kernel->cell.escalation.due_ns = 0; /* the cell has its grace from here */
        hfi_escalate_begin(kernel, hfi_clock_ns());
    }
    kernel->cell.escalation.waits = 0;
}

void
hfi_execute_ended(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    (void)worker;
    if (kernel->cell.state == HFI_CELL_RUNNING &&
        kernel->cell.request->id == hfi_map_integer(map, "id", 0)) {
        hfi_cell_move(&kernel->cell, HFI_CELL_COLLECTING);
        kernel->cell.ended_ns = hfi_clock_ns();
    }
    hfi_observe_ended(kernel, map);
}

/* ---- replies -------------------------------------------------------------------- */

int
hfi_execute_is_error(hfi_part content) {
    json_t *body = json_loadb(content.data, content.size, JSON_ALLOW_NUL, NULL);
    const char *status = json_string_value(json_object_get(body, "status"));
    int error = status != NULL && strcmp(status, "error") == 0;
    json_decref(body);
    return error;
}

/* Buffers of a reply, at most 64. */
static size_t
reply_buffers(const msgpack_object *reply, hfi_part ret_buffers[64]) {
    const msgpack_object *list = hfi_map_get(reply, "buffers");
    size_t count = 0;
    if (list == NULL || list->type != MSGPACK_OBJECT_ARRAY)
        return 0;
    for (; count < list->via.array.size && count < 64; count++)
        ret_buffers[count] = hfi_object_part(&list->via.array.ptr[count]);
    return count;
}

void
hfi_execute_send_reply(hf_kernel *kernel, const hfi_request *request,
                       const msgpack_object *reply, hfi_part metadata) {
    hfi_part buffers[64];
    size_t count = reply_buffers(reply, buffers);
    hfi_part content = hfi_map_part(reply, "content");
    if (content.size > 0)
        hfi_reply(kernel, request, content, metadata, buffers, count);
}

/* Whether the cell called exit(): then the home is about to leave, and the kernel with
 * it, as in ipykernel. */
static int
asks_exit(hfi_part content) {
    json_t *body = json_loadb(content.data, content.size, JSON_ALLOW_NUL, NULL);
    json_t *item;
    size_t i;
    int asks = 0;
    json_array_foreach(json_object_get(body, "payload"), i, item) {
        const char *source = json_string_value(json_object_get(item, "source"));
        asks |= source != NULL && strcmp(source, "ask_exit") == 0 &&
                !json_is_true(json_object_get(item, "keepkernel"));
    }
    json_decref(body);
    return asks;
}

static void
home_replied(hf_kernel *kernel, const msgpack_object *reply) {
    hfi_request *request = kernel->cell.request;
    if (hfi_perfreport_end(kernel))
        return;
    if (kernel->cell.state == HFI_CELL_ANSWERING) {
        hfi_execute_send_reply(kernel, request, reply, hfi_map_part(reply, "metadata"));
        hfi_execute_finish(kernel, 0);
        return;
    }
    if (kernel->cell.plan == HFI_PLAN_IN_PROCESS) {
        hfi_road_replied(kernel, reply);
        return;
    }
    hfi_textbuf metadata = {0};
    int error = hfi_execute_is_error(hfi_map_part(reply, "content"));
    if (!hfi_timeline_replied(kernel, reply))
        return;
    hfi_request_cost(kernel, reply, "plain", &metadata);
    hfi_execute_send_reply(kernel, request, reply, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    if (kernel->cell.verdict.travel.kind == HFI_TRAVEL_NONE)
        kernel->uncommitted++;
    hfi_timeline_note(kernel);
    kernel->leaving |= asks_exit(hfi_map_part(reply, "content"));
    hfi_execute_finish(kernel, error);
}

/* Whether the request that runs waits for this reply. */
static int
is_awaited(const hf_kernel *kernel, const hfi_worker *worker, long long id) {
    return worker == hfi_crew_at_work(kernel) && kernel->cell.request->id == id &&
           kernel->cell.state != HFI_CELL_FORKING;
}

void
hfi_execute_replied(hf_kernel *kernel, hfi_worker *worker,
                    const msgpack_object *reply) {
    long long id = hfi_map_integer(reply, "id", 0);
    if (worker == kernel->home)
        hfi_restart_answered(kernel);
    if (worker == kernel->assistant) {
        hfi_assistant_replied(kernel, reply);
    } else if (hfi_rollback_replied(kernel, worker, reply)) {
        return;
    } else if (worker == kernel->home && id == kernel->commit_id && id != 0) {
        hfi_handover_committed(kernel, reply);
    } else if (is_awaited(kernel, worker, id)) {
        if (hfi_cell_is_in_main(&kernel->cell))
            home_replied(kernel, reply);
        else
            hfi_handover_replied(kernel, reply);
    } else if (worker != kernel->home || !hfi_subshell_replied(kernel, reply)) {
        hfi_request *request = hfi_queue_pop_id(&kernel->forwarded, id);
        if (request == NULL) {
            hfi_log("a reply that nobody waits for");
            return;
        }
        hfi_publish_status(kernel, request->message.header, "idle");
        hfi_request_close(request);
    }
}
