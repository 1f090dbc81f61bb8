/* generations.c - the generations that are kept, and the ways back to them.
 *
 * A step is a commit that changed a variable's value. It is named by its generation,
 * and remembers when it was published, which cells it is made of, and which variables
 * they changed. Two kinds of commit make steps: that of an idle main worker, or of one
 * before a recorded cell; and that of a recorded cell's own changes. So plain cells pay
 * nothing while they run, and plain cells that follow each other at once are one step.
 *
 * The worker that commits says which variables changed. We can't see it: if a cell only
 * shows a variable, its entry differs, but its value doesn't. A commit that adds
 * nothing but inputs and outputs makes no step: the newest step takes its generation
 * instead. So two neighbouring steps differ by the changes of the later one's cells,
 * and by nothing else.
 *
 * A step may be made of several cells, while the user may expect that undo takes back
 * only the last one. So undo refuses such a step at first. Its message names the cells,
 * and the `--to N` that undoes all of them.
 *
 * Each step holds a snapshot, which is yielded: a process that finds the arena full
 * takes the oldest, without asking. Beyond a number of steps, or of bytes that only
 * they keep, the oldest are dropped here. The newest step is the current state and
 * costs nothing. The limit is low because memory that a step keeps isn't recycled: the
 * next cell that changes as much gets fresh pages, which take longer. Large data is
 * kept only if a person asks for it.
 *
 * A way back begins with a commit of what isn't committed yet, so that the way back can
 * be undone, too. Then the old tree is published again (hf_commit_restore), so history
 * is linear, and grows. The main worker gets it like a cell worker's commit, and binds
 * what differs. A step that is a return knows whose variables it has (`origin`), so
 * undoing twice goes two steps back. While a request works with old generations the
 * steps are held, so the main worker may lease by name what it is to compare.
 *
 * The main worker gets the data with the request, and shows the text: Python's own
 * (holdfast/commands/history.py), or that of historytext.c. One thread.
 */
#include "session/commits.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session/historytext.h"
#include "session/workers.h"
#include "session/listeners.h"
#include "session/lists.h"
#include "session/request.h"
#include "workers/program.h"

/* Limit of the bytes that only old steps keep, if nobody has chosen another one: half
 * as much as the notebook itself had at once, or LIMIT_LEAST if that is more, and at
 * most 1/LIMIT_SHARE of the capacity. So old values, which few people look at, aren't
 * most of the notebook's memory. The step before the newest is kept in any case. */
#define LIMIT_SHARE 32
#define LIMIT_LEAST (64ull << 20)

/* A commit that changed a variable. */
typedef struct hfi_history_step {
    hf_snapshot *snapshot;
    int64_t generation; /* its name */
    int64_t origin;  /* the step whose variables it has again; 0: it isn't a return */
    int64_t unix_ns; /* when it was published */
    /* numbers of the cells that changed these variables; several cells are a run */
    json_t *cells;
    /* of `cells`; without cells, the number that it is found by */
    long long first, last;
    /* names of the variables that the cells changed; NULL: not known */
    json_t *changed;
    json_t *unserializable; /* name: reason, of the variables that it lacks */
} hfi_history_step;

/* Each step has a lease, of which a process has 32. */
#define HFI_STEPS_MAX 28

typedef struct hfi_generations {
    hfi_history_step steps[HFI_STEPS_MAX + 1]; /* oldest first */
    size_t count;
    long long dropped;    /* steps that aren't kept any more */
    json_t *cells;        /* numbers of the cells that ran since the newest step */
    uint64_t limit_bytes; /* of the bytes that only steps keep */
    /* most bytes that the notebook itself had; not used if the limit was chosen */
    uint64_t most_bytes;
    int is_chosen;       /* the user has chosen the limit */
    uint64_t kept_bytes; /* bytes that only steps kept at the last look */
    /* of the request that runs */
    int64_t target;                /* the step that it returned to; 0: none */
    json_t *target_unserializable; /* `unserializable` of that step, or NULL */
    hfi_textbuf undone;            /* the cells that it took back */
} hfi_generations;

