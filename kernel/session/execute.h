/* execute.h - one request after the other, interrupts, and answers without a worker. */
#ifndef HFI_EXECUTE_H
#define HFI_EXECUTE_H

#include "session/session.h"

/* Start what can be started. */
void hfi_execute_next(hf_kernel *kernel);
void hfi_execute_interrupt(hf_kernel *kernel);
/* Read the control channel, and answer at once. */
void hfi_execute_control(hf_kernel *kernel);
/* Answer what needs no worker; what nobody knows by an error. */
void hfi_execute_answer(hf_kernel *kernel, const hfi_request *request);

#endif
