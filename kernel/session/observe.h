/* observe.h - the frontend's part in the monitor. */
#ifndef HFI_OBSERVE_H
#define HFI_OBSERVE_H

#include "session/session.h"

extern const hfi_owner hfi_observe_owner;
/* Start the monitor; without it nothing fails. */
void hfi_observe_init(hf_kernel *kernel);
/* Processes and cells, for the monitor's log. */
hfi_listener hfi_observe_hear;
void hfi_observe_began(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);
void hfi_observe_asked(hf_kernel *kernel, hfi_worker *worker,
                       const msgpack_object *map);

#endif