void
hfi_generations_init(hf_kernel *kernel, uint64_t limit_bytes) {
    hf_session_info info = {.struct_size = sizeof info};
    hf_error error = HF_ERROR_INIT;
    kernel->generations->limit_bytes = limit_bytes;
    kernel->generations->is_chosen = limit_bytes != 0;
    if (limit_bytes == 0 && hf_session_describe(kernel->store, &info, &error) == HF_OK)
        kernel->generations->limit_bytes = info.capacity_bytes / LIMIT_SHARE;
}

/* ---- steps ----------------------------------------------------------------------- */

static void
step_fini(hfi_history_step *step) {
    hf_snapshot_release(step->snapshot);
    json_decref(step->cells);
    json_decref(step->changed);
    json_decref(step->unserializable);
    memset(step, 0, sizeof *step);
}

static void
remove_steps(hfi_generations *line, size_t at, size_t count) {
    for (size_t i = at; i < at + count; i++)
        step_fini(&line->steps[i]);
    memmove(line->steps + at, line->steps + at + count,
            (line->count - at - count) * sizeof *line->steps);
    line->count -= count;
    line->dropped += (long long)count;
}

/* Find out which steps are still there, and keep other processes from taking them. */
static void
hold_steps(hfi_generations *line) {
    for (size_t i = line->count; i-- > 0;)
        if (hf_snapshot_hold(line->steps[i].snapshot, NULL) != HF_OK)
            remove_steps(line, i, 1);
}

