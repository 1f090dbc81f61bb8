/* restart.h - processes that replace one that died.
 *
 * A main worker is replaced by its sleeping fork (rollback.h) or by a new one. A
 * frontend that was killed is replaced by a later one, which takes up its session.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_RESTART_H
#define HFI_RESTART_H

#include "session/session.h"

/* ---- restart.c: main workers and fork servers that die before they are of use ---- */

/* Why a main worker or the fork server ended. */
typedef enum hfi_end {
    HFI_END_OF_CELL,      /* a cell ran in it */
    HFI_END_FROM_OUTSIDE, /* somebody killed it */
    HFI_END_AT_VALUE,     /* the value is in quarantine now */
    HFI_END_BY_ITSELF,
} hfi_end;

extern const hfi_owner hfi_restart_owner;
/* A main worker or the fork server is dead, for this reason. */
void hfi_restart_note(hf_kernel *kernel, hfi_end end);
/* Start what is missing, at once or after a pause. */
void hfi_restart_begin(hf_kernel *kernel);
/* Whether a main worker is to be started later. Requests wait for it, too. */
int hfi_restart_is_due(const hf_kernel *kernel);
long long hfi_restart_deadline_ns(const hf_kernel *kernel);
/* End the kernel, and say why in the notebook, if another program has cut its session
 * off. */
void hfi_restart_check_session(hf_kernel *kernel, long long now_ns);
void hfi_restart_tick(hf_kernel *kernel, long long now_ns);
/* _ready: the main worker says that it is ready. _answered: it has answered a
 * request. */
void hfi_restart_ready(hf_kernel *kernel);
void hfi_restart_answered(hf_kernel *kernel);
/* Whether the next main worker binds no variable. */
int hfi_restart_is_bare(const hf_kernel *kernel);
/* Whether a process may have been ended by somebody else, judging by its wait
 * status. */
int hfi_restart_is_from_outside(int is_known, int status);

/* ---- takeup.c: the session of a frontend that was killed ---- */

extern const hfi_owner hfi_takeup_owner;
/* Call it before anything else: it forks. */
void hfi_takeup_begin(hf_kernel *kernel, const char *connection_path);
/* Replaces a reaper that died. */
hfi_listener hfi_takeup_hear;
/* Open the session that was left for this kernel, or create one. As
 * hf_session_create. */
HF_CHECK hf_status hfi_takeup_open(hf_kernel *kernel, const hf_session_options *options,
                                   hf_error *reterr);
/* Note the state of this kernel, for the frontend that takes the session up. */
void hfi_takeup_note(hf_kernel *kernel);
/* Report once, with a cell's header as parent, what happened to the kernel before. */
void hfi_takeup_report(hf_kernel *kernel, hfi_part parent);
/* The kernel ends because it couldn't start its workers: leave the session to a later
 * kernel. Returns 1 if the session has content; `error` says how to get at it then. */
int hfi_takeup_leave(hf_kernel *kernel, hf_error *error);
/* The kernel ends in an orderly way: no later one takes the session up. */
void hfi_takeup_renounce(hf_kernel *kernel);
/* Close the store, and remove it unless it was left. */
void hfi_takeup_end(hf_kernel *kernel);

#endif
