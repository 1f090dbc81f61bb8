/* pin.c - extents that this process has mapped, and so keeps from being freed.
 *
 * A pin is a bit of an extent, one for each slot: nobody frees the extent while it is
 * set. A process may have several regions on one extent; it counts them here, sets the
 * bit with the first and clears it with the last. Pins guard an extent when its lease
 * is given up: a reclaimer looks at leases first and at pins second, and a region pins
 * before it gives a lease up, so a reclaimer sees one of the two.
 *
 * A child that was forked has its parent's counts and no slot: it counts on, and leaves
 * the bits alone.
 */
#include "engine/region.h"

#include <stdlib.h>
#include <string.h>

#include "engine/extent.h"
#include "engine/slot.h"

#define PINS_FIRST 64 /* so many counts at first */

void
hfi_pins_fini(hfi_pins *pins) {
    free(pins->counts);
}

hf_status
hfi_pin(hf_session *session, uint32_t extent, hf_error *reterr) {
    if (extent >= session->pins->capacity) {
        size_t capacity = 2 * session->pins->capacity + PINS_FIRST;
        if (capacity <= extent)
            capacity = hfi_round_up(extent + 1, HFI_EXTENT_CHUNK);
        uint32_t *counts = realloc(session->pins->counts, capacity * sizeof *counts);
        if (!counts)
            return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
        memset(counts + session->pins->capacity, 0,
               (capacity - session->pins->capacity) * sizeof *counts);
        session->pins->counts = counts;
        session->pins->capacity = capacity;
    }
    if (session->pins->counts[extent]++ == 0 && !session->inherited)
        atomic_fetch_or(&session->extents[extent].pins[session->slot / 64],
                        1ull << (session->slot % 64));
    return HF_OK;
}

void
hfi_unpin(hf_session *session, uint32_t extent) {
    if (extent >= session->pins->capacity || session->pins->counts[extent] == 0)
        return;
    if (--session->pins->counts[extent] == 0 && !session->inherited)
        atomic_fetch_and(&session->extents[extent].pins[session->slot / 64],
                         ~(1ull << (session->slot % 64)));
}

void
hfi_piece_drop(hf_session *session, uint32_t extent) {
    hf_error ignored;
    hfi_unpin(session, extent);
    if (session->inherited || !hfi_extent_is_mine(session, extent, HFI_RESERVED) ||
        (extent < session->pins->capacity && session->pins->counts[extent]))
        return;
    if (!hfi_lock(session, &ignored)) {
        if (hfi_extent_is_mine(session, extent, HFI_RESERVED))
            hfi_extent_give_up(session, extent);
        hfi_unlock(session);
    }
}
