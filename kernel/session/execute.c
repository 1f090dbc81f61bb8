/* execute.c - one request after the other: its beginning, interrupts, and its worker's
 * reports.
 *
 *     a plain cell          the main worker runs it
 *     a recorded or         the main worker commits, and says where it runs (commits.c,
 *     isolated cell         handover.c)
 *     a step back           the main worker commits, then generations.c
 *     a command             the frontend answers; nothing runs
 *     any other request     the main worker answers it, or the frontend does
 *
 * cell.h has the states of a request and the moves between them. Every way to the end
 * goes through ends.c. A generation is published before the reply is sent, so a client
 * that has the reply can rely on the state. A report is ignored if it doesn't fit the
 * state, or comes from another process than the request's. While a commit is under way
 * the main worker works for us, and the queue waits.
 *
 * Some requests need no worker, and are answered here: kernel_info, connect, interrupt,
 * shutdown, and those about subshells. On the control channel they are answered at
 * once, also while a cell runs. Requests for the debugger go to the assistant.
 *
 * The worker reports that it has begun a cell once SIGINT is for the cell. An interrupt
 * that comes earlier is kept until then, so that none is lost. In a cell worker it ends
 * the cell at once (handover.c). Rejected: repeat the signal until the cell ends. This
 * would interrupt the cell's own `except KeyboardInterrupt`, too.
 *
 * An interrupt names no cell. If a client sends it, and the next cell, within a
 * millisecond of the end of the cell that it means, it hits the next cell. Nothing in
 * the protocol tells the two cases apart. Rejected: drop interrupts during a pause.
 * Those that are meant would be lost. One thread.
 */
#include "session/incoming.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/beside.h"
#include "session/commits.h"
#include "session/workers.h"
#include "session/death.h"
#include "session/request.h"
#include "session/escalate.h"
#include "session/handover.h"
#include "session/listeners.h"
#include "session/lists.h"
#include "session/publish.h"
#include "session/rerun.h"
#include "session/restart.h"
#include "session/rollback.h"
#include "workers/program.h"

