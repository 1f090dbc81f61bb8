/* standby.c - the processes that wait for a cell in a clean process.
 *
 * A standby is a fork of the fork server whose shell is set up. That takes about 5 ms,
 * or 25 if the user has configuration files of IPython, and no client should see it. A
 * cell takes the oldest standby that is ready. The next one is forked when the cell's
 * reply is out, not while the cell runs, because the cell is being measured.
 *
 * There are standbys if the last cell that was recorded or isolated ran in a clean
 * process, or if every one is to. Most notebooks never run one: two standbys were 25 of
 * 74 MiB (PSS) of a kernel at rest, and the fork server imports less without them. The
 * first isolated cell then waits for its fork, and for what the fork server imports
 * before that.
 *
 * Machines with two cores or more have two standbys, so that a notebook that is run
 * from top to bottom rarely waits. A cell that touches one element of 8 MiB took, from
 * request to idle:
 * - back to back: 42 to 48 ms with one standby, 22 to 31 ms with two
 * - with pauses of 0.3 s: 15 to 18 ms with either
 *
 * (bench/cell --pause 0 and 0.3, medians of 15 cells in four runs by turns, two cores.)
 * Machines with one core have one standby: a second would take its time from the cell.
 *
 * Rejected:
 * - Fork when the former standby is taken: this disturbs every cell, even if nobody is
 *   in a hurry.
 * - The same at a low priority: an ordinary user can't raise it again.
 * - A longer reserve: two suffice, and each holds 10 to 20 MB of its own.
 *
 * The first standbys are forked when the main worker is ready and has answered what a
 * client has asked by then, or FIRST_CELL_NS later at the latest. The fork server has
 * to import more for them, and would take a processor from a first cell.
 *
 * Standbys are replaced when the fork server has imported what the notebook has
 * imported since, so that a cell in a clean process needn't. If the last cell ran in a
 * clean process, the fork server imports at once, beside the notebook. Otherwise it
 * waits until nobody uses the notebook for a moment (rest.c): two processes that import
 * at the same time slow each other down (matplotlib.pyplot took 0.50 s instead of 0.27
 * on two cores that share their caches), and a cell that runs in-process needs none of
 * it.
 *
 * A standby that lives but never gets ready is killed after HOLDFAST_READY_SECONDS (30
 * by default), counted from its fork. A cell that waits for it gets a fresh one, once.
 * After FAILURES_MAX failures in a row none is started until a cell asks, or until
 * there is a new fork server.
 *
 * Standbys are ended if no client has asked for anything for a while (rest.c), since
 * each holds memory of its own. The first request of any kind, for example one to
 * complete code, has them forked again. A cell that comes before they are ready waits
 * for a fork, not for a start of Python.
 *
 * If a standby is killed while it waits (by a memory manager or a person), no cell gets
 * an error for it. Each standby is checked before it is taken. If it dies between that
 * and the cell's start, the cell goes to another one (death.c). One thread.
 */
#include "session/workers.h"
#include "session/lists.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STANDBYS_MAX  2
#define FAILURES_MAX  2
#define FIRST_CELL_NS INT64_C(300000000)

struct hfi_standby {
    hfi_worker *workers[STANDBYS_MAX]; /* oldest first */
    size_t count;
    int stale;        /* the fork server has imported more than they have */
    int resting;      /* ended, until a client asks for something */
    long long due_ns; /* when to fork the first ones; 0: not pending */
    int failures;     /* standbys in a row that never got ready */
    /* names that the fork server has or is to import; true: it imported them for the
     * notebook, and survived */
    json_t *modules;
    json_t *awaited; /* those that the fork server isn't asked for yet, in order */
    int eager;       /* the last cell, or every cell, is for a clean process */
};

/* Whether recorded cells run in a clean process by default. */
static int
wants_clean(const hf_kernel *kernel) {
    const char *chosen = getenv("HOLDFAST_RUN");
    if (chosen == NULL || chosen[0] == '\0')
        chosen = kernel->run_mode;
    return strcmp(chosen, "isolated") == 0;
}

static hf_status
init_standby(hf_kernel *kernel, hf_error *reterr) {
    kernel->standby->modules = json_object();
    kernel->standby->awaited = json_array();
    return kernel->standby->modules != NULL && kernel->standby->awaited != NULL
               ? HF_OK
               : hf_error_set(reterr, HF_E_NOMEM, "no memory");
}

