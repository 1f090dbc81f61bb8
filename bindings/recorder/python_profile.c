/* python_profile.c - the profile callback, for a recording of C functions as well.
 *
 * PyEval_SetProfile on every thread. It puts each frame on the interpreter's traced
 * path, so that even code without calls runs at two thirds of its speed; it is used
 * only where C functions were asked for, since nothing else reports them.
 *
 * A profile function that was set before is displaced, on the thread that switches
 * events on, and put back. One that the program sets later takes our place on its thread:
 * an audit hook notices it, and a warning says so when events are switched off. Threads that start meanwhile are found by python_threads.c.
 *
 * C functions have no slot: a table by their definition's address, rebuilt with every
 * recording. Types share the definition of `__new__`, so the type that such a function is
 * bound to counts, too. A definition that was freed and whose address is used again would be shown
 * under the old name; such definitions (made at run time) are rare.
 */
#include "python_hooks.h"

#if PY_VERSION_HEX < 0x030C0000
#include "interpreter_frame.h"
#endif

#include <frameobject.h>
#include <stdlib.h>
#include <string.h>

static int on_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg);

typedef struct c_region {
    const PyMethodDef *definition;
    const PyObject *type; /* that the function is bound to; NULL: to something else */
    uint32_t region;
} c_region;

static struct {
    uint32_t generation;
    c_region *entries; /* open addressing, at most half full */
    size_t count, capacity;
} table;

/* The profile function that the hook took the place of, on its own thread. */
static struct {
    PyThreadState *thread;
    Py_tracefunc function; /* NULL: none */
    PyObject *object;
} displaced;

/* -- others that set a profile function -------------------------------------------- */

static bool is_replaced;                           /* ours was, on some thread */
static _Thread_local bool is_setting HFI_FAST_TLS; /* it is we who set one */

static void
set_profile(Py_tracefunc function, PyObject *object) {
    is_setting = true;
    PyEval_SetProfile(function, object);
    is_setting = false;
}

/* Each thread's: it has the interpreter's lock. */
static int
on_audit(const char *event, PyObject *arguments, void *unused) {
    (void)arguments, (void)unused;
    if (hfi_events.enabled && !is_setting && strcmp(event, "sys.setprofile") == 0 &&
        PyThreadState_Get()->c_profilefunc == on_event)
        is_replaced = true;
    return 0;
}

static void
watch_replacement(void) {
    static bool done;
    if (!done)
        done = PySys_AddAuditHook(on_audit, NULL) == 0;
    PyErr_Clear();
    is_replaced = false;
}

static int
warn_of_replacement(void) {
    if (!is_replaced)
        return 0;
    is_replaced = false;
    return PyErr_WarnEx(
        PyExc_RuntimeWarning,
        "another profiler (cProfile, sys.setprofile) took the place of "
        "the recorder's, since --c-functions needs the interpreter's one: "
        "calls of that thread since then are not in the trace. Without "
        "--c-functions both see all calls",
        1);
}

/* -- C functions ------------------------------------------------------------------- */

static size_t
c_slot(const PyMethodDef *definition, const PyObject *type) {
    uintptr_t key = ((uintptr_t)definition >> 4) ^ (uintptr_t)type;
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & (table.capacity - 1);
    while (
        table.entries[at].definition &&
        (table.entries[at].definition != definition || table.entries[at].type != type))
        at = (at + 1) & (table.capacity - 1);
    return at;
}

static bool
table_grow(void) {
    size_t capacity = table.capacity;
    c_region *old = table.entries;
    c_region *grown = calloc(capacity ? capacity * 2 : 1024, sizeof *grown);
    if (!grown)
        return false;
    table.entries = grown;
    table.capacity = capacity ? capacity * 2 : 1024;
    for (size_t i = 0; i < capacity; i++)
        if (old[i].definition)
            table.entries[c_slot(old[i].definition, old[i].type)] = old[i];
    free(old);
    return true;
}

static void
table_clear(void) {
    free(table.entries);
    table.entries = NULL;
    table.count = table.capacity = 0;
    table.generation = hfi_events.generation;
}

static uint32_t
region_of_c(PyObject *function) {
    if (!function || !PyCFunction_Check(function))
        return HFI_REGION_NONE;
    if (table.count * 2 >= table.capacity && !table_grow())
        return HFI_REGION_NONE;
    const PyMethodDef *definition = ((PyCFunctionObject *)function)->m_ml;
    PyObject *self = ((PyCFunctionObject *)function)->m_self;
    const PyObject *type = self && PyType_Check(self) ? self : NULL;
    c_region *entry = &table.entries[c_slot(definition, type)];
    if (!entry->definition) {
        entry->region = hfi_region_of_c_function(
            hf_recorder_get_definitions(hfi_events.recorder), function);
        entry->definition = definition;
        entry->type = type;
        table.count++;
    }
    return entry->region;
}

static inline hfi_owner
owner_of_c_call(hfi_owner frame) {
    return frame | 1;
}

/* Its name alone holds another reference. A type's or a module's function is bound
 * without the hook as well. */
