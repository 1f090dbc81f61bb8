/* replies.h - what a worker says of the request that it has. */
#ifndef HFI_REPLIES_H
#define HFI_REPLIES_H

#include "session/session.h"

void hfi_replies_started(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *map);
void hfi_replies_ended(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
void hfi_replies_replied(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *reply);

#endif