static void
yield_steps(hfi_generations *line) {
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

static uint64_t
limit_of(const hfi_generations *line) {
    uint64_t half = line->most_bytes / 2;
    uint64_t most = half > LIMIT_LEAST ? half : LIMIT_LEAST;
    return line->is_chosen || most > line->limit_bytes ? line->limit_bytes : most;
}

static void
note_most(hf_kernel *kernel) {
    hfi_generations *line = kernel->generations;
    hf_session_info info = {.struct_size = sizeof info};
    if (hf_session_describe(kernel->store, &info, NULL) == HF_OK &&
        info.committed_bytes + info.reserved_bytes > line->most_bytes)
        line->most_bytes = info.committed_bytes + info.reserved_bytes;
}

/* Call it while all steps are yielded. */
static void
keep_limits(hf_kernel *kernel) {
    hfi_generations *line = kernel->generations;
    note_most(kernel);
    line->kept_bytes = kept_bytes(kernel);
    while (line->count > HFI_STEPS_MAX ||
           (line->count > 2 && line->kept_bytes > limit_of(line)) ||
           (line->count > 1 && line->kept_bytes > line->limit_bytes)) {
        remove_steps(line, 0, 1);
        line->kept_bytes = kept_bytes(kernel);
    }
}

typedef struct comparison {
    const hf_kernel_commands *table;
    json_t *names; /* gets the names of all; NULL: the first one ends it */
    int found, failed;
} comparison;

static int
note_variable(void *context, const hf_entry *before, const hf_entry *after) {
    comparison *compared = context;
    const hf_entry *entry = after != NULL ? after : before;
    const hf_kernel_commands *table = compared->table;
    if ((entry->key_size > 0 && entry->key[0] == '\1') ||
        (table != NULL && table->is_variable != NULL &&
         !table->is_variable(entry->key, entry->key_size)))
        return 0; /* not the user's */
    compared->found = 1;
    if (compared->names == NULL)
        return HF_STOP;
    json_t *name = json_stringn(entry->key, entry->key_size);
    compared->failed |= json_array_append_new(compared->names, name) < 0;
    return 0;
}

/* Whether a variable differs from its value in the newest step. With the common commands
 * a key is a variable, whose entry has its value: then `ret_changed` gets the names of
 * all that differ. Else, or if these can't be found, it gets NULL. */
static int
is_new(const hf_kernel *kernel, hf_snapshot *snapshot, json_t **ret_changed) {
    const hfi_generations *line = kernel->generations;
    const hf_kernel_commands *table = kernel->command_table;
    hf_error error = HF_ERROR_INIT;
    comparison compared = {.table = table};
    hf_snapshot *last = line->count > 0 ? line->steps[line->count - 1].snapshot : NULL;
    *ret_changed = NULL;
    if (last != NULL && hf_snapshot_hold(last, NULL) != HF_OK)
        return 1;
    if (table != NULL && table->has_text)
        compared.names = json_array();
    hf_status status =
        hf_snapshot_diff(last, snapshot, note_variable, &compared, &error);
    if (status != HF_OK)
        hfi_log("history: %s", error.message);
    if (last != NULL)
        hf_snapshot_yield(last);
    if (status == HF_OK && !compared.failed)
        *ret_changed = compared.names;
    else
        json_decref(compared.names);
    return compared.found || status != HF_OK;
}

/* ---- a commit -------------------------------------------------------------------- */

static long long
cell_at(const json_t *cells, size_t i) {
    return json_integer_value(json_array_get(cells, i));
}

/* "3, 4" */
static void
list_cells(const json_t *cells, hfi_textbuf *text) {
    for (size_t i = 0; i < json_array_size(cells); i++)
        hfi_textbuf_format(text, "%s%lld", text->size > 0 ? ", " : "",
                           cell_at(cells, i));
}

void
hfi_generations_note(hf_kernel *kernel) {
    hfi_generations *line = kernel->generations;
    size_t count = json_array_size(line->cells);
    long long number = kernel->cell.request->number;
    if (!kernel->cell.store_history ||
        kernel->cell.directive.history.kind != HFI_HISTORY_NONE ||
        (count > 0 && cell_at(line->cells, count - 1) == number))
        return;
    if (line->cells == NULL)
        line->cells = json_array();
    (void)json_array_append_new(line->cells, json_integer(number));
}

void
hfi_generations_forget(hf_kernel *kernel) {
    json_decref(kernel->generations->cells);
    kernel->generations->cells = NULL;
}

static int
is_among(hfi_ints numbers, long long number) {
    for (size_t i = 0; i < numbers.count; i++)
        if (numbers.items[i] == number)
            return 1;
    return 0;
}

/* Leave out the cells of which the worker says that they changed nothing. If it says so
 * of all, something else has changed the variables meanwhile: then all stay. */
static void
leave_out(hfi_generations *line, hfi_ints looked) {
    json_t *left = json_array();
    for (size_t i = 0; i < json_array_size(line->cells); i++)
        if (!is_among(looked, cell_at(line->cells, i)))
            (void)json_array_append(left, json_array_get(line->cells, i));
    if (json_array_size(left) > 0) {
        json_decref(line->cells);
        line->cells = json_incref(left);
    }
    json_decref(left);
}

static json_t *
unserializable_now(const hf_kernel *kernel) {
    return json_copy(hfi_commits_unserializable(kernel));
}

/* No variable has another value: the newest step takes the new snapshot. */
static void
renew_step(hf_kernel *kernel, hf_snapshot *snapshot) {
    hfi_generations *line = kernel->generations;
    hfi_generations_forget(kernel);
    if (line->count == 0) {
        hf_snapshot_release(snapshot);
        return;
    }
    hfi_history_step *step = &line->steps[line->count - 1];
    hf_snapshot_release(step->snapshot);
    json_decref(step->unserializable);
    step->snapshot = snapshot;
    step->unserializable = unserializable_now(kernel);
    hf_snapshot_yield(snapshot);
}

/* The number by which a step without cells is found: that of the cell that makes the
 * step, or of the last cell before. */
static long long
number_of(const hf_kernel *kernel, int64_t origin) {
    const hfi_generations *line = kernel->generations;
    if (origin != 0 || (kernel->cell.request != NULL &&
                        kernel->cell.directive.history.kind == HFI_HISTORY_LOAD))
        return kernel->cell.number;
    return line->count > 0 ? line->steps[line->count - 1].last : 0;
}

/* A commit between two runs of a repeated cell (--repeat) makes no step of its own. If
 * the new step begins with the newest one's last cell, it takes that one's place.
 * Returns what both have changed; consumes `changed`. */
static json_t *
take_place(hfi_generations *line, json_t *changed) {
    hfi_history_step *newest = line->steps + line->count - (line->count > 0);
    size_t count = json_array_size(newest->cells);
    if (count == 0 || json_array_size(line->cells) == 0 ||
        cell_at(newest->cells, count - 1) != cell_at(line->cells, 0))
        return changed;
    (void)json_array_remove(line->cells, 0);
    (void)json_array_extend(newest->cells, line->cells);
    json_decref(line->cells);
    line->cells = json_incref(newest->cells);
    if (changed == NULL || json_array_extend(changed, newest->changed) < 0) {
        json_decref(changed);
        changed = NULL;
    }
    step_fini(newest);
    line->count--;
    return changed;
}

/* Consumes `changed`. */
static void
add_step(hf_kernel *kernel, hf_snapshot *snapshot, int64_t origin, json_t *changed) {
    hfi_generations *line = kernel->generations;
    changed = take_place(line, changed);
    size_t count = json_array_size(line->cells);
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_REALTIME, &now);
    hfi_history_step step = {
        .snapshot = snapshot,
        .generation = (int64_t)hf_snapshot_generation(snapshot),
        .origin = origin,
        .unix_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
        .cells = line->cells,
        .first = count > 0 ? cell_at(line->cells, 0) : number_of(kernel, origin),
        .last = count > 0 ? cell_at(line->cells, count - 1) : number_of(kernel, origin),
        .changed = changed,
        .unserializable = unserializable_now(kernel),
    };
    line->steps[line->count++] = step;
    line->cells = NULL;
    hf_snapshot_yield(snapshot);
    keep_limits(kernel);
}

