/* dispatch.h - reading what clients send. */
#ifndef HFI_DISPATCH_H
#define HFI_DISPATCH_H

#include "session/session.h"

/* The next message of a channel as a request; NULL: none waits. */
hfi_request *hfi_dispatch_receive(hf_kernel *kernel, int channel);
/* Read the shell channel: into the queues of the main shell, of subshells and of cells'
 * comms. */
void hfi_dispatch_shell(hf_kernel *kernel);
void hfi_dispatch_stdin(hf_kernel *kernel);
/* Reads the shell channel when an error stops the queue. */
hfi_listener hfi_dispatch_hear;

#endif
