/* inbox.c - what the fork server and the workers send to the frontend.
 *
 * The table of the protocol (workers/protocol.h) says which function handles which
 * frame. A frame that isn't in it, or that this sender may not send, breaks the
 * protocol.
 *
 * Output of a worker is published in the order in which it was written, also between
 * its channel and its pipes (worker.c). Before a reply or a question to the user the
 * pipes are read to their end. Streams that wait to be joined are sent before any other
 * frame of the same worker is handled.
 *
 * A loop that prints sends one frame for each line. Each frame would wake us, on a
 * processor that the loop needs: this took longer than the printing. Text is joined for
 * 10 ms anyway. So after a number of reads that brought nothing but text, a worker is
 * left alone for CALM_NS after each read. What comes meanwhile is read at once then,
 * and the end of the cell comes later by that much at most.
 *
 * A worker whose channel is at its end, or that breaks the protocol, isn't read again.
 * It is removed when its exit is known, or killed after a second. We don't kill it
 * earlier, because its status would then name our signal instead of what it died of.
 * Its death is handled in the next turn's tick, not here in the middle of its last
 * frames. Rejected: wait here for the exit. The loop must wait for nobody. One thread.
 */
#include "session/incoming.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/beside.h"
#include "session/commits.h"
#include "session/workers.h"
#include "session/death.h"
#include "session/request.h"
#include "session/escalate.h"
#include "session/handover.h"
#include "session/listeners.h"
#include "session/publish.h"
#include "session/restart.h"
#include "session/rollback.h"
#include "workers/program.h"
#include "workers/protocol.h"

#define BURST_READS 8
#define BURST_NS    5000000LL /* longest time between two reads of a burst */
#define CALM_NS     1000000LL

/* ---- frames of the fork server --------------------------------------------------- */

static hfi_role
role_of(hfi_part name) {
    hfi_role role = HFI_MAIN;
    while (role != HFI_ASSISTANT &&
           !hfi_part_equal(name, hfi_part_text(hfi_role_name(role))))
        role++;
    return role;
}

/* Check the version: a program that uses the library may bring a worker of another
 * version. */
static void
check_version(hf_kernel *kernel, int64_t version) {
    if (version == HFI_CONTROL_VERSION)
        return;
    (void)hf_error_set(
        &kernel->failure, HF_E_PROTOCOL,
        "%s speaks version %lld of the control protocol, and this program version %d",
        hfi_workers_program(kernel), (long long)version, HFI_CONTROL_VERSION);
    kernel->stopping = 1;
}

static void
on_server_ready(hf_kernel *kernel, hfi_worker *worker,
                const hfi_from_fork_server_ready *frame) {
    (void)worker;
    check_version(kernel, frame->version);
    hfi_workers_server(kernel)->ready = 1;
    hfi_workers_server(kernel)->has_history = frame->history;
    hfi_standby_know(kernel, frame->modules);
    if (hfi_workers_main(kernel) != NULL &&
        /* it outlived another fork server */
        hfi_workers_main(kernel)->state == HFI_WORKER_READY) {
        hfi_restart_ready(kernel);
        hfi_standby_begin(kernel, hfi_clock_ns());
    }
}

static void
on_forked(hf_kernel *kernel, hfi_worker *worker,
          const hfi_from_fork_server_forked *frame) {
    pid_t pid = (pid_t)frame->pid;
    worker = hfi_worker_awaiting(hfi_workers_server(kernel), role_of(frame->role));
    if (worker == NULL || hfi_worker_named(hfi_workers_server(kernel), pid) != NULL)
        return;
    if (pid <= 0) {
        hfi_worker_note_fork_failed(worker, frame->error);
        return;
    }
    hfi_workers_forked(worker, pid);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_WORKER_FORKED, .worker = worker});
}

static void
on_exited(hf_kernel *kernel, hfi_worker *worker,
          const hfi_from_fork_server_exited *frame) {
    hfi_exit ended = {.pid = (pid_t)frame->pid,
                      .status = (int)frame->status,
                      .cpu_seconds = frame->cpu_seconds};
    (void)worker;
    if (frame->io.size < sizeof ended.io)
        memcpy(ended.io, frame->io.data, frame->io.size);
    hfi_death_note_exit(kernel, &ended);
}

static void
on_imported(hf_kernel *kernel, hfi_worker *worker,
            const hfi_from_fork_server_imported *frame) {
    (void)worker;
    if (frame->modules.count > 0) {
        hfi_standby_imported(kernel, frame->modules);
        hfi_standby_replace(kernel);
    }
}

/* ---- frames of workers ---------------------------------------------------------- */

static hfi_part
parent_of(const hf_kernel *kernel, const hfi_worker *worker, hfi_part given) {
    return given.size > 0 ? given : hfi_workers_parent(kernel, worker);
}

