/* takeup.h - the session of a frontend that was killed. */
#ifndef HFI_TAKEUP_H
#define HFI_TAKEUP_H

#include "session/session.h"

extern const hfi_owner hfi_takeup_owner;
/* Before anything else, since it forks. */
void hfi_takeup_begin(hf_kernel *kernel, const char *connection_path);
/* The store: what was left for this kernel, or a new one. As hf_session_create. */
HF_CHECK hf_status hfi_takeup_open(hf_kernel *kernel, const hf_session_options *options,
                                   hf_error *reterr);
/* Note where we are, for the frontend that takes the session up. */
void hfi_takeup_note(hf_kernel *kernel);
/* Below a cell's header: what happened, once. */
void hfi_takeup_tell(hf_kernel *kernel, hfi_part parent);
/* We end without having been able to start: it is left to a later kernel. 1: there is
 * something in it, and `error` says how to get at that. */
int hfi_takeup_leave(hf_kernel *kernel, hf_error *error);
/* We end in an orderly way: nobody is to take it up. */
void hfi_takeup_renounce(hf_kernel *kernel);
/* Close the store, and remove it unless it was left. */
void hfi_takeup_end(hf_kernel *kernel);

#endif
