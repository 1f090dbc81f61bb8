/* execute.h - one request after the other, interrupts, and answers without a worker. */
#ifndef HFI_EXECUTE_H
#define HFI_EXECUTE_H

#include "session/session.h"

/* Take requests from the queue for as long as each ends at once. */
void hfi_execute_next(hf_kernel *kernel);
/* A client, or a signal, interrupts what runs. */
void hfi_execute_interrupt(hf_kernel *kernel);
/* Read the control channel, and answer at once. */
void hfi_execute_control(hf_kernel *kernel);
/* Answer what needs no worker; what nobody knows by an error. */
void hfi_execute_answer(hf_kernel *kernel, const hfi_request *request);
/* What a worker says of the request that it has. */
void hfi_execute_started(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *map);
void hfi_execute_ended(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
void hfi_execute_replied(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *reply);

#endif