static inline bool
is_bound_for_the_hook(PyObject *function) {
    PyObject *self = ((PyCFunctionObject *)function)->m_self;
    return Py_REFCNT(function) == 1 && self && !PyType_Check(self);
}

static void
on_c_call(hfi_location *location, hfi_owner owner, PyCodeObject *code,
          PyObject *function) {
    if (location->hider)
        return;
    uint32_t kind = hfi_code_get(code, NULL, false).kind;
    if (!hfi_code_is_entered(kind))
        return;
    uint32_t region = region_of_c(function);
    if (region == HFI_REGION_NONE)
        return;
    hfi_location_enter(location, owner_of_c_call(owner), region);
    location->calls.of_c++;
    location->calls.bound += is_bound_for_the_hook(function);
}

static void
on_c_return(hfi_location *location, hfi_owner owner) {
    if (location->depth &&
        location->stack[location->depth - 1].owner == owner_of_c_call(owner))
        hfi_location_leave(location, owner_of_c_call(owner));
}

/* -- the callback ------------------------------------------------------------------ */

/* Whether C code runs it, and no generator. Each instruction takes longer on the traced
 * path, and of those of a call C code has none. */
static inline bool
is_from_c(hfi_owner owner) {
#if PY_VERSION_HEX < 0x030C0000
    const _PyInterpreterFrame *frame = (const _PyInterpreterFrame *)owner;
    return frame->is_entry && frame->owner == FRAME_OWNED_BY_THREAD;
#else
    (void)owner; /* only calls and returns take longer there */
    return false;
#endif
}

static void
on_call(hfi_location *location, hfi_owner owner, PyCodeObject *code) {
    if (hfi_function_enter(location, owner,
                           hfi_code_get(code, NULL, location->hider != 0)) &&
        is_from_c(owner))
        hfi_count_from_c(location, owner);
}

/* Without a result an exception goes out. Python 3.12.1 gives None then: none is counted. */
static void
on_return(hfi_location *location, hfi_owner owner, PyCodeObject *code,
          const PyObject *result) {
    size_t depth = location->depth;
    hfi_function_leave(location, owner, code);
    location->calls.raised += !result && location->depth < depth;
}

static void
dispatch_event(hfi_location *location, int what, hfi_owner owner, PyCodeObject *code,
               PyObject *arg) {
    if (what == PyTrace_CALL)
        on_call(location, owner, code);
    else if (what == PyTrace_RETURN)
        on_return(location, owner, code, arg);
    else if (what == PyTrace_C_CALL)
        on_c_call(location, owner, code, arg);
    else if (what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION)
        on_c_return(location, owner);
}

static int
on_event(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg) {
    (void)unused;
    if (!hfi_thread_is_on()) { /* since the last event */
        set_profile(NULL, NULL);
        return 0;
    }
    hfi_owner owner = hfi_frame_current(PyThreadState_Get());
    PyCodeObject *code = PyFrame_GetCode(frame);
    hfi_location *location =
        hfi_thread_location(what == PyTrace_CALL ? owner : 0, code);
    if (location)
        dispatch_event(location, what, owner, code, arg);
    Py_DECREF(code);
    return 0;
}

void
hfi_profile_join(bool entering) {
    bool on = hfi_thread_is_on();
    set_profile(on ? on_event : NULL, NULL);
    PyFrameObject *frame = NULL;
    if (on && entering && (frame = PyThreadState_GetFrame(PyThreadState_Get())))
        (void)on_event(NULL, frame, PyTrace_CALL, NULL);
    Py_XDECREF(frame);
}

/* -- on every thread --------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030C0000
/* Never in the place of another profiler when switching off. */
static int
set_threads(bool on) {
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
set_threads(bool on) {
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

static int
set_all_threads(bool on) {
    is_setting = true;
    int result = set_threads(on);
    is_setting = false;
    return result;
}

static void
displace_function(void) {
    PyThreadState *state = PyThreadState_Get();
    if (!state->c_profilefunc || state->c_profilefunc == on_event)
        return;
    Py_XSETREF(displaced.object, Py_XNewRef(state->c_profileobj));
    displaced.function = state->c_profilefunc;
    displaced.thread = state;
}

/* Unless the thread has got another one since, or is another one. */
static void
restore_function(void) {
    PyThreadState *state = PyThreadState_Get();
    Py_tracefunc function = displaced.function;
    PyObject *object = displaced.object;
    displaced.function = NULL;
    displaced.object = NULL;
    if (function && displaced.thread == state && !state->c_profilefunc)
        set_profile(function, object);
    Py_XDECREF(object);
}

static int
profile_install(void) {
    if (table.generation != hfi_events.generation)
        table_clear();
    if (hfi_threads_watch() < 0)
        return -1;
    displace_function();
    watch_replacement();
    return set_all_threads(true);
}

static int
profile_remove(void) {
    if (set_all_threads(false) < 0)
        return -1;
    restore_function();
    int result = hfi_threads_unwatch();
    return warn_of_replacement() < 0 ? -1 : result;
}

static void
join_again(void) {
    hfi_profile_join(false);
}

const hfi_hook hfi_profile_hook = {profile_install, profile_remove, join_again};
