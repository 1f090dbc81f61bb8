/* progress.h - a display while a hand-over takes long. */
#ifndef HFI_PROGRESS_H
#define HFI_PROGRESS_H

#include "session/session.h"

extern const hfi_owner hfi_progress_owner;
long long hfi_progress_deadline_ns(const hf_kernel *kernel);
void hfi_progress_tick(hf_kernel *kernel, long long now_ns);
/* Show a display of this kind, in the progress's place where that is shown; `data`: the
 * members of the message's "data". */
void hfi_progress_replace(hf_kernel *kernel, hfi_part data, const char *kind);
/* Ends it when the cell begins, and when it ends. */
hfi_listener hfi_progress_hear;

#endif
