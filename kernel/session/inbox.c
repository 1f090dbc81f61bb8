/* inbox.c - what the template and the workers tell the frontend.
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
 * A worker whose channel is at its end, or who breaks the protocol, is not read again:
 * it is buried when the template reports its exit or a second has passed, and killed
 * then at the latest. Not before: the report would tell of our signal instead of what
 * it died of. A death is not handled here, in the middle of its last frames, but in the
 * next turn's tick. Waiting for the report in place was rejected, since the loop waits
 * for nobody. One thread.
 */
#include "session/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/program.h"

#define BURST_READS 8
#define BURST_NS    5000000LL /* between two reads of a burst */
#define CALM_NS     1000000LL

/* ---- frames of the template ----------------------------------------------------- */

static hfi_role
role_of(hfi_part name) {
    hfi_role role = HFI_HOME;
    while (role != HFI_ASSISTANT &&
           !hfi_part_equal(name, hfi_part_text(hfi_role_name(role))))
        role++;
    return role;
}

/* A kernelspec may name this program and a Python whose package is another version's.
 */
static void
check_version(hf_kernel *kernel, int version) {
    if (version == HFI_CONTROL_VERSION)
        return;
    (void)hf_error_set(
        &kernel->failure, HF_E_PROTOCOL,
        "the package holdfast of %s is another version's than this program (%d, not "
        "%d): python -m holdfast.install, with that Python, makes a kernel that fits",
        kernel->argv[0], version, HFI_CONTROL_VERSION);
    kernel->stopping = 1;
}

static void
handle_template(hf_kernel *kernel, const msgpack_object *map) {
    hfi_part op = hfi_map_part(map, "op");
    pid_t pid = (pid_t)hfi_map_integer(map, "pid", 0);
    hfi_worker *worker;
    if (hfi_part_equal(op, hfi_part_text("ready"))) {
        check_version(kernel, (int)hfi_map_integer(map, "version", 0));
        kernel->template.ready = 1;
        hfi_standby_know(kernel, hfi_map_get(map, "modules"));
    } else if (hfi_part_equal(op, hfi_part_text("forked"))) {
        hfi_part role = hfi_map_part(map, "role");
        worker = hfi_worker_awaiting(&kernel->template, role_of(role));
        if (worker != NULL && hfi_worker_named(&kernel->template, pid) == NULL) {
            hfi_crew_forked(worker, pid);
            hfi_observe_forked(kernel, worker);
        }
    } else if (hfi_part_equal(op, hfi_part_text("exited"))) {
        worker = hfi_worker_named(&kernel->template, pid);
        hfi_observe_exited(kernel, pid, map);
        if (worker != NULL) {
            worker->status = (int)hfi_map_integer(map, "status", 0);
            if (worker->owned)
                hfi_inbox_read(kernel, worker); /* what it said before */
            worker->exited = 1;
        }
    } else if (hfi_part_equal(op, hfi_part_text("imported"))) {
        const msgpack_object *modules = hfi_map_get(map, "modules");
        if (modules != NULL && modules->type == MSGPACK_OBJECT_ARRAY &&
            modules->via.array.size > 0)
            hfi_standby_replace(kernel);
    } else {
        hfi_log("template: unknown op %.*s", (int)op.size, (const char *)op.data);
    }
}

void
hfi_inbox_read_template(hf_kernel *kernel) {
    hfi_map map = {0};
    hf_error error = HF_ERROR_INIT;
    hf_status end = hfi_control_fill(kernel->template.control, &error);
    hf_status status;
    while ((status = hfi_control_next(kernel->template.control, &map, &error)) == HF_OK)
        handle_template(kernel, map.object);
    hfi_map_fini(&map);
    if (status != HF_AGAIN)
        hfi_log("template: %s", error.message);
    if (status != HF_AGAIN || end != HF_OK)
        hfi_death_of_template(kernel);
}

/* ---- frames of workers ---------------------------------------------------------- */

static void
silence(hfi_worker *worker, long long now_ns) {
    worker->silent = 1;
    worker->deadline_ns = now_ns + HFI_DEATH_WAIT_NS;
}

static hfi_part
parent_of(const hf_kernel *kernel, const hfi_worker *worker,
          const msgpack_object *map) {
    hfi_part given = hfi_map_part(map, "parent");
    return given.size > 0 ? given : hfi_crew_parent(kernel, worker);
}

