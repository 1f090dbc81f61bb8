/* inbox.h - what workers and the fork server send. */
#ifndef HFI_INBOX_H
#define HFI_INBOX_H

#include "session/session.h"

void hfi_inbox_read_template(hf_kernel *kernel);
void hfi_inbox_read(hf_kernel *kernel, hfi_worker *worker);
/* Reads a worker that somebody has to know more of. */
hfi_listener hfi_inbox_hear;

#endif
