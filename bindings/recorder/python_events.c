/* python_events.c - the interpreter's profile callback.
 *
 * PyEval_SetProfile on every thread. A call costs: one thread-local comparison, the
 * region's number from the code object's extra slot, a push, the clock, and the back
 * end's event. No allocation and no lock: the interpreter's lock is held in the
 * callback (a free-threaded build is refused at import), and each thread has its own
 * location.
 *
 * A code object's slot holds generation << 32 | region + 1. The generation names the
 * recording, so a slot that an earlier one left is recognized without having to visit
 * all code objects. The slot dies with its code object, so nothing is kept alive.
 *
 * `here` caches a thread's location. Its epoch changes with every open and every
 * enable; the first event after that takes the slow way: it finds or makes the
 * location, and leaves the entries whose frames returned while events were off. A
 * thread whose Thread has a true `pydev_do_not_trace` is not the program's, and gets
 * none.
 *
 * Two mutexes. finish_lock: a thread that ends marks its location as finished without
 * the interpreter's lock, and close must not free that location meanwhile. write_lock
 * is held while a recording is opened or, without the interpreter's lock, closed: the
 * next one and a fork wait for that. It is never waited for with the interpreter's lock
 * held.
 *
 * Rejected: a dict from code objects to regions (a hash and a compare per event);
 * sys.monitoring (3.12+, to come behind the same functions); a frame-evaluation hook
 * (3.11, to come).
 */
#include "python_events.h"
#include "region_names.h"

#include <frameobject.h>
#include <pthread.h>
#include <stdlib.h>

_Static_assert(sizeof(void *) == 8, "a code object's slot holds 64 bits");

#if PY_VERSION_HEX >= 0x030C0000
#define CODE_GET_EXTRA PyUnstable_Code_GetExtra
#define CODE_SET_EXTRA PyUnstable_Code_SetExtra
#define REQUEST_EXTRA  PyUnstable_Eval_RequestCodeExtraIndex
#else
#define CODE_GET_EXTRA _PyCode_GetExtra
#define CODE_SET_EXTRA _PyCode_SetExtra
#define REQUEST_EXTRA  _PyEval_RequestCodeExtraIndex
#endif

#if defined(__linux__)
#define FAST_TLS __attribute__((tls_model("initial-exec")))
#else
#define FAST_TLS
#endif

/* C functions have no slot: a table by their definition's address, rebuilt with every
 * recording. A definition that was freed and whose address is used again would be shown
 * under the old name; such definitions (made at run time) are rare. */
typedef struct c_region {
    const PyMethodDef *definition;
    uint32_t region;
} c_region;

static struct {
    hf_recorder *recorder; /* NULL: none is open */
    uint64_t epoch;        /* changes with every open, enable and close */
    uint32_t generation;   /* of the recording */
    bool enabled;
    bool c_calls;
    Py_ssize_t extra_index; /* of the code objects' slot; -1 before the first open */
    c_region *c_regions;    /* open addressing, at most half full */
    size_t c_count, c_capacity;
} events = {.extra_index = -1};

/* The profile function that enable() took the place of, on its own thread. */
static struct {
    PyThreadState *thread;
    Py_tracefunc function; /* NULL: none */
    PyObject *object;
} displaced;

static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t write_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t finish_key;
static pthread_once_t finish_once = PTHREAD_ONCE_INIT;

static _Thread_local struct {
    uint64_t epoch;
    uint32_t generation;
    hfi_location *location;
} here FAST_TLS;

static void
thread_finish(void *unused) {
    (void)unused;
    pthread_mutex_lock(&finish_lock);
    if (here.location && here.generation == events.generation && events.recorder)
        atomic_store_explicit(&here.location->finished, true, memory_order_release);
    pthread_mutex_unlock(&finish_lock);
}

static void
finish_init(void) {
    (void)pthread_key_create(&finish_key, thread_finish);
}

/* What `threading` knows this thread as, borrowed; NULL without an exception. No Python
 * code runs. */
static PyObject *
thread_object(void) {
    PyObject *threading = /* borrowed */
        PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    PyObject *active = threading ? PyObject_GetAttrString(threading, "_active") : NULL;
    PyObject *ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject *thread = active && ident && PyDict_Check(active)
                           ? PyDict_GetItem(active, ident) /* borrowed */
                           : NULL;
    PyErr_Clear();
    Py_XDECREF(ident);
    Py_XDECREF(active);
    return thread;
}