static void
on_message(hf_kernel *kernel, hfi_worker *worker,
           const hfi_from_worker_message *frame) {
    char type[64];
    if (frame->type.size == 0 || frame->type.size >= sizeof type) {
        hfi_log("dropped a message of a worker");
        return;
    }
    snprintf(type, sizeof type, "%.*s", (int)frame->type.size, frame->type.data);
    hfi_outgoing message = {.type = type,
                            .parent = parent_of(kernel, worker, frame->parent),
                            .metadata = frame->metadata,
                            .content = frame->content,
                            .buffers = frame->buffers.items,
                            .buffer_count = frame->buffers.count};
    if (worker == hfi_workers_cell(kernel))
        hfi_comms_watch(kernel, type, message.content);
    if (hfi_part_is(frame->channel, "iopub"))
        hfi_publish_outgoing(kernel, &message);
    else
        hfi_log("a worker's %s is for no channel of ours", type);
}

static void
on_input_request(hf_kernel *kernel, hfi_worker *worker,
                 const hfi_from_worker_input_request *frame) {
    hfi_textbuf content = {0};
    int is_aside = frame->subshell.size > 0;
    (void)worker;
    hfi_dispatch_stdin(kernel); /* first drop input that nobody waits for */
    const hfi_request *asks =
        is_aside ? hfi_subshell_asks(kernel, frame->subshell) : kernel->cell.request;
    if (asks == NULL)
        return;
    hfi_textbuf_format(&content, "{\"prompt\":");
    hfi_textbuf_append_json(&content, frame->prompt.data, frame->prompt.size);
    hfi_textbuf_format(&content, ",\"password\":%s}",
                       frame->password ? "true" : "false");
    if (!is_aside)
        hfi_cell_input(&kernel->cell, 1);
    hfi_send(kernel, HFI_STDIN, asks, "input_request", hfi_textbuf_part(&content));
    hfi_textbuf_fini(&content);
}

static void
on_ready(hf_kernel *kernel, hfi_worker *worker, const hfi_from_worker_ready *frame) {
    hfi_worker_note_ready(worker);
    worker->deadline_ns = 0;
    worker->pid = (pid_t)frame->pid;
    if (worker == hfi_rollback_worker(kernel) && hfi_rollback_ready(kernel))
        hfi_death_settled(kernel, HFI_ROLLBACK_SUCCEEDS);
    if (worker == hfi_workers_main(kernel)) {
        hfi_restart_ready(kernel);
        hfi_standby_begin(kernel, hfi_clock_ns());
    }
    if (worker->role == HFI_CELL) /* it may be in use already */
        hfi_standby_note_failure(kernel, 0);
    if (worker == hfi_assistant_worker(kernel))
        hfi_assistant_ready(kernel);
}

static void
on_stream(hf_kernel *kernel, hfi_worker *worker, const hfi_from_worker_stream *frame) {
    hfi_stream_add(
        &worker->stream, hfi_part_is(frame->name, "stderr") ? HFI_STDERR : HFI_STDOUT,
        parent_of(kernel, worker, frame->parent), frame->text, hfi_clock_ns());
}

/* ---- dispatch ------------------------------------------------------------------- */

typedef enum sender {
#define PEER(name, text) SENDER_##name,
    HFI_PROTOCOL_PEERS(PEER)
#undef PEER
} sender;

/* Whether it may send the row's frame; `worker` NULL: the fork server. */
static int
may_send(const hf_kernel *kernel, const hfi_worker *worker, sender from) {
    if (worker == NULL)
        return from == SENDER_fork_server;
    switch (from) {
    case SENDER_worker:
        return 1;
    case SENDER_main:
        return worker == hfi_workers_main(kernel);
    case SENDER_cell:
        return worker == hfi_workers_cell(kernel);
    case SENDER_assistant:
        return worker == hfi_assistant_worker(kernel);
    default:
        return 0;
    }
}

