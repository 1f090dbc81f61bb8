/* assistant.c - the worker that answers while the main worker is busy.
 *
 * Some questions need no live object: complete, inspect, is_complete, history. They
 * don't wait for a cell that runs. They wait for a moment, since most cells end in it,
 * and the main worker knows more. Then they go to the assistant: a fork of the fork
 * server that binds the names in question, as far as the last commit has them. The
 * assistant is forked when it is needed and released when the cell has ended. So it
 * holds no memory between cells, and never knows an old state.
 *
 * The same process hosts the debugger, because a debugger can't live in the process
 * that it stops. It speaks the debugger's protocol with the main worker and with the
 * cell's process, through socket pairs that are handed out here. No port is opened, so
 * others on the machine can't reach it. The assistant stays for as long as somebody
 * debugs. Requests that need the notebook's live objects while nothing is stopped are
 * left to the main worker, where they wait for their turn like all others.
 *
 * To inspect a value may run its code, so an assistant may hang. It is killed after
 * HOLDFAST_ANSWER_SECONDS (5), and its questions wait for the main worker. If somebody
 * else kills it, the debugging ends, and the client gets a message. One thread.
 */
#include "session/beside.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/timelimit.h"
#include "session/workers.h"
#include "session/request.h"
#include "session/publish.h"
#include "workers/program.h"

/* for the cell to end, before the assistant is asked */
#define WAIT_NS        30000000LL
#define ANSWER_SECONDS 5

struct hfi_assistant {
    hfi_worker *worker; /* NULL as a rule */
    int debugging;      /* a client debugs through it */
    hfi_queue asked;    /* requests that it has yet to answer */
};

static void
fini_assistant(hf_kernel *kernel) {
    hfi_queue_fini(&kernel->assistant->asked);
}

const hfi_owner hfi_assistant_owner = {
    offsetof(hf_kernel, assistant), sizeof(struct hfi_assistant), NULL, fini_assistant};

/* ---- the process ---------------------------------------------------------------- */

static hfi_worker *
find_assistant(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    if (kernel->assistant->worker == NULL &&
        hfi_workers_fork(kernel, HFI_ASSISTANT, &kernel->assistant->worker, &error) !=
            HF_OK)
        hfi_log("assistant: %s", error.message);
    return kernel->assistant->worker;
}

static int
is_debugging(const hfi_request *request) {
    return strcmp(request->message.type, "debug_request") == 0;
}

/* Whether it has yet to answer a question that has a time limit. */
static int
is_asked(const hf_kernel *kernel) {
    return hfi_queue_first(&kernel->assistant->asked, HFI_REQUEST_QUESTION) != NULL;
}

static void
release_unused(hf_kernel *kernel) {
    if (kernel->assistant->worker == NULL || kernel->assistant->debugging ||
        kernel->assistant->asked.count > 0 || kernel->cell.request != NULL)
        return;
    hfi_worker_release(kernel->assistant->worker, 1000);
    kernel->assistant->worker = NULL;
}

static void
end_request(hf_kernel *kernel, hfi_request *request) {
    hfi_publish_idle(kernel, request);
    hfi_request_close(request);
}

static void
refuse_request(hf_kernel *kernel, hfi_request *request) {
    json_t *body = request->message.body;
    const char *command = json_string_value(json_object_get(body, "command"));
    json_int_t seq = (json_int_t)json_number_value(json_object_get(body, "seq"));
    json_t *content =
        json_pack("{s:s,s:b,s:s,s:I,s:s}", "type", "response", "success", 0, "command",
                  command != NULL ? command : "", "request_seq", seq, "message",
                  "the process that debugs is not there; start the debugger again");
    hfi_reply_json(kernel, request, content);
    json_decref(content);
    end_request(kernel, request);
}

static void
leave_to_main(hf_kernel *kernel, hfi_request *request) {
    request->begun = 1;
    hfi_queue_push(&kernel->queue, request);
}

void
hfi_assistant_died(hf_kernel *kernel) {
    hfi_request *request;
    kernel->assistant->worker = NULL;
    kernel->assistant->debugging = 0;
    while ((request = hfi_queue_pop(&kernel->assistant->asked)) != NULL) {
        if (is_debugging(request)) {
            refuse_request(kernel, request);
        } else {
            leave_to_main(kernel, request);
        }
    }
}

/* ---- questions ------------------------------------------------------------------ */

static void
ask_assistant(hf_kernel *kernel, hfi_worker *assistant, hfi_request *request) {
    hfi_queue_push(&kernel->assistant->asked, request);
    hfi_request_send(kernel, assistant, request);
}