static bool
thread_name(PyObject *thread, char *name, size_t size) {
    PyObject *text = thread ? PyObject_GetAttrString(thread, "_name") : NULL;
    const char *chars = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    if (chars)
        snprintf(name, size, "%s", chars);
    PyErr_Clear();
    Py_XDECREF(text);
    return chars != NULL;
}

/* Threads that serve the notebook's machinery say by this attribute that they are not
 * the program's: debuggers and ipykernel use it. */
static bool
thread_is_service(PyObject *thread) {
    PyObject *mark =
        thread ? PyObject_GetAttrString(thread, "pydev_do_not_trace") : NULL;
    bool is_service = mark == Py_True;
    PyErr_Clear();
    Py_XDECREF(mark);
    return is_service;
}

static void
location_make(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    char name[sizeof here.location->name];
    PyObject *thread = thread_object();
    bool named = thread_name(thread, name, sizeof name);
    here.location = NULL;
    if (!thread_is_service(thread) &&
        hf_recorder_add_location(events.recorder, named ? name : NULL, &here.location,
                                 NULL) != HF_OK)
        here.location = NULL;
    here.generation = events.generation;
    pthread_once(&finish_once, finish_init);
    (void)pthread_setspecific(finish_key, &here);
    PyErr_Restore(type, value, traceback);
}

/* -- from code to region -------------------------------------------------------------
 */

static uint32_t
region_define(PyFrameObject *frame, PyCodeObject *code) {
    uint32_t region =
        hfi_region_of_frame(hf_recorder_get_definitions(events.recorder), frame, code);
    uint64_t slot = (uint64_t)events.generation << 32 | (uint32_t)(region + 1);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    (void)CODE_SET_EXTRA((PyObject *)code, events.extra_index, (void *)slot);
    PyErr_Restore(type, value, traceback);
    return region;
}

/* Whether this recording knows the code already, and as what. */
static inline bool
region_is_known(PyCodeObject *code, uint32_t *ret_region) {
    void *extra = NULL;
    (void)CODE_GET_EXTRA((PyObject *)code, events.extra_index, &extra);
    uint64_t slot = (uint64_t)extra;
    *ret_region = (uint32_t)slot - 1;
    return slot >> 32 == events.generation;
}

static inline uint32_t
region_of(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    uint32_t region;
    if (!region_is_known(code, &region))
        region = region_define(frame, code);
    Py_DECREF(code);
    return region;
}

/* The region of a frame that may have been entered; none is defined. */
static uint32_t
region_of_live(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    uint32_t region;
    if (!region_is_known(code, &region))
        region = HFI_REGION_NONE;
    Py_DECREF(code);
    return region;
}

static size_t
c_slot(const PyMethodDef *definition) {
    size_t at = (size_t)(((uintptr_t)definition >> 4) * 0x9E3779B97F4A7C15u >> 32) &
                (events.c_capacity - 1);
    while (events.c_regions[at].definition &&
           events.c_regions[at].definition != definition)
        at = (at + 1) & (events.c_capacity - 1);
    return at;
}

static bool
c_regions_grow(void) {
    size_t capacity = events.c_capacity;
    c_region *old = events.c_regions;
    c_region *grown = calloc(capacity ? capacity * 2 : 1024, sizeof *grown);
    if (!grown)
        return false;
    events.c_regions = grown;
    events.c_capacity = capacity ? capacity * 2 : 1024;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].definition)
            events.c_regions[c_slot(old[i].definition)] = old[i];
    free(old);
    return true;
}

static uint32_t
region_of_c(PyObject *function) {
    if (!function || !PyCFunction_Check(function))
        return HFI_REGION_NONE;
    if (events.c_count * 2 >= events.c_capacity && !c_regions_grow())
        return HFI_REGION_NONE;
    const PyMethodDef *definition = ((PyCFunctionObject *)function)->m_ml;
    c_region *entry = &events.c_regions[c_slot(definition)];
    if (!entry->definition) {
        entry->region = hfi_region_of_c_function(
            hf_recorder_get_definitions(events.recorder), function);
        entry->definition = definition;
        events.c_count++;
    }
    return entry->region;
}

/* -- this thread's location ----------------------------------------------------------
 */

/* Leave the functions that returned while events were off. A frame that is just being
 * entered can't be on the stack yet, though an older one at its address may be. */
