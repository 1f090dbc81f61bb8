/* crew.c - the processes of a session: template, home, standby, cell.
 *
 * One standby waits at all times, forked from the template. It is replaced when the
 * template has imported what the notebook imported since, so that a cell never pays for
 * an import twice.
 *
 * A worker is dead when the template reported its exit, or when its channel is at its
 * end and a second has passed without that report. Then: a dead cell costs its cell, a
 * dead home costs what was not committed, a dead standby costs nothing, a dead template
 * costs all of them. Each is started again, but not more than three times in a row
 * without one that got ready: then a new home is given up and the kernel ends, which
 * the client sees.
 *
 * Order of a worker's output: its channel is read into memory first, then its pipes are
 * drained, then the frames are handled. What C code printed before a frame was sent is
 * in the pipe by then. One thread.
 */
#include "session/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "workers/program.h"

#define DEATH_WAIT_NS 1000000000LL
#define STARTS_MAX    3

/* ---- starting ------------------------------------------------------------------- */

hfi_part
hfi_crew_parent(const hf_kernel *kernel, const hfi_worker *worker) {
    int runs = (worker == kernel->home && kernel->phase == HFI_PHASE_HOME) ||
               (worker == kernel->cell && kernel->phase == HFI_PHASE_CELL);
    if (runs && kernel->running != NULL)
        return kernel->running->message.header;
    return hfi_textbuf_part(&kernel->last_parent);
}

static void
publish_text(void *context, int name, hfi_part parent, hfi_part text) {
    hfi_publish_stream(context, name, parent, text);
}

static hf_status
start_worker(hf_kernel *kernel, hfi_role role, hfi_worker **ret_worker,
             hf_error *reterr) {
    hf_status status = hfi_worker_fork(&kernel->template, role, ret_worker, reterr);
    if (status == HF_OK) {
        (*ret_worker)->stream.publish = publish_text;
        (*ret_worker)->stream.context = kernel;
    }
    return status;
}

void
hfi_crew_replenish(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    if (kernel->standby != NULL || kernel->stopping ||
        kernel->standby_starts >= STARTS_MAX)
        return;
    kernel->standby_starts++;
    if (start_worker(kernel, HFI_CELL, &kernel->standby, &error) != HF_OK)
        hfi_log("standby: %s", error.message);
}

hf_status
hfi_crew_start(hf_kernel *kernel, hf_error *reterr) {
    hf_status status = HF_OK;
    if (++kernel->starts > STARTS_MAX)
        return hf_error_set(reterr, HF_E_GONE,
                            "the worker program ended %d times before it was ready",
                            STARTS_MAX);
    if (kernel->template.control == NULL) {
        status =
            hfi_template_start(&kernel->template, (const char *const *)kernel->argv,
                               hf_session_fd(kernel->store), reterr);
        json_object_clear(kernel->modules);
    }
    if (status == HF_OK && kernel->home == NULL)
        status = start_worker(kernel, HFI_HOME, &kernel->home, reterr);
    if (status == HF_OK)
        hfi_crew_replenish(kernel);
    return status;
}

void
hfi_crew_end(hf_kernel *kernel) {
    const struct timespec pause = {0, 2000000};
    long long deadline = hfi_clock_ns() + DEATH_WAIT_NS;
    hfi_frame frame;
    if (kernel->home != NULL && kernel->phase == HFI_PHASE_NONE) {
        hfi_frame_init(&frame, "exit", 0);
        hfi_crew_tell_home(kernel, &frame);
        while (!kernel->home->silent && hfi_clock_ns() < deadline &&
               hfi_control_fill(kernel->home->control, NULL) == HF_OK)
            nanosleep(&pause, NULL);
    }
    kernel->home = kernel->standby = kernel->cell = NULL;
    for (hfi_worker *at = kernel->template.workers; at != NULL; at = at->next)
        hfi_worker_kill(at, SIGKILL);
    hfi_template_end(&kernel->template, 1000);
}

void
hfi_crew_tell_home(hf_kernel *kernel, hfi_frame *frame) {
    hf_error error = HF_ERROR_INIT;
    if (kernel->home == NULL || kernel->home->control == NULL)
        hfi_frame_fini(frame);
    else if (hfi_control_send_consume(kernel->home->control, frame, NULL, 0, &error) !=
             HF_OK)
        hfi_log("home: %s", error.message);
}

