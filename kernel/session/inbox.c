/* inbox.c - what the fork server and the workers send to the frontend.
 *
 * Which frame goes to which function stands in the table of the protocol
 * (workers/protocol.h). A frame that isn't in it, or not from this sender, breaks the
 * protocol.
 *
 * Order of a worker's output: that in which it was written, also between its channel
 * and its pipes (worker.c). Before a reply or a question to the user all of the pipes
 * is read. Streams that wait to be joined go out before any other frame of the same
 * worker is handled.
 *
 * A loop that prints sends a frame a line, and each would wake us, in the processor
 * that the loop needs: it took longer than the printing. Text is joined for 10 ms
 * anyway. So a worker that has sent nothing else for a number of reads is left alone
 * for a millisecond after each: what comes meanwhile is read at once, the end of the
 * cell at most that much later.
 *
 * A worker whose channel is at its end, or that breaks the protocol, is not read again:
 * it is removed when its exit is known or a second has passed, and killed then at the
 * latest. Not before: its status would name our signal instead of what it died of. A
 * death is not handled here, in the middle of its last frames, but in the next turn's
 * tick. Waiting for the exit in place was rejected, since the loop waits for nobody. One
 * thread.
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
#define BURST_NS    5000000LL /* between two reads of a burst */
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

/* The program that uses the library may be of another version than the worker's. */
static void
check_version(hf_kernel *kernel, int version) {
    if (version == HFI_CONTROL_VERSION)
        return;
    (void)hf_error_set(
        &kernel->failure, HF_E_PROTOCOL,
        "%s speaks version %d of the control protocol, and this program version %d",
        hfi_workers_program(kernel), version, HFI_CONTROL_VERSION);
    kernel->stopping = 1;
}

static void
on_server_ready(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    (void)worker;
    check_version(kernel, (int)hfi_map_integer(map, "version", 0));
    hfi_workers_server(kernel)->ready = 1;
    hfi_standby_know(kernel, hfi_map_get(map, "modules"));
    if (hfi_workers_main(kernel) != NULL &&
        hfi_workers_main(kernel)->state == HFI_WORKER_READY) { /* it outlived another */
        hfi_restart_ready(kernel);
        hfi_standby_begin(kernel, hfi_clock_ns());
    }
}

static void
on_forked(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    pid_t pid = (pid_t)hfi_map_integer(map, "pid", 0);
    worker = hfi_worker_awaiting(hfi_workers_server(kernel),
                                 role_of(hfi_map_part(map, "role")));
    if (worker == NULL || hfi_worker_named(hfi_workers_server(kernel), pid) != NULL)
        return;
    hfi_workers_forked(worker, pid);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_WORKER_FORKED, .worker = worker});
}

static void
on_exited(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    hfi_part io = hfi_map_part(map, "io");
    hfi_exit ended = {.pid = (pid_t)hfi_map_integer(map, "pid", 0),
                      .status = (int)hfi_map_integer(map, "status", 0),
                      .cpu_seconds = hfi_map_real(map, "cpu_seconds", 0)};
    (void)worker;
    if (io.size > 0 && io.size < sizeof ended.io)
        memcpy(ended.io, io.data, io.size);
    hfi_death_note_exit(kernel, &ended);
}

static void
on_imported(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    const msgpack_object *modules = hfi_map_get(map, "modules");
    (void)worker;
    if (modules != NULL && modules->type == MSGPACK_OBJECT_ARRAY &&
        modules->via.array.size > 0) {
        hfi_standby_imported(kernel, modules);
        hfi_standby_replace(kernel);
    }
}

/* ---- frames of workers ---------------------------------------------------------- */

static hfi_part
parent_of(const hf_kernel *kernel, const hfi_worker *worker,
          const msgpack_object *map) {
    hfi_part given = hfi_map_part(map, "parent");
    return given.size > 0 ? given : hfi_workers_parent(kernel, worker);
}

