/* restart.h - main workers and fork servers that die before they are of use. */
#ifndef HFI_RESTART_H
#define HFI_RESTART_H

#include "session/session.h"

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
/* Whether a start is waited for: requests wait, too. */
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

#endif