/* The row of a frame; NULL: it may not send such a frame. */
static const hfi_row *
row_of(const hf_kernel *kernel, const hfi_worker *worker, hfi_part name) {
#define FRAME(way, sender, op, handler, fds, fields, text)                             \
    if (may_send(kernel, worker, SENDER_##sender) && hfi_part_is(name, #op))           \
        return &hfi_row_from_##sender##_##op;
    HFI_FRAMES_IN(FRAME, HFI_NOTHING, HFI_NOTHING)
#undef FRAME
    return NULL;
}

static void
handle_frame(hf_kernel *kernel, hfi_worker *worker, const hfi_any_frame *frame) {
#define FRAME(way, sender, op, handler, fds, fields, text)                             \
    if (frame->head.row == &hfi_row_from_##sender##_##op)                              \
        handler(kernel, worker, &frame->from_##sender##_##op);
    HFI_FRAMES_IN(FRAME, HFI_NOTHING, HFI_NOTHING)
#undef FRAME
}

/* HF_E_PROTOCOL if the frame doesn't match its row; HF_E_NOMEM. */
static hf_status
read_frame(const hf_kernel *kernel, const hfi_worker *worker, hfi_control *control,
           const hfi_received *received, hfi_any_frame *ret_frame, hf_error *reterr) {
    hfi_part op = hfi_received_op(received);
    const hfi_row *row = row_of(kernel, worker, op);
    if (row != NULL)
        return hfi_control_read(control, received, row, &ret_frame->head, reterr);
    return hf_error_set(reterr, HF_E_PROTOCOL, "its op %.*s is unknown",
                        (int)(op.size < 60 ? op.size : 60), op.data);
}

/* A wrong frame is ignored: the fork server can fork nevertheless. */
void
hfi_inbox_read_fork_server(hf_kernel *kernel) {
    const hfi_fork_server *server = hfi_workers_server(kernel);
    hfi_received received = {0};
    hfi_any_frame frame;
    hf_error error = HF_ERROR_INIT;
    hf_status end = hfi_control_fill(server->control, &error);
    hf_status status;
    while ((status = hfi_control_next(server->control, &received, &error)) == HF_OK)
        if (read_frame(kernel, NULL, server->control, &received, &frame, &error) ==
            HF_OK)
            handle_frame(kernel, NULL, &frame);
        else
            hfi_log("fork server: %s", error.message);
    hfi_received_fini(&received);
    if (status != HF_AGAIN)
        hfi_log("fork server: %s", error.message);
    if (status != HF_AGAIN || end != HF_OK)
        hfi_death_of_fork_server(kernel);
}

/* Before a frame is handled, read the text that was written to the pipes before it. */
static void
drain_before(hf_kernel *kernel, hfi_worker *worker, const hfi_any_frame *frame) {
    static const uint64_t all[2] = {UINT64_MAX, UINT64_MAX};
    const hfi_row *row = frame->head.row;
    hfi_ints raw = frame->head.raw;
    hfi_part parent = hfi_workers_parent(kernel, worker);
    if (row == &hfi_row_from_worker_reply || row == &hfi_row_from_worker_input_request)
        hfi_worker_drain_to(worker, all, parent, hfi_clock_ns());
    else if (raw.count == 2) /* else all that was written before it has been read */
        hfi_worker_drain_to(
            worker, (const uint64_t[]){(uint64_t)raw.items[0], (uint64_t)raw.items[1]},
            parent, hfi_clock_ns());
}

/* Handle what was read. Returns HF_AGAIN at the end; `ret_only_text`: whether all was
 * text. */
static hf_status
handle_frames(hf_kernel *kernel, hfi_worker *worker, int *ret_only_text,
              hf_error *reterr) {
    hfi_received received = {0};
    hfi_any_frame frame;
    hf_status status = HF_AGAIN;
    size_t count = 0;
    int only_text = 1;
    /* A reply may release the worker. Then the frames after it aren't read. */
    while (worker->control != NULL &&
           (status = hfi_control_next(worker->control, &received, reterr)) == HF_OK) {
        status = read_frame(kernel, worker, worker->control, &received, &frame, reterr);
        if (status != HF_OK)
            break;
        int is_text = frame.head.row == &hfi_row_from_worker_stream;
        only_text &= is_text;
        count++;
        drain_before(kernel, worker, &frame);
        if (!is_text)
            hfi_stream_flush(&worker->stream);
        handle_frame(kernel, worker, &frame);
    }
    hfi_received_fini(&received);
    *ret_only_text = only_text && count > 0;
    return status;
}

void
hfi_inbox_read_polled(hf_kernel *kernel, hfi_worker *worker, int has_printed) {
    hf_error error = HF_ERROR_INIT;
    long long now_ns = hfi_clock_ns();
    int only_text = 0;
    uint64_t written[2] = {0, 0};
    if (hfi_handover_holds(kernel, worker))
        return;
    if (!hfi_worker_is_heard(worker)) {
        hfi_workers_drain(kernel, worker);
        return;
    }
    if (has_printed) /* else what comes meanwhile is there in the next turn, too */
        hfi_worker_written(worker, written);
    hf_status end = hfi_control_fill(worker->control, &error);
    hf_status status = handle_frames(kernel, worker, &only_text, &error);
    if (worker->control == NULL)
        return;
    hfi_worker_drain_to(worker, written, hfi_workers_parent(kernel, worker), now_ns);
    worker->texts = !only_text                            ? 0
                    : now_ns - worker->text_ns < BURST_NS ? worker->texts + 1
                                                          : 1;
    worker->text_ns = now_ns;
    worker->calm_ns = worker->texts >= BURST_READS ? now_ns + CALM_NS : 0;
    if (status != HF_AGAIN && status != HF_OK)
        hfi_log("a worker broke the protocol: %s", error.message);
    if ((status != HF_AGAIN && status != HF_OK) || end != HF_OK)
        hfi_worker_note_silence(worker, HFI_DEATH_WAIT_NS);
}

void
hfi_inbox_read(hf_kernel *kernel, hfi_worker *worker) {
    hfi_inbox_read_polled(kernel, worker, 1);
}

void
hfi_inbox_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind != HFI_EVENT_WORKER_LOOKED_AT)
        return;
    if (event->worker != NULL)
        hfi_inbox_read(kernel, event->worker);
    else if (hfi_workers_server(kernel)->control != NULL)
        hfi_inbox_read_fork_server(kernel);
}
