/* handover.c - the way of the state: home, store, cell worker, and back.
 *
 * An instrumented cell waits for the home's answer: a commit, or the word that the home
 * itself is to run the cell (road.c). The commit is published and leased to
 * the cell worker that gets the request; what that worker prepared is published before
 * the reply is sent, and the home adopts it. Where the cell fails to come so far, by
 * death or by an interrupt, nothing was published, and the state is as before.
 *
 * An interrupt before the cell has started ends the cell without running it: during the
 * home's commit as soon as that is done, and while the worker binds by killing the
 * worker, which loses nothing and doesn't wait for what may be a long decoding.
 *
 * What plain cells changed is committed when nothing was to be done for 50 ms, so that
 * the death of the home costs little. A commit that took long pauses this until an
 * instrumented cell has waited for one: a person who types must not wait for a copy.
 *
 * A cell's commit may leave out the bytes of memory that the home lends while it lives
 * (codecs/lending.py). A home that has left some out says so ("owes"), and the next
 * idle commit, which no cell waits for, is the durable one that writes them.
 *
 * While `commit_id` is set the home works for us, and the queue waits. The home holds
 * the generation that it committed from when it hears of it; until then the cell's
 * channel isn't read (`settling`), since a publication of what the cell prepared would
 * retire what the home has yet to hold, and leave it unsealed. One thread.
 */
#include "session/session.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workers/program.h"

#define IDLE_DELAY_NS      50000000LL
#define IDLE_COMMIT_MAX_NS 250000000LL

/* ---- the home's commit ---------------------------------------------------------- */

void
hfi_handover_ask_commit(hf_kernel *kernel, long long now_ns) {
    hfi_frame frame;
    int waits = kernel->cell.state == HFI_CELL_COMMITTING;
    int travels = waits && hfi_timeline_wants_commit(kernel);
    int asks = waits && !travels;
    int durable = !waits || travels;
    kernel->commit_id = ++kernel->next_id;
    kernel->commit_ns = now_ns;
    hfi_frame_init(&frame, "commit", asks ? 6 : 2);
    hfi_frame_add_integer(&frame, "id", kernel->commit_id);
    hfi_frame_add_flag(&frame, "durable", durable);
    if (durable)
        kernel->owing = 0;
    if (asks)
        hfi_road_ask(kernel, &frame);
    hfi_crew_tell_home(kernel, &frame);
}

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

/* The same for a reply, in which the worker may say instead why it has prepared
 * nothing.
 */
hf_status
hfi_handover_publish(hf_kernel *kernel, const msgpack_object *reply,
                     uint64_t *ret_generation, hf_error *reterr) {
    static const char full[] = "NoSpaceError:"; /* HF_E_NOSPACE, as Python calls it */
    hfi_part trouble = hfi_map_part(hfi_map_get(reply, "report"), "error");
    if (trouble.size == 0)
        return publish_prepared(kernel, hfi_map_part(reply, "prepared"), ret_generation,
                                reterr);
    int is_full =
        trouble.size > strlen(full) && memcmp(trouble.data, full, strlen(full)) == 0;
    return hf_error_set(reterr, is_full ? HF_E_NOSPACE : HF_E_CODEC, "%.*s",
                        (int)trouble.size, (const char *)trouble.data);
}

void
hfi_handover_fail(hf_kernel *kernel, const char *what, const hf_error *error) {
    char value[1024];
    snprintf(value, sizeof value, "%s: %s%s", what, error->message,
             error->status == HF_E_NOSPACE
                 ? ". To make room, del what is not needed any more, or give /dev/shm "
                   "(and --capacity, if it is set) more; with --road=home nothing is "
                   "saved"
                 : "");
    hfi_execute_fail(kernel, "CommitError", value);
}

