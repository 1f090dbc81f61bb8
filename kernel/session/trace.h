/* trace.h - what becomes of the trace that a cell wrote. */
#ifndef HFI_TRACE_H
#define HFI_TRACE_H

#include "session/session.h"

HF_CHECK hf_status hfi_trace_create(hf_kernel *kernel, hf_error *reterr);
void hfi_trace_close(hf_kernel *kernel);
/* Shows where it is, and opens it. */
hfi_listener hfi_trace_hear;
/* Where the recording of the cell that runs lies; empty: nowhere. */
hfi_part hfi_trace_recording(const hf_kernel *kernel);
/* The process is dead: have the trace of what it recorded written, and say where. */
void hfi_trace_rescue(hf_kernel *kernel, hfi_textbuf *text);
/* The experiment's directory, absolute. */
void hfi_trace_path(const hf_kernel *kernel, hfi_part trace, hfi_textbuf *ret_path);

#endif
