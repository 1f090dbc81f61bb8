/* observe.h - the frontend's part in the monitor. */
#ifndef HFI_OBSERVE_H
#define HFI_OBSERVE_H

#include "session/session.h"

HF_CHECK hf_status hfi_observe_create(hf_kernel *kernel, hf_error *reterr);
void hfi_observe_close(hf_kernel *kernel);
void hfi_observe_init(hf_kernel *kernel);
/* Processes and cells, for the monitor's log. */
hfi_listener hfi_observe_hear;
void hfi_observe_began(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
void hfi_observe_asked(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);

#endif
