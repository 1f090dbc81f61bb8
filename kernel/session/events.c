/* events.c - telling everybody who listens.
 *
 * The list is a table of kernel.c's, which knows all listeners; this file knows none,
 * so that whatever tells an event needs none of them either. A list to which listeners
 * add themselves was rejected: their order matters, and nobody would see it. One
 * thread.
 */
#include "session/session.h"

void
hfi_tell(hf_kernel *kernel, const hfi_event *event) {
    for (hfi_listener *const *at = kernel->listeners; *at != NULL; at++)
        (*at)(kernel, event);
}
