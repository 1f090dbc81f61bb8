/* rollback.c - a sleeping fork of the main worker, which is woken if the main worker
 * dies.
 *
 * As a rule a recorded cell runs in the main worker, where it has every object of the
 * notebook. Before such a cell the main worker forks itself. The fork
 * sleeps, and has the notebook as it was then. However the main worker dies, the
 * notebook goes on from that state. A cell that goes well encodes nothing for this.
 * rollback.h has the states and their picture.
 *
 * A fork is whole or partial:
 * - A whole fork goes on where its parent stood, with all objects. As a rule a fork is
 *   whole.
 * - A partial fork can only commit its variables, since threads of unknown libraries
 *   ran or a GPU was in use. The queue waits until the commit is published. Then a new
 *   main worker binds the variables.
 *
 * If the main worker died before it had said which of the two the fork is, the fork's
 * first frame shows it.
 *
 * The fork stays when its cell is over: it is the newest safe state until a commit or a
 * newer fork replaces it. A newer fork ends the former one only once it sleeps itself.
 * If the main worker dies before that, the former one is woken.
 *
 * If the last recorded or isolated cell ran in-process, the next one probably will. So
 * a fork is made in advance, once nobody has used the notebook for a moment (rest.c),
 * and the main worker copies the pages that cells write. When the next cell comes, the
 * main worker knows whether anything has run since the fork. It says so in its answer to
 * the commit ("protected").
 *
 * Cells that follow each other without a pause, as in "Run All", share a fork: no idle
 * commit (rest.c) comes between them. This holds for plain cells, and for recorded ones
 * after the first ROW, which also commit nothing then; or after one of them that waited
 * for copies of arrays, as the next one would after another fork. A fork costs its own
 * time, and that of what is copied because it shares it: pages in the cells (copies.h),
 * and arrays before a cell that will write them, which the worker times. So the next one
 * is made once the cells have run for SHARE times what the last one cost: 3 % of their
 * time. A crash loses the cell that died, and the cells before it that together ran for
 * less. After a crash the next cell gets a fork at once, because the state of the woken
 * fork is nowhere else.
 *
 * A cell that touches all of a large memory would wait for the copy of all of it. So
 * while a cell runs, plain or recorded, the copies since the fork are counted. The fork
 * is given up once they take more than 3 % of the time of the cells that it protects
 * (allowed_ns()). A crash of the cell then loses what no commit has, which the error
 * says. The line below a recorded cell says that its protection was given up. After a
 * crash no fork is given up before the next commit: what woke is nowhere else.
 *
 * The user may choose otherwise, by HOLDFAST_PROTECT or `%holdfast protect`: `always`
 * gives no fork up; `never` makes none. One thread.
 */
#include "session/rollback.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "session/commits.h"
#include "session/copies.h"
#include "session/rerun.h"
#include "session/workers.h"
#include "workers/program.h"

/* Recorded cells since the last pause, after which they are a run. */
#define ROW             2
#define SHARE           33
#define COST_FIRST_NS   15000000 /* of a fork and its copies, before one was measured */
#define COMMIT_WAIT_NS  60000000000LL
#define PREPARED_MOST_S 3600.0 /* of one cell; a worker that says more is wrong */

/* Copies for a cell, however short: the usual ones take a few milliseconds. And for cells
 * that follow long ones. */
#define ALLOWED_LEAST_NS 10000000LL
#define ALLOWED_MOST_NS  100000000LL
/* Between two looks at what was copied: a quarter of the cell's time so far, within
 * these bounds. */
#define LOOK_LEAST_NS 8000000LL
#define LOOK_MOST_NS  100000000LL

/* Whether a fork is to be made for the next recorded cell. */
typedef enum hfi_rollback_need {
    HFI_NEED_UNLIKELY, /* as far as we know, the next cell needs no fork */
    HFI_NEED_LIKELY,   /* the last cell ran in-process, and so will the next */
    HFI_NEED_MET, /* like LIKELY, but a fork was asked for since the last request */
} hfi_rollback_need;

