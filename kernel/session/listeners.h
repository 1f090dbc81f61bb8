/* listeners.h - files that only listen, and the displays that they make.
 *
 * Each has one function that gets every event (session.h). Listeners don't change how a
 * cell runs, so a failure in one has no other effect. Only trace.c can delay a reply,
 * while the trace of a dead process is rescued.
 *
 * Threads: everything belongs to the one thread that runs hf_kernel_run.
 */
#ifndef HFI_LISTENERS_H
#define HFI_LISTENERS_H

#include "session/session.h"

/* ---- trace.c: the trace that a cell wrote ---- */

extern const hfi_owner hfi_trace_owner;
/* Shows where the trace is, and opens it in a viewer. */
hfi_listener hfi_trace_hear;
/* The directory of the running cell's recording; empty: there is none. */
hfi_part hfi_trace_recording(const hf_kernel *kernel);
/* Whether nobody has named that directory, so that it was chosen automatically. */
bool hfi_trace_is_automatic(const hf_kernel *kernel);
/* The process of a recorded cell is dead: have a program write the trace of what it
 * recorded. Returns 1 while the program runs, for some seconds at most. Ask again when
 * its descriptor is readable, or at the deadline. */
int hfi_trace_rescues(hf_kernel *kernel, long long now_ns);
/* Readable when the program has ended; -1: no program runs. */
int hfi_trace_rescue_fd(const hf_kernel *kernel);
/* The program's pid; 0: none runs. */
pid_t hfi_trace_rescuer(const hf_kernel *kernel);
long long hfi_trace_rescue_deadline_ns(const hf_kernel *kernel);
/* Write a sentence that names the recording of the dead process. */
void hfi_trace_name_rescued(const hf_kernel *kernel, hfi_textbuf *text);
/* Write the absolute path of the experiment's directory. */
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
 * their median and range below the last one. */
hfi_listener hfi_repeat_hear;
/* _is_first: whether this is the first run of the cell. _is_last: whether no other run
 * is planned after it, as long as it isn't over. Of a cell that isn't repeated both are
 * true. */
int hfi_repeat_is_first(const hf_kernel *kernel);
int hfi_repeat_is_last(const hf_kernel *kernel);
/* Whether the run with this reply has a line of its own. The runs of a repeated cell
 * share one line, but a run that fails has its own. */
int hfi_repeat_is_told(const hf_kernel *kernel, const hfi_from_worker_reply *reply);

/* ---- observe.c: the frontend's part in the monitor ---- */

extern const hfi_owner hfi_observe_owner;
/* Start the monitor. If that fails, the kernel goes on without it. */
void hfi_observe_init(hf_kernel *kernel);
/* Reports processes and cells to the monitor's log. */
hfi_listener hfi_observe_hear;
void hfi_observe_began(hf_kernel *kernel, hfi_worker *worker,
                       const hfi_from_worker_began *frame);
void hfi_observe_asked(hf_kernel *kernel, hfi_worker *worker,
                       const hfi_from_worker_monitor *frame);

/* ---- progress.c: a display while a hand-over takes long ---- */

extern const hfi_owner hfi_progress_owner;
long long hfi_progress_deadline_ns(const hf_kernel *kernel);
void hfi_progress_tick(hf_kernel *kernel, long long now_ns);
/* Removes the display when the cell begins, or fails before that. */
hfi_listener hfi_progress_hear;

#endif
