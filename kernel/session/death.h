/* death.h - processes that die, and values that end them.
 *
 * death.c notices that a process has died, ends or repeats its cell, and starts another
 * one. quarantine.c ends processes that hang in one value, and keeps others from that
 * value.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_DEATH_H
#define HFI_DEATH_H

#include "session/rollback.h"
#include "session/session.h"
#include "workers/children.h"

/* ---- death.c: deaths of processes, and their consequences ---- */

extern const hfi_owner hfi_death_owner;
hfi_listener hfi_death_hear;
/* Check all workers: read their output, and handle deadlines and deaths. */
void hfi_death_tick(hf_kernel *kernel, long long now_ns);
/* When the tick has work to do next; -1: never. */
long long hfi_death_deadline_ns(const hf_kernel *kernel);
/* The rollback of the dead main worker has answered, with this outcome. */
void hfi_death_settled(hf_kernel *kernel, hfi_rollback_outcome outcome);
/* The fork server is dead: start another one. Its forks live on. */
void hfi_death_of_fork_server(hf_kernel *kernel);
/* A process was waited for: a worker or any other one. Says which in `ended`. */
void hfi_death_note_exit(hf_kernel *kernel, hfi_exit *ended);

/* ---- quarantine.c: values that end the workers that load or save them ---- */

extern const hfi_owner hfi_quarantine_owner;
void hfi_quarantine_init(hf_kernel *kernel);
/* End workers that have been busy with one value for too long. */
void hfi_quarantine_tick(hf_kernel *kernel, long long now_ns);
/* Whether a worker that isn't ready is busy with a value, within that value's time
 * limit. */
int hfi_quarantine_spares(const hf_kernel *kernel, const hfi_worker *worker,
                          long long now_ns);
/* A worker is dead, and the store isn't reaped yet. Add the value that it was encoding
 * or decoding to the exit reason. Returns 1 if it was decoding, and the value is in
 * quarantine now. */
int hfi_quarantine_note(hf_kernel *kernel, const hfi_worker *worker, char *exit_reason,
                        size_t size);

#endif