/* End the cell as a success, with nothing run. */
static void
finish_answer(hf_kernel *kernel) {
    hfi_textbuf content = {0};
    if (hfi_ends_goes_on(kernel, "")) {
        hfi_ends_finish(kernel, 0);
        return;
    }
    hfi_textbuf_format(&content,
                       "{\"status\":\"ok\",\"execution_count\":%lld,\"payload\":[],"
                       "\"user_expressions\":{}}",
                       kernel->count);
    hfi_reply(kernel, kernel->cell.request, hfi_textbuf_part(&content),
              hfi_part_text("{\"status\":\"ok\",\"holdfast\":{\"run\":\"answer\"}}"),
              NULL, 0);
    hfi_textbuf_fini(&content);
    hfi_ends_finish(kernel, 0);
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
publish_directive(hf_kernel *kernel, const hfi_directive *directive) {
    hfi_part parent = kernel->cell.request->message.header;
    if (directive->out != NULL)
        hfi_publish_stream(kernel, HFI_STDOUT, parent, hfi_part_text(directive->out));
    if (directive->err != NULL)
        hfi_publish_stream(kernel, HFI_STDERR, parent, hfi_part_text(directive->err));
    if (directive->note != NULL) {
        hfi_textbuf content = {0};
        hfi_textbuf_format(&content, "{\"data\":{\"text/plain\":");
        hfi_textbuf_append_json(&content, directive->note, strlen(directive->note));
        hfi_textbuf_format(&content, "},\"metadata\":{},\"transient\":{}}");
        hfi_publish(kernel, "display_data", parent, hfi_textbuf_part(&content));
        hfi_textbuf_fini(&content);
    }
    hfi_texts values = hfi_list_of_pairs(directive->environment);
    if (values.count > 0)
        hfi_workers_send_main(kernel, HFI_FRAME(to_main_environment, .values = values));
    hfi_list_free(values.items);
}

/* Apply the user's commands to the cell. */
static hf_status
read_commands(hf_kernel *kernel, json_t *code, hf_error *reterr) {
    hfi_directive *directive = &kernel->cell.directive;
    char directory[4096] = "";
    if (kernel->cell.silent || kernel->command_table == NULL) {
        directive->kind = HFI_RUN_PLAIN;
        return HF_OK;
    }
    if (strchr(json_string_value(code), '%') != NULL)
        hfi_workers_directory(kernel, directory, sizeof directory);
    return kernel->command_table->feed(kernel->commands, json_string_value(code),
                                       json_string_length(code), directory,
                                       getenv("PATH"), directive, reterr);
}

/* Send clients the messages about a request that come before those of its worker. */
static void
announce_request(hf_kernel *kernel) {
    hfi_request *request = kernel->cell.request;
    hfi_part header = request->message.header;
    if (request->begun)
        return;
    request->begun = 1;
    hfi_publish_busy(kernel, request);
    if (hfi_cell_is_execution(&kernel->cell) && !kernel->cell.silent) {
        hfi_publish_input(kernel, header, hfi_cell_source(&kernel->cell),
                          kernel->cell.number);
        hfi_takeup_report(kernel, header);
    }
}

static void
send_to_main(hf_kernel *kernel) {
    int executes = hfi_cell_is_execution(&kernel->cell);
    if (executes)
        hfi_cell_start(&kernel->cell, HFI_PLAN_PLAIN);
    else
        hfi_cell_move(&kernel->cell, HFI_CELL_ANSWERING);
    if (executes && hfi_rollback_is_due(kernel))
        hfi_rollback_make(kernel);
    hfi_request_send(kernel, hfi_workers_main(kernel), kernel->cell.request);
}

/* Whether the request is the main worker's alone. Then it may begin while we announce
 * the request, since we read its frames only afterwards. */
static int
is_mains(hf_kernel *kernel) {
    const hfi_directive *directive = &kernel->cell.directive;
    return hfi_workers_main(kernel) != NULL && directive->kind == HFI_RUN_PLAIN &&
           directive->history.kind == HFI_HISTORY_NONE && directive->out == NULL &&
           directive->err == NULL && directive->note == NULL &&
           directive->environment == NULL && !hfi_cell_goes_back(&kernel->cell);
}

/* Show or set how cells are protected. */
static void
answer_protect(hf_kernel *kernel) {
    hfi_protection protection = kernel->cell.directive.history.protection;
    if (protection != HFI_PROTECT_UNKNOWN)
        hfi_rollback_protect(kernel, protection);
    hfi_publish_stream(kernel, HFI_STDOUT, kernel->cell.request->message.header,
                       hfi_part_text(hfi_rollback_protection(kernel)));
    finish_answer(kernel);
}

/* The request goes on with the lost cells, if there are any. */
static void
answer_rerun(hf_kernel *kernel) {
    hfi_request *request = kernel->cell.request;
    request->reruns = 1;
    if (!hfi_rerun_is_left(kernel))
        hfi_publish_stream(kernel, HFI_STDOUT, request->message.header,
                           hfi_part_text("There is nothing to run again: no crash has "
                                         "lost what a cell changed, or all such cells "
                                         "have run again.\n"));
    finish_answer(kernel);
}

static void
run_directive(hf_kernel *kernel) {
    hfi_cell *execution = &kernel->cell;
    if (is_mains(kernel)) {
        send_to_main(kernel);
        announce_request(kernel);
        return;
    }
    announce_request(kernel);
    if (execution->directive.kind == HFI_REFUSE) {
        hfi_ends_fail(kernel, "UsageError", execution->directive.err);
        return;
    }
    if (hfi_repeat_is_first(kernel))
        publish_directive(kernel, &execution->directive);
    if (execution->directive.kind == HFI_ANSWER) {
        finish_answer(kernel);
        return;
    }
    if (execution->directive.history.kind == HFI_HISTORY_PROTECT) {
        answer_protect(kernel);
        return;
    }
    if (execution->directive.history.kind == HFI_HISTORY_RERUN) {
        answer_rerun(kernel);
        return;
    }
    if (hfi_workers_main(kernel) == NULL) {
        hfi_ends_fail(kernel, "CellDied", "the notebook's process is not running");
        return;
    }
    if (execution->directive.kind == HFI_RUN_PLAIN &&
        execution->directive.history.kind != HFI_HISTORY_NONE &&
        !hfi_cell_goes_back(&kernel->cell)) {
        hfi_generations_begin(kernel);
    } else if (execution->directive.kind == HFI_RUN_PLAIN &&
               !hfi_cell_goes_back(&kernel->cell)) {
        send_to_main(kernel);
    } else {
        hfi_cell_move(&kernel->cell, HFI_CELL_COMMITTING);
        hfi_cell_pace(execution, hfi_rollback_paces(kernel));
        hfi_commits_ask(kernel, hfi_clock_ns());
    }
}

static void
fail_at_once(hf_kernel *kernel, const char *name, const char *value) {
    announce_request(kernel);
    hfi_ends_fail(kernel, name, value);
}

static void
refuse_execute(hf_kernel *kernel, const char *why) {
    hfi_cell_hush(&kernel->cell);
    fail_at_once(kernel, "ProtocolError", why);
}

/* Run the next of the lost cells, as it ran before. */
static void
begin_rerun(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    hfi_textbuf line = {0};
    hf_status status = hfi_rerun_begin(kernel, &error);
    hfi_textbuf_format(&line, "In[%lld] again\n", kernel->cell.number);
    if (hfi_repeat_is_first(kernel))
        hfi_publish_stream(kernel, HFI_STDOUT, kernel->cell.request->message.header,
                           hfi_textbuf_part(&line));
    hfi_textbuf_fini(&line);
    if (status == HF_OK)
        run_directive(kernel);
    else
        hfi_ends_fail(kernel, "HoldfastError", error.message);
}

/* Let the user's commands decide about a cell, which is counted with that. */
static hf_status
decide_cell(hf_kernel *kernel, hf_error *reterr) {
    json_t *code = hfi_cell_source(&kernel->cell);
    int is_new = !kernel->cell.request->begun;
    hf_status status = read_commands(kernel, code, reterr);
    if (is_new && kernel->cell.store_history && !is_blank(code))
        kernel->count++;
    if (is_new && !kernel->cell.silent && kernel->command_table != NULL &&
        kernel->command_table->note != NULL)
        kernel->command_table->note(kernel->commands, json_string_value(code),
                                    json_string_length(code), kernel->cell.number);
    return status;
}

static void
begin_execute(hf_kernel *kernel) {
    hfi_request *request = kernel->cell.request;
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_OK;
    int interrupted = kernel->interrupt_next;
    kernel->interrupt_next = 0;
    if (!request->begun)
        request->number = kernel->count + 1;
    hfi_cell_set_options(&kernel->cell, request->message.body, request->number);
    if (request->message.fault[0] != '\0') {
        refuse_execute(kernel, request->message.fault);
        return;
    }
    if (!json_is_string(hfi_cell_source(&kernel->cell))) {
        refuse_execute(kernel, "an execute_request without code");
        return;
    }
    if (!request->reruns)
        status = decide_cell(kernel, &error);
    if (status != HF_OK)
        fail_at_once(kernel, "HoldfastError", error.message);
    else if (interrupted)
        fail_at_once(kernel, hfi_interrupted_name(kernel), "");
    else if (request->reruns)
        begin_rerun(kernel);
    else
        run_directive(kernel);
}

/* ---- interrupts ----------------------------------------------------------------- */

void
hfi_execute_interrupt(hf_kernel *kernel) {
    hfi_cell *cell = &kernel->cell;
    hfi_dispatch_shell(kernel); /* the cell that is meant may not have been read yet */
    hfi_execute_next(kernel);
    hfi_subshell_interrupt(kernel);
    hfi_cell_input(cell, 0);
    switch (cell->state) {
    /* the main worker commits for the idle notebook, and clients see a cell run */
    case HFI_CELL_IDLE:
        kernel->interrupt_next = kernel->queue.count > 0;
        break;
    case HFI_CELL_COMMITTING:
    case HFI_CELL_SETTLING:
        hfi_ends_fail(kernel, hfi_interrupted_name(kernel), "");
        break;
    case HFI_CELL_FORKING:
        hfi_handover_cancel(kernel);
        break;
    case HFI_CELL_STARTING:
        if (hfi_cell_is_in_worker(cell))
            hfi_handover_cancel(kernel);
        else
            hfi_escalate_interrupt(kernel);
        break;
    case HFI_CELL_RUNNING:
    case HFI_CELL_COLLECTING:
        hfi_escalate_interrupt(kernel);
        break;
    default: /* no cell, or one that has ended */
        break;
    }
}

/* ---- answers without a worker --------------------------------------------------- */

static void
answer_connect(hf_kernel *kernel, const hfi_request *request) {
    const hfi_connection *at = &kernel->connection;
    json_t *content = json_pack(
        "{s:s,s:i,s:i,s:i,s:i,s:i}", "status", "ok", "shell_port", at->port[HFI_SHELL],
        "iopub_port", at->port[HFI_IOPUB], "stdin_port", at->port[HFI_STDIN],
        "control_port", at->port[HFI_CONTROL], "hb_port", at->port[HFI_HEARTBEAT]);
    hfi_reply_json(kernel, request, content);
    json_decref(content);
}

static void
answer_shutdown(hf_kernel *kernel, const hfi_request *request) {
    int restart = json_is_true(json_object_get(request->message.body, "restart"));
    json_t *content = json_pack("{s:s,s:b}", "status", "ok", "restart", restart);
    char *text = content != NULL ? json_dumps(content, JSON_COMPACT) : NULL;
    if (text != NULL) {
        hfi_publish(kernel, "shutdown_reply", request->message.header,
                    hfi_part_text(text));
        hfi_reply(kernel, request, hfi_part_text(text), hfi_part_text("{}"), NULL, 0);
    }
    free(text);
    json_decref(content);
    kernel->stopping = 1;
}

/* Answer with an error: without any answer the sender would wait. */
static void
answer_unknown(hf_kernel *kernel, const hfi_request *request) {
    char text[128];
    snprintf(text, sizeof text, "this kernel has no answer to a %.60s",
             request->message.type);
    hfi_reply_error(kernel, request, 1, "NotSupported", text);
}

void
hfi_execute_answer(hf_kernel *kernel, const hfi_request *request) {
    const char *type = request->message.type;
    if (strcmp(type, "kernel_info_request") == 0)
        hfi_reply_json(kernel, request, kernel->info);
    else if (strcmp(type, "connect_request") == 0)
        answer_connect(kernel, request);
    else if (strcmp(type, "usage_request") == 0)
        hfi_resources_answer(kernel, request);
    else if (strcmp(type, "shutdown_request") == 0)
        answer_shutdown(kernel, request);
    else if (strcmp(type, "interrupt_request") == 0) {
        hfi_execute_interrupt(kernel);
        hfi_reply(kernel, request, hfi_part_text("{\"status\":\"ok\"}"),
                  hfi_part_text("{}"), NULL, 0);
    } else if (!hfi_subshell_answer(kernel, request)) {
        answer_unknown(kernel, request);
    }
}

/* ---- one after the other -------------------------------------------------------- */

static void
begin_request(hf_kernel *kernel) {
    const char *type = kernel->cell.request->message.type;
    const char *fault = kernel->cell.request->message.fault;
    if (strcmp(type, "execute_request") == 0) {
        begin_execute(kernel);
    } else if (fault[0] != '\0') {
        fail_at_once(kernel, "ProtocolError", fault);
    } else if (hfi_request_is_for_worker(type) && hfi_workers_main(kernel) == NULL) {
        fail_at_once(kernel, "NotRunning", "the notebook's process is not running");
    } else if (hfi_request_is_for_worker(type)) {
        send_to_main(kernel);
        announce_request(kernel);
    } else {
        announce_request(kernel);
        hfi_execute_answer(kernel, kernel->cell.request);
        hfi_ends_finish(kernel, 0);
    }
}

void
hfi_execute_next(hf_kernel *kernel) {
    while (kernel->cell.state == HFI_CELL_IDLE && hfi_commits_pending(kernel) == 0 &&
           !kernel->stopping && !hfi_rollback_is_waking(kernel) &&
           !hfi_restart_is_due(kernel)) {
        hfi_request *request = hfi_queue_pop(&kernel->queue);
        if (request == NULL)
            return;
        hfi_cell_take(&kernel->cell, request);
        begin_request(kernel);
    }
}

void
hfi_execute_control(hf_kernel *kernel) {
    hfi_request *request;
    while ((request = hfi_dispatch_receive(kernel, HFI_CONTROL)) != NULL) {
        const hfi_message *message = &request->message;
        hfi_publish_busy(kernel, request);
        if (message->fault[0] != '\0') {
            hfi_reply_error(kernel, request, 1, "ProtocolError", message->fault);
        } else if (strcmp(message->type, "debug_request") == 0) {
            hfi_assistant_debug(kernel, request);
            continue;
        } else {
            hfi_execute_answer(kernel, request);
        }
        hfi_publish_idle(kernel, request);
        hfi_request_close(request);
    }
}

/* reports of its worker */

void
hfi_execute_started(hf_kernel *kernel, hfi_worker *worker,
                    const hfi_from_worker_started *frame) {
    if (kernel->cell.state != HFI_CELL_STARTING ||
        kernel->cell.request->id != frame->id || worker != hfi_workers_at_work(kernel))
        return;
    hfi_cell_move(&kernel->cell, HFI_CELL_RUNNING);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_STARTED,
                                  .worker = worker,
                                  .started = frame});
}

