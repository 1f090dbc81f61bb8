/* loop.h - the frames of a worker, one after the other.
 *
 * Threads: the library's one.
 */
#ifndef HFI_LOOP_H
#define HFI_LOOP_H

#include "self.h"

/* Serve until the worker is to end. HF_E_PROTOCOL: the frontend doesn't speak our
 * protocol; statuses of hfi_self_send, and of the language's `run`. */
HF_CHECK hf_status hfi_loop_serve(hf_worker *worker, hf_error *reterr);

#endif