/* The generation that was just published; NULL after a message. */
static hf_snapshot *
acquire_snapshot(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    hf_snapshot *snapshot = NULL;
    if (hfi_commits_lease(kernel, &snapshot, &error) != HF_OK)
        hfi_log("history: %s", error.message);
    return snapshot;
}

void
hfi_generations_published(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    hf_snapshot *snapshot = acquire_snapshot(kernel);
    if (snapshot == NULL)
        return;
    json_t *changed = reply != NULL ? hfi_list_to_json(reply->changed) : NULL;
    int is_step = changed != NULL ? json_array_size(changed) > 0
                                  : is_new(kernel, snapshot, &changed);
    if (is_step) {
        if (reply != NULL)
            leave_out(kernel->generations, reply->looked);
        add_step(kernel, snapshot, 0, changed);
    } else {
        renew_step(kernel, snapshot);
        json_decref(changed);
    }
}

/* ---- what the main worker gets --------------------------------------------------- */

/* A step in a frame borrows from here. */
typedef struct told_step {
    char key[24];
    hf_generation name;
    hfi_textbuf cells;
    hfi_parts changed;
} told_step;

static hfi_keyed_step
tell_step(const hfi_history_step *step, told_step *told) {
    snprintf(told->key, sizeof told->key, "%lld", (long long)step->generation);
    hf_snapshot_export(step->snapshot, &told->name);
    list_cells(step->cells, &told->cells);
    if (step->changed != NULL)
        told->changed = hfi_list_of_json(step->changed);
    return (hfi_keyed_step){hfi_part_text(told->key),
                            {.unix_ns = step->unix_ns,
                             .origin = step->origin,
                             .cells = hfi_textbuf_part(&told->cells),
                             .changed = told->changed,
                             .name = hfi_part_of(&told->name, sizeof told->name)}};
}

/* Write what the user sees, if the worker has no words of its own. */
static void
write_shown(hf_kernel *kernel, const hfi_map_history *map, hfi_textbuf *text) {
    const hfi_generations *line = kernel->generations;
    hf_snapshot *snapshots[HFI_STEPS_MAX + 1];
    hfi_texts lacks = hfi_list_of_object(hfi_commits_unserializable(kernel));
    for (size_t i = 0; i < line->count; i++)
        snapshots[i] = line->steps[i].snapshot;
    if (kernel->cell.directive.history.kind == HFI_HISTORY_DIFF)
        hfi_historytext_write_diff(map, snapshots, text);
    else
        hfi_historytext_write(map, hfi_history_command(kernel), kernel->store, lacks,
                              text);
    hfi_list_free(lacks.items);
}

