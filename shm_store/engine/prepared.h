/* prepared.h - the commit that this process has prepared, until it is settled.
 *
 * The committing thread owns the state: one commit a process at a time (`committing`).
 * Functions that move extents take session->mutex, then the writer lock.
 *
 * Invariant: every extent in the list was RESERVED or PREPARED by this process when it
 * entered; the list's regions are held until the commit is known to be published or was
 * dropped. A commit is published as a whole, so one extent's state speaks for all.
 */
#ifndef HFI_PREPARED_H
#define HFI_PREPARED_H

#include "engine/handle.h"

typedef struct hfi_prepared_state {
    int committing;    /* an hf_commit exists */
    uint32_t *extents; /* PREPARED by this process */
    size_t extent_count;
    hf_region **regions; /* acquired: their pins keep what the commit refers to */
    size_t region_count;
} hfi_prepared_state;

/* If what was prepared is published by now, forget it; else undo it if `drop`. */
void hfi_prepared_settle(hf_session *session, int drop);
/* Forget what was published; HF_BUSY if a commit of this process still isn't. */
hf_status hfi_prepared_finish(hf_session *session, hf_error *reterr) HF_CHECK;
/* Undo one extent that this process reserved or prepared: back to its region, or free.
 * Both locks held. */
void hfi_prepared_drop_extent(hf_session *session, uint32_t index);

#endif