typedef struct hfi_rollback {
    hfi_protection protection; /* what the user wants; `budget` is the rule */
    hfi_rollback_state state;  /* changed by move_state alone */
    hfi_worker *worker;        /* NULL if and only if NONE or OWED */
    struct {                   /* the fork before, until the new one sleeps */
        pid_t pid;             /* 0: none */
        hfi_rollback_state state;
        long long cells, mark;
    } former;
    hfi_rollback_need need; /* changed by set_need alone */
    int row;                /* in-process cells since the last pause */
    long long cells;        /* cells that ran since the fork was made */
    long long mark;         /* of the cells that it has (rerun.h) */
    long long run_ns;       /* their total time */
    long long cost_ns;      /* of the last fork; 0: not measured yet */
    hfi_copies copies;      /* since the fork was made */
    long long copied_ns;    /* their time, or that of the fork before */
    long long prepared_ns;  /* of copies before cells since the fork or a commit */
    long long earned_ns;    /* what copies may take for the cells before the fork */
    long long look_ns;      /* when to count the copies next; 0: never */
    hfi_rollback_given_up given_up; /* during the cell that runs or ran last */
    int saved;    /* whether a commit had the notebook when the fork was asked for */
    int woken;    /* a fork has woken, and no commit has what it brought back */
    long long id; /* of the last request to the fork, or of the request to make it */
} hfi_rollback;

static hf_status
init_rollback(hf_kernel *kernel, hf_error *reterr) {
    const char *word = getenv("HOLDFAST_PROTECT");
    hfi_protection wish = hfi_protection_of(hfi_part_text(word != NULL ? word : ""));
    (void)reterr;
    kernel->rollback->copies = (hfi_copies)HFI_COPIES_INIT;
    if (wish == HFI_PROTECT_UNKNOWN && word != NULL && *word != '\0')
        hfi_log("HOLDFAST_PROTECT=%s is none of always, budget and never; cells are "
                "protected as by budget",
                word);
    kernel->rollback->protection =
        wish != HFI_PROTECT_UNKNOWN ? wish : HFI_PROTECT_BUDGET;
    return HF_OK;
}

static void
fini_rollback(hf_kernel *kernel) {
    hfi_copies_end(&kernel->rollback->copies);
}

const hfi_owner hfi_rollback_owner = {offsetof(hf_kernel, rollback),
                                      sizeof(struct hfi_rollback), init_rollback,
                                      fini_rollback};

void
hfi_rollback_protect(hf_kernel *kernel, hfi_protection protection) {
    kernel->rollback->protection = protection;
    if (protection == HFI_PROTECT_NEVER)
        hfi_rollback_drop(kernel);
}

const char *
hfi_rollback_protection(const hf_kernel *kernel) {
    static const char *const sentences[HFI_PROTECT_COUNT] = {
        [HFI_PROTECT_BUDGET] = "budget: protection from a crash takes at most 3 % of "
                               "the cells' time.\n",
        [HFI_PROTECT_ALWAYS] = "always: each recorded cell is protected from a crash "
                               "by a fork of its own, which is never given up.\n",
        [HFI_PROTECT_NEVER] = "never: no fork protects cells from a crash, which loses "
                              "what no save has.\n",
    };
    return sentences[kernel->rollback->protection];
}

int
hfi_rollback_can_move(hfi_rollback_state from, hfi_rollback_state to) {
    static const unsigned targets[HFI_ROLLBACK_STATE_COUNT][HFI_ROLLBACK_STATE_COUNT] =
        {
#define HFI_MOVE(from, to, why) [HFI_ROLLBACK_##from][HFI_ROLLBACK_##to] = 1,
            HFI_ROLLBACK_MOVES(HFI_MOVE)
#undef HFI_MOVE
        };
    return targets[from][to] != 0;
}