static void
send_history(hf_kernel *kernel) {
    const hfi_generations *line = kernel->generations;
    const hfi_history *history = &kernel->cell.directive.history;
    hfi_keyed_step steps[HFI_STEPS_MAX + 1];
    told_step told[HFI_STEPS_MAX + 1] = {0};
    hfi_textbuf pending = {0}, text = {0};
    hfi_texts unserializable = hfi_list_of_object(line->target_unserializable);
    for (size_t i = 0; i < line->count; i++)
        steps[i] = tell_step(&line->steps[i], &told[i]);
    list_cells(line->cells, &pending);
    hfi_map_history map = {.kind = hfi_part_text(hfi_history_name(history->kind)),
                           .from = history->from,
                           .to = history->to,
                           .target = line->target,
                           .undone = hfi_textbuf_part(&line->undone),
                           .unserializable = unserializable,
                           .pending = hfi_textbuf_part(&pending),
                           .kept_bytes = (int64_t)line->kept_bytes,
                           .limit_bytes = (int64_t)limit_of(line),
                           .dropped = line->dropped,
                           .steps = {steps, line->count},
                           .file = hfi_part_text(kernel->cell.directive.file != NULL
                                                     ? kernel->cell.directive.file
                                                     : "")};
    if (kernel->command_table->has_text)
        write_shown(kernel, &map, &text);
    map.text = hfi_textbuf_part(&text);
    hfi_request_send_with(kernel, hfi_workers_main(kernel), kernel->cell.request, &map);
    hfi_textbuf_fini(&text);
    for (size_t i = 0; i < line->count; i++) {
        hfi_textbuf_fini(&told[i].cells);
        hfi_list_free(told[i].changed.items);
    }
    hfi_textbuf_fini(&pending);
    hfi_list_free(unserializable.items);
}

static void
fini_generations(hf_kernel *kernel) {
    remove_steps(kernel->generations, 0, kernel->generations->count);
    hfi_generations_forget(kernel);
}

const hfi_owner hfi_generations_owner = {offsetof(hf_kernel, generations),
                                         sizeof(struct hfi_generations), NULL,
                                         fini_generations};

/* ---- ways back ------------------------------------------------------------------- */

static const hfi_history_step *
find_step(const hfi_generations *line, int64_t generation) {
    for (size_t i = 0; i < line->count; i++)
        if (line->steps[i].generation == generation)
            return &line->steps[i];
    return NULL;
}

/* The step whose variables the newest one has: itself, or the one that it returned to.
 * NULL if that isn't kept. */
static const hfi_history_step *
find_origin(const hfi_generations *line) {
    const hfi_history_step *step =
        line->count > 0 ? &line->steps[line->count - 1] : NULL;
    while (step != NULL && step->origin != 0)
        step = find_step(line, step->origin);
    return step;
}

/* The same for any step, by its generation. */
static int64_t
origin_of(const hfi_generations *line, const hfi_history_step *step) {
    while (step->origin != 0 && find_step(line, step->origin) != NULL)
        step = find_step(line, step->origin);
    return step->origin != 0 ? step->origin : step->generation;
}

/* List the numbers of the steps, which aren't consecutive. */
static void
list_steps(const hfi_generations *line, hfi_textbuf *text) {
    for (size_t i = 0; i < line->count; i++) {
        const char *before = i == 0 ? "" : i + 1 == line->count ? " and " : ", ";
        hfi_textbuf_format(text, "%s%lld", before,
                           (long long)line->steps[i].generation);
    }
}

static void
fail_history(hf_kernel *kernel, const char *sentence) {
    hfi_textbuf text = {0};
    const char *command = hfi_history_command(kernel);
    const hfi_generations *line = kernel->generations;
    hfi_textbuf_format(&text, "%s; ", sentence);
    if (line->count == 0) {
        hfi_textbuf_format(&text, "no step is kept");
    } else {
        hfi_textbuf_format(&text, "kept %s ",
                           line->count == 1 ? "is step" : "are the steps");
        list_steps(line, &text);
        if (command != NULL)
            hfi_textbuf_format(&text, " (%s history)", command);
    }
    hfi_ends_fail(kernel, "HistoryError", hfi_textbuf_string(&text));
    hfi_textbuf_fini(&text);
}

/* Have the main worker bind what differs. `changed`: only these names, unless it is
 * NULL. `with_state`: random generators and other process state as well. */
static void
send_checkout(hf_kernel *kernel, uint64_t generation, int with_state,
              const json_t *changed) {
    hf_generation name;
    hfi_parts names = {NULL, 0};
    if (changed != NULL)
        names = hfi_list_of_json(changed);
    hfi_workers_send_main(kernel,
                          HFI_FRAME(to_main_checkout, .generation = (int64_t)generation,
                                    .name = hfi_commits_name(kernel, &name),
                                    .state = with_state != 0, .changed = names));
    hfi_list_free(names.items);
}

