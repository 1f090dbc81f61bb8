/* variables.h - variables that the library keeps, for a language without a place of its own
 * for them: names and bytes.
 *
 * The three functions are what a language without them has as `save`, `bind` and `answer`.
 *
 * Threads: the library's one.
 */
#ifndef HFI_VARIABLES_H
#define HFI_VARIABLES_H

#include "self.h"

/* Put those that are there, remove those that are gone, and forget these once the store
 * doesn't have them. Statuses of hf_worker_put. */
HF_CHECK hf_status hfi_variables_save(void *context, hf_worker *worker,
                                      hf_error *reterr);
/* Have those of the snapshot, and no others; on failure those before. HF_E_NOMEM, and what
 * hf_snapshot_each returns. */
HF_CHECK hf_status hfi_variables_bind(void *context, hf_worker *worker,
                                      const hf_worker_binding *binding,
                                      hf_error *reterr);
/* Complete a name. HF_NOT_FOUND: nothing else is answered. HF_E_NOMEM, and what
 * hf_worker_reply returns. */
HF_CHECK hf_status hfi_variables_answer(void *context, hf_worker *worker,
                                        const hf_worker_request *request,
                                        hf_error *reterr);
void hfi_variables_clear(hfi_variables *variables);

#endif
