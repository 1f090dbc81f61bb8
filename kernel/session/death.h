/* death.h - deaths of processes: what they cost, and what is said. */
#ifndef HFI_DEATH_H
#define HFI_DEATH_H

#include "session/session.h"
#include "session/rollback.h"

extern const hfi_owner hfi_death_owner;
hfi_listener hfi_death_hear;
/* Let time pass for all workers: their output, deadlines, and deaths. */
void hfi_death_tick(hf_kernel *kernel, long long now_ns);
/* When that has something to do; -1: at no time. */
long long hfi_death_deadline_ns(const hf_kernel *kernel);
/* The rollback of the dead main worker was waited for, and this has come of it. */
void hfi_death_settled(hf_kernel *kernel, hfi_rollback_outcome outcome);
/* The fork server is dead, and all of its forks with it. */
void hfi_death_of_fork_server(hf_kernel *kernel);

#endif
