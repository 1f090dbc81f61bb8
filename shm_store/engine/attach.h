/* attach.h - claiming a slot, clearing those of processes that left or died, and
 * recovery.
 *
 * Everything but claiming wants the writer lock held (slot.h: hfi_lock); claiming takes
 * it itself if it must clear a slot.
 *
 * Invariants: a slot is free only after nothing names it any more: no extent's state,
 * no pin, no lease. After recovery each extent's state and counts are what the current
 * root, the living processes' reservations, the leases and the pins imply.
 */
#ifndef HFI_ATTACH_H
#define HFI_ATTACH_H

#include "engine/handle.h"

/* Claim the session's own slot, and set its lock word. HF_E_LIMIT if all are taken by
 * living processes. */
hf_status hfi_slot_claim(hf_session *session, hf_error *reterr) HF_CHECK;
/* Claim one more for a fork that is to be made. It counts as this process's until
 * hfi_slot_pass names another. HF_E_LIMIT as above. */
hf_status hfi_slot_claim_heir(hf_session *session, uint32_t *ret_slot,
                              hf_error *reterr) HF_CHECK;
/* Drop what a slot holds (extents, pins, leases) and the slot. Lock held. */
void hfi_slot_clear(hf_session *session, uint32_t slot);
/* Clear the slots of dead processes; returns their number. Lock held. */
uint32_t hfi_slot_reap(hf_session *session);

/* Correct the extent table after its writer died (recovery.c). The process may be
 * killed at any point, and another one begins anew. HF_E_CORRUPT if the tree or the
 * table is damaged (then nothing was freed), HF_E_NOMEM. */
hf_status hfi_recovery_run(hf_session *session, hf_error *reterr) HF_CHECK;

#endif
