/* rerun.h - cells whose changes were lost in a crash, and `%holdfast rerun`.
 *
 * Cells that ran in the main worker are noted until a commit has what they changed. If
 * the main worker dies, those after the state that the notebook goes on with are lost,
 * and wait here until they are run again.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_RERUN_H
#define HFI_RERUN_H

#include "session/session.h"

extern const hfi_owner hfi_rerun_owner;
/* Notes each cell, and says what is left when one that runs again has failed. */
hfi_listener hfi_rerun_hear;
/* The cells up to now, for hfi_rerun_lose. A fork that is made now has their changes. */
long long hfi_rerun_mark(const hf_kernel *kernel);
/* A commit has the changes of all cells. */
void hfi_rerun_saved(hf_kernel *kernel);
/* The main worker is dead, and the changes of all cells after this mark are lost; 0: of
 * all. Append the names of the cells that `%holdfast rerun` would run now, if the crash
 * has changed something about them: "In[3], In[5] to In[7]". */
void hfi_rerun_lose(hf_kernel *kernel, long long mark, hfi_textbuf *names);
/* Whether a lost cell waits. */
int hfi_rerun_is_left(const hf_kernel *kernel);
/* Make the running request that of the next lost cell, which then waits no longer, or of
 * the same one if that is repeated. HF_NOT_FOUND: its code wasn't kept. HF_E_NOMEM. */
HF_CHECK hf_status hfi_rerun_begin(hf_kernel *kernel, hf_error *reterr);
/* The running cell wasn't begun: if it is a lost cell, it waits again. */
void hfi_rerun_postpone(hf_kernel *kernel);
/* The running cell has ended with this error (hfi_ends_outcome). Whether it is a lost
 * cell, and has ended so the first time, too. */
int hfi_rerun_ended(hf_kernel *kernel, const char *error);
/* Whether the request of the running cell goes on with another lost one. */
int hfi_rerun_goes_on(hf_kernel *kernel);

#endif
