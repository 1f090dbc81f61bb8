/* steps.h - a line of the history in the worker: undo, checkout, diff, save, load and so on.
 *
 * Threads: the library's one. Statuses of hfi_self_send.
 */
#ifndef HFI_STEPS_H
#define HFI_STEPS_H

#include "self.h"

/* Handle a cell that is nothing but such a line. The frontend has published the step, and
 * the variables are bound. */
HF_CHECK hf_status hfi_steps_run(hf_worker *worker, hf_error *reterr);

#endif
