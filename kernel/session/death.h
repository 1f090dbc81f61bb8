/* death.h - deaths of processes: what they cost, and what is said. */
#ifndef HFI_DEATH_H
#define HFI_DEATH_H

#include "session/session.h"
#include "session/rollback.h"

HF_CHECK hf_status hfi_death_create(hf_kernel *kernel, hf_error *reterr);
void hfi_death_close(hf_kernel *kernel);
hfi_listener hfi_death_hear;
/* Let time pass for all workers: their output, deadlines, and deaths. */
void hfi_death_tick(hf_kernel *kernel, long long now_ns);
/* What the rollback of the dead main worker has come to, which was waited for. */
void hfi_death_settled(hf_kernel *kernel, hfi_rollback_outcome outcome);
void hfi_death_of_template(hf_kernel *kernel);

#endif