static void
fini_standby(hf_kernel *kernel) {
    json_decref(kernel->standby->modules);
    json_decref(kernel->standby->awaited);
}

const hfi_owner hfi_standby_owner = {offsetof(hf_kernel, standby),
                                     sizeof(struct hfi_standby), init_standby,
                                     fini_standby};

static size_t
standbys_wanted(const hf_kernel *kernel) {
    if (!kernel->standby->eager)
        return 0;
    return sysconf(_SC_NPROCESSORS_ONLN) > 1 ? STANDBYS_MAX : 1;
}

static void
release_all(hf_kernel *kernel) {
    for (size_t i = 0; i < kernel->standby->count; i++)
        hfi_worker_release(kernel->standby->workers[i], 1000);
    kernel->standby->count = 0;
    kernel->standby->failures = 0;
    kernel->standby->stale = 0;
}

void
hfi_standby_replenish(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_cell_waits_for_commit(&kernel->cell) ||
        hfi_cell_is_in_worker(&kernel->cell))
        return; /* asked again when the cell's reply is out */
    if (kernel->standby->resting || hfi_workers_server(kernel)->control == NULL)
        return;
    if (kernel->standby->stale)
        release_all(kernel);
    while (kernel->standby->count < standbys_wanted(kernel) && !kernel->stopping &&
           kernel->standby->failures < FAILURES_MAX) {
        hfi_worker **place = &kernel->standby->workers[kernel->standby->count];
        if (hfi_workers_fork(kernel, HFI_CELL, place, &error) != HF_OK) {
            hfi_log("standby: %s", error.message);
            return;
        }
        kernel->standby->count++;
    }
}

void
hfi_standby_begin(hf_kernel *kernel, long long now_ns) {
    kernel->standby->failures = 0; /* the failures were those of another fork server */
    kernel->standby->due_ns = now_ns + FIRST_CELL_NS;
    hfi_standby_tick(kernel, now_ns);
}

void
hfi_standby_tick(hf_kernel *kernel, long long now_ns) {
    int answers = hfi_cell_is_in_main(&kernel->cell);
    if (kernel->standby->due_ns == 0 || (answers && now_ns < kernel->standby->due_ns))
        return;
    kernel->standby->due_ns = 0;
    hfi_standby_replenish(kernel);
}

void
hfi_standby_rest(hf_kernel *kernel) {
    release_all(kernel);
    kernel->standby->resting = 1;
}

void
hfi_standby_wake(hf_kernel *kernel) {
    if (!kernel->standby->resting)
        return;
    kernel->standby->resting = 0;
    hfi_standby_replenish(kernel);
}

int
hfi_standby_remove(hf_kernel *kernel, const hfi_worker *worker) {
    for (size_t i = 0; i < kernel->standby->count; i++)
        if (kernel->standby->workers[i] == worker) {
            kernel->standby->count--;
            memmove(kernel->standby->workers + i, kernel->standby->workers + i + 1,
                    (kernel->standby->count - i) * sizeof *kernel->standby->workers);
            return 1;
        }
    return 0;
}

hfi_worker *
hfi_standby_take(hf_kernel *kernel, int fresh) {
    hf_error error = HF_ERROR_INIT;
    hfi_worker *chosen = NULL;
    kernel->standby->failures = 0; /* the user asks: worth another try */
    for (size_t i = kernel->standby->count; i-- > 0;) {
        hfi_worker *at = kernel->standby->workers[i];
        hfi_emit(kernel,
                 &(hfi_event){
                     .kind = HFI_EVENT_WORKER_LOOKED_AT,
                     .worker = at}); /* it may have died since the loop last looked */
        if (!hfi_worker_lives(at))
            continue;
        if (at->state == HFI_WORKER_READY ||
            (!fresh && (chosen == NULL || chosen->state != HFI_WORKER_READY)))
            chosen = at;
    }
    if (chosen != NULL) {
        hfi_standby_remove(kernel, chosen);
        return chosen;
    }
    hf_status status = hfi_workers_fork(kernel, HFI_CELL, &chosen, &error);
    /* its end is noted now, and another fork server started */
    if (status == HF_E_GONE) {
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_WORKER_LOOKED_AT});
        status = hfi_workers_fork(kernel, HFI_CELL, &chosen, &error);
    }
    if (status != HF_OK)
        hfi_log("standby: %s", error.message);
    return status == HF_OK ? chosen : NULL;
}

