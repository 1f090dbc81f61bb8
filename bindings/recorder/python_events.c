/* python_events.c - the process's recording of its Python functions: open, switch,
 * close.
 *
 * Which hook reports calls and returns depends on the interpreter's version and on what
 * is asked for: `sys.monitoring` or the evaluation of frames for Python functions, the
 * profile callback if C functions are wanted, too.
 *
 * write_lock is held while a recording is opened or, without the interpreter's lock,
 * closed, now or later: the next one and a fork wait for that. It is never waited for with the
 * interpreter's lock held.
 */
#include "python_events.h"

#include <pthread.h>

#include "python_lines.h"
#include "recorder/clock.h"

static const hfi_hook *hook; /* of the open recording */
/* It has ended, and is to be written; write_lock protects it. NULL: none. */
static hf_recorder *waiting;

#if PY_VERSION_HEX >= 0x030C0000
static const hfi_hook *const python_hook = &hfi_monitor_hook;
#else
static const hfi_hook *const python_hook = &hfi_frame_hook;
#endif

/* More take longer to write than some clients wait for a kernel that is to end: a second
 * on a slow machine. */
#define WAITING_EVENTS 1000000
/* To write that many takes a few ms, as long as to start a program that does it. */
#define LEFT_EVENTS 50000

static pthread_mutex_t write_lock = PTHREAD_MUTEX_INITIALIZER;

static void
write_begin(void) {
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&write_lock);
    Py_END_ALLOW_THREADS
}

hf_status
hfi_events_open(const hf_recorder_options *options, bool c_calls, hf_error *reterr) {
    if (hfi_events.recorder)
        return HF_BUSY;
    if (hfi_events.extra_index < 0)
        hfi_events.extra_index = HFI_REQUEST_EXTRA(NULL);
    if (hfi_events.extra_index < 0)
        return hf_error_set(reterr, HF_E_LIMIT, "no slot is left on code objects");
    if (!hfi_code_slots_are_known())
        return hf_error_set(reterr, HF_E_LIMIT,
                            "this Python keeps the slots of code objects elsewhere");
    /* Knows this thread's name; no location is made before it is there. */
    PyObject *threading = PyImport_ImportModule("threading");
    if (!threading)
        PyErr_Clear();
    Py_XDECREF(threading);
    hf_recorder *recorder;
    hf_status status = HF_BUSY;
    write_begin();
    if (!hfi_events.recorder) /* nobody was quicker while we waited */
        status = hf_recorder_create(options, &recorder, reterr);
    pthread_mutex_unlock(&write_lock);
    if (status != HF_OK)
        return status;
    hfi_events.recorder = recorder;
    hfi_events.generation++;
    hfi_events.epoch++;
    hfi_events.thread_met = hfi_greenlets_watch;
    hook = c_calls ? &hfi_profile_hook : python_hook;
    hfi_location *location = hfi_events_get_location();
    if (location)
        location->own_ns = 0; /* not the program's time */
    return HF_OK;
}

/* A hook that each thread has for itself is installed again: some may have lost it. */
static int
install_hook(void) {
    hfi_events.epoch++;
    if (hfi_events.enabled && !hook->join)
        return 0;
    hfi_events.enabled = true;
    if (hook->install() == 0)
        return 0;
    hfi_events.enabled = false;
    return -1;
}

static void
switch_all(bool on) {
    hfi_events.on_before = hfi_events.on_since = on;
    hfi_events.differ = false;
    hfi_events.switches++;
}

int
hfi_events_enable(void) {
    if (!hfi_events.recorder || (hfi_events.enabled && !hfi_events.differ))
        return 0;
    switch_all(true);
    return install_hook();
}

int
hfi_events_disable(void) {
    if (!hfi_events.enabled)
        return 0;
    switch_all(false);
    hfi_events.enabled = false;
    hfi_events.disabled_at = hfi_clock_ticks();
    return hook->remove();
}

/* The highest number of a thread; 0 if there is no other one. */
static uint64_t
last_thread(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyThreadState *own = PyThreadState_Get();
    uint64_t last = 0;
    bool is_alone = true;
    for (PyThreadState *state = PyInterpreterState_ThreadHead(interpreter); state;
         state = PyThreadState_Next(state)) {
        uint64_t number = PyThreadState_GetID(state);
        last = number > last ? number : last;
        is_alone = is_alone && state == own;
    }
    return is_alone ? 0 : last;
}

int
hfi_events_switch_thread(bool on) {
    if (!hfi_events.recorder || hfi_thread_is_on() == on)
        return 0;
    uint64_t last = last_thread();
    if (!last)
        return on ? hfi_events_enable() : hfi_events_disable();
    if (hfi_events.on_before == hfi_events.on_since)
        hfi_events.last_before = last;
    hfi_events.differ = true;
    hfi_events.on_since = on;
    hfi_here.switches = hfi_events.switches;
    hfi_here.on = on;
    hfi_here.location = NULL;
    hfi_here.epoch = 0; /* look at the frames before the next event */
    if (on && !hfi_events.enabled)
        return install_hook();
    if (on && hook->join)
        hook->join();
    return 0;
}

