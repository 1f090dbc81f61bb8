/* quarantine.h - values that end the workers that load or save them. */
#ifndef HFI_QUARANTINE_H
#define HFI_QUARANTINE_H

#include "session/session.h"

extern const hfi_owner hfi_quarantine_owner;
void hfi_quarantine_init(hf_kernel *kernel);
/* End workers that have been at one value for too long. */
void hfi_quarantine_tick(hf_kernel *kernel, long long now_ns);
/* Whether a worker that isn't ready is busy with one that has time left. */
int hfi_quarantine_spares(const hf_kernel *kernel, const hfi_worker *worker,
                          long long now_ns);
/* A worker is dead, and the store not yet reaped: what it was at is added to its
 * exit reason. 1: it was loading it, and it goes into quarantine now. */
int hfi_quarantine_note(hf_kernel *kernel, const hfi_worker *worker, int is_late,
                        char *exit_reason, size_t size);

#endif
