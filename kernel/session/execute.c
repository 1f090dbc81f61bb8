/* execute.c - one request after the other, and the life of a cell.
 *
 *   plain           home runs it -> reply
 *   instrumented    home commits -> publish -> a cell worker maps the generation and
 * runs
 *                   -> publish what it prepared -> reply -> the home adopts
 *   answer          a command of the frontend itself: nothing runs
 *
 * `running` is the request that was taken from the queue, `phase` says who has it, and
 * every way out goes through hfi_execute_finish. A generation is published before the
 * reply is sent: who has the reply can rely on the state. Where a cell fails or dies
 * before that, nothing was published.
 *
 * What plain cells changed is committed when nothing was to be done for 50 ms, so that
 * the death of the home costs little. A commit that took long pauses this until the
 * next instrumented cell: a person who types must not wait for a copy.
 *
 * While `commit_id` is set the home works for us, and the queue waits. One thread.
 */
#include "session/session.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workers/program.h"

#define IDLE_DELAY_NS      50000000LL
#define IDLE_COMMIT_MAX_NS 250000000LL

/* ---- ends ----------------------------------------------------------------------- */

static void
abort_queued(hf_kernel *kernel) {
    hfi_request *request;
    while ((request = hfi_queue_pop_type(&kernel->queue, "execute_request")) != NULL) {
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
    kernel->running = NULL;
    kernel->phase = HFI_PHASE_NONE;
    if (stop) /* what was sent by now is dropped too, but nothing that answers the idle */
        hfi_dispatch_shell(kernel);
    hfi_publish_status(kernel, request->message.header, "idle");
    if (executed) {
        hfi_verdict_fini(&kernel->execution.verdict);
        hfi_textbuf_clear(&kernel->last_parent);
        hfi_textbuf_append(&kernel->last_parent, request->message.header.data,
                           request->message.header.size);
        kernel->idle_ns = hfi_clock_ns();
        if (stop)
            abort_queued(kernel);
    }
    hfi_request_close(request);
}

void
hfi_execute_fail(hf_kernel *kernel, const char *name, const char *value) {
    hfi_textbuf content = {0};
    if (kernel->running == NULL)
        return;
    hfi_write_error(&content, name, value, kernel->count);
    if (strcmp(kernel->running->message.type, "execute_request") == 0 &&
        !kernel->execution.silent)
        hfi_publish(kernel, "error", kernel->running->message.header,
                    hfi_textbuf_part(&content));
    if (strncmp(kernel->running->message.type, "comm_", 5) != 0 ||
        strcmp(kernel->running->message.type, "comm_info_request") == 0)
        hfi_reply(kernel, kernel->running, hfi_textbuf_part(&content),
                  hfi_part_text("{\"status\":\"error\"}"), NULL, 0);
    hfi_textbuf_fini(&content);
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
is_blank(const char *code) {
    while (isspace((unsigned char)*code))
        code++;
    return *code == '\0';
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

static void
home_directory(const hf_kernel *kernel, char *ret_path, size_t size) {
#ifdef __linux__
    char link[64];
    if (kernel->home != NULL && kernel->home->pid > 0) {
        snprintf(link, sizeof link, "/proc/%ld/cwd", (long)kernel->home->pid);
        ssize_t length = readlink(link, ret_path, size - 1);
        if (length > 0) {
            ret_path[length] = '\0';
            return;
        }
    }
#else
    (void)kernel;
#endif
    if (getcwd(ret_path, size) == NULL)
        snprintf(ret_path, size, "/");
}

/* What the user's commands make of the cell. Text with a NUL is for Python to refuse.
 */
static hf_status
judge(hf_kernel *kernel, json_t *code, hf_error *reterr) {
    hfi_verdict *verdict = &kernel->execution.verdict;
    char directory[4096];
    const char *text = json_string_value(code);
    if (kernel->execution.silent || strlen(text) != json_string_length(code)) {
        verdict->kind = HFI_RUN_PLAIN;
        return HF_OK;
    }
    home_directory(kernel, directory, sizeof directory);
    return hfi_commands_feed(kernel->commands, text, directory, getenv("PATH"), verdict,
                             reterr);
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

static void
publish_input(hf_kernel *kernel, json_t *code) {
    hfi_textbuf content = {0};
    hfi_textbuf_format(&content, "{\"code\":");
    hfi_textbuf_append_json(&content, json_string_value(code),
                            json_string_length(code));
    hfi_textbuf_format(&content, ",\"execution_count\":%lld}",
                       kernel->execution.number);
    hfi_publish(kernel, "execute_input", kernel->running->message.header,
                hfi_textbuf_part(&content));
    hfi_textbuf_fini(&content);
}

static void
ask_commit(hf_kernel *kernel, long long now_ns) {
    hfi_frame frame;
    kernel->commit_id = ++kernel->next_id;
    kernel->commit_ns = now_ns;
    hfi_frame_init(&frame, "commit", 1);
    hfi_frame_add_integer(&frame, "id", kernel->commit_id);
    hfi_crew_tell_home(kernel, &frame);
}

static void
run_verdict(hf_kernel *kernel) {
    hfi_execution *execution = &kernel->execution;
    publish_verdict(kernel, &execution->verdict);
    if (execution->verdict.kind == HFI_ANSWER) {
        finish_answer(kernel);
        return;
    }
    if (kernel->home == NULL) {
        hfi_execute_fail(kernel, "CellDied", "the notebook's process is not running");
        return;
    }
    if (execution->verdict.kind == HFI_RUN_PLAIN) {
        kernel->phase = HFI_PHASE_HOME;
        execution->sent_ns = hfi_clock_ns();
        hfi_request_send(kernel, kernel->home, kernel->running);
    } else {
        kernel->phase = HFI_PHASE_COMMIT;
        kernel->idle_paused = 0;
        ask_commit(kernel, hfi_clock_ns());
    }
}

static void
begin_execute(hf_kernel *kernel) {
    json_t *body = kernel->running->message.body;
    json_t *code = json_object_get(body, "code");
    hf_error error = HF_ERROR_INIT;
    read_options(kernel, body);
    if (!json_is_string(code)) {
        kernel->execution.silent = 1; /* nothing was run that others should see */
        hfi_execute_fail(kernel, "ProtocolError", "an execute_request without code");
        return;
    }
    hf_status status = judge(kernel, code, &error);
    if (kernel->execution.store_history && !is_blank(json_string_value(code)))
        kernel->count++;
    if (!kernel->execution.silent)
        publish_input(kernel, code);
    if (status != HF_OK)
        hfi_execute_fail(kernel, "HoldfastError", error.message);
    else
        run_verdict(kernel);
}

static int
is_for_worker(const char *type) {
    static const char *const types[] = {
        "complete_request", "inspect_request",   "is_complete_request",
        "history_request",  "comm_info_request", "comm_open",
        "comm_msg",         "comm_close"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return 1;
    return 0;
}

static void
begin(hf_kernel *kernel) {
    const char *type = kernel->running->message.type;
    hfi_publish_status(kernel, kernel->running->message.header, "busy");
    if (strcmp(type, "execute_request") == 0) {
        begin_execute(kernel);
    } else if (is_for_worker(type)) {
        if (kernel->home == NULL) {
            hfi_execute_fail(kernel, "NotRunning",
                             "the notebook's process is not running");
            return;
        }
        kernel->phase = HFI_PHASE_HOME;
        hfi_request_send(kernel, kernel->home, kernel->running);
    } else {
        if (!hfi_dispatch_answer(kernel, kernel->running))
            hfi_log("shell: no answer to a %s", type);
        hfi_execute_finish(kernel, 0);
    }
}

void
hfi_execute_next(hf_kernel *kernel) {
    while (kernel->running == NULL && kernel->commit_id == 0 && !kernel->stopping) {
        kernel->running = hfi_queue_pop(&kernel->queue);
        if (kernel->running == NULL)
            return;
        begin(kernel);
    }
}

/* ---- commits -------------------------------------------------------------------- */

/* Publish what a worker prepared; HF_OK too where it had nothing to publish. */
static hf_status
publish_prepared(hf_kernel *kernel, hfi_part prepared, uint64_t *ret_generation,
                 hf_error *reterr) {
    hf_prepared token;
    *ret_generation = hf_session_generation(kernel->store);
    if (prepared.size == 0)
        return HF_OK;
    if (prepared.size != sizeof token)
        return hf_error_set(reterr, HF_E_PROTOCOL, "a commit token of %zu bytes",
                            prepared.size);
    memcpy(&token, prepared.data, sizeof token);
    hf_status status =
        hf_session_publish(kernel->store, &token, ret_generation, reterr);
    if (status == HF_CONFLICT)
        (void)hf_error_set(reterr, HF_CONFLICT, "another commit came between");
    return status;
}

static void
keep_declined(hf_kernel *kernel, const msgpack_object *declined) {
    json_object_clear(kernel->declined);
    if (declined == NULL || declined->type != MSGPACK_OBJECT_MAP)
        return;
    for (uint32_t i = 0; i < declined->via.map.size; i++) {
        hfi_part name = hfi_object_part(&declined->via.map.ptr[i].key);
        hfi_part reason = hfi_object_part(&declined->via.map.ptr[i].val);
        char *key = strndup(name.data, name.size);
        json_t *value = json_stringn(reason.data, reason.size);
        if (key != NULL && value != NULL)
            (void)json_object_set_new(kernel->declined, key, value);
        else
            json_decref(value);
        free(key);
    }
}

static void
start_cell(hf_kernel *kernel) {
    if (kernel->standby == NULL) {
        kernel->standby_starts = 0; /* the user asks: worth another try */
        hfi_crew_replenish(kernel);
    }
    if (kernel->standby == NULL) {
        hfi_execute_fail(kernel, "CellDied",
                         "no process could be started for the cell; the notebook's "
                         "variables are as they were before it");
        return;
    }
    kernel->cell = kernel->standby;
    kernel->standby = NULL;
    kernel->phase = HFI_PHASE_CELL;
    kernel->execution.sent_ns = hfi_clock_ns();
    hfi_request_send(kernel, kernel->cell, kernel->running);
}

void
hfi_execute_committed(hf_kernel *kernel, const msgpack_object *reply) {
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    hfi_part prepared = hfi_map_part(reply, "prepared");
    const msgpack_object *report = hfi_map_get(reply, "report");
    hfi_part trouble = hfi_map_part(report, "error");
    int waits = kernel->phase == HFI_PHASE_COMMIT;
    kernel->commit_id = 0;
    hf_status status = publish_prepared(kernel, prepared, &generation, &error);
    if (trouble.size > 0)
        status = hf_error_set(&error, HF_E_CODEC, "%.*s", (int)trouble.size,
                              (const char *)trouble.data);
    if (status == HF_OK) {
        kernel->uncommitted = 0;
        keep_declined(kernel, hfi_map_get(reply, "declined"));
        if (prepared.size > 0) {
            hfi_frame frame;
            hfi_frame_init(&frame, "published", 1);
            hfi_frame_add_integer(&frame, "generation", (int64_t)generation);
            hfi_crew_tell_home(kernel, &frame);
        }
    }
    if (!waits &&
        (status != HF_OK || hfi_clock_ns() - kernel->commit_ns > IDLE_COMMIT_MAX_NS))
        kernel->idle_paused = 1;
    hfi_crew_import(kernel, hfi_map_get(reply, "modules"));
    if (!waits) {
        if (status != HF_OK)
            hfi_log("commit: %s", error.message);
        return;
    }
    kernel->execution.commit_bytes_copied = hfi_map_real(report, "bytes_copied", 0);
    if (status != HF_OK)
        hfi_execute_fail(kernel, "CommitError", error.message);
    else if (kernel->execution.interrupted)
        hfi_execute_fail(kernel, "KeyboardInterrupt", "");
    else
        start_cell(kernel);
}

long long
hfi_execute_idle_deadline_ns(const hf_kernel *kernel) {
    if (kernel->uncommitted == 0 || kernel->idle_paused || kernel->home == NULL ||
        kernel->running != NULL || kernel->commit_id != 0 ||
        kernel->queue.first != NULL)
        return -1;
    return kernel->idle_ns + IDLE_DELAY_NS;
}

void
hfi_execute_idle(hf_kernel *kernel, long long now_ns) {
    long long deadline = hfi_execute_idle_deadline_ns(kernel);
    if (deadline >= 0 && now_ns >= deadline)
        ask_commit(kernel, now_ns);
}

/* ---- replies -------------------------------------------------------------------- */

static int
is_error(hfi_part content) {
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

static void
send_reply(hf_kernel *kernel, const hfi_request *request, const msgpack_object *reply,
           hfi_part metadata) {
    hfi_part buffers[64];
    size_t count = reply_buffers(reply, buffers);
    hfi_part content = hfi_map_part(reply, "content");
    if (content.size > 0)
        hfi_reply(kernel, request, content, metadata, buffers, count);
}

static void
home_replied(hf_kernel *kernel, const msgpack_object *reply) {
    hfi_request *request = kernel->running;
    if (strcmp(request->message.type, "execute_request") != 0) {
        send_reply(kernel, request, reply, hfi_map_part(reply, "metadata"));
        hfi_execute_finish(kernel, 0);
        return;
    }
    hfi_textbuf metadata = {0};
    int error = is_error(hfi_map_part(reply, "content"));
    hfi_request_cost(kernel, reply, "plain", &metadata);
    send_reply(kernel, request, reply, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    kernel->uncommitted++;
    /* Now, not at the next commit: the template imports while other plain cells run. */
    hfi_crew_import(kernel, hfi_map_get(reply, "modules"));
    hfi_execute_finish(kernel, error);
}

static void
show_trace(hf_kernel *kernel, hfi_part trace) {
    hfi_textbuf text = {0};
    if (trace.size == 0)
        return;
    hfi_textbuf_format(&text, "Instrumentation results can be found in %.*s\n",
                       (int)trace.size, (const char *)trace.data);
    hfi_publish_stream(kernel, HFI_STDOUT, kernel->running->message.header,
                       hfi_textbuf_part(&text));
    hfi_textbuf_fini(&text);
}

static void
release_cell(hf_kernel *kernel) {
    hfi_request *request;
    if (kernel->cell != NULL)
        hfi_worker_release(kernel->cell, 10000);
    kernel->cell = NULL;
    json_object_clear(kernel->cell_comms);
    while ((request = hfi_queue_pop(&kernel->forwarded)) != NULL) {
        hfi_publish_status(kernel, request->message.header, "idle");
        hfi_request_close(request);
    }
}

static void
cell_replied(hf_kernel *kernel, const msgpack_object *reply) {
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    hfi_textbuf metadata = {0};
    int failed = is_error(hfi_map_part(reply, "content"));
    kernel->execution.replied_ns = hfi_clock_ns();
    if (publish_prepared(kernel, hfi_map_part(reply, "prepared"), &generation,
                         &error) != HF_OK) {
        release_cell(kernel);
        hf_error_prefix(&error, "what the cell changed could not be published, the "
                                "notebook's variables are as they were before it");
        hfi_execute_fail(kernel, "CommitError", error.message);
        hfi_crew_replenish(kernel);
        return;
    }
    show_trace(kernel, hfi_map_part(reply, "trace"));
    hfi_request_cost(kernel, reply, "map", &metadata);
    send_reply(kernel, kernel->running, reply, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    hfi_crew_adopt(kernel, hfi_map_get(reply, "report"));
    hfi_crew_import(kernel, hfi_map_get(reply, "modules"));
    hfi_execute_finish(kernel, failed);
    release_cell(kernel);
    hfi_crew_replenish(kernel);
}

void
hfi_execute_replied(hf_kernel *kernel, hfi_worker *worker,
                    const msgpack_object *reply) {
    long long id = hfi_map_integer(reply, "id", 0);
    if (worker == kernel->home && id == kernel->commit_id && id != 0) {
        hfi_execute_committed(kernel, reply);
    } else if (kernel->running != NULL && kernel->running->id == id &&
               kernel->phase == HFI_PHASE_HOME && worker == kernel->home) {
        home_replied(kernel, reply);
    } else if (kernel->running != NULL && kernel->running->id == id &&
               kernel->phase == HFI_PHASE_CELL && worker == kernel->cell) {
        cell_replied(kernel, reply);
    } else {
        hfi_request *request = hfi_queue_pop_id(&kernel->forwarded, id);
        if (request == NULL) {
            hfi_log("a reply that nobody waits for");
            return;
        }
        hfi_publish_status(kernel, request->message.header, "idle");
        hfi_request_close(request);
    }
}
