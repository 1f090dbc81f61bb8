/* rollback.c - a sleeping fork of the main worker, which is woken if that dies.
 *
 * A recorded or isolated cell runs in the main worker itself, as a rule, so that it has
 * all that the notebook has. Before it the main worker makes a fork of itself that
 * sleeps, with the notebook as it is then. rollback.h has the states and their picture.
 *
 * As a rule the fork is whole: it goes on where its parent stood, with all objects. If
 * threads of unknown libraries ran, or a GPU was in use, it can only commit its
 * variables. Then the queue waits until that is published, and a new main worker binds
 * it. If the main worker died before it had said which of the two it is, the fork's
 * first frame shows it. Either way the state is that before the cell, however the main
 * worker died, without anything being encoded before a cell that goes well.
 *
 * The fork stays when its cell is over, until a commit or another fork makes it
 * useless: it is then still the newest state that is safe. Another fork ends it once
 * that sleeps. If the main worker dies before it has made that one, the former one
 * is woken.
 *
 * If the last recorded or isolated cell ran in-process, the next probably will. So once
 * nobody has used the notebook for a moment (rest.c), a fork is made for it, and the
 * main worker takes the pages that cells write. If in-process cells follow each other,
 * as in "Run All", it is made as soon as one has ended: the client reads the reply
 * meanwhile, and what the cell has made is safe at once. Whether it still has the
 * notebook as it is when that cell comes, the main worker says with its answer to the
 * commit ("protected"): it knows whether anything has run since.
 *
 * Plain cells are protected by the same means where they follow each other so fast that
 * the idle commit (rest.c) doesn't come between. A fork and the page faults after
 * it cost what several short cells cost, so it is made once they have run SHARE times
 * as long: 2 % of their time at most. So a crash costs the cell that died, and those
 * before it that together ran for less than SHARE times the cost of a fork. After a
 * crash the next cell has a fork at once: what the woken fork holds is nowhere else.
 *
 * One thread.
 */
#include "session/rollback.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "session/commits.h"
#include "session/workers.h"
#include "workers/program.h"

#define ROW            2 /* in-process cells, after which the next probably is one */
#define SHARE          50
#define COST_FACTOR    3       /* page faults after a fork cost about twice as much */
#define COST_FIRST_NS  5000000 /* before one was measured */
#define COMMIT_WAIT_NS 60000000000LL

/* Whether a fork is to be made for the next recorded cell. */
typedef enum hfi_rollback_need {
    HFI_NEED_UNLIKELY, /* as far as is known, the next one needs none */
    HFI_NEED_LIKELY,   /* the last one ran in-process, and so will the next */
    HFI_NEED_MET,      /* the same, and no request has come since one was asked for */
} hfi_rollback_need;

typedef struct hfi_rollback {
    hfi_rollback_state state; /* changed by move alone */
    hfi_worker *worker;       /* NULL: NONE or OWED */
    struct {                  /* the one before, until the new one is there */
        pid_t pid;            /* 0: none */
        hfi_rollback_state state;
        long long cells;
    } former;
    hfi_rollback_need need; /* changed by set_need alone */
    int row;                /* how many in-process cells have followed each other */
    long long cells;        /* that ran since it was made */
    long long run_ns;       /* their time */
    long long cost_ns;      /* of making the last one; 0: not measured yet */
    long long id;           /* of what it, or the main worker, was asked last */
} hfi_rollback;

const hfi_owner hfi_rollback_owner = {offsetof(hf_kernel, rollback),
                                      sizeof(struct hfi_rollback), NULL, NULL};

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

/* MET only follows LIKELY: what nobody expects isn't asked for in advance. */
static void
set_need(hfi_rollback *rollback, hfi_rollback_need need) {
    if (need != HFI_NEED_MET || rollback->need == HFI_NEED_LIKELY)
        rollback->need = need;
}

/* A request has come since the last fork was asked for, or that is gone. */
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

/* Not while the new one is made: its end and a fork touch the same pages, and together
 * they take two to five times as long. */
static void
release_former(hf_kernel *kernel) {
    hfi_rollback *rollback = kernel->rollback;
    hfi_worker *former =
        hfi_worker_named(hfi_workers_server(kernel), rollback->former.pid);
    if (former != NULL && former->owned)
        hfi_worker_release(former, 1000);
    rollback->former.pid = 0;
}

/* The fork that was to be made isn't there: the one before it, if there is one, is. */
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
    if (hfi_workers_split(kernel, HFI_SLEEPER, ++kernel->next_id, &worker, &error) !=
        HF_OK) {
        hfi_log("rollback: %s", error.message);
        set_need(rollback, HFI_NEED_MET); /* not tried again before the next request */
        return; /* the one before, if there is one, is better than none */
    }
    release_former(kernel);
    if (is_asleep(rollback)) {
        rollback->former.pid = rollback->worker->pid;
        rollback->former.state = rollback->state;
        rollback->former.cells = rollback->cells;
    } else {
        hfi_rollback_drop(kernel);
    }
    move_state(rollback, HFI_ROLLBACK_ASKED, worker);
    rollback->id = kernel->next_id;
    set_need(rollback, HFI_NEED_MET);
    rollback->cells = 0;
    rollback->run_ns = 0;
}

void
hfi_rollback_made(hf_kernel *kernel, hfi_worker *worker,
                  const hfi_from_main_protected *frame) {
    (void)worker;
    hfi_rollback *rollback = kernel->rollback;
    if (rollback->state != HFI_ROLLBACK_ASKED || frame->id != rollback->id)
        return; /* it was dropped meanwhile, and leaves by itself */
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
}

/* ---- before a cell comes -------------------------------------------------------- */

int
hfi_rollback_is_wanted(const hf_kernel *kernel) {
    return kernel->rollback->need == HFI_NEED_LIKELY &&
           kernel->rollback->state != HFI_ROLLBACK_WAKING;
}

int
hfi_rollback_is_wanted_at_once(const hf_kernel *kernel) {
    return kernel->rollback->row >= ROW && hfi_rollback_is_wanted(kernel);
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

/* ---- plain cells ---------------------------------------------------------------- */

void
hfi_rollback_hear(hf_kernel *kernel, const hfi_event *event) {
    hfi_rollback *rollback = kernel->rollback;
    const hfi_cell *cell = &kernel->cell;
    if (event->kind != HFI_EVENT_CELL_FINISHED)
        return;
    if (cell->plan != HFI_PLAN_PLAIN && cell->plan != HFI_PLAN_NONE)
        set_need(rollback, cell->plan == HFI_PLAN_IN_PROCESS ? HFI_NEED_LIKELY
                                                             : HFI_NEED_UNLIKELY);
    rollback->row = cell->plan == HFI_PLAN_IN_PROCESS ? rollback->row + 1 : 0;
    if (!hfi_cell_is_in_main(cell))
        return;
    long long run_ns = cell->ended_ns - cell->started_ns;
    renew_need(rollback);
    rollback->cells++;
    if (run_ns > 0)
        rollback->run_ns += run_ns;
}

int
hfi_rollback_is_due(const hf_kernel *kernel) {
    const hfi_rollback *rollback = kernel->rollback;
    long long cost_ns = rollback->cost_ns > 0 ? rollback->cost_ns : COST_FIRST_NS;
    if (hfi_commits_missing(kernel) == 0)
        return 0;
    return rollback->state == HFI_ROLLBACK_OWED ||
           ((rollback->cells > 0 || rollback->state == HFI_ROLLBACK_NONE) &&
            rollback->run_ns >= SHARE * COST_FACTOR * cost_ns);
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

/* It has committed. */
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
