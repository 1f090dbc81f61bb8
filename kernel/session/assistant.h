/* assistant.h - questions while a cell runs, and the debugger. */
#ifndef HFI_ASSISTANT_H
#define HFI_ASSISTANT_H

#include "session/session.h"

extern const hfi_owner hfi_assistant_owner;
/* Give it the questions that have waited long enough; release
 * it if nothing needs it. */
void hfi_assistant_tick(hf_kernel *kernel, long long now_ns);
long long hfi_assistant_deadline_ns(const hf_kernel *kernel);
/* It says that it is ready; its reply; its death, after which
 * the main worker answers. */
void hfi_assistant_ready(hf_kernel *kernel);
void hfi_assistant_replied(hf_kernel *kernel, const msgpack_object *reply);
void hfi_assistant_died(hf_kernel *kernel);
/* NULL: there is none. */
hfi_worker *hfi_assistant_worker(const hf_kernel *kernel);
/* Takes the debug_request. */
void hfi_assistant_debug(hf_kernel *kernel, hfi_request *request);
void hfi_assistant_connect(hf_kernel *kernel, hfi_worker *worker,
                           const msgpack_object *map);
void hfi_assistant_debugging(hf_kernel *kernel, hfi_worker *worker,
                             const msgpack_object *map);
/* If a client debugs, connect its debugger with the cell's process. */
void hfi_assistant_attend(hf_kernel *kernel);

#endif