void
hfi_handover_keep_declined(hf_kernel *kernel, const msgpack_object *declined) {
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

void
hfi_handover_send_cell(hf_kernel *kernel) {
    hfi_cell_move(&kernel->cell, HFI_CELL_STARTING);
    kernel->cell.sent_ns = hfi_clock_ns();
    hfi_assistant_attend(kernel);
    hfi_request_send(kernel, kernel->cell_worker, kernel->cell.request);
}

void
hfi_handover_start_cell(hf_kernel *kernel) {
    kernel->cell.plan = HFI_PLAN_ISOLATED;
    kernel->cell_worker = hfi_standby_take(kernel, kernel->cell.retries > 0);
    if (kernel->cell_worker == NULL) {
        hfi_execute_fail(kernel, "CellDied",
                         "no process could be started for the cell; the notebook's "
                         "variables are as they were before it");
        return;
    }
    hfi_handover_send_cell(kernel);
}

/* Another generation is published on the way, so the home must hold this one first. */
static void
begin_travel(hf_kernel *kernel) {
    if (kernel->settling == 0)
        hfi_timeline_begin(kernel);
    else
        hfi_cell_move(&kernel->cell, HFI_CELL_SETTLING);
}

void
hfi_handover_committed(hf_kernel *kernel, const msgpack_object *reply) {
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    hfi_part prepared = hfi_map_part(reply, "prepared");
    const msgpack_object *report = hfi_map_get(reply, "report");
    int waits = kernel->cell.state == HFI_CELL_COMMITTING;
    kernel->commit_id = 0;
    hf_status status = hfi_handover_publish(kernel, reply, &generation, &error);
    if (status == HF_OK && hfi_map_get(reply, "declined") != NULL) {
        kernel->uncommitted = 0;
        hfi_rollback_drop(kernel); /* the store has what it holds */
        if (waits)
            kernel->idle_paused = 0;
        hfi_handover_keep_declined(kernel, hfi_map_get(reply, "declined"));
        if (prepared.size > 0) {
            hfi_frame frame;
            hfi_frame_init(&frame, "published", 1);
            hfi_frame_add_integer(&frame, "generation", (int64_t)generation);
            hfi_crew_tell_home(kernel, &frame);
            kernel->settling = (int64_t)generation;
            hfi_timeline_published(kernel, 0);
        } else {
            hfi_timeline_forget(kernel);
        }
    }
    if (!waits &&
        (status != HF_OK || hfi_clock_ns() - kernel->commit_ns > IDLE_COMMIT_MAX_NS))
        kernel->idle_paused = 1;
    if (!waits) {
        if (status != HF_OK)
            hfi_log("commit: %s", error.message);
        return;
    }
    kernel->cell.commit_bytes_copied = hfi_map_real(report, "bytes_copied", 0);
    if (status != HF_OK)
        hfi_handover_fail(
            kernel,
            "the cell did not run, since the notebook's variables could not be "
            "saved for it",
            &error);
    else if (hfi_timeline_wants_commit(kernel))
        begin_travel(kernel);
    else
        hfi_road_start(kernel, reply);
}

long long
hfi_handover_idle_deadline_ns(const hf_kernel *kernel) {
    if ((kernel->uncommitted == 0 && !kernel->owing) || kernel->idle_paused ||
        kernel->home == NULL || kernel->cell.request != NULL ||
        kernel->commit_id != 0 || kernel->queue.first != NULL)
        return -1;
    return kernel->idle_ns + IDLE_DELAY_NS;
}

void
hfi_handover_idle(hf_kernel *kernel, long long now_ns) {
    long long deadline = hfi_handover_idle_deadline_ns(kernel);
    if (deadline >= 0 && now_ns >= deadline)
        hfi_handover_ask_commit(kernel, now_ns);
}

void
hfi_handover_owes(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    (void)worker;
    (void)map;
    kernel->owing = 1;
}

/* ---- the cell's reply ------------------------------------------------------------ */

int
hfi_handover_holds(const hf_kernel *kernel, const hfi_worker *worker) {
    return worker == kernel->cell_worker && kernel->settling != 0;
}

void
hfi_handover_settled(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    (void)worker;
    if (hfi_map_integer(map, "generation", 0) == kernel->settling)
        kernel->settling = 0;
    if (kernel->cell.state == HFI_CELL_SETTLING && kernel->settling == 0)
        hfi_timeline_begin(kernel);
}

void
hfi_handover_forget_cell(hf_kernel *kernel) {
    hfi_request *request;
    hfi_observe_leaving(kernel, kernel->cell_worker);
    kernel->cell_worker = NULL;
    hfi_handles_drop(kernel);
    json_object_clear(kernel->cell_comms);
    while ((request = hfi_queue_pop(&kernel->forwarded)) != NULL) {
        hfi_publish_status(kernel, request->message.header, "idle");
        hfi_request_close(request);
    }
}

void
hfi_handover_release_cell(hf_kernel *kernel) {
    if (kernel->cell_worker != NULL)
        hfi_worker_release(kernel->cell_worker, 10000);
    hfi_handover_forget_cell(kernel);
}

void
hfi_handover_cancel(hf_kernel *kernel) {
    hfi_inbox_drain(kernel, kernel->cell_worker);
    hfi_stream_flush(&kernel->cell_worker->stream);
    hfi_worker_kill(kernel->cell_worker, SIGKILL);
    hfi_handover_release_cell(kernel);
    hfi_execute_fail(kernel, "KeyboardInterrupt", "");
    hfi_standby_replenish(kernel);
}

void
hfi_handover_replied(hf_kernel *kernel, const msgpack_object *reply) {
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    hfi_textbuf metadata = {0};
    int failed = hfi_execute_is_error(hfi_map_part(reply, "content"));
    kernel->cell.replied_ns = hfi_clock_ns();
    hf_status status = hfi_handover_publish(kernel, reply, &generation, &error);
    hfi_trace_show(kernel, hfi_map_part(reply, "trace"));
    if (status != HF_OK) {
        hfi_handover_release_cell(kernel);
        hfi_handover_fail(
            kernel,
            "what the cell changed could not be published, the notebook's "
            "variables are as they were before it",
            &error);
        hfi_standby_replenish(kernel);
        return;
    }
    if (hfi_map_part(reply, "prepared").size > 0) {
        hfi_timeline_note(kernel);
        hfi_timeline_published(kernel, 0);
    }
    hfi_trace_open(kernel, hfi_map_part(reply, "trace"));
    hfi_summary_show(kernel, reply);
    hfi_request_cost(kernel, reply,
                     kernel->cell.plan == HFI_PLAN_FORKED ? "fork" : "map", &metadata);
    hfi_execute_send_reply(kernel, kernel->cell.request, reply,
                           hfi_textbuf_part(&metadata));
    hfi_handles_adopt(kernel);
    hfi_crew_adopt(kernel, hfi_map_get(reply, "report"));
    hfi_runs_note(kernel, reply, failed ? "error" : "ok", &metadata);
    hfi_textbuf_fini(&metadata);
    hfi_execute_finish(kernel, failed);
    hfi_handover_release_cell(kernel);
    hfi_standby_replenish(kernel);
}
