/* inbox.h - what workers and the fork server send. */
#ifndef HFI_INBOX_H
#define HFI_INBOX_H

#include "session/session.h"

/* Read what is there, and handle each frame by the table of workers/protocol.h. */
void hfi_inbox_read_fork_server(hf_kernel *kernel);
void hfi_inbox_read(hf_kernel *kernel, hfi_worker *worker);
/* Reads a worker whose state has to be known now. */
hfi_listener hfi_inbox_hear;

#endif
