/* python_hooks.c - what the interpreter's hooks share: threads, code objects, returns.
 *
 * An event costs: one thread-local comparison, the region's number from the code
 * object's extra slot, a push, the clock, and the back end's event. No allocation and
 * no lock: the interpreter's lock is held (a free-threaded build is refused at import),
 * and each thread has its own location.
 *
 * A code object's slot holds the recording's generation, and what the code is to that
 * recording: the region, or that it is left out. A slot that an earlier recording left
 * is recognized by its generation without having to visit all code objects. The slot
 * dies with its code object, so nothing is kept alive.
 *
 * Events are on or off for each thread: a thread that was switched by itself since all
 * were last switched remembers it, the others go by whether they began before one was.
 *
 * `hfi_here` caches a thread's location. Its epoch changes with every open, enable and
 * close; the first event after that takes the slow way: it finds or makes the location,
 * and leaves the entries whose frames returned while events were off. A thread whose
 * Thread has a true `pydev_do_not_trace` is not the program's, and gets none.
 *
 * finish_lock: a thread that ends marks its location as finished without the
 * interpreter's lock, and close must not free that location meanwhile.
 *
 * Rejected: a dict from code objects to regions (a hash and a compare per event).
 */
#include "interpreter_frame.h"
#include "python_hooks.h"
#include "recorder/clock.h"

#include <pthread.h>
#include <stdlib.h>

_Static_assert(sizeof(void *) == 8, "a code object's slot holds 64 bits");

hfi_events_state hfi_events = {.extra_index = -1, .switches = 1};
_Thread_local hfi_thread hfi_here HFI_FAST_TLS;

static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t finish_key;
static pthread_once_t finish_once = PTHREAD_ONCE_INIT;

static void
thread_finish(void *unused) {
    (void)unused;
    pthread_mutex_lock(&finish_lock);
    if (hfi_here.own && hfi_here.generation == hfi_events.generation &&
        hfi_events.recorder)
        atomic_store_explicit(&hfi_here.own->finished, true, memory_order_release);
    pthread_mutex_unlock(&finish_lock);
}

static void
finish_init(void) {
    (void)pthread_key_create(&finish_key, thread_finish);
}

/* The thread object that `threading` has for this thread, borrowed; NULL without an
 * exception. No Python code runs. */
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

/* A thread of `threading` first runs that module's functions, which then enter it in
 * the list of those that have a name. */
static bool
is_starting(PyObject *thread, PyCodeObject *code) {
    PyObject *threading = /* borrowed */
        PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    PyObject *file = !thread && code && threading
                         ? PyObject_GetAttrString(threading, "__file__")
                         : NULL;
    bool same = file && PyUnicode_Check(file) &&
                PyUnicode_Compare(file, code->co_filename) == 0;
    PyErr_Clear();
    Py_XDECREF(file);
    return same;
}

static void
location_make(PyObject *thread) {
    uint64_t start = hfi_clock_thread_ns();
    char name[sizeof hfi_here.own->name];
    bool named = thread_name(thread, name, sizeof name);
    hfi_here.own = NULL;
    if (!thread_is_service(thread) &&
        hf_recorder_add_location(hfi_events.recorder, named ? name : NULL,
                                 &hfi_here.own, NULL) != HF_OK)
        hfi_here.own = NULL;
    hfi_here.generation = hfi_events.generation;
    pthread_once(&finish_once, finish_init);
    (void)pthread_setspecific(finish_key, &hfi_here);
    if (hfi_here.own)
        hfi_here.own->own_ns += hfi_clock_thread_ns() - start;
}

/* False: too early to say what thread this is. */
static bool
location_find(PyCodeObject *code) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *thread = thread_object();
    bool early = is_starting(thread, code);
    if (early)
        hfi_here.own = NULL;
    else
        location_make(thread);
    PyErr_Restore(type, value, traceback);
    return !early;
}

/* -- from code to region ----------------------------------------------------------- */

static hfi_code
decide_code(PyCodeObject *code, PyObject *globals, bool below_hidden) {
    bool is_cell = hfi_code_is_cell(code);
    if (hfi_code_is_statement(code))
        return (hfi_code){HFI_CODE_STATEMENT, 0};
    if (below_hidden && !is_cell)
        return (hfi_code){HFI_CODE_NO_CELL, 0};
    uint32_t region = hfi_region_of_code(
        hf_recorder_get_definitions(hfi_events.recorder), code, globals);
    if (region == HFI_REGION_HIDDEN)
        return (hfi_code){HFI_CODE_HIDDEN, 0};
    if (!hfi_region_is_recorded(region) || region >> HFI_SLOT_REGION_BITS)
        return (hfi_code){HFI_CODE_LEFT_OUT, 0};
    return (hfi_code){is_cell ? HFI_CODE_CELL : HFI_CODE_RECORDED, region};
}

hfi_code
hfi_code_meet(PyCodeObject *code, PyObject *globals, bool below_hidden) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    hfi_code met =
        decide_code(code, globals ? globals : PyEval_GetGlobals(), below_hidden);
    uint64_t slot = (uint64_t)hfi_events.generation << 32 |
                    met.kind << HFI_SLOT_REGION_BITS | met.region;
    (void)HFI_CODE_SET_EXTRA((PyObject *)code, hfi_events.extra_index, (void *)slot);
    PyErr_Restore(type, value, traceback);
    return met;
}

