/* comms.h - comms that the cell worker opened. */
#ifndef HFI_COMMS_H
#define HFI_COMMS_H

#include "session/session.h"

extern const hfi_owner hfi_comms_owner;
int hfi_comms_is_one(const char *type); /* comm_open, comm_msg or comm_close */
/* It publishes a message of this type. */
void hfi_comms_watch(hf_kernel *kernel, const char *type, hfi_part content);
/* Takes the request if it is for such a comm; 0: it isn't. */
int hfi_comms_forward(hf_kernel *kernel, hfi_request *request);
/* The worker has acknowledged one; 0: it is another one's. */
int hfi_comms_replied(hf_kernel *kernel, long long id);
/* The worker is gone. */
void hfi_comms_forget(hf_kernel *kernel);

#endif