/* The names that may differ between a step and the newest one: those that the steps
 * after it have changed. NULL if one of these steps doesn't know. */
static json_t *
changed_since(const hfi_generations *line, const hfi_history_step *step) {
    json_t *names = json_array();
    while (++step < line->steps + line->count)
        if (step->changed == NULL || json_array_extend(names, step->changed) < 0) {
            json_decref(names);
            return NULL;
        }
    return names;
}

/* Returns 0 if it failed. The client has the error then. */
static int
go_to(hf_kernel *kernel, const hfi_history_step *step) {
    hfi_generations *line = kernel->generations;
    hf_error error = HF_ERROR_INIT;
    uint64_t generation = 0;
    line->target = step->generation;
    line->target_unserializable = json_incref(step->unserializable);
    int64_t origin = origin_of(line, step);
    json_t *changed = changed_since(line, step);
    if (hfi_commits_restore(kernel, step->snapshot, &generation, &error) != HF_OK) {
        json_decref(changed);
        hfi_ends_fail(kernel, "HistoryError", error.message);
        return 0;
    }
    send_checkout(kernel, generation, 1, changed);
    hf_snapshot *snapshot = acquire_snapshot(kernel);
    if (snapshot != NULL)
        add_step(kernel, snapshot, origin, changed);
    else
        json_decref(changed);
    hold_steps(line); /* the main worker gets the steps with the request */
    return 1;
}

static int
is_run(const hfi_history_step *step) {
    return json_array_size(step->cells) > 1;
}

/* "In[3] to In[5] ran without a pause: " */
static void
describe_run(const hfi_history_step *step, hfi_textbuf *text) {
    hfi_textbuf_format(text, "In[%lld] %s In[%lld] ran without a pause: ", step->first,
                       json_array_size(step->cells) == 2 ? "and" : "to", step->last);
}

/* Refuse to undo a run, and name the command that does. */
static void
offer_undo(hf_kernel *kernel, const hfi_history_step *step, hfi_textbuf *text) {
    const char *command = hfi_history_command(kernel);
    hfi_textbuf_format(text,
                       "undo takes them back together. To go to before In[%lld], "
                       "run `%s undo --to %lld`",
                       step->first, command != NULL ? command : "", step->first - 1);
    hfi_ends_fail(kernel, "HistoryError", hfi_textbuf_string(text));
}

/* Note the cells of all steps after `before`, up to `now`. */
static void
note_undone(hfi_generations *line, const hfi_history_step *before,
            const hfi_history_step *now) {
    hfi_textbuf_clear(&line->undone);
    for (const hfi_history_step *step = before + 1; step <= now; step++)
        list_cells(step->cells, &line->undone);
}

static int
undo_last(hf_kernel *kernel) {
    hfi_generations *line = kernel->generations;
    const hfi_history_step *now = find_origin(line);
    hfi_textbuf text = {0};
    int is_first = now == NULL || now == line->steps;
    if (now != NULL && is_run(now))
        describe_run(now, &text);
    if (!is_first && is_run(now)) {
        offer_undo(kernel, now, &text);
    } else if (is_first) {
        hfi_textbuf_format(&text, "%s",
                           line->dropped > 0 ? "the step before isn't kept any more"
                                             : "there is no step before");
        fail_history(kernel, hfi_textbuf_string(&text));
    }
    hfi_textbuf_fini(&text);
    if (is_first || is_run(now))
        return 0;
    note_undone(line, now - 1, now);
    /* if that step is a return, it has the variables that it returned to */
    return go_to(kernel, now - 1);
}