/* The one way to change the state; `worker` is the fork that the new state is about. */
static void
move_state(hfi_rollback *rollback, hfi_rollback_state to, hfi_worker *worker) {
    assert(hfi_rollback_can_move(rollback->state, to));
    assert((worker == NULL) == (to == HFI_ROLLBACK_NONE || to == HFI_ROLLBACK_OWED));
    rollback->state = to;
    rollback->worker = worker;
}

/* MET only follows LIKELY: a fork that nobody expects isn't asked for in advance. */
static void
set_need(hfi_rollback *rollback, hfi_rollback_need need) {
    if (need != HFI_NEED_MET || rollback->need == HFI_NEED_LIKELY)
        rollback->need = need;
}

/* A request has come since the last fork was asked for, or that fork is gone. */
static void
renew_need(hfi_rollback *rollback) {
    if (rollback->need == HFI_NEED_MET)
        set_need(rollback, HFI_NEED_LIKELY);
}

static int
is_asleep(const hfi_rollback *rollback) {
    return rollback->state == HFI_ROLLBACK_WHOLE ||
           rollback->state == HFI_ROLLBACK_PARTIAL;
}

/* End the former fork. Don't call this while the new fork is made: an exit and a fork
 * of the same pages at the same time take two to five times as long. */
static void
release_former(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    hfi_worker *former =
        hfi_worker_named(hfi_workers_server(kernel), rollback->former.pid);
    if (former != NULL && former->owned)
        hfi_worker_release(former, 1000);
    rollback->former.pid = 0;
}

/* The fork that was asked for isn't there. Return to the former one, if there is one.
 */
static int
take_former(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    hfi_worker *former =
        hfi_worker_named(hfi_workers_server(kernel), rollback->former.pid);
    if (rollback->worker != NULL && rollback->worker->control != NULL)
        hfi_worker_release(rollback->worker, 1000);
    int is_there = rollback->former.pid > 0 && former != NULL;
    move_state(rollback, is_there ? rollback->former.state : HFI_ROLLBACK_NONE,
               is_there ? former : NULL);
    rollback->former.pid = 0;
    rollback->cells = rollback->former.cells;
    rollback->mark = rollback->former.mark;
    return is_there;
}

void
hfi_rollback_drop(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    release_former(kernel);
    if (rollback->worker != NULL && rollback->state != HFI_ROLLBACK_WAKING) {
        hfi_worker_release(rollback->worker, 1000);
        move_state(rollback, HFI_ROLLBACK_NONE, NULL);
    }
    renew_need(rollback);
}

void
hfi_rollback_make(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    hf_error error = HF_ERROR_INIT;
    hfi_worker *worker;
    if (hfi_workers_main(kernel) == NULL || hfi_workers_main(kernel)->control == NULL ||
        rollback->state == HFI_ROLLBACK_WAKING)
        return;
    if (rollback->protection == HFI_PROTECT_NEVER) {
        set_need(rollback, HFI_NEED_MET);
        return;
    }
    if (hfi_workers_split(kernel, HFI_SLEEPER, ++kernel->next_id, &worker, &error) !=
        HF_OK) {
        hfi_log("rollback: %s", error.message);
        set_need(rollback, HFI_NEED_MET); /* not tried again before the next request */
        return; /* the former fork, if there is one, is better than none */
    }
    release_former(kernel);
    if (is_asleep(rollback)) {
        rollback->former.pid = rollback->worker->pid;
        rollback->former.state = rollback->state;
        rollback->former.cells = rollback->cells;
        rollback->former.mark = rollback->mark;
    } else {
        hfi_rollback_drop(kernel);
    }
    move_state(rollback, HFI_ROLLBACK_ASKED, worker);
    rollback->id = kernel->next_id;
    rollback->saved = !hfi_commits_is_due(kernel);
    rollback->woken = rollback->woken && !rollback->saved;
    set_need(rollback, HFI_NEED_MET);
    rollback->earned_ns = rollback->run_ns / SHARE;
    rollback->cells = 0;
    rollback->mark = hfi_rerun_mark(kernel);
    rollback->run_ns = 0;
}