/* Since when the main worker has been busy with something that may last; -1: it isn't.
 * The start of a process doesn't count, since the cell may be a short one. */
static long long
busy_since_ns(const hf_kernel *kernel) {
    const hfi_cell *cell = &kernel->cell;
    if (!hfi_cell_is_execution(cell))
        return -1;
    if (hfi_cell_waits_for_commit(cell))
        return cell->begin_ns;
    return hfi_workers_at_work(kernel) != NULL && cell->started_ns != 0
               ? cell->started_ns
               : -1;
}

long long
hfi_assistant_deadline_ns(const hf_kernel *kernel) {
    long long since_ns = busy_since_ns(kernel);
    const hfi_request *first = hfi_queue_first(&kernel->queue, HFI_REQUEST_QUESTION);
    if (since_ns < 0 || first == NULL)
        return -1;
    return (first->begin_ns > since_ns ? first->begin_ns : since_ns) + WAIT_NS;
}

static long long
patience_ns(void) {
    return hfi_limit_positive_ns("HOLDFAST_ANSWER_SECONDS", ANSWER_SECONDS);
}

void
hfi_assistant_tick(hf_kernel *kernel, long long now_ns) {
    long long due;
    while ((due = hfi_assistant_deadline_ns(kernel)) >= 0 && now_ns >= due) {
        hfi_request *request = hfi_queue_pop_kind(&kernel->queue, HFI_REQUEST_QUESTION);
        hfi_worker *assistant = find_assistant(kernel);
        hfi_publish_busy(kernel, request);
        if (assistant == NULL) {
            leave_to_main(kernel, request);
            continue;
        }
        ask_assistant(kernel, assistant, request);
        if (assistant->state == HFI_WORKER_READY)
            assistant->deadline_ns = now_ns + patience_ns();
    }
    release_unused(kernel);
}

void
hfi_assistant_ready(hf_kernel *kernel) {
    if (is_asked(kernel))
        kernel->assistant->worker->deadline_ns = hfi_clock_ns() + patience_ns();
}

void
hfi_assistant_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    hfi_request *request = hfi_queue_pop_id(&kernel->assistant->asked, reply->id);
    if (request == NULL)
        return;
    if (reply->main) {
        leave_to_main(kernel, request);
        return;
    }
    hfi_ends_reply(kernel, request, reply, reply->metadata);
    end_request(kernel, request);
    if (!is_asked(kernel))
        kernel->assistant->worker->deadline_ns = 0;
}

/* ---- the debugger --------------------------------------------------------------- */

void
hfi_assistant_debug(hf_kernel *kernel, hfi_request *request) {
    hfi_worker *assistant = find_assistant(kernel);
    if (assistant != NULL)
        ask_assistant(kernel, assistant, request);
    else
        refuse_request(kernel, request);
}

static void
hand_end(hfi_worker *worker, const char *target, int waits, int fd) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_control_send_consume(worker->control,
                                 HFI_FRAME(to_worker_debug, .head.fds = {fd},
                                           .target = hfi_part_text(target),
                                           .waits = waits != 0),
                                 &error) != HF_OK)
        hfi_log("debug: %s", error.message);
}

static void
connect_to(hf_kernel *kernel, hfi_worker *worker, const char *target, int waits) {
    int pair[2];
    hf_error error = HF_ERROR_INIT;
    if (worker == NULL || worker->control == NULL || kernel->assistant->worker == NULL)
        return;
    if (hfi_program_pair(pair, &error) != HF_OK) {
        hfi_log("debug: %s", error.message);
        return;
    }
    hand_end(kernel->assistant->worker, target, 0, pair[0]);
    hand_end(worker, target, waits, pair[1]);
}

void
hfi_assistant_connect(hf_kernel *kernel, hfi_worker *worker,
                      const hfi_from_assistant_debug *frame) {
    (void)worker;
    connect_to(kernel, hfi_workers_main(kernel), "main", frame->waits != 0);
}

void
hfi_assistant_debugging(hf_kernel *kernel, hfi_worker *worker,
                        const hfi_from_assistant_debugging *frame) {
    (void)worker;
    kernel->assistant->debugging = frame->active != 0;
}

void
hfi_assistant_attend(hf_kernel *kernel) {
    if (kernel->assistant->debugging)
        connect_to(kernel, hfi_workers_cell(kernel), "cell", 1);
}

hfi_worker *
hfi_assistant_worker(const hf_kernel *kernel) {
    return kernel->assistant->worker;
}