void
hfi_crew_adopt(hf_kernel *kernel, const msgpack_object *report) {
    hfi_frame frame;
    const hfi_request *request = kernel->running;
    json_t *code =
        request != NULL ? json_object_get(request->message.body, "code") : NULL;
    hfi_frame_init(&frame, "adopt", report != NULL ? 5 : 4);
    hfi_frame_add_integer(&frame, "generation",
                          (int64_t)hf_session_generation(kernel->store));
    hfi_frame_add_integer(&frame, "execution_count",
                          request != NULL ? kernel->execution.number : kernel->count);
    hfi_frame_add_text(
        &frame, "code",
        code != NULL ? hfi_part_of(json_string_value(code), json_string_length(code))
                     : hfi_part_text(""));
    hfi_frame_add_flag(&frame, "store_history",
                       request != NULL && kernel->execution.store_history);
    if (report != NULL)
        hfi_frame_put_object(&frame, "report", report);
    hfi_crew_tell_home(kernel, &frame);
}

/* ---- modules -------------------------------------------------------------------- */

void
hfi_crew_import(hf_kernel *kernel, const msgpack_object *modules) {
    hfi_part *fresh;
    size_t count = 0;
    hf_error error = HF_ERROR_INIT;
    if (modules == NULL || modules->type != MSGPACK_OBJECT_ARRAY ||
        !kernel->template.ready)
        return;
    fresh = calloc(modules->via.array.size + 1u, sizeof *fresh);
    for (uint32_t i = 0; fresh != NULL && i < modules->via.array.size; i++) {
        hfi_part name = hfi_object_part(&modules->via.array.ptr[i]);
        char *key = name.size > 0 ? strndup(name.data, name.size) : NULL;
        if (key != NULL && json_object_get(kernel->modules, key) == NULL &&
            json_object_set_new(kernel->modules, key, json_true()) == 0)
            fresh[count++] = name;
        free(key);
    }
    if (count > 0 &&
        hfi_template_import(&kernel->template, fresh, count, &error) != HF_OK)
        hfi_log("import: %s", error.message);
    free(fresh);
}

static void
know_modules(hf_kernel *kernel, const msgpack_object *modules) {
    if (modules == NULL || modules->type != MSGPACK_OBJECT_ARRAY)
        return;
    for (uint32_t i = 0; i < modules->via.array.size; i++) {
        hfi_part name = hfi_object_part(&modules->via.array.ptr[i]);
        char *key = name.size > 0 ? strndup(name.data, name.size) : NULL;
        if (key != NULL)
            (void)json_object_set_new(kernel->modules, key, json_true());
        free(key);
    }
}

static void
replace_standby(hf_kernel *kernel) {
    if (kernel->standby != NULL) {
        hfi_worker_release(kernel->standby, 1000);
        kernel->standby = NULL;
    }
    kernel->standby_starts = 0;
    hfi_crew_replenish(kernel);
}

/* ---- deaths --------------------------------------------------------------------- */

static void
write_home_loss(const hf_kernel *kernel, const char *epitaph, hfi_textbuf *text) {
    const char *name;
    json_t *reason;
    int first = 1;
    hfi_textbuf_format(text,
                       "the notebook's process %s; its variables are those of the last "
                       "commit (generation %llu)",
                       epitaph,
                       (unsigned long long)hf_session_generation(kernel->store));
    if (kernel->uncommitted > 0)
        hfi_textbuf_format(text,
                           ", without what the %lld plain cell%s since then changed",
                           kernel->uncommitted, kernel->uncommitted == 1 ? "" : "s");
    json_object_foreach(kernel->declined, name, reason) {
        hfi_textbuf_format(text, "%s%s (%s)", first ? "; lost: " : ", ", name,
                           json_string_value(reason));
        first = 0;
    }
}

static void
bury_home(hf_kernel *kernel, const char *epitaph) {
    hfi_textbuf text = {0};
    hf_error error = HF_ERROR_INIT;
    int busy = kernel->phase == HFI_PHASE_HOME || kernel->phase == HFI_PHASE_COMMIT;
    write_home_loss(kernel, epitaph, &text);
    kernel->home = NULL;
    kernel->commit_id = 0;
    kernel->uncommitted = 0;
    json_object_clear(kernel->declined);
    if (hfi_crew_start(kernel, &error) != HF_OK) {
        kernel->failure = error;
        kernel->stopping = 1;
    } else if (kernel->phase != HFI_PHASE_CELL) {
        hfi_request *running = kernel->running;
        kernel->running = NULL; /* nothing of the dead cell goes into the history */
        hfi_crew_adopt(kernel, NULL);
        kernel->running = running;
    }
    if (busy && kernel->running != NULL) {
        hfi_execute_fail(kernel, "CellDied", hfi_textbuf_string(&text));
    } else {
        hfi_textbuf_append(&text, "\n", 1);
        hfi_publish_stream(kernel, HFI_STDERR, hfi_textbuf_part(&kernel->last_parent),
                           hfi_textbuf_part(&text));
    }
    hfi_textbuf_fini(&text);
}