void
hfi_rollback_made(hf_kernel *kernel, hfi_worker *worker,
                  const hfi_from_main_protected *frame) {
    hfi_rollback *rollback = kernel->rollback;
    if (rollback->state != HFI_ROLLBACK_ASKED || frame->id != rollback->id)
        return; /* it was dropped meanwhile, and exits by itself */
    if (frame->error.size > 0) {
        hfi_log("rollback: %.*s", (int)frame->error.size, frame->error.data);
        set_need(rollback, HFI_NEED_UNLIKELY);
        (void)take_former(kernel);
        return;
    }
    release_former(kernel);
    move_state(rollback,
               frame->obstacle.size == 0 ? HFI_ROLLBACK_WHOLE : HFI_ROLLBACK_PARTIAL,
               rollback->worker);
    hfi_worker_note_forked(rollback->worker, (pid_t)frame->pid);
    rollback->cost_ns = (long long)(frame->seconds * 1e9);
    rollback->copied_ns = rollback->prepared_ns = 0;
    hfi_copies_begin(&rollback->copies, worker->pid, rollback->worker->pid);
    /* It can only commit, and what lies on a GPU it can't even read. */
    if (rollback->state == HFI_ROLLBACK_PARTIAL && rollback->saved) {
        hfi_rollback_drop(kernel);
        set_need(rollback, HFI_NEED_MET); /* another one would be no better */
    }
}

/* ---- before a cell comes -------------------------------------------------------- */

int
hfi_rollback_is_wanted(const hf_kernel *kernel) {
    return kernel->rollback->need == HFI_NEED_LIKELY &&
           kernel->rollback->state != HFI_ROLLBACK_WAKING;
}

int
hfi_rollback_paces(const hf_kernel *kernel) {
    const hfi_rollback *rollback = kernel->rollback;
    int is_run = rollback->row >= ROW ||
                 (rollback->row > 0 && rollback->prepared_ns > ALLOWED_LEAST_NS);
    return is_run && rollback->protection != HFI_PROTECT_ALWAYS;
}

void
hfi_rollback_pause(hf_kernel *kernel) {
    kernel->rollback->row = 0;
}

int
hfi_rollback_sleeps(const hf_kernel *kernel) {
    return is_asleep(kernel->rollback);
}

void
hfi_rollback_rest(hf_kernel *kernel) {
    set_need(kernel->rollback, HFI_NEED_UNLIKELY);
    if (hfi_commits_missing(kernel) == 0)
        hfi_rollback_drop(kernel);
}

/* ---- cells ---------------------------------------------------------------------- */

static void
hear_finished(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    const hfi_cell *cell = &kernel->cell;
    if (cell->plan != HFI_PLAN_PLAIN && cell->plan != HFI_PLAN_NONE) {
        int in_process = cell->plan == HFI_PLAN_IN_PROCESS;
        set_need(rollback, in_process ? HFI_NEED_LIKELY : HFI_NEED_UNLIKELY);
        rollback->row = in_process ? rollback->row + 1 : 0;
    }
    rollback->look_ns = 0;
    if (!hfi_cell_is_in_main(cell))
        return;
    long long run_ns = cell->ended_ns - cell->started_ns;
    renew_need(rollback);
    rollback->cells++;
    if (run_ns > 0)
        rollback->run_ns += run_ns;
}

/* A fork may have been made long ago, and pages copied when nobody waited. Copies
 * before a commit that has all count no more: the next cell waits for its own. */
static void
hear_started(hf_kernel *kernel, const hfi_from_worker_started *frame) {
    hfi_rollback *rollback = kernel->rollback;
    if (hfi_commits_missing(kernel) == 0)
        rollback->prepared_ns = 0;
    if (hfi_cell_is_in_main(&kernel->cell) && frame->prepared > 0 &&
        frame->prepared <= PREPARED_MOST_S)
        rollback->prepared_ns += (long long)(frame->prepared * 1e9);
    rollback->given_up = (hfi_rollback_given_up){0};
    if (!is_asleep(rollback) || !hfi_cell_is_in_main(&kernel->cell) ||
        rollback->woken || rollback->protection == HFI_PROTECT_ALWAYS)
        return;
    if (rollback->cells == 0)
        hfi_copies_restart(&rollback->copies);
    rollback->look_ns = kernel->cell.started_ns + LOOK_LEAST_NS;
}

