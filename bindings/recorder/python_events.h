/* python_events.h - the interpreter's events, into the process's one recording.
 *
 * All functions need the interpreter's lock. At most one recording is open in a
 * process.
 */
#ifndef HOLDFAST_RECORDER_PYTHON_EVENTS_H
#define HOLDFAST_RECORDER_PYTHON_EVENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "recorder/parts.h"
#include "recorder/recorder.h"

/* Open the recording, with a location for this thread; events stay off. Answers HF_BUSY
 * when one is open. Failures: those of hf_recorder_create. */
HF_CHECK hf_status hfi_events_open(const hf_recorder_options *options, bool c_calls,
                                   hf_error *reterr);
/* Where a trace is when its recording has ended. */
typedef enum hfi_trace_fate {
    HFI_TRACE_WRITTEN,
    HFI_TRACE_WAITS, /* for hfi_events_finish() */
    HFI_TRACE_LEFT   /* in the log file, of which another process makes it */
} hfi_trace_fate;

/* Events off, then close; the interpreter's lock is given up while files are written.
 * HF_NOT_FOUND when none is open. `most`: how far the trace may be put off, if it can be
 * at all. One trace waits at a time, and it has up to a million events; only one of more
 * than 50,000 is left. */
HF_CHECK hf_status hfi_events_close(hfi_trace_fate most,
                                    hfi_recording_totals *ret_totals,
                                    hfi_trace_fate *ret_fate, hf_error *reterr);
/* Write the trace that waits. A forked child has none, and writes nothing. HF_NOT_FOUND
 * when none waits. Failures: those of hf_recorder_close. */
HF_CHECK hf_status hfi_events_finish(hf_error *reterr);

/* hfi_recover(), while this process writes nothing itself; the interpreter's lock is given
 * up. HF_NOT_FOUND, HF_BUSY. Failures: those of hfi_recover. */
HF_CHECK hf_status hfi_events_recover(const char *directory,
                                      hfi_recovered *ret_recovered, hf_error *reterr);

/* Call and return events, on every thread. -1 with a Python error. */
int hfi_events_enable(void);
int hfi_events_disable(void);
/* The same for this thread, and those that it or another one starts from now on. */
int hfi_events_switch_thread(bool on);
bool hfi_events_are_enabled(void); /* of this thread */

/* python_children.c: programs that are started from now on find this in their
 * environment, until it is forgotten. -1 with a Python error. */
#define HFI_CHILDREN_VARIABLE "HOLDFAST_RECORDING"
int hfi_children_tell(const char *wanted);
/* hfi_events_share(), and put it there. HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_children_share(hf_error *reterr);
void hfi_children_forget(void);

/* The library greenlet has been imported. */
void hfi_events_watch_greenlets(void);

/* Around a cell, while events are off: the region that is shown as `shown`. It ends at
 * the time when events were switched off. */
void hfi_events_begin_cell(PyObject *shown);
void hfi_events_end_cell(void);

/* Before others join the recording, if there is one. HF_E_SYSTEM, HF_E_NOMEM; see
 * hf_recorder_share(). */
HF_CHECK hf_status hfi_events_share(hf_error *reterr);

/* Around a fork. It waits until no recording is being written, since the child would
 * write what the C library has buffered a second time. The child goes on as a further
 * process of the parent's recording, or forgets it. Answers and failures: see
 * hf_recorder_continue(). */
void hfi_events_before_fork(void);
HF_CHECK hf_status hfi_events_after_fork(bool in_child, hf_error *reterr);
/* Whether a forked child forgets the recording, from now on. */
void hfi_events_forget_in_fork(bool forgets);

hf_recorder *hfi_events_get_recorder(void); /* NULL: none is open */
/* This thread's location; NULL when none is open, or there is no memory for one. */
hfi_location *hfi_events_get_location(void);

#endif
