/* trace.h - what becomes of the trace that a cell wrote, and who else listens for
 * one. */
#ifndef HFI_TRACE_H
#define HFI_TRACE_H

#include "session/session.h"

extern const hfi_owner hfi_trace_owner;
/* Shows where it is, and opens it. */
hfi_listener hfi_trace_hear;
/* Where the recording of the cell that runs lies; empty: nowhere. */
hfi_part hfi_trace_recording(const hf_kernel *kernel);
/* The process of a recorded cell is dead: have the trace of what it recorded written.
 * 1 while a program does that, for some seconds at most: ask again when its descriptor
 * is readable, or at the deadline. */
int hfi_trace_rescues(hf_kernel *kernel, long long now_ns);
/* -1 where no such program runs. */
int hfi_trace_rescue_fd(const hf_kernel *kernel);
long long hfi_trace_rescue_deadline_ns(const hf_kernel *kernel);
/* Say where the recording of a dead process is. */
void hfi_trace_name_rescued(const hf_kernel *kernel, hfi_textbuf *text);
/* The experiment's directory, absolute. */
void hfi_trace_path(const hf_kernel *kernel, hfi_part trace, hfi_textbuf *ret_path);

/* runs.c: what the main worker knows of the recorded cells that ran. */
extern const hfi_owner hfi_runs_owner;
/* Tells the main worker of each run, and a new one of all. */
hfi_listener hfi_runs_hear;

/* summary.c: shows the line below a recorded cell when its reply has come. */
hfi_listener hfi_summary_hear;

#endif
