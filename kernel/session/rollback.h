/* rollback.h - the sleeping fork of the main worker: its state, and what it is asked for.
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
 * the table. In NONE and OWED there is no fork, in all others there is.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_ROLLBACK_H
#define HFI_ROLLBACK_H

#include "session/session.h"

/* X(name, what is there) */
#define HFI_ROLLBACK_STATES(X)                                                         \
    X(NONE, "no fork")                                                                 \
    X(ASKED, "the main worker is to make one; the one before may still be there")      \
    X(WHOLE, "a fork sleeps, which can be the main worker")                            \
    X(PARTIAL, "a fork sleeps, which can only commit its variables")                   \
    X(WAKING, "the main worker is dead: the fork takes its place, or commits")         \
    X(OWED, "no fork: the last one is the main worker, and what it has is nowhere "    \
            "else")

/* X(from, to, why) */
#define HFI_ROLLBACK_MOVES(X)                                                          \
    X(NONE, ASKED, "a cell comes, or probably will")                                   \
    X(ASKED, WHOLE, "it is made; or it can't be, and this is the one before")          \
    X(ASKED, PARTIAL, "the same; threads ran, or a GPU was in use")                    \
    X(ASKED, WAKING, "the main worker died before it had said which of the two it is") \
    X(ASKED, NONE, "useless: a commit has the notebook; or it isn't there")            \
    X(WHOLE, ASKED, "another one, which holds a newer notebook")                       \
    X(WHOLE, OWED, "the main worker died: it is the main worker now")                  \
    X(WHOLE, NONE, "useless, as above; or it has ended")                               \
    X(PARTIAL, ASKED, "another one")                                                   \
    X(PARTIAL, WAKING, "the main worker died")                                         \
    X(PARTIAL, NONE, "useless, or ended")                                              \
    X(WAKING, OWED, "it says that it is the main worker now")                          \
    X(WAKING, NONE, "it has committed; or it died, and none was before it")            \
    X(WAKING, WHOLE, "it died: this is the one before")                                \
    X(WAKING, PARTIAL, "the same")                                                     \
    X(OWED, ASKED, "as from NONE, and with the next cell at the latest")

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
    HFI_ROLLBACK_FAILED,   /* there is no fork: the last commit */
    HFI_ROLLBACK_SUCCEEDS, /* the fork is the main worker now */
    HFI_ROLLBACK_WAITS,    /* for the fork's word; then: it has committed */
} hfi_rollback_outcome;

extern const hfi_owner hfi_rollback_owner;
/* Have a fork made that holds the notebook as it is now, before the next request. */
void hfi_rollback_make(hf_kernel *kernel);
/* Whether one should be made while nobody uses the notebook. */
int hfi_rollback_is_wanted(const hf_kernel *kernel);
/* The same, as soon as no request is there: in-process cells follow each other. */
int hfi_rollback_is_wanted_at_once(const hf_kernel *kernel);
/* Whether there is one. */
int hfi_rollback_sleeps(const hf_kernel *kernel);
/* It is of no use any more. */
void hfi_rollback_drop(hf_kernel *kernel);
/* The notebook rests: end the fork, unless it has values that no commit has. */
void hfi_rollback_rest(hf_kernel *kernel);
void hfi_rollback_made(hf_kernel *kernel, hfi_worker *worker,
                       const hfi_from_main_protected *frame);
/* Counts the cells that run in the main worker. */
hfi_listener hfi_rollback_hear;
/* Whether a plain cell is worth one. */
int hfi_rollback_is_due(const hf_kernel *kernel);
/* The main worker is dead: let its sleeping fork take its place, or commit. */
hfi_rollback_outcome hfi_rollback_wake(hf_kernel *kernel);
/* A fork that was woken says that it is ready, and is the main worker now; 0: it waits
 * for nothing. */
int hfi_rollback_ready(hf_kernel *kernel);
/* The fork's answer to its commit, and what has come of it; 0: the reply is another
 * one's. */
int hfi_rollback_replied(hf_kernel *kernel, const hfi_worker *worker,
                         const hfi_from_worker_reply *reply,
                         hfi_rollback_outcome *ret_outcome);
/* NULL: there is none. */
hfi_worker *hfi_rollback_worker(const hf_kernel *kernel);
/* Whether it was woken, and hasn't said what it is. */
int hfi_rollback_is_waking(const hf_kernel *kernel);
/* Cells that ran since it was made. */
long long hfi_rollback_cells(const hf_kernel *kernel);
/* The fork that was woken is dead: wake the one before it, if there is one. */
hfi_rollback_outcome hfi_rollback_fall_back(hf_kernel *kernel);

#endif
