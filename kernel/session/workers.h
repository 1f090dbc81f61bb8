/* workers.h - the processes of a session, and those that wait for a cell.
 *
 * workers.c knows which process is the main worker and which one runs the cell;
 * standby.c keeps processes ready. Workers are owned by the fork server's list
 * (workers/worker.h); pointers here are borrowed.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_WORKERS_H
#define HFI_WORKERS_H

#include "session/session.h"

/* ---- workers.c: the processes of a session, and which of them is which ---- */

/* How long to wait for the fork server's report on how a worker died. */
#define HFI_DEATH_WAIT_NS 1000000000LL

extern const hfi_owner hfi_workers_owner;
/* Start the fork server and, with `with_main`, the main worker, unless they run. A bare
 * main worker binds no variables. HF_E_GONE: the fork server is dying; HF_E_SYSTEM,
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_workers_start(hf_kernel *kernel, int with_main, int is_bare,
                                     hf_error *reterr);
/* Give the main worker a while to exit by itself, and kill the others. */
void hfi_workers_end(hf_kernel *kernel);
/* Ask the fork server for a worker; it is started unless it runs. Requests can be sent
 * to the worker at once. HF_E_GONE, HF_E_SYSTEM, HF_E_NOMEM: see hfi_worker_fork. */
HF_CHECK hf_status hfi_workers_fork(hf_kernel *kernel, hfi_role role,
                                    hfi_worker **ret_worker, hf_error *reterr);
/* Ask the main worker for a fork of itself. HF_E_GONE, HF_E_SYSTEM, HF_E_NOMEM: see
 * hfi_worker_split. */
HF_CHECK hf_status hfi_workers_split(hf_kernel *kernel, hfi_role role, long long id,
                                     hfi_worker **ret_fork, hf_error *reterr);
/* The fork server has reported this worker's pid. */
void hfi_workers_forked(hfi_worker *worker, pid_t pid);
/* How long a worker may take from its fork until it is ready. */
long long hfi_workers_ready_ns(void);
/* Send the main worker a frame without descriptors. If there is no main worker, the
 * frame is dropped. */
void hfi_workers_send_main(hf_kernel *kernel, const hfi_frame *frame);
/* Set the fork server's command, which is copied. HF_E_NOMEM. */
HF_CHECK hf_status hfi_workers_configure(hf_kernel *kernel, const char *const *argv,
                                         hf_error *reterr);
const char *hfi_workers_program(const hf_kernel *kernel);
/* The fork server, which lists all workers that may still run. */
hfi_fork_server *hfi_workers_server(const hf_kernel *kernel);
/* The main worker, and the worker of the cell that runs; NULL: none. */
hfi_worker *hfi_workers_main(const hf_kernel *kernel);
void hfi_workers_set_main(hf_kernel *kernel, hfi_worker *worker);
hfi_worker *hfi_workers_cell(const hf_kernel *kernel);
void hfi_workers_set_cell(hf_kernel *kernel, hfi_worker *worker);
/* The process that has the running request, or will get it; NULL: none. */
hfi_worker *hfi_workers_at_work(const hf_kernel *kernel);
/* The main worker's working directory, or the frontend's if that can't be found out. */
void hfi_workers_directory(const hf_kernel *kernel, char *ret_path, size_t size);
/* Read everything that the worker has written to its pipes. */
void hfi_workers_drain(hf_kernel *kernel, hfi_worker *worker);
/* The header under which a worker's output is shown. */
hfi_part hfi_workers_parent(const hf_kernel *kernel, const hfi_worker *worker);

/* ---- standby.c: workers that wait for a cell, and the modules that they have ---- */

extern const hfi_owner hfi_standby_owner;
/* Fork the missing standbys, unless a cell is being handed over. */
void hfi_standby_replenish(hf_kernel *kernel);
/* A main worker is ready: the first standbys are forked, at once or a little later. */
void hfi_standby_begin(hf_kernel *kernel, long long now_ns);
void hfi_standby_tick(hf_kernel *kernel, long long now_ns);
/* Take a process for a cell: one that lives and is ready, else the oldest that lives
 * (not with `fresh`), else a new one. NULL: none could be started. */
hfi_worker *hfi_standby_take(hf_kernel *kernel, int fresh);
/* Take this worker off the list. Returns 0 if it is no standby. */
int hfi_standby_remove(hf_kernel *kernel, const hfi_worker *worker);
/* The fork server has imported more than the standbys have: replace them. */
void hfi_standby_replace(hf_kernel *kernel);
/* The fork server has imported these, and survived it. If it is replaced, the new one
 * is asked for them, too. */
void hfi_standby_imported(hf_kernel *kernel, hfi_parts modules);
/* Notes whether cells run in clean processes. A new fork server is to import what the
 * former one had imported. */
hfi_listener hfi_standby_hear;
/* A standby never got ready; or, with `failed` 0, one did. */
void hfi_standby_note_failure(hf_kernel *kernel, int failed);
/* The oldest standby; NULL: there is none. */
hfi_worker *hfi_standby_oldest(const hf_kernel *kernel);
/* End all standbys; have them again when there is work. */
void hfi_standby_rest(hf_kernel *kernel);
void hfi_standby_wake(hf_kernel *kernel);
/* The notebook imports these modules, so the fork server imports them: at once, or when
 * the notebook pauses. */
void hfi_standby_import(hf_kernel *kernel, hfi_worker *worker,
                        const hfi_from_worker_importing *frame);
/* Whether some modules wait for the fork server to be asked for; ask for them. */
int hfi_standby_awaits_import(const hf_kernel *kernel);
void hfi_standby_import_awaited(hf_kernel *kernel);
/* The fork server has these modules from the start. */
void hfi_standby_know(hf_kernel *kernel, hfi_parts modules);

#endif
