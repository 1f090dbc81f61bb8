/* rollback.h - the sleeping fork of the main worker: its states and its requests.
 *
 * Its state is one of HFI_ROLLBACK_STATES, and changes only along HFI_ROLLBACK_MOVES:
 *
 *     NONE─►ASKED┬►WHOLE┬►ASKED
 *                │      ├►OWED─►ASKED
 *                │      └►NONE
 *                ├►PARTIAL┬►ASKED
 *                │        ├►WAKING┬►OWED
 *                │        │       ├►NONE
 *                │        │       ├►WHOLE
 *                │        │       └►PARTIAL
 *                │        └►NONE
 *                ├►WAKING
 *                └►NONE
 *
 * tests/kernel/test_rollback.c compares this picture, and that of ARCHITECTURE.md, with
 * the table. A fork exists in all states but NONE and OWED.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_ROLLBACK_H
#define HFI_ROLLBACK_H

#include "session/session.h"

/* X(name, meaning) */
#define HFI_ROLLBACK_STATES(X)                                                         \
    X(NONE, "no fork")                                                                 \
    X(ASKED, "a fork was asked for; the former one may still sleep")                   \
    X(WHOLE, "a fork sleeps that can become the main worker")                          \
    X(PARTIAL, "a fork sleeps that can only commit its variables")                     \
    X(WAKING, "the main worker is dead: the fork takes its place, or commits")         \
    X(OWED, "no fork: the last one became the main worker, and no commit has its "     \
            "state yet")

/* X(from, to, why) */
#define HFI_ROLLBACK_MOVES(X)                                                          \
    X(NONE, ASKED, "a cell comes, or probably will")                                   \
    X(ASKED, WHOLE, "the fork is made; or it failed, and the former one is whole")     \
    X(ASKED, PARTIAL, "the same, for a fork or a former one that is partial")          \
    X(ASKED, WAKING, "the main worker died before it said which kind of fork it is")   \
    X(ASKED, NONE,                                                                     \
      "a commit has the notebook; or the fork failed, with no former one")             \
    X(WHOLE, ASKED, "a fork of a newer notebook is to replace it")                     \
    X(WHOLE, OWED, "the main worker died: the fork is the main worker now")            \
    X(WHOLE, NONE, "a commit has the notebook; or the fork has ended")                 \
    X(PARTIAL, ASKED, "a fork of a newer notebook is to replace it")                   \
    X(PARTIAL, WAKING, "the main worker died")                                         \
    X(PARTIAL, NONE, "a commit has the notebook; or the fork has ended")               \
    X(WAKING, OWED, "the fork says that it is the main worker now")                    \
    X(WAKING, NONE, "it has committed; or it died, and there is no former one")        \
    X(WAKING, WHOLE, "it died, and the former one is whole")                           \
    X(WAKING, PARTIAL, "it died, and the former one is partial")                       \
    X(OWED, ASKED, "as from NONE; with the next cell at the latest")

typedef enum hfi_rollback_state {
#define HFI_STATE(name, text) HFI_ROLLBACK_##name,
    HFI_ROLLBACK_STATES(HFI_STATE)
#undef HFI_STATE
        HFI_ROLLBACK_STATE_COUNT
} hfi_rollback_state;

/* Whether the table has this move. */
int hfi_rollback_can_move(hfi_rollback_state from, hfi_rollback_state to);

/* The state of the notebook after its main worker died. */
typedef enum hfi_rollback_outcome {
    HFI_ROLLBACK_FAILED,   /* there is no fork: the notebook is at the last commit */
    HFI_ROLLBACK_SUCCEEDS, /* the fork is the main worker now */
    /* the outcome isn't known yet; or, after a reply: it has committed */
    HFI_ROLLBACK_WAITS,
} hfi_rollback_outcome;

/* The fork was ended during a cell, since too much had to be copied for it. */
typedef struct hfi_rollback_given_up {
    uint64_t pages;  /* that had been copied; 0: it wasn't ended */
    double after_ms; /* since the cell's begin */
} hfi_rollback_given_up;

extern const hfi_owner hfi_rollback_owner;
/* Set how cells are protected from now on; and a sentence that says it. */
void hfi_rollback_protect(hf_kernel *kernel, hfi_protection protection);
const char *hfi_rollback_protection(const hf_kernel *kernel);
/* Have a fork made that holds the notebook as it is now, before the next request. */
void hfi_rollback_make(hf_kernel *kernel);
/* Whether a fork should be made as soon as nobody uses the notebook. */
int hfi_rollback_is_wanted(const hf_kernel *kernel);
/* Whether the recorded cell that was taken follows others without a pause, so that it
 * gets a fork only if hfi_rollback_is_due. */
int hfi_rollback_paces(const hf_kernel *kernel);
/* Nobody has used the notebook for a moment, so the next cell follows no other. */
void hfi_rollback_pause(hf_kernel *kernel);
/* Whether a fork sleeps. */
int hfi_rollback_sleeps(const hf_kernel *kernel);
/* The fork is no longer of use: end it. A fork that was woken stays. */
void hfi_rollback_drop(hf_kernel *kernel);
/* The notebook rests: end the fork, unless it has values that no commit has. */
void hfi_rollback_rest(hf_kernel *kernel);
void hfi_rollback_made(hf_kernel *kernel, hfi_worker *worker,
                       const hfi_from_main_protected *frame);
/* Counts the cells that run in the main worker, and their time. */
hfi_listener hfi_rollback_hear;
/* Whether the cells since the fork have run long enough to be worth another one. */
int hfi_rollback_is_due(hf_kernel *kernel);
/* Counts the pages that the running cell copies because of the fork, and ends the fork if
 * they take too long. */
long long hfi_rollback_deadline_ns(const hf_kernel *kernel);
void hfi_rollback_tick(hf_kernel *kernel, long long now_ns);
/* How that went in the cell that runs or ran last. */
hfi_rollback_given_up hfi_rollback_has_given_up(const hf_kernel *kernel);
/* The main worker is dead: let its sleeping fork take its place, or commit. */
hfi_rollback_outcome hfi_rollback_wake(hf_kernel *kernel);
/* A fork that was woken says that it is ready, so it is the main worker now. Returns 0
 * if no fork was woken. */
int hfi_rollback_ready(hf_kernel *kernel);
/* The woken fork has answered its commit: publish it and set the outcome. Returns 0 if
 * the reply isn't its own. */
int hfi_rollback_replied(hf_kernel *kernel, const hfi_worker *worker,
                         const hfi_from_worker_reply *reply,
                         hfi_rollback_outcome *ret_outcome);
/* The present fork, or NULL. */
hfi_worker *hfi_rollback_worker(const hf_kernel *kernel);
/* Whether a fork was woken and hasn't answered yet. */
int hfi_rollback_is_waking(const hf_kernel *kernel);
/* Cells that ran in the main worker since the fork was made. */
long long hfi_rollback_cells(const hf_kernel *kernel);
/* The cells up to the fork, for hfi_rerun_lose. */
long long hfi_rollback_mark(const hf_kernel *kernel);
/* The fork that was woken is dead: wake the former one, if there is one. */
hfi_rollback_outcome hfi_rollback_fall_back(hf_kernel *kernel);

#endif