void
hfi_events_begin_cell(PyObject *shown) {
    hfi_location *location = hfi_events_get_location();
    if (!location)
        return;
    uint32_t region =
        hfi_region_of_cell(hf_recorder_get_definitions(hfi_events.recorder), shown);
    hf_recorder_begin_now(hfi_events.recorder);
    if (region != HFI_REGION_NONE)
        hfi_location_enter_cell(location, region);
}

void
hfi_events_end_cell(void) {
    hfi_location *location = hfi_events_get_location();
    if (location)
        hfi_location_leave_cell(location, hfi_events.disabled_at);
}

void
hfi_events_watch_greenlets(void) {
    hfi_events.epoch++; /* each thread looks again at its next event */
    hfi_greenlets_watch();
}

bool
hfi_events_are_enabled(void) {
    return hfi_events.recorder && hfi_thread_is_on();
}

hfi_location *
hfi_events_get_location(void) {
    return hfi_thread_own_location();
}

hf_recorder *
hfi_events_get_recorder(void) {
    return hfi_events.recorder;
}

static hf_recorder *
detach_recorder(void) {
    if (hfi_events_disable() < 0)
        PyErr_Clear();
    return hfi_events_detach();
}

/* End the recording; what becomes of its trace. With write_lock. */
static hfi_trace_fate
end_recording(hf_recorder *recorder, hfi_trace_fate most,
              hfi_recording_totals *ret_totals) {
    if (most == HFI_TRACE_WRITTEN ||
        hf_recorder_end(recorder, ret_totals, NULL) != HF_OK)
        return HFI_TRACE_WRITTEN;
    if (most == HFI_TRACE_LEFT && ret_totals->events > LEFT_EVENTS &&
        hf_recorder_leave(recorder) == HF_OK)
        return HFI_TRACE_LEFT;
    return waiting || ret_totals->events > WAITING_EVENTS ? HFI_TRACE_WRITTEN
                                                          : HFI_TRACE_WAITS;
}

hf_status
hfi_events_close(hfi_trace_fate most, hfi_recording_totals *ret_totals,
                 hfi_trace_fate *ret_fate, hf_error *reterr) {
    if (!hfi_events.recorder)
        return HF_NOT_FOUND;
    hf_recorder *recorder = detach_recorder();
    hf_status status = HF_OK;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&write_lock);
    *ret_fate = end_recording(recorder, most, ret_totals);
    if (*ret_fate == HFI_TRACE_WAITS)
        waiting = recorder;
    else if (*ret_fate == HFI_TRACE_WRITTEN)
        status = hf_recorder_close(recorder, ret_totals, reterr);
    pthread_mutex_unlock(&write_lock);
    Py_END_ALLOW_THREADS
    return status;
}

hf_status
hfi_events_finish(hf_error *reterr) {
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&write_lock);
    status = waiting ? hf_recorder_close(waiting, NULL, reterr) : HF_NOT_FOUND;
    waiting = NULL;
    pthread_mutex_unlock(&write_lock);
    Py_END_ALLOW_THREADS
    return status;
}

hf_status
hfi_events_recover(const char *directory, hfi_recovered *ret_recovered,
                   hf_error *reterr) {
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&write_lock);
    status = hfi_recover(directory, ret_recovered, reterr);
    pthread_mutex_unlock(&write_lock);
    Py_END_ALLOW_THREADS
    return status;
}

hf_status
hfi_events_share(hf_error *reterr) {
    if (!hfi_events.recorder)
        return HF_OK;
    write_begin();
    hf_status status = hf_recorder_share(hfi_events.recorder, reterr);
    pthread_mutex_unlock(&write_lock);
    return status;
}

void
hfi_events_before_fork(void) {
    write_begin();
    if (hfi_events.recorder)
        hf_recorder_fork_begin(hfi_events.recorder);
}

hf_status
hfi_events_after_fork(bool in_child, hf_error *reterr) {
    if (!in_child) {
        if (hfi_events.recorder)
            hf_recorder_fork_end(hfi_events.recorder);
        pthread_mutex_unlock(&write_lock);
        return HF_OK;
    }
    /* Another thread of the parent may have held the first; write_lock is ours, but a
     * child's mutex is made anew. */
    hfi_events_renew_locks();
    pthread_mutex_init(&write_lock, NULL);
    hf_recorder_abandon(waiting); /* the parent writes it */
    waiting = NULL;
    if (!hfi_events.recorder)
        return HF_OK;
    bool is_known = hfi_here.generation == hfi_events.generation;
    hfi_location *here;
    hf_status status =
        hfi_events.forgets
            ? HF_DECLINED
            : hf_recorder_continue(hfi_events.recorder, is_known ? hfi_here.own : NULL,
                                   &here, reterr);
    if (status == HF_OK) {
        hfi_here.own = here;
        hfi_events.epoch++;
        return HF_OK;
    }
    hf_recorder_abandon(detach_recorder());
    return status;
}

void
hfi_events_forget_in_fork(bool forgets) {
    hfi_events.forgets = forgets;
}
