/* saving.h - a worker's variables and the store: commits, and generations to bind.
 *
 * Threads: the library's one.
 */
#ifndef HFI_SAVING_H
#define HFI_SAVING_H

#include "self.h"

/* What a commit of the variables brings to a reply. It lives until the next one. */
typedef struct hfi_saved {
    hfi_part prepared; /* empty: nothing has changed, or it failed */
    hfi_texts unserializable;
    hfi_map_report report; /* with `error` if nothing could be prepared */
    hf_error error;
    char words[HF_ERROR_MESSAGE_SIZE + 40]; /* of report.error */
} hfi_saved;

/* Ask the language to save, and prepare what differs. Never fails: `ret_saved` says what
 * went wrong. */
void hfi_saving_save(hf_worker *worker, hfi_saved *ret_saved);
/* Prepare a commit: `saved` gets its token. Statuses of hf_commit_prepare_consume. */
HF_CHECK hf_status hfi_saving_prepare_consume(hf_worker *worker, hf_commit *commit,
                                              hfi_saved *saved, hf_error *reterr);
/* The commit that was prepared is this generation: have it, and make private what is
 * mapped of it. Statuses of hf_snapshot_import, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_saving_published(hf_worker *worker, uint64_t generation,
                                        hfi_part name, hf_error *reterr);
/* Bind a generation (`name` empty: the current one). `code` and `number` are of an adopted
 * cell. Statuses of hf_snapshot_import, and the language's. */
HF_CHECK hf_status hfi_saving_bind(hf_worker *worker, hf_worker_occasion occasion,
                                   hfi_part name, const char *code, int64_t number,
                                   hf_error *reterr);
/* Bind and make private what failed before: no cell and no commit begins without it. As
 * above. */
HF_CHECK hf_status hfi_saving_catch_up(hf_worker *worker, hf_error *reterr);
/* A generation by its name; the caller releases it. As hf_snapshot_import;
 * HF_E_PROTOCOL. */
HF_CHECK hf_status hfi_saving_import(hf_worker *worker, hfi_part name,
                                     hf_snapshot **ret_snapshot, hf_error *reterr);
/* Say which variables end with this process. */
void hfi_saving_report_stays(hf_worker *worker);
void hfi_saving_fini(hf_worker *worker);

#endif