void
hfi_rollback_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_STARTED)
        hear_started(kernel, event->started);
    else if (event->kind == HFI_EVENT_CELL_FINISHED)
        hear_finished(kernel);
}

int
hfi_rollback_is_due(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    if (hfi_commits_missing(kernel) == 0)
        return 0;
    if (rollback->state == HFI_ROLLBACK_OWED)
        return 1;
    if ((rollback->cells == 0 && rollback->state != HFI_ROLLBACK_NONE) ||
        rollback->run_ns < SHARE * (rollback->cost_ns + rollback->prepared_ns))
        return 0;
    if (is_asleep(rollback))
        rollback->copied_ns =
            (long long)hfi_copies_count(&rollback->copies, UINT64_MAX) *
            hfi_copies_page_ns();
    long long cost_ns = rollback->cost_ns + rollback->prepared_ns + rollback->copied_ns;
    return rollback->run_ns >= SHARE * (cost_ns > 0 ? cost_ns : COST_FIRST_NS);
}

/* ---- the copies that the fork causes -------------------------------------------- */

static long long
clamp_ns(long long value, long long least, long long most) {
    return value < least ? least : value > most ? most : value;
}

/* What they may take by now: the part of the cells since the fork, and of those before it
 * whose changes it keeps. */
static long long
allowed_ns(const hfi_rollback *rollback, long long ran_ns) {
    return clamp_ns(rollback->earned_ns, ALLOWED_LEAST_NS, ALLOWED_MOST_NS) +
           (rollback->run_ns + ran_ns) / SHARE;
}

static void
give_up(hf_kernel *kernel, uint64_t pages, long long ran_ns) {
    kernel->rollback->given_up =
        (hfi_rollback_given_up){.pages = pages, .after_ms = (double)ran_ns / 1e6};
    kernel->rollback->look_ns = 0;
    hfi_copies_end(&kernel->rollback->copies);
    hfi_rollback_drop(kernel);
}

long long
hfi_rollback_deadline_ns(const hf_kernel *kernel) {
    const hfi_rollback *rollback = kernel->rollback;
    return rollback->look_ns > 0 && is_asleep(rollback) &&
                   kernel->cell.state == HFI_CELL_RUNNING
               ? rollback->look_ns
               : -1;
}

void
hfi_rollback_tick(hf_kernel *kernel, long long now_ns) {
    hfi_rollback *rollback = kernel->rollback;
    long long deadline_ns = hfi_rollback_deadline_ns(kernel);
    if (deadline_ns < 0 || now_ns < deadline_ns)
        return;
    long long ran_ns = now_ns - kernel->cell.started_ns;
    long long most_ns = allowed_ns(rollback, ran_ns), page_ns = hfi_copies_page_ns();
    uint64_t pages = hfi_copies_count(&rollback->copies, (uint64_t)(most_ns / page_ns));
    rollback->copied_ns = (long long)pages * page_ns;
    if (rollback->copied_ns > most_ns) {
        give_up(kernel, pages, ran_ns);
        return;
    }
    rollback->look_ns = now_ns + clamp_ns(ran_ns / 4, LOOK_LEAST_NS, LOOK_MOST_NS);
}

hfi_rollback_given_up
hfi_rollback_has_given_up(const hf_kernel *kernel) {
    return kernel->rollback->given_up;
}

/* ---- the main worker is dead ---------------------------------------------------- */

