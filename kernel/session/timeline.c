/* timeline.c - the generations that are kept, and the ways back to them.
 *
 * A step is a commit that changed a variable: what the home commits when it is idle, or
 * before an instrumented cell, and what such a cell changed. So plain cells pay nothing
 * while they run; those that follow each other at once are one step. A commit that only
 * knows of more inputs and outputs is no step: undoing it would show nothing. A step is
 * called by its generation, and remembers when it was and which cells it is made of.
 *
 * Each step holds a snapshot, yielded: whoever finds the arena full takes the oldest,
 * and asks nobody. Beyond a number of steps, or of bytes that only they keep, they are
 * dropped here, the oldest first. The newest is the current state and costs nothing.
 * The share is small since what a step keeps isn't recycled: the next cell that changes
 * as much gets fresh pages, which take longer. So large data is kept only where a
 * person asks for it.
 *
 * A way back begins with a commit of what is not committed yet, so that it can be taken
 * back in turn. Then the old tree is published anew (hf_commit_restore): history is
 * linear, and grows. The home hears of it as of a cell worker's commit, and binds what
 * differs. Undoing twice goes two steps back, since a step that is a return knows whose
 * variables it has (`origin`). While a request works with old generations its steps are
 * held; so the home may lease by name what it is to compare.
 *
 * The text of all this is the magic's (holdfast/magics.py): the home gets it as data
 * with the request. One thread.
 */
#include "session/timeline.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session/commits.h"
#include "session/crew.h"
#include "session/ends.h"
#include "session/request.h"
#include "workers/program.h"

#define LIMIT_SHARE 32 /* of the capacity: what old steps alone may keep */

/* A commit that changed a variable. */
typedef struct hfi_step {
    hf_snapshot *snapshot;
    int64_t generation; /* its name */
    int64_t origin;     /* of the step whose variables it has again; 0: its own */
    int64_t unix_ns;    /* when it was published */
    hfi_textbuf cells;  /* numbers of the cells that it is made of: "3, 4" */
    json_t *declined;   /* name: reason, of what it doesn't have */
} hfi_step;

/* Each has a lease, of which a process has 32. */
#define HFI_STEPS_MAX 28

typedef struct hfi_timeline {
    hfi_step steps[HFI_STEPS_MAX + 1]; /* oldest first */
    size_t count;
    long long dropped;    /* steps that aren't kept any more */
    hfi_textbuf cells;    /* that ran since the newest one */
    uint64_t limit_bytes; /* of what the steps alone keep */
    uint64_t kept_bytes;  /* when it was last looked at */
    /* of the request that runs */
    int64_t target;          /* step that it returned to; 0: none */
    json_t *target_declined; /* of that step; or NULL */
    hfi_textbuf undone;      /* cells that it took back */
} hfi_timeline;

void
hfi_timeline_init(hf_kernel *kernel, uint64_t limit_bytes) {
    hf_session_info info = {0};
    hf_error error = HF_ERROR_INIT;
    kernel->timeline->limit_bytes = limit_bytes;
    if (limit_bytes == 0 && hf_session_describe(kernel->store, &info, &error) == HF_OK)
        kernel->timeline->limit_bytes = info.capacity_bytes / LIMIT_SHARE;
}

/* ---- steps ----------------------------------------------------------------------- */

static void
step_fini(hfi_step *step) {
    hf_snapshot_release(step->snapshot);
    hfi_textbuf_fini(&step->cells);
    json_decref(step->declined);
    memset(step, 0, sizeof *step);
}

static void
remove_steps(hfi_timeline *line, size_t at, size_t count) {
    for (size_t i = at; i < at + count; i++)
        step_fini(&line->steps[i]);
    memmove(line->steps + at, line->steps + at + count,
            (line->count - at - count) * sizeof *line->steps);
    line->count -= count;
    line->dropped += (long long)count;
}

/* Find out which are still there, and keep those from being taken. */
static void
hold(hfi_timeline *line) {
    for (size_t i = line->count; i-- > 0;)
        if (hf_snapshot_hold(line->steps[i].snapshot, NULL) != HF_OK)
            remove_steps(line, i, 1);
}

static void
yield(hfi_timeline *line) {
    for (size_t i = 0; i < line->count; i++)
        hf_snapshot_yield(line->steps[i].snapshot);
}

