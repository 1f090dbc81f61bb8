/* runs.h - what the main worker knows of the instrumented cells that ran. */
#ifndef HFI_RUNS_H
#define HFI_RUNS_H

#include "session/session.h"

HF_CHECK hf_status hfi_runs_create(hf_kernel *kernel, hf_error *reterr);
void hfi_runs_close(hf_kernel *kernel);
hfi_listener hfi_runs_hear;

#endif