static void
location_sync(bool entering) {
    hfi_live_frame *live = NULL;
    size_t count = 0;
    size_t capacity = 0;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame) {
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 128;
            hfi_live_frame *grown = realloc(live, capacity * sizeof *grown);
            if (!grown) {
                Py_DECREF(frame);
                break;
            }
            live = grown;
        }
        live[count++] = (hfi_live_frame){(hfi_owner)frame, region_of_live(frame)};
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    size_t first = entering && count ? 1 : 0;
    hfi_location_keep_only(here.location, live ? live + first : NULL, count - first);
    free(live);
}

static void
location_refresh(bool entering) {
    if (here.generation != events.generation || !here.location)
        location_make();
    else if (here.location->depth || here.location->hider)
        location_sync(entering);
    here.epoch = events.epoch;
}

hfi_location *
hfi_events_get_location(void) {
    if (!events.recorder)
        return NULL;
    if (here.epoch != events.epoch)
        location_refresh(false);
    return here.location;
}

/* -- the callback --------------------------------------------------------------------
 */

static inline hfi_owner
owner_of_c_call(PyFrameObject *frame) {
    return (hfi_owner)frame | 1;
}

static void
on_call(hfi_location *location, PyFrameObject *frame) {
    uint32_t region = region_of(frame);
    if (hfi_region_is_recorded(region))
        hfi_location_enter(location, (hfi_owner)frame, region);
    else if (region == HFI_REGION_HIDDEN)
        location->hider = (hfi_owner)frame;
}

/* Below something hidden only a cell's code is recorded; for the rest no region is
 * defined. */
static void
on_hidden_call(hfi_location *location, PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    if (hfi_region_names_shown(code->co_filename) != code->co_filename) {
        uint32_t region = region_of(frame);
        if (hfi_region_is_recorded(region))
            hfi_location_enter_lifting(location, (hfi_owner)frame, region);
    }
    Py_DECREF(code);
}

static void
on_return(hfi_location *location, PyFrameObject *frame) {
    size_t depth = location->depth;
    hfi_owner owner = (hfi_owner)frame;
    bool is_top = depth && location->stack[depth - 1].owner == owner;
    if (location->hider) {
        bool was_hider = location->hider == owner;
        if (was_hider || is_top)
            location->hider = 0;
        if (!is_top)
            return;
    }
    /* A function that is left out has no entry: don't search the stack for it. */
    if (is_top || (depth && hfi_region_is_recorded(region_of_live(frame))))
        hfi_location_leave(location, owner);
}

static int
on_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg) {
    (void)unused;
    if (!events.enabled) { /* switched off by another thread */
        PyEval_SetProfile(NULL, NULL);
        return 0;
    }
    if (what > PyTrace_RETURN && !events.c_calls)
        return 0;
    if (here.epoch != events.epoch)
        location_refresh(what == PyTrace_CALL);
    hfi_location *location = here.location;
    if (!location)
        return 0;
    uint32_t region;
    switch (what) {
    case PyTrace_CALL:
        if (location->hider)
            on_hidden_call(location, frame);
        else
            on_call(location, frame);
        break;
    case PyTrace_RETURN:
        on_return(location, frame);
        break;
    case PyTrace_C_CALL:
        if (!location->hider && hfi_region_is_recorded(region_of(frame)) &&
            (region = region_of_c(arg)) != HFI_REGION_NONE)
            hfi_location_enter(location, owner_of_c_call(frame), region);
        break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
        if (location->depth &&
            location->stack[location->depth - 1].owner == owner_of_c_call(frame))
            hfi_location_leave(location, owner_of_c_call(frame));
        break;
    default:
        break;
    }
    return 0;
}

void
hfi_events_join(PyFrameObject *frame) {
    PyEval_SetProfile(events.enabled ? on_event : NULL, NULL);
    if (events.enabled && frame)
        (void)on_event(NULL, frame, PyTrace_CALL, NULL);
}

/* -- open, switch, close -------------------------------------------------------------
 */

static void
write_begin(void) {
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&write_lock);
    Py_END_ALLOW_THREADS
}

hf_status
hfi_events_open(const hf_recorder_options *options, bool c_calls, hf_error *reterr) {
    if (events.recorder)
        return HF_BUSY;
    if (events.extra_index < 0)
        events.extra_index = REQUEST_EXTRA(NULL);
    if (events.extra_index < 0)
        return hf_error_set(reterr, HF_E_LIMIT, "no slot is left on code objects");
    /* Knows this thread's name; no location is made before it is there. */
    PyObject *threading = PyImport_ImportModule("threading");
    if (!threading)
        PyErr_Clear();
    Py_XDECREF(threading);
    hf_recorder *recorder;
    hf_status status = HF_BUSY;
    write_begin();
    if (!events.recorder) /* nobody was quicker while we waited */
        status = hf_recorder_create(options, &recorder, reterr);
    pthread_mutex_unlock(&write_lock);
    if (status != HF_OK)
        return status;
    events.recorder = recorder;
    events.generation++;
    events.epoch++;
    events.c_calls = c_calls;
    (void)hfi_events_get_location();
    return HF_OK;
}