static void
bury_cell(hf_kernel *kernel, const char *epitaph) {
    char value[512];
    hfi_request *request;
    snprintf(value, sizeof value,
             "the cell's process %s; the notebook's variables are as they were before "
             "the cell",
             epitaph);
    kernel->cell = NULL;
    json_object_clear(kernel->cell_comms);
    while ((request = hfi_queue_pop(&kernel->forwarded)) != NULL) {
        hfi_publish_status(kernel, request->message.header, "idle");
        hfi_request_close(request);
    }
    hfi_execute_fail(kernel, "CellDied", value);
    hfi_crew_replenish(kernel);
}

/* What the dead held in the store is free again. */
static void
reap_store(hf_kernel *kernel) {
    uint32_t count = 0;
    hf_error error = HF_ERROR_INIT;
    if (hf_session_reap(kernel->store, 0, &count, &error) != HF_OK)
        hfi_log("reaping: %s", error.message);
}

static void
bury(hf_kernel *kernel, hfi_worker *worker) {
    char epitaph[128];
    hfi_program_epitaph(worker->exited, worker->status, epitaph, sizeof epitaph);
    if (worker->owned)
        hfi_worker_drain(worker, hfi_crew_parent(kernel, worker), hfi_clock_ns());
    hfi_stream_flush(&worker->stream);
    reap_store(kernel);
    if (worker == kernel->home)
        bury_home(kernel, epitaph);
    else if (worker == kernel->cell)
        bury_cell(kernel, epitaph);
    else if (worker == kernel->standby) {
        hfi_log("the standby %s", epitaph);
        kernel->standby = NULL;
        hfi_crew_replenish(kernel);
    }
    hfi_worker_forget(&kernel->template, worker);
}

static void
bury_template(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    hfi_log("the template ended");
    hfi_template_end(&kernel->template, 0);
    kernel->home = kernel->standby = kernel->cell = NULL;
    kernel->commit_id = 0;
    kernel->uncommitted = 0;
    hfi_execute_fail(kernel, "CellDied",
                     "the notebook's processes ended; its variables are those of the "
                     "last commit");
    reap_store(kernel);
    if (hfi_crew_start(kernel, &error) != HF_OK) {
        kernel->failure = error;
        kernel->stopping = 1;
    } else {
        hfi_crew_adopt(kernel, NULL);
    }
}

static void
silence(hfi_worker *worker, long long now_ns) {
    worker->silent = 1;
    worker->deadline_ns = now_ns + DEATH_WAIT_NS;
    hfi_worker_kill(worker, SIGKILL); /* without its channel it is of no use */
}

void
hfi_crew_tick(hf_kernel *kernel, long long now_ns) {
    for (hfi_worker *at = kernel->template.workers, *next; at != NULL; at = next) {
        next = at->next;
        long long due = hfi_stream_deadline_ns(&at->stream);
        if (due >= 0 && now_ns >= due)
            hfi_stream_flush(&at->stream);
        if (at->exited || (at->deadline_ns > 0 && now_ns >= at->deadline_ns)) {
            hfi_worker_kill(at, SIGKILL);
            bury(kernel, at);
            next = kernel->template.workers; /* the list may be another one now */
        }
    }
}

long long
hfi_crew_deadline_ns(const hf_kernel *kernel) {
    long long first = -1;
    for (const hfi_worker *at = kernel->template.workers; at != NULL; at = at->next) {
        long long due = hfi_stream_deadline_ns(&at->stream);
        if (due >= 0 && (first < 0 || due < first))
            first = due;
        if (at->deadline_ns > 0 && (first < 0 || at->deadline_ns < first))
            first = at->deadline_ns;
    }
    return first;
}

/* ---- frames of the template ----------------------------------------------------- */

