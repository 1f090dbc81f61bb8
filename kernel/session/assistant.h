/* assistant.h - questions while a cell runs, and the debugger.
 *
 * The assistant is a worker that answers completions and inspections while the main
 * worker runs a cell, and that debugs. A request goes to it only after it has waited
 * for a moment; if it dies, the main worker answers.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_ASSISTANT_H
#define HFI_ASSISTANT_H

#include "session/session.h"

extern const hfi_owner hfi_assistant_owner;
/* Give it the questions that have waited long enough; release it if nothing needs
 * it. */
void hfi_assistant_tick(hf_kernel *kernel, long long now_ns);
long long hfi_assistant_deadline_ns(const hf_kernel *kernel);
/* It reports that it is ready; its reply came; it died, so the main worker answers. */
void hfi_assistant_ready(hf_kernel *kernel);
void hfi_assistant_replied(hf_kernel *kernel, const msgpack_object *reply);
void hfi_assistant_died(hf_kernel *kernel);
/* NULL: there is none. */
hfi_worker *hfi_assistant_worker(const hf_kernel *kernel);
/* Takes the debug_request, which it owns then. */
void hfi_assistant_debug(hf_kernel *kernel, hfi_request *request);
void hfi_assistant_connect(hf_kernel *kernel, hfi_worker *worker,
                           const msgpack_object *map);
void hfi_assistant_debugging(hf_kernel *kernel, hfi_worker *worker,
                             const msgpack_object *map);
/* If a client debugs, connect its debugger with the cell's process. */
void hfi_assistant_attend(hf_kernel *kernel);

#endif
