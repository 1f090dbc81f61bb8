/* restart.h - processes that take the place of one that died.
 *
 * A main worker is followed by its sleeping fork, or by a new one; a frontend that was
 * killed by a later one that takes up its session.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_RESTART_H
#define HFI_RESTART_H

#include "session/session.h"

/* ---- restart.c: main workers and fork servers that die before they are of use ---- */

/* Why a main worker, or the fork server, is no more. */
typedef enum hfi_end {
    HFI_END_OF_CELL,      /* a cell ran in it */
    HFI_END_FROM_OUTSIDE, /* somebody killed it */
    HFI_END_AT_VALUE,     /* which is in quarantine now */
    HFI_END_BY_ITSELF,
} hfi_end;

extern const hfi_owner hfi_restart_owner;
/* One is dead, for this reason. */
void hfi_restart_note(hf_kernel *kernel, hfi_end end);
/* Start what is missing, at once or after a pause. */
void hfi_restart_begin(hf_kernel *kernel);
/* Whether a main worker's start is waited for: requests wait, too. */
int hfi_restart_is_due(const hf_kernel *kernel);
long long hfi_restart_deadline_ns(const hf_kernel *kernel);
void hfi_restart_tick(hf_kernel *kernel, long long now_ns);
/* The main worker says that it is ready; it has answered something. */
void hfi_restart_ready(hf_kernel *kernel);
void hfi_restart_answered(hf_kernel *kernel);
/* Whether the next main worker binds no variable. */
int hfi_restart_is_bare(const hf_kernel *kernel);
/* Whether a wait status may be the work of somebody else. */
int hfi_restart_is_from_outside(int is_known, int status);

/* ---- rollback.c: the main worker's sleeping fork ---- */

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
                       const msgpack_object *map);
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
                         const msgpack_object *reply,
                         hfi_rollback_outcome *ret_outcome);
/* NULL: there is none. */
hfi_worker *hfi_rollback_worker(const hf_kernel *kernel);
/* Whether it was woken, and hasn't said what it is. */
int hfi_rollback_is_waking(const hf_kernel *kernel);
/* Cells that ran since it was made. */
long long hfi_rollback_cells(const hf_kernel *kernel);
/* The fork that was woken is dead: wake the one before it, if there is one. */
hfi_rollback_outcome hfi_rollback_fall_back(hf_kernel *kernel);
/* ---- takeup.c: the session of a frontend that was killed ---- */

extern const hfi_owner hfi_takeup_owner;
/* Before anything else, since it forks. */
void hfi_takeup_begin(hf_kernel *kernel, const char *connection_path);
/* Replaces a reaper that died. */
hfi_listener hfi_takeup_hear;
/* Open the session that was left for this kernel, or create a new one. As
 * hf_session_create. */
HF_CHECK hf_status hfi_takeup_open(hf_kernel *kernel, const hf_session_options *options,
                                   hf_error *reterr);
/* Note the state of this kernel, for the frontend that takes the session up. */
void hfi_takeup_note(hf_kernel *kernel);
/* Report once, with a cell's header as parent, what happened to the kernel. */
void hfi_takeup_report(hf_kernel *kernel, hfi_part parent);
/* The kernel ends because it couldn't start: leave the session to a later kernel. 1:
 * the session has content, and `error` says how to get at it. */
int hfi_takeup_leave(hf_kernel *kernel, hf_error *error);
/* The kernel ends in an orderly way: no later one takes the session up. */
void hfi_takeup_renounce(hf_kernel *kernel);
/* Close the store, and remove it unless it was left. */
void hfi_takeup_end(hf_kernel *kernel);

#endif