static void
on_message(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    char type[64];
    hfi_part name = hfi_map_part(map, "type");
    const msgpack_object *list = hfi_map_get(map, "buffers");
    size_t count =
        list != NULL && list->type == MSGPACK_OBJECT_ARRAY ? list->via.array.size : 0;
    hfi_part *buffers = calloc(count + 1, sizeof *buffers);
    if (buffers == NULL || name.size == 0 || name.size >= sizeof type) {
        hfi_log("dropped a message of a worker");
        free(buffers);
        return;
    }
    snprintf(type, sizeof type, "%.*s", (int)name.size, (const char *)name.data);
    for (size_t i = 0; i < count; i++)
        buffers[i] = hfi_object_part(&list->via.array.ptr[i]);
    hfi_outgoing message = {.type = type,
                            .parent = parent_of(kernel, worker, map),
                            .metadata = hfi_map_part(map, "metadata"),
                            .content = hfi_map_part(map, "content"),
                            .buffers = buffers,
                            .buffer_count = count};
    if (worker == hfi_workers_cell(kernel))
        hfi_comms_watch(kernel, type, message.content);
    if (hfi_part_equal(hfi_map_part(map, "channel"), hfi_part_text("iopub")))
        hfi_publish_outgoing(kernel, &message);
    else
        hfi_log("a worker's %s is for no channel of ours", type);
    free(buffers);
}

static void
on_input_request(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    hfi_part subshell = hfi_map_part(map, "subshell");
    hfi_textbuf content = {0};
    hfi_part prompt = hfi_map_part(map, "prompt");
    int hidden = hfi_map_flag(map, "password");
    (void)worker;
    hfi_dispatch_stdin(kernel); /* answers to nothing are dropped first */
    const hfi_request *asks =
        subshell.size > 0 ? hfi_subshell_asks(kernel, subshell) : kernel->cell.request;
    if (asks == NULL)
        return;
    hfi_textbuf_format(&content, "{\"prompt\":");
    hfi_textbuf_append_json(&content, prompt.data, prompt.size);
    hfi_textbuf_format(&content, ",\"password\":%s}", hidden ? "true" : "false");
    if (subshell.size == 0)
        hfi_cell_input(&kernel->cell, 1);
    hfi_send(kernel, HFI_STDIN, asks, "input_request", hfi_textbuf_part(&content));
    hfi_textbuf_fini(&content);
}

static void
on_ready(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    hfi_worker_note_ready(worker);
    worker->deadline_ns = 0;
    worker->pid = (pid_t)hfi_map_integer(map, "pid", worker->pid);
    if (worker == hfi_rollback_worker(kernel) && hfi_rollback_ready(kernel))
        hfi_death_settled(kernel, HFI_ROLLBACK_SUCCEEDS);
    if (worker == hfi_workers_main(kernel)) {
        hfi_restart_ready(kernel);
        hfi_standby_begin(kernel, hfi_clock_ns());
    }
    if (worker->role == HFI_CELL) /* perhaps in use already */
        hfi_standby_note_failure(kernel, 0);
    if (worker == hfi_assistant_worker(kernel))
        hfi_assistant_ready(kernel);
}

static void
on_stream(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    hfi_part name = hfi_map_part(map, "name");
    hfi_stream_add(
        &worker->stream,
        hfi_part_equal(name, hfi_part_text("stderr")) ? HFI_STDERR : HFI_STDOUT,
        parent_of(kernel, worker, map), hfi_map_part(map, "text"), hfi_clock_ns());
}

/* ---- dispatch ------------------------------------------------------------------- */

typedef enum sender {
#define PEER(name, text) SENDER_##name,
    HFI_PROTOCOL_PEERS(PEER)
#undef PEER
} sender;

/* A row of the table of the protocol. */
typedef struct incoming {
    const char *op;
    sender from;
    void (*handle)(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map);
} incoming;

static const incoming table[] = {
#define FRAME(sender, op, handler, fds, fields, text) {#op, SENDER_##sender, handler},
    HFI_FRAMES_IN(FRAME)
#undef FRAME
};

/* Whether this worker may send what the row says. */
static int
may_send(const hf_kernel *kernel, const hfi_worker *worker, sender from) {
    switch (from) {
    case SENDER_WORKER:
        return 1;
    case SENDER_MAIN:
        return worker == hfi_workers_main(kernel);
    case SENDER_CELL:
        return worker == hfi_workers_cell(kernel);
    case SENDER_ASSISTANT:
        return worker == hfi_assistant_worker(kernel);
    default:
        return 0;
    }
}

/* The row of a frame; `worker` NULL: of the fork server. NULL: it sends no such one. */
static const incoming *
row_of(const hf_kernel *kernel, const hfi_worker *worker, const msgpack_object *map) {
    hfi_part op = hfi_map_part(map, "op");
    for (const incoming *row = table; row < table + sizeof table / sizeof *table;
         row++) {
        int fits = worker == NULL ? row->from == SENDER_FORK_SERVER
                                  : may_send(kernel, worker, row->from);
        if (fits && hfi_part_equal(op, hfi_part_text(row->op)))
            return row;
    }
    return NULL;
}

