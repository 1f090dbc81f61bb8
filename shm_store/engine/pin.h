/* pin.h - extents that this process has mapped, and so keeps.
 *
 * session->mutex is held by every caller. The bits in shared memory are atomic.
 *
 * Invariant: this process's bit of an extent is set if and only if its count is not 0
 * (but in a forked child, which has no bits). */
#ifndef HFI_PIN_H
#define HFI_PIN_H

#include "engine/handle.h"

typedef struct hfi_pins {
    uint32_t *counts; /* by extent: this process's regions and blocks on it */
    size_t capacity;
} hfi_pins;

void hfi_pins_fini(hfi_pins *pins);
/* HF_E_NOMEM. */
hf_status hfi_pin(hf_session *session, uint32_t extent, hf_error *reterr) HF_CHECK;
void hfi_unpin(hf_session *session, uint32_t extent);
/* Unpin an extent that a region has lost. If it was never published and no region of
 * this process has it any more, it is given up. Takes the writer lock. */
void hfi_piece_drop(hf_session *session, uint32_t extent);

#endif
