/* beside.h - requests that are answered beside the cell that runs.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_BESIDE_H
#define HFI_BESIDE_H

#include "session/session.h"

/* ---- assistant.c: questions while a cell runs, and the debugger ----
 *
 * The assistant is a worker that answers completions and inspections while the main
 * worker runs a cell, and that debugs. A request goes to it only after it has waited
 * for a moment; if it dies, the main worker answers. */

extern const hfi_owner hfi_assistant_owner;
/* Give it the questions that have waited long enough. Release it if nothing needs
 * it. */
void hfi_assistant_tick(hf_kernel *kernel, long long now_ns);
long long hfi_assistant_deadline_ns(const hf_kernel *kernel);
/* _ready: it reports that it is ready. _replied: its reply has come. _died: it is dead,
 * so the main worker answers. */
void hfi_assistant_ready(hf_kernel *kernel);
void hfi_assistant_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply);
void hfi_assistant_died(hf_kernel *kernel);
/* The assistant; NULL: there is none. */
hfi_worker *hfi_assistant_worker(const hf_kernel *kernel);
/* Take the debug_request over, and have it answered. */
void hfi_assistant_debug(hf_kernel *kernel, hfi_request *request);
void hfi_assistant_connect(hf_kernel *kernel, hfi_worker *worker,
                           const hfi_from_assistant_debug *frame);
void hfi_assistant_debugging(hf_kernel *kernel, hfi_worker *worker,
                             const hfi_from_assistant_debugging *frame);
/* If a client debugs, connect its debugger with the cell's process. */
void hfi_assistant_attend(hf_kernel *kernel);

/* ---- subshell.c: cells of clients that have a shell of their own ---- */

extern const hfi_owner hfi_subshell_owner;
/* Answer a request to create, delete or list subshells. Returns 0 if it asks for
 * something else. */
int hfi_subshell_answer(hf_kernel *kernel, const hfi_request *request);
/* Take a request of the shell channel that names a subshell; 0 if it names none. */
int hfi_subshell_take(hf_kernel *kernel, hfi_request *request);
/* Start the requests that can be started; `answer` handles those that need no
 * worker. */
void hfi_subshell_next(hf_kernel *kernel,
                       void (*answer)(hf_kernel *kernel, const hfi_request *request));
/* Handle the reply to a subshell's request. Returns 0 if the reply is to another
 * request. */
int hfi_subshell_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply);
/* A cell asks for input: the subshell's request that it belongs to, or NULL. */
const hfi_request *hfi_subshell_asks(hf_kernel *kernel, hfi_part id);
/* Pass on an input_reply. Returns 0 if no subshell waits for it. */
int hfi_subshell_input(hf_kernel *kernel, const hfi_request *reply);
void hfi_subshell_interrupt(hf_kernel *kernel);
/* Gives a new main worker the second channel, if the kernel has subshells. */
hfi_listener hfi_subshell_hear;
/* The main worker is gone, and with it the threads. */
void hfi_subshell_lose_main(hf_kernel *kernel);
/* The second channel; NULL: none. */
hfi_control *hfi_subshell_channel(const hf_kernel *kernel);

/* ---- resources.c: the use of the kernel's processes and of the machine ---- */

extern const hfi_owner hfi_resources_owner;
/* Answer a usage_request. */
void hfi_resources_answer(hf_kernel *kernel, const hfi_request *request);

#endif
