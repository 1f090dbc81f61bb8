/* subshell.h - subshells: requests that run beside the cell of the main shell.
 *
 * Each subshell has a queue of its own; the main worker runs them in threads, and has a
 * second channel for them.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_SUBSHELL_H
#define HFI_SUBSHELL_H

#include "session/session.h"

extern const hfi_owner hfi_subshell_owner;
/* Create, delete and list; 0: it asks for something else. */
int hfi_subshell_answer(hf_kernel *kernel, const hfi_request *request);
/* Take a request of the shell channel that names a subshell; 0 if it names none. */
int hfi_subshell_take(hf_kernel *kernel, hfi_request *request);
/* Start the requests that can be started; `answer` handles those that need no
 * worker. */
void hfi_subshell_next(hf_kernel *kernel,
                       void (*answer)(hf_kernel *kernel, const hfi_request *request));
/* 0: it is no reply to a subshell's request. */
int hfi_subshell_replied(hf_kernel *kernel, const msgpack_object *reply);
/* A cell asks for input; the request that it belongs to, or NULL. */
const hfi_request *hfi_subshell_asks(hf_kernel *kernel, hfi_part id);
/* 0: no subshell waits for this input_reply. */
int hfi_subshell_input(hf_kernel *kernel, const hfi_request *reply);
void hfi_subshell_interrupt(hf_kernel *kernel);
/* Gives a new main worker the second channel, if the kernel has subshells. */
hfi_listener hfi_subshell_hear;
/* The main worker is gone, and with it the threads. */
void hfi_subshell_lose_main(hf_kernel *kernel);
/* The second channel; NULL: none. */
hfi_control *hfi_subshell_channel(const hf_kernel *kernel);

#endif
