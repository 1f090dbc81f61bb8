/* listeners.h - parts of the frontend that only listen, and the displays that they
 * make.
 *
 * Each has one function that receives every event (session.h). Listeners don't change
 * the way of a cell, so a failure in one has no other effect. Only trace.c can delay a
 * reply, while the trace of a dead process is rescued.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_LISTENERS_H
#define HFI_LISTENERS_H

#include "session/session.h"

/* ---- trace.c: the trace that a cell wrote ---- */

extern const hfi_owner hfi_trace_owner;
/* Shows where it is, and opens it. */
hfi_listener hfi_trace_hear;
/* The directory of the running cell's recording; empty: there is none. */
hfi_part hfi_trace_recording(const hf_kernel *kernel);
/* Whether nobody has named that directory. */
bool hfi_trace_is_automatic(const hf_kernel *kernel);
/* The process of a recorded cell is dead: have the trace of what it recorded written.
 * 1 while a program does that, for some seconds at most: ask again when its descriptor
 * is readable, or at the deadline. */
int hfi_trace_rescues(hf_kernel *kernel, long long now_ns);
/* -1 if no such program runs. */
int hfi_trace_rescue_fd(const hf_kernel *kernel);
/* The pid of the program that writes it; 0: it doesn't run. */
pid_t hfi_trace_rescuer(const hf_kernel *kernel);
long long hfi_trace_rescue_deadline_ns(const hf_kernel *kernel);
/* Write a sentence that names the recording of a dead process. */
void hfi_trace_name_rescued(const hf_kernel *kernel, hfi_textbuf *text);
/* The experiment's directory, absolute. */
void hfi_trace_path(const hf_kernel *kernel, hfi_part trace, hfi_textbuf *ret_path);

/* ---- runs.c: the main worker's list of recorded cells ---- */

extern const hfi_owner hfi_runs_owner;
/* Reports each run to the main worker, and all of them to a new one. */
hfi_listener hfi_runs_hear;

/* ---- summary.c ---- */

/* Shows the line below a recorded cell when its reply has come. */
hfi_listener hfi_summary_hear;

/* ---- repeat.c: a cell that is recorded several times in turn ---- */

/* Counts the runs, decides whether there is another one (hfi_cell.goes_on), and shows
 * their median and range below the last. */
hfi_listener hfi_repeat_hear;
/* Whether the run of the cell is the first one, or, while it isn't over, the last one
 * that is to be. Of a cell that isn't repeated it is both. */
int hfi_repeat_is_first(const hf_kernel *kernel);
int hfi_repeat_is_last(const hf_kernel *kernel);
/* Whether the run that replies so has its own line: those of a set have one together, but
 * for one that fails. */
int hfi_repeat_is_told(const hf_kernel *kernel, const hfi_from_worker_reply *reply);

/* ---- observe.c: the frontend's part in the monitor ---- */

extern const hfi_owner hfi_observe_owner;
/* Start the monitor; without it nothing fails. */
void hfi_observe_init(hf_kernel *kernel);
/* Processes and cells, for the monitor's log. */
hfi_listener hfi_observe_hear;
void hfi_observe_began(hf_kernel *kernel, hfi_worker *worker,
                       const hfi_from_worker_began *frame);
void hfi_observe_asked(hf_kernel *kernel, hfi_worker *worker,
                       const hfi_from_worker_monitor *frame);

/* ---- progress.c: a display while a hand-over takes long ---- */

extern const hfi_owner hfi_progress_owner;
long long hfi_progress_deadline_ns(const hf_kernel *kernel);
void hfi_progress_tick(hf_kernel *kernel, long long now_ns);
/* Ends it when the cell begins, or fails before that. */
hfi_listener hfi_progress_hear;

#endif
