/* wait.h - telling processes that sleep in hf_session_wait of a change.
 *
 * Invariant: whoever makes a generation current, or marks the session gone, has called
 * the function here before. So a kill in between wakes sleepers for nothing, and leaves
 * none asleep for ever.
 */
#ifndef HFI_WAIT_H
#define HFI_WAIT_H

#include "engine/handle.h"

/* Another generation is stored next. Lock held: sleepers that it wakes look until the
 * lock is released. One system call. */
void hfi_wait_announce(hf_session *session);
/* The session is marked gone next. No lock. */
void hfi_wait_announce_end(hf_session *session);

#endif