void
hfi_execute_ended(hf_kernel *kernel, hfi_worker *worker,
                  const hfi_from_worker_ended *frame) {
    if (kernel->cell.state == HFI_CELL_RUNNING &&
        kernel->cell.request->id == frame->id) {
        hfi_cell_move(&kernel->cell, HFI_CELL_COLLECTING);
    }
    hfi_emit(
        kernel,
        &(hfi_event){.kind = HFI_EVENT_CELL_ENDED, .worker = worker, .ended = frame});
}

static void
main_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    hfi_request *request = kernel->cell.request;
    if (hfi_ends_report(kernel))
        return;
    if (kernel->cell.state == HFI_CELL_ANSWERING) {
        hfi_ends_reply(kernel, request, reply, reply->metadata);
        hfi_ends_finish(kernel, 0);
        return;
    }
    if (kernel->cell.plan == HFI_PLAN_IN_PROCESS) {
        hfi_handover_replied_in_process(kernel, reply);
        return;
    }
    hfi_textbuf metadata = {0};
    hfi_ends_outcome outcome = hfi_ends_read(reply);
    if (!hfi_generations_replied(kernel, reply))
        return;
    hfi_request_cost(kernel, reply, "plain", &metadata);
    hfi_ends_reply(kernel, request, reply, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    if (kernel->cell.directive.history.kind == HFI_HISTORY_NONE)
        hfi_commits_ran(kernel);
    hfi_generations_note(kernel);
    kernel->leaving |= outcome.exits; /* as in ipykernel */
    hfi_ends_finish(kernel, outcome.failed);
}

