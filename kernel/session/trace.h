/* trace.h - what becomes of the trace that a cell wrote. */
#ifndef HFI_TRACE_H
#define HFI_TRACE_H

#include "session/session.h"

extern const hfi_owner hfi_trace_owner;
/* Shows where it is, and opens it. */
hfi_listener hfi_trace_hear;
/* Where the recording of the cell that runs lies; empty: nowhere. */
hfi_part hfi_trace_recording(const hf_kernel *kernel);
/* The process is dead: have the trace of what it recorded written, and say where. */
void hfi_trace_rescue(hf_kernel *kernel, hfi_textbuf *text);
/* The experiment's directory, absolute. */
void hfi_trace_path(const hf_kernel *kernel, hfi_part trace, hfi_textbuf *ret_path);

#endif