static hf_status
send_wake(hf_kernel *kernel, hfi_worker *worker, hf_error *reterr) {
    hf_status status = hfi_worker_begin(worker, reterr);
    if (status != HF_OK)
        return status;
    kernel->rollback->id = ++kernel->next_id;
    return hfi_control_send_consume(worker->control,
                                    HFI_FRAME(to_sleeper_wake,
                                              .id = kernel->rollback->id,
                                              .execution_count = kernel->count),
                                    reterr);
}

static void
succeed_main(hf_kernel *kernel) {
    hfi_worker *worker = kernel->rollback->worker;
    release_former(kernel);
    move_state(kernel->rollback, HFI_ROLLBACK_OWED, NULL);
    kernel->rollback->row = 0; /* the next cell has a fork at once */
    kernel->rollback->woken = 1;
    worker->role = HFI_MAIN;
    hfi_workers_set_main(kernel, worker);
}

static int
can_wake(const hfi_worker *worker) {
    return worker->control != NULL && hfi_worker_lives(worker);
}

hfi_rollback_outcome
hfi_rollback_wake(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    hf_error error = HF_ERROR_INIT;
    hfi_worker *worker = rollback->worker;
    if (worker == NULL)
        return HFI_ROLLBACK_FAILED;
    if (!can_wake(worker) || send_wake(kernel, worker, &error) != HF_OK) {
        hfi_log("rollback: %s", can_wake(worker) ? error.message : "it has ended");
        return hfi_rollback_fall_back(kernel);
    }
    if (rollback->state != HFI_ROLLBACK_WHOLE) {
        move_state(rollback, HFI_ROLLBACK_WAKING, worker);
        worker->deadline_ns = hfi_clock_ns() + COMMIT_WAIT_NS;
        return HFI_ROLLBACK_WAITS;
    }
    worker->deadline_ns = hfi_clock_ns() + hfi_workers_ready_ns();
    succeed_main(kernel);
    return HFI_ROLLBACK_SUCCEEDS;
}

int
hfi_rollback_ready(hf_kernel *kernel) {
    if (kernel->rollback->state != HFI_ROLLBACK_WAKING)
        return 0;
    succeed_main(kernel);
    return 1;
}

/* The fork has committed, so it is no longer needed. */
static void
end_rollback(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    release_former(kernel);
    if (rollback->worker->control != NULL)
        hfi_worker_release(rollback->worker, 1000);
    move_state(rollback, HFI_ROLLBACK_NONE, NULL);
}

int
hfi_rollback_replied(hf_kernel *kernel, const hfi_worker *worker,
                     const hfi_from_worker_reply *reply,
                     hfi_rollback_outcome *ret_outcome) {
    hfi_rollback *rollback = kernel->rollback;
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    if (rollback->state != HFI_ROLLBACK_WAKING || worker != rollback->worker ||
        reply->id != rollback->id)
        return 0;
    hf_status status = hfi_commits_publish(kernel, reply, &generation, &error);
    if (status != HF_OK) {
        hfi_log("rollback: %s", error.message);
    } else {
        hfi_commits_keep_unserializable(kernel, reply->unserializable);
        if (reply->prepared.size > 0)
            hfi_generations_published(kernel, reply);
    }
    end_rollback(kernel);
    *ret_outcome = status == HF_OK ? HFI_ROLLBACK_WAITS : HFI_ROLLBACK_FAILED;
    return 1;
}

hfi_rollback_outcome
hfi_rollback_fall_back(hf_kernel *kernel) {
    return take_former(kernel) ? hfi_rollback_wake(kernel) : HFI_ROLLBACK_FAILED;
}

hfi_worker *
hfi_rollback_worker(const hf_kernel *kernel) {
    return kernel->rollback->worker;
}

int
hfi_rollback_is_waking(const hf_kernel *kernel) {
    return kernel->rollback->state == HFI_ROLLBACK_WAKING;
}

long long
hfi_rollback_cells(const hf_kernel *kernel) {
    return kernel->rollback->cells;
}

long long
hfi_rollback_mark(const hf_kernel *kernel) {
    return kernel->rollback->mark;
}
