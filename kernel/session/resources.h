/* resources.h - use of the kernel's processes and of the machine, for a client that
 * asks.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_RESOURCES_H
#define HFI_RESOURCES_H

#include "session/session.h"

extern const hfi_owner hfi_resources_owner;
/* Answer a usage_request. */
void hfi_resources_answer(hf_kernel *kernel, const hfi_request *request);

#endif