static uint64_t
kept_bytes(hf_kernel *kernel) {
    uint64_t bytes = 0;
    hf_error error = HF_ERROR_INIT;
    if (hf_session_yielded_bytes(kernel->store, &bytes, &error) != HF_OK)
        hfi_log("history: %s", error.message);
    return bytes;
}

/* All are yielded. */
static void
keep_limits(hf_kernel *kernel) {
    hfi_timeline *line = kernel->timeline;
    line->kept_bytes = kept_bytes(kernel);
    while (line->count > HFI_STEPS_MAX ||
           (line->count > 1 && line->kept_bytes > line->limit_bytes)) {
        remove_steps(line, 0, 1);
        line->kept_bytes = kept_bytes(kernel);
    }
}

/* Process state, numbered results and what `!command` leaves aren't variables of the
 * user's. */
static int
is_variable(const hf_entry *entry) {
    static const char status[] = "_exit_code";
    if (entry->key[0] == '\1' || (entry->key_size == sizeof status - 1 &&
                                  memcmp(entry->key, status, entry->key_size) == 0))
        return 0;
    size_t at = entry->key[0] == '_' ? 1 : 0;
    while (at > 0 && at < entry->key_size && entry->key[at] >= '0' &&
           entry->key[at] <= '9')
        at++;
    return at < 2 || at < entry->key_size;
}

static int
note_variable(void *context, const hf_entry *before, const hf_entry *after) {
    int *found = context;
    *found = is_variable(after != NULL ? after : before);
    return *found ? HF_STOP : 0;
}

/* Whether some variable differs from what it was in the newest step. */
static int
is_new(const hfi_timeline *line, hf_snapshot *snapshot) {
    hf_error error = HF_ERROR_INIT;
    int found = 0;
    hf_snapshot *last = line->count > 0 ? line->steps[line->count - 1].snapshot : NULL;
    if (last != NULL && hf_snapshot_hold(last, NULL) != HF_OK)
        return 1;
    hf_status status = hf_snapshot_diff(last, snapshot, note_variable, &found, &error);
    if (status != HF_OK)
        hfi_log("history: %s", error.message);
    if (last != NULL)
        hf_snapshot_yield(last);
    return found || status != HF_OK;
}

void
hfi_timeline_note(hf_kernel *kernel) {
    hfi_textbuf *cells = &kernel->timeline->cells;
    if (kernel->cell.store_history &&
        kernel->cell.verdict.travel.kind == HFI_TRAVEL_NONE)
        hfi_textbuf_format(cells, "%s%lld", cells->size > 0 ? ", " : "",
                           kernel->cell.number);
}

void
hfi_timeline_forget(hf_kernel *kernel) {
    hfi_textbuf_clear(&kernel->timeline->cells);
}

