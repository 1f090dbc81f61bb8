/* running.h - the steps of a cell that are the same in each way of running it.
 *
 * Threads: the library's one. Statuses of hfi_self_send.
 */
#ifndef HFI_RUNNING_H
#define HFI_RUNNING_H

#include "self.h"
#include "saving.h"

/* The cell begins: an interrupt is for it from here on. */
HF_CHECK hf_status hfi_running_prepare(hf_worker *worker, hf_error *reterr);
/* Run its code, unless it was interrupted or `why_not` says why it can't be run. True: it
 * has ended; false: it goes on, and the language replies later. */
bool hfi_running_run(hf_worker *worker, hf_status prepared, const hf_error *why_not);
/* Its code has ended, with this outcome. */
HF_CHECK hf_status hfi_running_end(hf_worker *worker, hf_error *reterr);
/* Send the reply; `saved` may be NULL. The worker is idle then. */
HF_CHECK hf_status hfi_running_reply(hf_worker *worker, const hfi_saved *saved,
                                     hf_error *reterr);
/* Both, for a cell that has run in any way. In another process than the main worker what
 * it changed is saved in between. */
HF_CHECK hf_status hfi_running_hand_back(hf_worker *worker, hf_error *reterr);

#endif
