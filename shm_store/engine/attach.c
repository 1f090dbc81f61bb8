/* attach.c - claiming a slot, and clearing one whose process has ended.
 *
 * A slot is claimed without the lock, by a compare-and-swap of its owner word. It is
 * cleared only under the writer lock, after everything that names it was dropped: its
 * pins, its reserved and prepared extents, its leases. So a slot number never means two
 * processes at once.
 *
 * If all slots are taken, those of dead processes are cleared, and the claim is tried
 * once more. That needs the lock, and perhaps a recovery, by a process that has no slot
 * yet. Recovery needs no slot, and the lock word only has to name a living process.
 */
#include "engine/attach.h"

#include "base/step.h"
#include "engine/extent.h"
#include "engine/slot.h"

#define NO_SLOT 0xfffeu /* in the lock word of a process without a slot */

hf_status
hfi_slot_claim(hf_session *session, hf_error *reterr) {
    hfi_process self = hfi_process_self();
    for (int attempt = 0; attempt < 2; attempt++) {
        uint32_t i = hfi_slot_take(session, &self);
        if (i != HFI_NONE) {
            session->slot = i;
            session->lock_word = hfi_lock_word(i, &self);
            return HF_OK;
        }
        /* All are taken, perhaps by dead processes. Recovery needs no slot of its own,
         * and the lock word only has to name a living process. */
        uint32_t dead = 0;
        for (uint32_t k = 0; k < HFI_SLOT_COUNT && !dead; k++)
            if (!hfi_slot_alive(session, k))
                dead = k + 1;
        if (!dead)
            break;
        hf_error ignored;
        session->lock_word = hfi_lock_word(NO_SLOT, &self);
        if (hfi_lock(session, &ignored))
            break;
        hfi_slot_reap(session);
        hfi_unlock(session);
    }
    return hf_error_set(reterr, HF_E_LIMIT, "%u processes are attached already",
                        HFI_SLOT_COUNT);
}

hf_status
hfi_slot_claim_heir(hf_session *session, uint32_t *ret_slot, hf_error *reterr) {
    hfi_process self = hfi_process_self();
    hf_error ignored;
    self.start_time = 0; /* so that one write of the pid hands it over */
    uint32_t slot = hfi_slot_take(session, &self);
    if (slot == HFI_NONE && !hfi_lock(session, &ignored)) {
        hfi_slot_reap(session); /* some of them may be dead */
        hfi_unlock(session);
        slot = hfi_slot_take(session, &self);
    }
    if (slot == HFI_NONE)
        return hf_error_set(reterr, HF_E_LIMIT, "%u processes are attached already",
                            HFI_SLOT_COUNT);
    atomic_store(&session->slots[slot].readonly, (uint64_t)session->readonly);
    *ret_slot = slot;
    return HF_OK;
}

void
hfi_slot_clear(hf_session *session, uint32_t slot) {
    uint64_t bit = 1ull << (slot % 64),
             owner = atomic_load(&session->slots[slot].owner);
    for (uint32_t i = 0, n = hfi_extent_count(session); i < n; i++) {
        hfi_extent *extent = &session->extents[i];
        if (atomic_load_explicit(&extent->pins[slot / 64], memory_order_relaxed) & bit)
            atomic_fetch_and(&extent->pins[slot / 64], ~bit);
        uint32_t word = hfi_extent_word(extent);
        if (word == hfi_state_word(HFI_RESERVED, slot) ||
            word == hfi_state_word(HFI_PREPARED, slot))
            hfi_extent_give_up(session, i);
    }
    hfi_step("slot:extents-freed");
    for (unsigned i = 0; i < HFI_LEASE_COUNT; i++)
        atomic_store(&session->slots[slot].leases[i], 0);
    atomic_store(&session->slots[slot].start_time, 0);
    atomic_compare_exchange_strong(&session->slots[slot].owner, &owner, 0);
}

uint32_t
hfi_slot_reap(hf_session *session) {
    uint32_t reaped = 0;
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++) {
        if (!atomic_load(&session->slots[i].owner) || hfi_slot_alive(session, i))
            continue;
        hfi_slot_clear(session, i);
        hfi_step("reap:slot-cleared");
        reaped++;
    }
    return reaped;
}
