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
 * `running` is the request that was taken from the queue, `phase` says who has it, and
 * every way out goes through hfi_execute_finish. A generation is published before the
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
    hfi_request *request = kernel->running;
    int executed = strcmp(request->message.type, "execute_request") == 0;
    int stop = executed && error && kernel->execution.stop_on_error;
    if (executed && !kernel->execution.reporting) {
        hfi_observe_finished(kernel, error);
        if (kernel->phase == HFI_PHASE_HOME)
            hfi_rollback_ran(kernel,
                             kernel->execution.ended_ns - kernel->execution.started_ns);
    }
    hfi_progress_end(kernel);
    if (executed && hfi_perfreport_begin(kernel, error))
        return;
    kernel->running = NULL;
    kernel->phase = HFI_PHASE_NONE;
    if (stop) /* what was sent by now is dropped too, but nothing that answers the idle
               */
        hfi_dispatch_shell(kernel);
    hfi_publish_status(kernel, request->message.header, "idle");
    if (executed) {
        hfi_timeline_end(kernel);
        hfi_verdict_fini(&kernel->execution.verdict);
        hfi_textbuf_fini(&kernel->execution.road_reason);
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
    if (kernel->running == NULL || hfi_perfreport_end(kernel))
        return;
    hfi_progress_end(kernel);
    kernel->execution.fate = name;
    hfi_reply_error(kernel, kernel->running, kernel->execution.silent, name, value);
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
    hfi_reply(kernel, kernel->running, hfi_textbuf_part(&content),
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
    hfi_part parent = kernel->running->message.header;
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
    hfi_verdict *verdict = &kernel->execution.verdict;
    char directory[4096];
    if (kernel->execution.silent) {
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
    hfi_execution *execution = &kernel->execution;
    json_t *history = json_object_get(body, "store_history");
    json_t *stop = json_object_get(body, "stop_on_error");
    memset(execution, 0, sizeof *execution);
    execution->begin_ns = hfi_clock_ns();
    execution->silent = json_is_true(json_object_get(body, "silent"));
    execution->store_history = !execution->silent && !json_is_false(history);
    execution->stop_on_error = !json_is_false(stop);
    execution->allow_stdin = json_is_true(json_object_get(body, "allow_stdin"));
    execution->number = kernel->count + 1;
}

/* What clients see of a request before anything of its worker's. */
static void
announce(hf_kernel *kernel) {
    const hfi_request *request = kernel->running;
    hfi_part header = request->message.header;
    if (!request->begun)
        hfi_publish_status(kernel, header, "busy");
    if (strcmp(request->message.type, "execute_request") == 0 &&
        !kernel->execution.silent) {
        hfi_publish_input(kernel, header,
                          json_object_get(request->message.body, "code"),
                          kernel->execution.number);
        hfi_takeup_tell(kernel, header);
    }
}

static int
is_executing(const hf_kernel *kernel) {
    return kernel->running != NULL &&
           strcmp(kernel->running->message.type, "execute_request") == 0;
}

static void
send_home(hf_kernel *kernel) {
    kernel->phase = HFI_PHASE_HOME;
    if (is_executing(kernel) && hfi_rollback_is_due(kernel))
        hfi_rollback_make(kernel);
    kernel->execution.sent_ns = hfi_clock_ns();
    hfi_request_send(kernel, kernel->home, kernel->running);
}

/* Whether all of it is the home's: which may then begin while we announce it, since
 * what it sends is read afterwards. */
static int
is_homes(hf_kernel *kernel) {
    const hfi_verdict *verdict = &kernel->execution.verdict;
    return kernel->home != NULL && verdict->kind == HFI_RUN_PLAIN &&
           verdict->travel.kind == HFI_TRAVEL_NONE && verdict->out == NULL &&
           verdict->err == NULL && verdict->note == NULL &&
           verdict->environment == NULL && !hfi_timeline_wants_commit(kernel);
}

static void
run_verdict(hf_kernel *kernel) {
    hfi_execution *execution = &kernel->execution;
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
        kernel->phase = HFI_PHASE_COMMIT;
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
    kernel->execution.silent = 1;
    kernel->execution.stop_on_error = 0;
    fail_at_once(kernel, "ProtocolError", why);
}

static void
begin_execute(hf_kernel *kernel) {
    json_t *body = kernel->running->message.body;
    json_t *code = json_object_get(body, "code");
    hf_error error = HF_ERROR_INIT;
    int interrupted = kernel->interrupt_next;
    kernel->interrupt_next = 0;
    read_options(kernel, body);
    if (kernel->running->message.fault[0] != '\0') {
        refuse(kernel, kernel->running->message.fault);
        return;
    }
    if (!json_is_string(code)) {
        refuse(kernel, "an execute_request without code");
        return;
    }
    hf_status status = judge(kernel, code, &error);
    if (kernel->execution.store_history && !is_blank(code))
        kernel->count++;
    if (!kernel->execution.silent)
        hfi_cellnames_add(
            &kernel->cellnames,
            hfi_part_of(json_string_value(code), json_string_length(code)),
            kernel->execution.number);
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
    const char *type = kernel->running->message.type;
    const char *fault = kernel->running->message.fault;
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
        hfi_dispatch_answer(kernel, kernel->running);
        hfi_execute_finish(kernel, 0);
    }
}

void
hfi_execute_next(hf_kernel *kernel) {
    while (kernel->running == NULL && kernel->commit_id == 0 && !kernel->stopping &&
           kernel->rollback.state != HFI_ROLLBACK_WAKING &&
           !hfi_restart_is_due(kernel)) {
        kernel->running = hfi_queue_pop(&kernel->queue);
        if (kernel->running == NULL)
            return;
        begin(kernel);
    }
}

/* ---- interrupts ----------------------------------------------------------------- */

/* The cell is the worker's, or will be when it has come so far. */
static void
interrupt_worker(hf_kernel *kernel) {
    if (kernel->execution.started)
        hfi_worker_kill(kernel->phase == HFI_PHASE_HOME ? kernel->home : kernel->cell,
                        SIGINT);
    else
        kernel->execution.interrupted = 1;
    hfi_escalate_begin(kernel, hfi_clock_ns());
}

void
hfi_execute_interrupt(hf_kernel *kernel) {
    hfi_execution *execution = &kernel->execution;
    hfi_dispatch_shell(kernel); /* the cell that is meant may not have been read yet */
    hfi_execute_next(kernel);
    hfi_subshell_interrupt(kernel);
    execution->input_wanted = 0;
    if (kernel->running == NULL) /* the home commits, and a client sees a cell run */
        kernel->interrupt_next = kernel->queue.first != NULL;
    else if (!is_executing(kernel) || kernel->phase == HFI_PHASE_NONE ||
             execution->reporting)
        return;
    else if (kernel->phase == HFI_PHASE_COMMIT)
        hfi_execute_fail(kernel, "KeyboardInterrupt", "");
    else if (!execution->started && kernel->phase == HFI_PHASE_CELL)
        hfi_handover_cancel(kernel);
    else
        interrupt_worker(kernel);
}

void
hfi_execute_started(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    if (!is_executing(kernel) || kernel->running->id != hfi_map_integer(map, "id", 0) ||
        (worker != kernel->home && worker != kernel->cell))
        return;
    hfi_progress_end(kernel);
    kernel->execution.started = 1;
    kernel->execution.started_ns = hfi_clock_ns();
    hfi_observe_started(kernel, worker, map);
    hfi_trace_note(kernel, map);
    if (kernel->execution.interrupted) {
        hfi_worker_kill(worker, SIGINT);
        kernel->execution.escalation.due_ns = 0; /* the cell has its grace from here */
        hfi_escalate_begin(kernel, hfi_clock_ns());
    }
    kernel->execution.interrupted = 0;
}

void
hfi_execute_ended(hf_kernel *kernel, const msgpack_object *map) {
    if (is_executing(kernel) && kernel->running->id == hfi_map_integer(map, "id", 0))
        kernel->execution.ended_ns = hfi_clock_ns();
    hfi_observe_told(kernel, map);
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
    hfi_request *request = kernel->running;
    if (hfi_perfreport_end(kernel))
        return;
    if (strcmp(request->message.type, "execute_request") != 0) {
        hfi_execute_send_reply(kernel, request, reply, hfi_map_part(reply, "metadata"));
        hfi_execute_finish(kernel, 0);
        return;
    }
    if (kernel->execution.at_home) {
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
    if (kernel->execution.verdict.travel.kind == HFI_TRAVEL_NONE)
        kernel->uncommitted++;
    hfi_timeline_note(kernel);
    kernel->leaving |= asks_exit(hfi_map_part(reply, "content"));
    hfi_execute_finish(kernel, error);
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
    } else if (kernel->running != NULL && kernel->running->id == id &&
               kernel->phase == HFI_PHASE_HOME && worker == kernel->home) {
        home_replied(kernel, reply);
    } else if (kernel->running != NULL && kernel->running->id == id &&
               kernel->phase == HFI_PHASE_CELL && worker == kernel->cell) {
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
