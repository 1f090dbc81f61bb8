/* session.h - a session that is only looked at. The rest is public (holdfast/store.h).
 *
 * A look takes no slot and maps nothing: it reads a copy of the control area, so that an
 * object which somebody cuts off meanwhile is an error and no SIGBUS. Such a handle is
 * for reading what the copy has, and for its descriptor; it must not be locked. */
#ifndef HFI_SESSION_H
#define HFI_SESSION_H

#include "engine/handle.h"

/* HF_NOT_FOUND, HF_E_ACCESS, HF_E_CORRUPT, HF_E_VERSION, HF_E_GONE, HF_E_NOMEM,
 * HF_E_SYSTEM. */
hf_status hfi_session_peek(const char *name, hf_session **ret_session,
                           hf_error *reterr) HF_CHECK;
void hfi_session_unpeek(hf_session *session);

#endif
