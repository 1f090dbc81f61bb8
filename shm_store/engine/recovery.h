/* recovery.h - making the extent table true again after its writer died.
 *
 * Invariant: afterwards each extent's state and counts are what the current root, the
 * living processes' reservations, the leases and the pins imply. It may be killed at any
 * point and begun anew. */
#ifndef HFI_RECOVERY_H
#define HFI_RECOVERY_H

#include "engine/handle.h"

/* Lock held. HF_E_CORRUPT if the tree or the table can't be believed (nothing was freed
 * then), HF_E_NOMEM. */
hf_status hfi_recovery_run(hf_session *session, hf_error *reterr) HF_CHECK;

#endif