/* Comms that a cell worker opens are its own while it lives. */
static void
watch_comms(hf_kernel *kernel, const char *type, hfi_part content) {
    if (strncmp(type, "comm_", 5) != 0)
        return;
    json_t *body = json_loadb(content.data, content.size, JSON_ALLOW_NUL, NULL);
    const char *id = json_string_value(json_object_get(body, "comm_id"));
    if (id != NULL && strcmp(type, "comm_open") == 0)
        (void)json_object_set_new(kernel->cell_comms, id, json_true());
    else if (id != NULL && strcmp(type, "comm_close") == 0)
        (void)json_object_del(kernel->cell_comms, id);
    json_decref(body);
}

static void
handle_message(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
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
    if (worker == kernel->cell_worker)
        watch_comms(kernel, type, message.content);
    if (hfi_part_equal(hfi_map_part(map, "channel"), hfi_part_text("iopub")))
        hfi_publish_outgoing(kernel, &message);
    else
        hfi_log("a worker's %s is for no channel of ours", type);
    free(buffers);
}

static void
handle_input(hf_kernel *kernel, const msgpack_object *map) {
    hfi_part subshell = hfi_map_part(map, "subshell");
    hfi_textbuf content = {0};
    hfi_part prompt = hfi_map_part(map, "prompt");
    int hidden = hfi_map_flag(map, "password");
    hfi_dispatch_stdin(kernel); /* answers to nothing are dropped first */
    const hfi_request *asks =
        subshell.size > 0 ? hfi_subshell_asks(kernel, subshell) : kernel->cell.request;
    if (asks == NULL)
        return;
    hfi_textbuf_format(&content, "{\"prompt\":");
    hfi_textbuf_append_json(&content, prompt.data, prompt.size);
    hfi_textbuf_format(&content, ",\"password\":%s}", hidden ? "true" : "false");
    kernel->cell.input_wanted |= subshell.size == 0;
    hfi_send(kernel, HFI_STDIN, asks, "input_request", hfi_textbuf_part(&content));
    hfi_textbuf_fini(&content);
}

static void
handle_ready(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    worker->ready = 1;
    worker->deadline_ns = 0;
    worker->pid = (pid_t)hfi_map_integer(map, "pid", worker->pid);
    if (worker == kernel->rollback.worker)
        hfi_rollback_ready(kernel);
    if (worker == kernel->home) {
        hfi_restart_ready(kernel);
        hfi_standby_begin(kernel, hfi_clock_ns());
    }
    if (worker->role == HFI_CELL) /* perhaps in use already */
        kernel->standby_failures = 0;
    if (worker == kernel->assistant)
        hfi_assistant_ready(kernel);
}

