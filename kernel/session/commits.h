/* commits.h - commits that the frontend publishes, and the generations that it keeps.
 *
 * The main worker prepares a commit of its variables; the frontend publishes it.
 * Generations that the user may go back to are leased here. The functions report a
 * failure to the user themselves, unless they return a status.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_COMMITS_H
#define HFI_COMMITS_H

#include "session/session.h"

/* ---- commits.c: the main worker's commits, and what is published ---- */

extern const hfi_owner hfi_commits_owner;
/* Ask the main worker for a commit: for the cell that waits (COMMITTING), or an idle
 * one. */
void hfi_commits_ask(hf_kernel *kernel, long long now_ns);
void hfi_commits_owe(hf_kernel *kernel, hfi_worker *worker,
                     const hfi_from_main_owes *frame);
/* Publish the commit that a worker's reply has prepared. HF_OK also if it has prepared
 * none. HF_E_CODEC, HF_E_NOSPACE or HF_CONFLICT: the reply reports an error.
 * HF_CONFLICT: the commit began with a generation that isn't ours. Otherwise as
 * hf_session_publish. */
HF_CHECK hf_status hfi_commits_publish(hf_kernel *kernel,
                                       const hfi_from_worker_reply *reply,
                                       uint64_t *ret_generation, hf_error *reterr);
/* End the running cell with a CommitError, which says what happened and why. */
void hfi_commits_fail(hf_kernel *kernel, const char *what, const hf_error *error);
/* Lease the current generation. If it isn't `generation`, which we have just published
 * or begin with, a foreign one came in between: it is leased all the same, and the user
 * is told. */
void hfi_commits_hold(hf_kernel *kernel, uint64_t generation);
/* Lease our generation once more. As hf_snapshot_import. */
HF_CHECK hf_status hfi_commits_lease(hf_kernel *kernel, hf_snapshot **ret_snapshot,
                                     hf_error *reterr);
/* Publish the variables of this snapshot again. Foreign generations since our own are
 * taken back with that, and the user is told. As hf_commit_publish_consume. */
HF_CHECK hf_status hfi_commits_restore(hf_kernel *kernel, hf_snapshot *snapshot,
                                       uint64_t *ret_generation, hf_error *reterr);
/* If the current generation is foreign, publish our own again. */
void hfi_commits_watch(hf_kernel *kernel);
/* The main worker's commit was published, or failed with `status`. Returns 1 if it met
 * a foreign generation, and was asked for once more. */
int hfi_commits_repeat(hf_kernel *kernel, hf_status status);
/* A commit that no cell waited for has failed. The user is told once, until a commit
 * succeeds again. */
void hfi_commits_note_failure(hf_kernel *kernel, const hf_error *error);
/* The name of our own generation, written into `ret_name`. A worker that gets a frame
 * is to lease this one, whatever is current. Empty: there is none. */
hfi_part hfi_commits_name(const hf_kernel *kernel, hf_generation *ret_name);
/* Have the main worker bind the published generation. `cell`: the cell that made it, or
 * NULL. If the cell has an `adoption`, the main worker answers. */
void hfi_commits_adopt(hf_kernel *kernel, const hfi_cell *cell,
                       const hfi_map_report *report);
/* Keep the names that the last commit lacks, with the reasons. */
void hfi_commits_keep_unserializable(hf_kernel *kernel, hfi_texts unserializable);
json_t *
hfi_commits_unserializable(const hf_kernel *kernel); /* {name: reason}, borrowed */
/* The id of the commit that the main worker is making; 0: none. */
long long hfi_commits_pending(const hf_kernel *kernel);
/* Its answer has come. Returns how long it took, in ns. */
long long hfi_commits_end(hf_kernel *kernel);
/* The published generation that the main worker has yet to lease; 0: none. */
int64_t hfi_commits_settling(const hf_kernel *kernel);
void hfi_commits_settle(hf_kernel *kernel, int64_t generation);
/* _ran: a cell ran in the main worker. _have_all: everything is committed. _missing:
 * the number of cells that ran since the last commit. */
void hfi_commits_ran(hf_kernel *kernel);
void hfi_commits_have_all(hf_kernel *kernel);
long long hfi_commits_missing(const hf_kernel *kernel);
/* Whether an idle main worker has something to commit. */
int hfi_commits_is_due(const hf_kernel *kernel);
/* The main worker is dead. */
void hfi_commits_lose_main(hf_kernel *kernel);

/* ---- generations.c: the generations that are kept: undo and its like ---- */

extern const hfi_owner hfi_generations_owner;
/* `limit_bytes` bounds the memory that only old generations keep; 0: a default
 * limit. */
void hfi_generations_init(hf_kernel *kernel, uint64_t limit_bytes);
/* The running cell's changes belong to the next step. */
void hfi_generations_note(hf_kernel *kernel);
/* The cells since the newest step changed nothing, or their changes are lost. */
void hfi_generations_forget(hf_kernel *kernel);
/* The current generation was just published. The worker's reply says what has changed;
 * NULL: compare the generations. If a variable has changed, make a step. */
void hfi_generations_published(hf_kernel *kernel, const hfi_from_worker_reply *reply);
/* The commit is made, and the main worker has settled. Do the frontend's part of the
 * command, and give the cell to the main worker. */
void hfi_generations_begin(hf_kernel *kernel);
/* The main worker has replied, perhaps with a commit. Returns 0 if publishing failed:
 * the cell has ended with an error. */
int hfi_generations_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply);
/* Forgets the request's target when the cell is over. */
hfi_listener hfi_generations_hear;

#endif
