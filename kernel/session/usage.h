/* usage.h - what the kernel's processes and the machine use, for a client that asks. */
#ifndef HFI_SESSION_USAGE_H
#define HFI_SESSION_USAGE_H

#include "session/session.h"

extern const hfi_owner hfi_usage_owner;
/* Answer a usage_request. */
void hfi_usage_answer(hf_kernel *kernel, const hfi_request *request);

#endif