/* 0 where the worker broke the protocol. */
static int
handle_worker(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    hfi_part op = hfi_map_part(map, "op");
    if (hfi_part_equal(op, hfi_part_text("stream"))) {
        hfi_part name = hfi_map_part(map, "name");
        hfi_stream_add(
            &worker->stream,
            hfi_part_equal(name, hfi_part_text("stderr")) ? HFI_STDERR : HFI_STDOUT,
            parent_of(kernel, worker, map), hfi_map_part(map, "text"), hfi_clock_ns());
        return 1;
    }
    hfi_stream_flush(&worker->stream);
    if (hfi_part_equal(op, hfi_part_text("message"))) {
        handle_message(kernel, worker, map);
    } else if (hfi_part_equal(op, hfi_part_text("reply"))) {
        hfi_execute_replied(kernel, worker, map);
    } else if (hfi_part_equal(op, hfi_part_text("input_request"))) {
        handle_input(kernel, map);
    } else if (hfi_part_equal(op, hfi_part_text("ready"))) {
        handle_ready(kernel, worker, map);
    } else if (hfi_part_equal(op, hfi_part_text("settled")) && worker == kernel->home) {
        hfi_handover_settled(kernel, hfi_map_integer(map, "generation", 0));
    } else if (hfi_part_equal(op, hfi_part_text("debug")) &&
               worker == kernel->assistant) {
        hfi_assistant_connect(kernel, (int)hfi_map_integer(map, "waits", 0));
    } else if (hfi_part_equal(op, hfi_part_text("debugging")) &&
               worker == kernel->assistant) {
        kernel->debugging = (int)hfi_map_integer(map, "active", 0);
    } else if (hfi_part_equal(op, hfi_part_text("protected")) &&
               worker == kernel->home) {
        hfi_rollback_made(kernel, map);
    } else if (hfi_part_equal(op, hfi_part_text("forked")) && worker == kernel->home) {
        hfi_road_forked(kernel, map);
    } else if (hfi_part_equal(op, hfi_part_text("declined")) &&
               worker == kernel->cell_worker) {
        hfi_road_declined(kernel, hfi_map_part(map, "reason"));
    } else if (hfi_part_equal(op, hfi_part_text("owes")) && worker == kernel->home) {
        kernel->owing = 1;
    } else if (hfi_part_equal(op, hfi_part_text("importing"))) {
        hfi_standby_import(kernel, hfi_map_get(map, "modules"));
    } else if (hfi_part_equal(op, hfi_part_text("started"))) {
        hfi_execute_started(kernel, worker, map);
    } else if (hfi_part_equal(op, hfi_part_text("began"))) {
        hfi_observe_told(kernel, map);
    } else if (hfi_part_equal(op, hfi_part_text("ended"))) {
        hfi_execute_ended(kernel, map);
    } else if (hfi_part_equal(op, hfi_part_text("monitor"))) {
        hfi_observe_asked(kernel, worker, map);
    } else if (hfi_part_equal(op, hfi_part_text("interrupted"))) {
        hfi_escalate_taken(kernel, worker, hfi_map_integer(map, "id", 0));
    } else if (hfi_part_equal(op, hfi_part_text("want_handle"))) {
        hfi_handles_want(kernel, worker, map);
    } else if (hfi_part_equal(op, hfi_part_text("handle"))) {
        hfi_handles_take(kernel, worker, map);
    } else if (hfi_part_equal(op, hfi_part_text("perfreports"))) {
        hfi_perfreport_configure(kernel, map);
    } else {
        hfi_log("a worker's op %.*s is unknown", (int)op.size, (const char *)op.data);
        return 0;
    }
    return 1;
}

static int
is_text(const msgpack_object *map) {
    return hfi_part_equal(hfi_map_part(map, "op"), hfi_part_text("stream"));
}

void
hfi_inbox_drain(hf_kernel *kernel, hfi_worker *worker) {
    hfi_worker_drain(worker, hfi_crew_parent(kernel, worker), hfi_clock_ns());
}

static int
ends_output(const msgpack_object *map) {
    hfi_part op = hfi_map_part(map, "op");
    return hfi_part_equal(op, hfi_part_text("reply")) ||
           hfi_part_equal(op, hfi_part_text("input_request"));
}

/* What was written to the pipes before a frame was sent. */
static void
drain_before(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    static const uint64_t all[2] = {UINT64_MAX, UINT64_MAX};
    const msgpack_object *raw = hfi_map_get(map, "raw");
    hfi_part parent = hfi_crew_parent(kernel, worker);
    uint64_t until[2];
    if (ends_output(map)) {
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
        only_text &= is_text(map.object);
        count++;
        drain_before(kernel, worker, map.object);
        if (!handle_worker(kernel, worker, map.object)) {
            status = HF_E_PROTOCOL;
            break;
        }
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
    if (worker->control == NULL || worker->silent) {
        hfi_inbox_drain(kernel, worker);
        return;
    }
    hfi_worker_written(worker, written);
    hf_status end = hfi_control_fill(worker->control, &error);
    hf_status status = handle_frames(kernel, worker, &only_text, &error);
    if (worker->control == NULL)
        return;
    hfi_worker_drain_to(worker, written, hfi_crew_parent(kernel, worker), now_ns);
    worker->texts = !only_text                            ? 0
                    : now_ns - worker->text_ns < BURST_NS ? worker->texts + 1
                                                          : 1;
    worker->text_ns = now_ns;
    worker->calm_ns = worker->texts >= BURST_READS ? now_ns + CALM_NS : 0;
    if (status != HF_AGAIN && status != HF_OK)
        hfi_log("a worker broke the protocol: %s", error.message);
    if ((status != HF_AGAIN && status != HF_OK) || end != HF_OK)
        silence(worker, hfi_clock_ns());
}