void
hfi_timeline_published(hf_kernel *kernel, int64_t origin) {
    hfi_timeline *line = kernel->timeline;
    hf_error error = HF_ERROR_INIT;
    hf_snapshot *snapshot = NULL;
    struct timespec now = {0, 0};
    if (hf_snapshot_acquire(kernel->store, &snapshot, &error) != HF_OK) {
        hfi_log("history: %s", error.message);
        return;
    }
    if (origin == 0 && !is_new(line, snapshot)) {
        hf_snapshot_release(snapshot);
        hfi_textbuf_clear(&line->cells);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    hfi_step *step = &line->steps[line->count++];
    *step = (hfi_step){
        .snapshot = snapshot,
        .generation = (int64_t)hf_snapshot_generation(snapshot),
        .origin = origin,
        .unix_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
        .cells = line->cells,
        .declined = json_copy(hfi_commits_declined(kernel)),
    };
    line->cells = (hfi_textbuf){0};
    hf_snapshot_yield(snapshot);
    keep_limits(kernel);
}

/* ---- what the home is told ------------------------------------------------------- */

static void
write_step(hfi_frame *frame, const hfi_step *step) {
    hf_generation name;
    char key[24];
    hf_snapshot_export(step->snapshot, &name);
    snprintf(key, sizeof key, "%lld", (long long)step->generation);
    hfi_frame_add_map(frame, key, 4);
    hfi_frame_add_integer(frame, "unix_ns", step->unix_ns);
    hfi_frame_add_integer(frame, "origin", step->origin);
    hfi_frame_add_text(frame, "cells", hfi_textbuf_part(&step->cells));
    hfi_frame_add_bytes(frame, "name", hfi_part_of(&name, sizeof name));
}

static void
write_travel(const hf_kernel *kernel, hfi_frame *frame) {
    const hfi_timeline *line = kernel->timeline;
    const hfi_travel *travel = &kernel->cell.verdict.travel;
    const char *name;
    json_t *reason;
    hfi_frame_add_map(frame, "travel", 11);
    hfi_frame_add_text(frame, "kind", hfi_part_text(hfi_travel_name(travel->kind)));
    hfi_frame_add_integer(frame, "from", travel->from);
    hfi_frame_add_integer(frame, "to", travel->to);
    hfi_frame_add_integer(frame, "target", line->target);
    hfi_frame_add_integer(frame, "kept_bytes", (int64_t)line->kept_bytes);
    hfi_frame_add_integer(frame, "limit_bytes", (int64_t)line->limit_bytes);
    hfi_frame_add_integer(frame, "dropped", line->dropped);
    hfi_frame_add_text(frame, "undone", hfi_textbuf_part(&line->undone));
    hfi_frame_add_text(frame, "pending", hfi_textbuf_part(&line->cells));
    hfi_frame_add_map(frame, "declined", json_object_size(line->target_declined));
    json_object_foreach(line->target_declined, name, reason)
        hfi_frame_add_text(frame, name, hfi_part_text(json_string_value(reason)));
    hfi_frame_add_map(frame, "steps", line->count);
    for (size_t i = 0; i < line->count; i++)
        write_step(frame, &line->steps[i]);
}

static void
fini(hf_kernel *kernel) {
    remove_steps(kernel->timeline, 0, kernel->timeline->count);
    hfi_textbuf_fini(&kernel->timeline->cells);
}

const hfi_owner hfi_timeline_owner = {offsetof(hf_kernel, timeline),
                                      sizeof(struct hfi_timeline), NULL, fini};

/* ---- ways back --------------------------------------------------------------------
 */

static const hfi_step *
find_step(const hfi_timeline *line, int64_t generation) {
    for (size_t i = 0; i < line->count; i++)
        if (line->steps[i].generation == generation)
            return &line->steps[i];
    return NULL;
}

/* The step whose variables the newest one has, which may be another one's. NULL where
 * it isn't kept. */
static const hfi_step *
find_origin(const hfi_timeline *line) {
    const hfi_step *step = line->count > 0 ? &line->steps[line->count - 1] : NULL;
    while (step != NULL && step->origin != 0)
        step = find_step(line, step->origin);
    return step;
}

/* The same for any step. */
static int64_t
origin_of(const hfi_timeline *line, const hfi_step *step) {
    while (step->origin != 0 && find_step(line, step->origin) != NULL)
        step = find_step(line, step->origin);
    return step->origin != 0 ? step->origin : step->generation;
}

static void
fail(hf_kernel *kernel, const char *sentence) {
    char text[320];
    const hfi_timeline *line = kernel->timeline;
    if (line->count == 0)
        snprintf(text, sizeof text, "%s; no step is kept", sentence);
    else
        snprintf(text, sizeof text,
                 "%s; kept are the steps %lld to %lld (%%holdfast "
                 "history)",
                 sentence, (long long)line->steps[0].generation,
                 (long long)line->steps[line->count - 1].generation);
    hfi_ends_fail(kernel, "HistoryError", text);
}

static hf_status
publish_step(hf_kernel *kernel, hf_snapshot *snapshot, uint64_t *ret_generation,
             hf_error *reterr) {
    hf_commit *commit = NULL;
    hf_status status = hf_commit_begin(kernel->store, &commit, reterr);
    if (status != HF_OK)
        return status;
    status = hf_commit_restore(commit, snapshot, reterr);
    if (status == HF_OK)
        status = hf_commit_publish_consume(commit, ret_generation, reterr);
    if (status != HF_OK)
        hf_commit_abort(commit);
    return status;
}

/* The home binds what differs. `with_state`: random generators and the like as well. */
static void
tell_home(hf_kernel *kernel, uint64_t generation, int with_state) {
    hfi_frame frame;
    hfi_frame_init(&frame, "checkout", 2);
    hfi_frame_add_integer(&frame, "generation", (int64_t)generation);
    hfi_frame_add_flag(&frame, "state", with_state);
    hfi_crew_tell_main(kernel, &frame);
}

/* 0 where it failed, and the client was told. */
static int
go_to(hf_kernel *kernel, const hfi_step *step) {
    hfi_timeline *line = kernel->timeline;
    hf_error error = HF_ERROR_INIT;
    uint64_t generation = 0;
    line->target = step->generation;
    line->target_declined = json_incref(step->declined);
    int64_t origin = origin_of(line, step);
    if (publish_step(kernel, step->snapshot, &generation, &error) != HF_OK) {
        hfi_ends_fail(kernel, "HistoryError", error.message);
        return 0;
    }
    tell_home(kernel, generation, 1);
    hfi_timeline_published(kernel, origin);
    hold(line); /* for the home, which is told of them with the request */
    return 1;
}

static int
undo(hf_kernel *kernel) {
    hfi_timeline *line = kernel->timeline;
    const hfi_step *now = find_origin(line);
    if (now == NULL || now == line->steps) {
        fail(kernel, line->dropped > 0 ? "the step before isn't kept any more"
                                       : "there is no step before");
        return 0;
    }
    hfi_textbuf_clear(&line->undone);
    hfi_textbuf_append(&line->undone, now->cells.data, now->cells.size);
    const hfi_step *before = now - 1; /* a return in between is what it returned to */
    return go_to(kernel, before);
}

static int
checkout(hf_kernel *kernel, int64_t generation) {
    char text[64];
    const hfi_step *step = find_step(kernel->timeline, generation);
    if (step != NULL)
        return go_to(kernel, step);
    snprintf(text, sizeof text, "there is no step %lld", (long long)generation);
    fail(kernel, text);
    return 0;
}

static int
check_diff(hf_kernel *kernel, const hfi_travel *travel) {
    const long long wanted[] = {travel->from, travel->to};
    char text[64];
    for (int i = 0; i < 2; i++)
        if (wanted[i] >= 0 && find_step(kernel->timeline, wanted[i]) == NULL) {
            snprintf(text, sizeof text, "there is no step %lld", wanted[i]);
            fail(kernel, text);
            return 0;
        }
    return 1;
}

void
hfi_timeline_begin(hf_kernel *kernel) {
    const hfi_travel *travel = &kernel->cell.verdict.travel;
    hfi_timeline *line = kernel->timeline;
    int goes_on = 1;
    if (travel->kind == HFI_TRAVEL_LIMIT) {
        line->limit_bytes = travel->limit_bytes;
        keep_limits(kernel);
    }
    line->kept_bytes = kept_bytes(kernel);
    hold(line);
    if (travel->kind == HFI_TRAVEL_UNDO)
        goes_on = undo(kernel);
    else if (travel->kind == HFI_TRAVEL_CHECKOUT)
        goes_on = checkout(kernel, travel->from);
    else if (travel->kind == HFI_TRAVEL_DIFF)
        goes_on = check_diff(kernel, travel);
    if (!goes_on)
        return;
    hfi_cell_start(&kernel->cell, HFI_PLAN_PLAIN);
    hfi_request_send_with(kernel, hfi_crew_main(kernel), kernel->cell.request,
                          write_travel);
}

static void
end(hf_kernel *kernel) {
    hfi_timeline *line = kernel->timeline;
    if (kernel->cell.verdict.travel.kind == HFI_TRAVEL_NONE)
        return;
    yield(line);
    line->target = 0;
    json_decref(line->target_declined);
    line->target_declined = NULL;
    hfi_textbuf_fini(&line->undone);
}

int
hfi_timeline_replied(hf_kernel *kernel, const msgpack_object *reply) {
    hf_error error = HF_ERROR_INIT;
    uint64_t generation = 0;
    if (hfi_map_part(reply, "prepared").size == 0)
        return 1;
    if (hfi_commits_publish(kernel, reply, &generation, &error) != HF_OK) {
        hfi_commits_fail(kernel,
                         "nothing was loaded, the notebook's variables are as they "
                         "were before the cell",
                         &error);
        return 0;
    }
    tell_home(kernel, generation, 0);
    hfi_timeline_published(kernel, 0);
    return 1;
}

void
hfi_timeline_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_OVER)
        end(kernel);
}
