/* attach.h - claiming a slot, and clearing the slot of a process that left or died.
 *
 * Clearing wants the writer lock held (slot.h: hfi_lock); claiming takes it itself where
 * it must clear.
 *
 * Invariant: a slot is free only after nothing names it any more: no extent's state, no
 * pin, no lease. */
#ifndef HFI_ATTACH_H
#define HFI_ATTACH_H

#include "engine/handle.h"

/* Claim the session's own slot, and set its lock word. HF_E_LIMIT if all are taken by
 * living processes. */
hf_status hfi_slot_claim(hf_session *session, hf_error *reterr) HF_CHECK;
/* Claim one more for a fork that is to be made. It counts as this process's until
 * hfi_slot_assign names another. HF_E_LIMIT as above. */
hf_status hfi_slot_claim_heir(hf_session *session, uint32_t *ret_slot,
                              hf_error *reterr) HF_CHECK;
/* Drop what a slot holds (extents, pins, leases) and the slot. Lock held. */
void hfi_slot_clear(hf_session *session, uint32_t slot);
/* Clear the slots of dead processes; returns their number. Lock held. */
uint32_t hfi_slot_reap(hf_session *session);

#endif