#if PY_VERSION_HEX >= 0x030C0000
/* On every thread, but never in the place of another profiler when switching off. */
static int
set_all_threads(bool on) {
    if (on) {
        PyEval_SetProfileAllThreads(on_event, NULL);
        return PyErr_Occurred() ? -1 : 0;
    }
    bool all_ours = true;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    for (PyThreadState *state = PyInterpreterState_ThreadHead(interpreter); state;
         state = PyThreadState_Next(state))
        all_ours &= !state->c_profilefunc || state->c_profilefunc == on_event;
    if (all_ours)
        PyEval_SetProfileAllThreads(NULL, NULL);
    else if (PyThreadState_Get()->c_profilefunc == on_event)
        PyEval_SetProfile(NULL, NULL);
    return PyErr_Occurred() ? -1 : 0;
}
#else
static int
set_all_threads(bool on) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    for (PyThreadState *state = PyInterpreterState_ThreadHead(interpreter); state;
         state = PyThreadState_Next(state)) {
        if (!on && state->c_profilefunc != on_event)
            continue;
        if (_PyEval_SetProfile(state, on ? on_event : NULL, NULL) < 0)
            return -1;
    }
    return 0;
}
#endif

static void
displace(void) {
    PyThreadState *state = PyThreadState_Get();
    if (!state->c_profilefunc || state->c_profilefunc == on_event)
        return;
    Py_XSETREF(displaced.object, Py_XNewRef(state->c_profileobj));
    displaced.function = state->c_profilefunc;
    displaced.thread = state;
}

/* Unless the thread has got another one since, or is another one. */
static void
replace(void) {
    PyThreadState *state = PyThreadState_Get();
    Py_tracefunc function = displaced.function;
    PyObject *object = displaced.object;
    displaced.function = NULL;
    displaced.object = NULL;
    if (function && displaced.thread == state && !state->c_profilefunc)
        PyEval_SetProfile(function, object);
    Py_XDECREF(object);
}

int
hfi_events_enable(void) {
    if (!events.recorder || events.enabled)
        return 0;
    if (hfi_threads_watch() < 0)
        return -1;
    displace();
    events.epoch++;
    events.enabled = true;
    return set_all_threads(true);
}

int
hfi_events_disable(void) {
    if (!events.enabled)
        return 0;
    events.enabled = false;
    if (set_all_threads(false) < 0)
        return -1;
    replace();
    return hfi_threads_unwatch();
}

bool
hfi_events_are_enabled(void) {
    return events.enabled;
}

hf_recorder *
hfi_events_get_recorder(void) {
    return events.recorder;
}

static hf_recorder *
detach_recorder(void) {
    if (hfi_events_disable() < 0)
        PyErr_Clear();
    pthread_mutex_lock(&finish_lock);
    hf_recorder *recorder = events.recorder;
    events.recorder = NULL;
    events.epoch++;
    pthread_mutex_unlock(&finish_lock);
    here.location = NULL;
    free(events.c_regions);
    events.c_regions = NULL;
    events.c_count = events.c_capacity = 0;
    return recorder;
}

hf_status
hfi_events_close(hfi_recording_totals *ret_totals, hf_error *reterr) {
    if (!events.recorder)
        return HF_NOT_FOUND;
    hf_recorder *recorder = detach_recorder();
    hf_status status;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&write_lock);
    status = hf_recorder_close(recorder, ret_totals, reterr);
    pthread_mutex_unlock(&write_lock);
    Py_END_ALLOW_THREADS return status;
}

void
hfi_events_before_fork(void) {
    write_begin();
}

void
hfi_events_after_fork(bool in_child) {
    if (!in_child) {
        pthread_mutex_unlock(&write_lock);
        return;
    }
    /* Another thread of the parent may have held the first; the second is ours, but a
     * child's mutex is made anew. */
    pthread_mutex_init(&finish_lock, NULL);
    pthread_mutex_init(&write_lock, NULL);
    hf_recorder_abandon(detach_recorder());
}