static hf_status
refuse_frame(const msgpack_object *map, hf_error *reterr) {
    hfi_part op = hfi_map_part(map, "op");
    return hf_error_set(reterr, HF_E_PROTOCOL, "its op %.*s is unknown",
                        (int)(op.size < 60 ? op.size : 60),
                        op.size > 0 ? (const char *)op.data : "");
}

/* An unknown frame of the fork server is ignored: it forks all the same. */
static void
handle_server(hf_kernel *kernel, const msgpack_object *map) {
    hf_error error = HF_ERROR_INIT;
    const incoming *row = row_of(kernel, NULL, map);
    if (row != NULL)
        row->handle(kernel, NULL, map);
    else if (refuse_frame(map, &error) != HF_OK)
        hfi_log("fork server: %s", error.message);
}

void
hfi_inbox_read_fork_server(hf_kernel *kernel) {
    hfi_map map = {0};
    hf_error error = HF_ERROR_INIT;
    hf_status end = hfi_control_fill(hfi_workers_server(kernel)->control, &error);
    hf_status status;
    while ((status = hfi_control_next(hfi_workers_server(kernel)->control, &map,
                                      &error)) == HF_OK)
        handle_server(kernel, map.object);
    hfi_map_fini(&map);
    if (status != HF_AGAIN)
        hfi_log("fork server: %s", error.message);
    if (status != HF_AGAIN || end != HF_OK)
        hfi_death_of_fork_server(kernel);
}

/* Read the text that was written to the pipes before a frame was sent. */
static void
drain_before(hf_kernel *kernel, hfi_worker *worker, const incoming *row,
             const msgpack_object *map) {
    static const uint64_t all[2] = {UINT64_MAX, UINT64_MAX};
    const msgpack_object *raw = hfi_map_get(map, "raw");
    hfi_part parent = hfi_workers_parent(kernel, worker);
    uint64_t until[2];
    if (row->handle == hfi_execute_replied || row->handle == on_input_request) {
        hfi_worker_drain_to(worker, all, parent, hfi_clock_ns());
        return;
    }
    if (raw == NULL || raw->type != MSGPACK_OBJECT_ARRAY || raw->via.array.size != 2)
        return; /* nothing that wasn't read by then */
    for (int i = 0; i < 2; i++) {
        const msgpack_object *number = &raw->via.array.ptr[i];
        until[i] =
            number->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? number->via.u64 : 0;
    }
    hfi_worker_drain_to(worker, until, parent, hfi_clock_ns());
}

/* Handle what was read. HF_AGAIN in the end; `ret_only_text`: whether all was text. */
static hf_status
handle_frames(hf_kernel *kernel, hfi_worker *worker, int *ret_only_text,
              hf_error *reterr) {
    hfi_map map = {0};
    hf_status status = HF_AGAIN;
    size_t count = 0;
    int only_text = 1;
    /* A reply may release the worker: then what it said afterwards is not read. */
    while (worker->control != NULL &&
           (status = hfi_control_next(worker->control, &map, reterr)) == HF_OK) {
        const incoming *row = row_of(kernel, worker, map.object);
        if (row == NULL) {
            status = refuse_frame(map.object, reterr);
            break;
        }
        only_text &= row->handle == on_stream;
        count++;
        drain_before(kernel, worker, row, map.object);
        if (row->handle != on_stream)
            hfi_stream_flush(&worker->stream);
        row->handle(kernel, worker, map.object);
    }
    hfi_map_fini(&map);
    *ret_only_text = only_text && count > 0;
    return status;
}

void
hfi_inbox_read(hf_kernel *kernel, hfi_worker *worker) {
    hf_error error = HF_ERROR_INIT;
    long long now_ns = hfi_clock_ns();
    int only_text = 0;
    uint64_t written[2];
    if (hfi_handover_holds(kernel, worker))
        return;
    if (!hfi_worker_is_heard(worker)) {
        hfi_workers_drain(kernel, worker);
        return;
    }
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
hfi_inbox_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind != HFI_EVENT_WORKER_LOOKED_AT)
        return;
    if (event->worker != NULL)
        hfi_inbox_read(kernel, event->worker);
    else if (hfi_workers_server(kernel)->control != NULL)
        hfi_inbox_read_fork_server(kernel);
}