/* ---- modules -------------------------------------------------------------------- */

/* Returns 1 if the name is new. */
static int
note_module(hf_kernel *kernel, const char *name) {
    return json_object_get(kernel->standby->modules, name) == NULL &&
           json_object_set_new(kernel->standby->modules, name, json_false()) == 0;
}

static void
note_modules(hf_kernel *kernel, hfi_parts modules, int awaited) {
    for (size_t i = 0; i < modules.count; i++) {
        hfi_part name = modules.items[i];
        char *key = name.size > 0 ? strndup(name.data, name.size) : NULL;
        if (key != NULL && note_module(kernel, key) && awaited)
            (void)json_array_append_new(kernel->standby->awaited, json_string(key));
        free(key);
    }
}

void
hfi_standby_import(hf_kernel *kernel, hfi_worker *worker,
                   const hfi_from_worker_importing *frame) {
    (void)worker;
    note_modules(kernel, frame->modules, 1);
    if (kernel->standby->eager)
        hfi_standby_import_awaited(kernel);
}

int
hfi_standby_awaits_import(const hf_kernel *kernel) {
    return json_array_size(kernel->standby->awaited) > 0 &&
           hfi_workers_server(kernel)->ready;
}

void
hfi_standby_import_awaited(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    if (!hfi_standby_awaits_import(kernel))
        return;
    hfi_parts names = hfi_list_of_json(kernel->standby->awaited);
    if (hfi_control_send_consume(hfi_workers_server(kernel)->control,
                                 HFI_FRAME(to_fork_server_import, .modules = names),
                                 &error) != HF_OK)
        hfi_log("import: %s", error.message);
    hfi_list_free(names.items);
    json_array_clear(kernel->standby->awaited);
}

void
hfi_standby_imported(hf_kernel *kernel, hfi_parts modules) {
    for (size_t i = 0; i < modules.count; i++) {
        hfi_part name = modules.items[i];
        char *key = name.size > 0 ? strndup(name.data, name.size) : NULL;
        if (key != NULL)
            (void)json_object_set_new(kernel->standby->modules, key, json_true());
        free(key);
    }
}

/* For a new fork server: it is to import what the former one had imported. */
static void
begin_modules(hf_kernel *kernel) {
    const char *name;
    json_t *was_imported;
    void *next;
    json_array_clear(kernel->standby->awaited);
    json_object_foreach_safe(kernel->standby->modules, next, name, was_imported) {
        if (json_is_true(was_imported))
            (void)json_array_append_new(kernel->standby->awaited, json_string(name));
        else
            json_object_del(kernel->standby->modules, name);
    }
}

/* The fork server has them from the start. */
void
hfi_standby_know(hf_kernel *kernel, hfi_parts modules) {
    note_modules(kernel, modules, 0);
}

/* ---- events --------------------------------------------------------------------- */

static void
note_plan(hf_kernel *kernel, hfi_plan plan) {
    if (plan == HFI_PLAN_ISOLATED)
        kernel->standby->eager = 1;
    else if (plan == HFI_PLAN_IN_PROCESS || plan == HFI_PLAN_FORKED)
        kernel->standby->eager = wants_clean(kernel);
}

void
hfi_standby_replace(hf_kernel *kernel) {
    kernel->standby->stale = 1;
    hfi_standby_replenish(kernel);
}

void
hfi_standby_note_failure(hf_kernel *kernel, int failed) {
    kernel->standby->failures = failed ? kernel->standby->failures + 1 : 0;
}

hfi_worker *
hfi_standby_oldest(const hf_kernel *kernel) {
    return kernel->standby->count > 0 ? kernel->standby->workers[0] : NULL;
}

void
hfi_standby_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_FINISHED)
        note_plan(kernel, kernel->cell.plan);
    if (event->kind != HFI_EVENT_SERVER_STARTED)
        return;
    begin_modules(kernel);
    kernel->standby->eager = wants_clean(kernel);
}
