/* session.h - sessions that are only looked at, or have lost their owner. The rest is
 * public (holdfast/store.h).
 *
 * A look takes no slot and maps nothing. It reads a copy of the control area. So an
 * object that is cut off meanwhile is an error and no SIGBUS. Such a handle is for
 * reading the copy, and for its descriptor. It must not be locked.
 */
#ifndef HFI_SESSION_H
#define HFI_SESSION_H

#include "engine/handle.h"

/* HF_NOT_FOUND, HF_E_ACCESS, HF_E_CORRUPT, HF_E_VERSION, HF_E_GONE, HF_E_NOMEM,
 * HF_E_SYSTEM. */
hf_status hfi_session_peek(const char *name, hf_session **ret_session,
                           hf_error *reterr) HF_CHECK;
void hfi_session_unpeek(hf_session *session);

/* ---- sessions that outlive their owner (orphan.c) ----
 *
 * No lock: the answers may be out of date as soon as they return. */

/* Whether it has a claim, and so may be taken up. */
int hfi_orphan_is_kept(const hfi_superblock *super);
/* Whether its reaper lives, which frees it in the end. */
int hfi_orphan_has_reaper(const hfi_superblock *super);

#endif
