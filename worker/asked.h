/* asked.h - the request that this worker handles: as the language sees it, whether it was
 * answered, and the reply's JSON.
 *
 * Threads: the library's one, but hfi_asked_fail and the public calls, which are any's.
 */
#ifndef HFI_ASKED_H
#define HFI_ASKED_H

#include "self.h"

/* Open a request, from its frame, which is taken. HF_E_PROTOCOL, HF_E_NOMEM: it isn't open. */
HF_CHECK hf_status hfi_asked_open_consume(hf_worker *worker, hfi_incoming *incoming,
                                          hf_error *reterr);
void hfi_asked_close(hf_worker *worker);
/* The same for one that is handled beside it: in a struct of the caller's. */
HF_CHECK hf_status hfi_asked_read_consume(hf_worker *worker, hfi_incoming *incoming,
                                          hfi_asked *ret_asked, hf_error *reterr);
void hfi_asked_free(hfi_asked *asked);
/* Whether a call of the language's has answered it; with what it was to return. */
bool hfi_asked_is_answered(hf_worker *worker, hf_status *ret_outcome);
/* The cell has failed, in these words, unless it has before. Whether these are shown. */
bool hfi_asked_fail(hf_worker *worker, const char *name, const char *value,
                    const char *lines);
/* The content of the error message, or of a cell's reply. The caller frees it; NULL: no
 * memory. */
char *hfi_asked_error(hf_worker *worker);
char *hfi_asked_outcome(hf_worker *worker);
/* The same of a question's reply: the language's, or an empty one. NULL also for a comm
 * message, whose reply has none. */
char *hfi_asked_answer(hf_worker *worker);
/* HF_E_INVALID, with what is wrong: the text isn't one JSON object. */
HF_CHECK hf_status hfi_asked_check_json(const char *what, const char *text,
                                        hf_error *reterr);

#endif
