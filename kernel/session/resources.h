/* resources.h - what the kernel's processes and the machine use, for a client that asks. */
#ifndef HFI_RESOURCES_H
#define HFI_RESOURCES_H

#include "session/session.h"

extern const hfi_owner hfi_resources_owner;
/* Answer a usage_request. */
void hfi_resources_answer(hf_kernel *kernel, const hfi_request *request);

#endif