static void
handle_template(hf_kernel *kernel, const msgpack_object *map) {
    hfi_part op = hfi_map_part(map, "op");
    pid_t pid = (pid_t)hfi_map_integer(map, "pid", 0);
    hfi_worker *worker;
    if (hfi_part_equal(op, hfi_part_text("ready"))) {
        kernel->template.ready = 1;
        know_modules(kernel, hfi_map_get(map, "modules"));
    } else if (hfi_part_equal(op, hfi_part_text("forked"))) {
        hfi_part role = hfi_map_part(map, "role");
        worker = hfi_worker_awaiting(
            &kernel->template,
            hfi_part_equal(role, hfi_part_text("home")) ? HFI_HOME : HFI_CELL);
        if (worker != NULL && hfi_worker_named(&kernel->template, pid) == NULL)
            worker->pid = pid;
    } else if (hfi_part_equal(op, hfi_part_text("exited"))) {
        worker = hfi_worker_named(&kernel->template, pid);
        if (worker != NULL) {
            worker->status = (int)hfi_map_integer(map, "status", 0);
            if (worker->owned)
                hfi_crew_read(kernel, worker); /* what it said before */
            worker->exited = 1;
        }
    } else if (hfi_part_equal(op, hfi_part_text("imported"))) {
        const msgpack_object *modules = hfi_map_get(map, "modules");
        if (modules != NULL && modules->type == MSGPACK_OBJECT_ARRAY &&
            modules->via.array.size > 0)
            replace_standby(kernel);
    } else {
        hfi_log("template: unknown op %.*s", (int)op.size, (const char *)op.data);
    }
}

void
hfi_crew_read_template(hf_kernel *kernel) {
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
        bury_template(kernel);
}

/* ---- frames of workers ---------------------------------------------------------- */

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
    if (worker == kernel->cell)
        watch_comms(kernel, type, message.content);
    if (hfi_part_equal(hfi_map_part(map, "channel"), hfi_part_text("iopub")))
        hfi_publish_outgoing(kernel, &message);
    else
        hfi_log("a worker's %s is for no channel of ours", type);
    free(buffers);
}

static void
handle_input(hf_kernel *kernel, const msgpack_object *map) {
    hfi_textbuf content = {0};
    hfi_part prompt = hfi_map_part(map, "prompt");
    const msgpack_object *password = hfi_map_get(map, "password");
    int hidden = password != NULL && password->type == MSGPACK_OBJECT_BOOLEAN &&
                 password->via.boolean;
    if (kernel->running == NULL)
        return;
    hfi_textbuf_format(&content, "{\"prompt\":");
    hfi_textbuf_append_json(&content, prompt.data, prompt.size);
    hfi_textbuf_format(&content, ",\"password\":%s}", hidden ? "true" : "false");
    hfi_dispatch_stdin(kernel); /* answers to nothing are dropped first */
    kernel->execution.input_wanted = 1;
    hfi_send(kernel, HFI_STDIN, kernel->running, "input_request",
             hfi_textbuf_part(&content));
    hfi_textbuf_fini(&content);
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
        worker->ready = 1;
        worker->pid = (pid_t)hfi_map_integer(map, "pid", worker->pid);
        if (worker == kernel->home)
            kernel->starts = 0;
        if (worker->role == HFI_CELL) /* perhaps in use already */
            kernel->standby_starts = 0;
    } else {
        hfi_log("a worker's op %.*s is unknown", (int)op.size, (const char *)op.data);
        return 0;
    }
    return 1;
}

void
hfi_crew_drain(hf_kernel *kernel, hfi_worker *worker) {
    hfi_worker_drain(worker, hfi_crew_parent(kernel, worker), hfi_clock_ns());
}

void
hfi_crew_read(hf_kernel *kernel, hfi_worker *worker) {
    hfi_map map = {0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_AGAIN;
    if (worker->control == NULL || worker->silent)
        return;
    hf_status end = hfi_control_fill(worker->control, &error);
    hfi_crew_drain(kernel, worker);
    /* A reply may release the worker: then what it said afterwards is not read. */
    while (worker->control != NULL &&
           (status = hfi_control_next(worker->control, &map, &error)) == HF_OK)
        if (!handle_worker(kernel, worker, map.object)) {
            status = HF_E_PROTOCOL;
            break;
        }
    hfi_map_fini(&map);
    if (worker->control == NULL)
        return;
    if (status != HF_AGAIN && status != HF_OK)
        hfi_log("a worker broke the protocol: %s", error.message);
    if ((status != HF_AGAIN && status != HF_OK) || end != HF_OK)
        silence(worker, hfi_clock_ns());
}