bool
hfi_code_slots_are_known(void) {
    static bool known;
    const uint64_t tried = 0x5A5A;
    if (known)
        return true;
    PyCodeObject *code = PyCode_NewEmpty("", "", 1);
    known = code &&
            HFI_CODE_SET_EXTRA((PyObject *)code, hfi_events.extra_index,
                               (void *)tried) == 0 &&
            hfi_code_slot(code) == tried;
    PyErr_Clear();
    Py_XDECREF(code);
    return known;
}

/* -- this thread's location -------------------------------------------------------- */

static size_t live_frames(hfi_live_frame **ret_frames);

/* Leave the functions that returned while events were off. A frame that is just being
 * entered can't be on the stack yet, though an older one at its address may be. */
static void
location_sync(hfi_owner entering) {
    hfi_live_frame *live;
    size_t count = live_frames(&live);
    size_t first = count && live[0].owner == entering ? 1 : 0;
    hfi_location_keep_only(hfi_here.own, live ? live + first : NULL, count - first);
    free(live);
}

bool
hfi_thread_is_on(void) {
    if (hfi_here.switches && hfi_here.switches == hfi_events.switches)
        return hfi_here.on;
    bool is_later = PyThreadState_GetID(PyThreadState_Get()) > hfi_events.last_before;
    return is_later ? hfi_events.on_since : hfi_events.on_before;
}

static bool
has_own_location(void) {
    return hfi_here.generation == hfi_events.generation && hfi_here.own;
}

void
hfi_thread_refresh(hfi_owner entering, PyCodeObject *code) {
    bool on = hfi_thread_is_on();
    hfi_here.location = NULL;
    if (on && !has_own_location()) {
        if (!location_find(code))
            return;
    } else if (on && (hfi_here.own->depth || hfi_here.own->hider)) {
        location_sync(entering);
    }
    if (on)
        hfi_here.location = hfi_here.own;
    if (hfi_events.thread_met)
        hfi_events.thread_met();
    hfi_here.epoch = hfi_events.epoch;
}

static bool
has_functions(const hfi_location *location) {
    for (size_t i = 0; i < location->depth; i++)
        if (hfi_owner_is_frame(location->stack[i].owner))
            return true;
    return false;
}

/* For what the program itself records. While events are off, nobody else reports a
 * function that has returned: its region would hold all that follows. */
hfi_location *
hfi_thread_own_location(void) {
    if (!hfi_events.recorder)
        return NULL;
    if (hfi_thread_is_on())
        return hfi_thread_location(0, NULL);
    if (!has_own_location() && !location_find(NULL))
        return NULL;
    if (hfi_here.own && has_functions(hfi_here.own))
        location_sync(0);
    return hfi_here.own;
}

bool
hfi_thread_switch(uintptr_t from, uintptr_t to, bool doubtful) {
    hfi_live_frame *live = NULL;
    bool is_doubtful = hfi_location_suspend(hfi_here.own, from, to, doubtful);
    size_t count = is_doubtful ? live_frames(&live) : 0;
    hfi_location_resume(hfi_here.own, to, live, count);
    free(live);
    return is_doubtful;
}

void
hfi_function_leave(hfi_location *location, hfi_owner owner, PyCodeObject *code) {
    size_t depth = location->depth;
    bool is_top = depth && location->stack[depth - 1].owner == owner;
    if (location->hider) {
        bool was_hider = location->hider == owner;
        if (was_hider || is_top)
            location->hider = 0;
        if (!is_top)
            return;
    }
    /* A function that is left out has no entry: don't search the stack for it. */
    uint32_t kind = is_top || !depth ? HFI_CODE_UNKNOWN : hfi_code_find(code).kind;
    if (is_top || hfi_code_is_entered(kind))
        hfi_location_leave(location, owner);
}

/* -- the recording ends for the interpreter ---------------------------------------- */

hf_recorder *
hfi_events_detach(void) {
    pthread_mutex_lock(&finish_lock);
    hf_recorder *recorder = hfi_events.recorder;
    hfi_events.recorder = NULL;
    hfi_events.epoch++;
    pthread_mutex_unlock(&finish_lock);
    hfi_here.location = hfi_here.own = NULL;
    return recorder;
}

void
hfi_events_renew_locks(void) {
    pthread_mutex_init(&finish_lock, NULL);
}

/* ---- the frames that run on this thread ------------------------------------------ */

/* The stack of a location knows a function by the address of the interpreter's own
 * frame, which exists without a frame object. Here, where events have been off for a
 * while, frame objects are made for all that run, since only they can be followed
 * outwards by public functions; the address of what is behind each is the one thing
 * that is read from the interpreter's private structure.
 *
 * Rejected: owners that are frame objects: to make one takes longer than all the rest
 * of an event. */

static hfi_live_frame
describe_frame(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    hfi_code found = hfi_code_find(code);
    Py_DECREF(code);
    bool has_region = found.kind == HFI_CODE_RECORDED || found.kind == HFI_CODE_CELL;
    return (hfi_live_frame){(hfi_owner)frame->f_frame,
                            has_region ? found.region : HFI_REGION_NONE};
}

/* The frames that run on this thread, innermost first; the caller frees
 * *ret_frames. Without memory the list is shorter. */
static size_t
live_frames(hfi_live_frame **ret_frames) {
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
        live[count++] = describe_frame(frame);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    *ret_frames = live;
    return count;
}