/* Whether the running request waits for this reply. */
static int
is_awaited(const hf_kernel *kernel, const hfi_worker *worker, long long id) {
    return worker == hfi_workers_at_work(kernel) && kernel->cell.request->id == id &&
           kernel->cell.state != HFI_CELL_FORKING;
}

void
hfi_execute_replied(hf_kernel *kernel, hfi_worker *worker,
                    const hfi_from_worker_reply *reply) {
    long long id = reply->id;
    hfi_rollback_outcome outcome;
    if (worker == hfi_workers_main(kernel))
        hfi_restart_answered(kernel);
    if (worker == hfi_assistant_worker(kernel)) {
        hfi_assistant_replied(kernel, reply);
    } else if (hfi_rollback_replied(kernel, worker, reply, &outcome)) {
        hfi_death_settled(kernel, outcome);
    } else if (worker == hfi_workers_main(kernel) &&
               id == hfi_commits_pending(kernel) && id != 0) {
        hfi_handover_committed(kernel, reply);
    } else if (is_awaited(kernel, worker, id)) {
        if (hfi_cell_is_in_main(&kernel->cell))
            main_replied(kernel, reply);
        else
            hfi_handover_replied(kernel, reply);
    } else if ((worker != hfi_workers_main(kernel) ||
                !hfi_subshell_replied(kernel, reply)) &&
               !hfi_comms_replied(kernel, id)) {
        hfi_log("no request waits for this reply");
    }
}
