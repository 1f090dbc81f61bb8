/* owner.h - the process that a session belongs to, and what only that process may do.
 *
 * The owner's words in the superblock are written under the writer lock, except in a
 * session that is being made. hfi_owner_check needs no lock to refuse. A caller that
 * then changes what belongs to the owner holds the lock.
 */
#ifndef HFI_OWNER_H
#define HFI_OWNER_H

#include "engine/handle.h"

/* 1 alive, 0 dead, -1 not known (another pid namespace). */
int hfi_owner_alive(const hfi_superblock *super);
/* Name this process as the owner. */
void hfi_owner_become(hf_session *session);
/* HF_E_ACCESS, with words on what to do instead, if the session is published by its
 * owner only and that isn't this process. */
hf_status hfi_owner_check(const hf_session *session, hf_error *reterr) HF_CHECK;

#endif
