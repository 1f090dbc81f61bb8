/* rollback.h - the main worker's sleeping fork. */
#ifndef HFI_ROLLBACK_H
#define HFI_ROLLBACK_H

#include "session/session.h"

/* What becomes of the notebook whose main worker died. */
typedef enum hfi_rollback_outcome {
    HFI_ROLLBACK_FAILED,   /* there is no fork: the last commit */
    HFI_ROLLBACK_SUCCEEDS, /* the fork is the main worker now */
    HFI_ROLLBACK_WAITS,    /* for the fork's word; then: it has committed */
} hfi_rollback_outcome;

extern const hfi_owner hfi_rollback_owner;
/* Have one made that holds the notebook as it is now: before the next request. */
void hfi_rollback_make(hf_kernel *kernel);
/* Whether one should be made while nobody uses the notebook. */
int hfi_rollback_is_wanted(const hf_kernel *kernel);
/* Whether there is one. */
int hfi_rollback_sleeps(const hf_kernel *kernel);
/* It is of no use any more. */
void hfi_rollback_drop(hf_kernel *kernel);
/* Nobody uses the notebook: give it back, unless it has what no commit has. */
void hfi_rollback_rest(hf_kernel *kernel);
void hfi_rollback_made(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
/* Counts the cells that run in the main worker. */
hfi_listener hfi_rollback_hear;
/* Whether a plain cell is worth one. */
int hfi_rollback_is_due(const hf_kernel *kernel);
/* The main worker is dead: let its sleeping fork take its place, or commit. */
hfi_rollback_outcome hfi_rollback_wake(hf_kernel *kernel);
/* A fork that was woken says that it is ready, and is the main worker now; 0: it waits
 * for nothing. */
int hfi_rollback_ready(hf_kernel *kernel);
/* The fork's answer to its commit, and what has come of it; 0: the reply is another
 * one's. */
int hfi_rollback_replied(hf_kernel *kernel, const hfi_worker *worker,
                         const msgpack_object *reply,
                         hfi_rollback_outcome *ret_outcome);
/* NULL: there is none. */
hfi_worker *hfi_rollback_worker(const hf_kernel *kernel);
/* Whether it was woken, and hasn't said what it is. */
int hfi_rollback_is_waking(const hf_kernel *kernel);
/* Cells that ran since it was made. */
long long hfi_rollback_cells(const hf_kernel *kernel);
/* All processes are gone. */
void hfi_rollback_forget(hf_kernel *kernel);
/* The fork that was to commit is done, or dead. */
void hfi_rollback_end(hf_kernel *kernel);

#endif