/* Go to the variables as they were after a cell. */
static int
undo_to(hf_kernel *kernel, long long cell) {
    hfi_generations *line = kernel->generations;
    const hfi_history_step *step = line->steps + line->count;
    const hfi_history_step *now = find_origin(line);
    hfi_textbuf text = {0};
    while (step > line->steps && step[-1].last > cell)
        step--;
    int is_within = step < line->steps + line->count && step->first <= cell;
    if (cell >= kernel->cell.number)
        hfi_textbuf_format(&text, "In[%lld] hasn't run", cell);
    else if (is_within)
        describe_run(step, &text);
    else if (step == line->steps)
        hfi_textbuf_format(&text, "the variables after In[%lld] aren't kept%s", cell,
                           line->dropped > 0 ? " any more" : "");
    else if (now != NULL && origin_of(line, step - 1) == now->generation)
        hfi_textbuf_format(&text, "no variable has changed since In[%lld]", cell);
    int fails = text.size > 0;
    if (is_within && step > line->steps) {
        offer_undo(kernel, step, &text);
    } else if (fails) {
        if (is_within)
            hfi_textbuf_format(&text, "the variables after In[%lld] weren't kept",
                               cell);
        fail_history(kernel, hfi_textbuf_string(&text));
    }
    hfi_textbuf_fini(&text);
    if (fails)
        return 0;
    int64_t origin = origin_of(line, step - 1);
    const hfi_history_step *found = find_step(line, origin);
    if (found != NULL && now != NULL)
        note_undone(line, found, now);
    return go_to(kernel, step - 1);
}

static int
checkout_step(hf_kernel *kernel, int64_t generation) {
    char text[64];
    const hfi_history_step *step = find_step(kernel->generations, generation);
    if (step != NULL)
        return go_to(kernel, step);
    snprintf(text, sizeof text, "there is no step %lld", (long long)generation);
    fail_history(kernel, text);
    return 0;
}

static int
check_diff(hf_kernel *kernel, const hfi_history *history) {
    const long long wanted[] = {history->from, history->to};
    char text[64];
    for (int i = 0; i < 2; i++)
        if (wanted[i] >= 0 && find_step(kernel->generations, wanted[i]) == NULL) {
            snprintf(text, sizeof text, "there is no step %lld", wanted[i]);
            fail_history(kernel, text);
            return 0;
        }
    return 1;
}

/* Whether the worker program says so. It may have said it just now. A program that hasn't
 * said anything yet gets the request. */
static int
worker_has_history(hf_kernel *kernel) {
    const hfi_fork_server *server = hfi_workers_server(kernel);
    if (!server->ready)
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_WORKER_LOOKED_AT});
    return server->has_history || !server->ready;
}

void
hfi_generations_begin(hf_kernel *kernel) {
    const hfi_history *history = &kernel->cell.directive.history;
    hfi_generations *line = kernel->generations;
    int goes_on = 1;
    if (!worker_has_history(kernel)) {
        hfi_ends_fail(kernel, "NotSupported",
                      "this kernel's worker has no history of its variables");
        return;
    }
    if (history->kind == HFI_HISTORY_LIMIT) {
        line->limit_bytes = history->limit_bytes;
        line->is_chosen = 1;
        keep_limits(kernel);
    }
    line->kept_bytes = kept_bytes(kernel);
    hold_steps(line);
    if (history->kind == HFI_HISTORY_UNDO)
        goes_on = history->to < 0 ? undo_last(kernel) : undo_to(kernel, history->to);
    else if (history->kind == HFI_HISTORY_CHECKOUT)
        goes_on = checkout_step(kernel, history->from);
    else if (history->kind == HFI_HISTORY_DIFF)
        goes_on = check_diff(kernel, history);
    if (!goes_on)
        return;
    hfi_cell_start(&kernel->cell, HFI_PLAN_PLAIN);
    send_history(kernel);
}

static void
end_history(hf_kernel *kernel) {
    hfi_generations *line = kernel->generations;
    if (kernel->cell.directive.history.kind == HFI_HISTORY_NONE)
        return;
    yield_steps(line);
    line->target = 0;
    json_decref(line->target_unserializable);
    line->target_unserializable = NULL;
    hfi_textbuf_fini(&line->undone);
}

int
hfi_generations_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    hf_error error = HF_ERROR_INIT;
    uint64_t generation = 0;
    if (reply->prepared.size == 0)
        return 1;
    if (hfi_commits_publish(kernel, reply, &generation, &error) != HF_OK) {
        hfi_commits_fail(kernel,
                         "nothing was loaded, the notebook's variables are as they "
                         "were before the cell",
                         &error);
        return 0;
    }
    send_checkout(kernel, generation, 0, NULL);
    hfi_generations_published(kernel, NULL);
    return 1;
}

void
hfi_generations_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_OVER)
        end_history(kernel);
}
