/* python_frames.c - the frame-evaluation hook of Python 3.11 (PEP 523).
 *
 * The interpreter calls the hook to run a frame, and the hook calls what was there
 * before it: the interpreter's own loop, as a rule. So enter and leave are two sides of
 * one C call, on every thread, and code between calls runs at its full speed: the
 * profile callback, which Python 3.11 has beside it, slows each instruction.
 *
 * Frames that are left out are passed on after one look at its code object's slot,
 * which is read where it lies: a third of the instructions that it took by the
 * interpreter's function and with the thread's location found first.
 *
 * Four things need care.
 *
 * The C stack. With a hook each Python call takes some of it (half a kilobyte to one),
 * where the interpreter alone takes none; sys.setrecursionlimit() no longer protects.
 * So the hook looks at the stack's address, and raises RecursionError while there is
 * still room to handle it. The hook itself takes little: a thousand calls deep its
 * frames lie on as many lines of the cache, so nothing but the frame's address is kept
 * for the way back, and all else is found again.
 *
 * Generators. Calling a generator function runs its frame for an instruction or two,
 * which make the generator. That isn't a call of the program's: it has no event.
 *
 * Subscripts, before Python 3.11.4. Once `x[i]` is specialized for a class with a
 * `__getitem__` in Python, the interpreter runs that without asking for a hook. It does
 * so for functions whose version fits into 16 bits. So those that a subscript may call
 * get a larger one, no two the same: when events are switched on, those of all classes
 * that were specialized for, and later each function with two parameters that is met.
 * Calls by name are specialized for any version.
 *
 * Others that set the same hook (torch.compile). The later one calls the hook that it
 * found, so two hooks may lie in either order, and only the outermost one can be taken
 * away. Ours, if others lie over it when events are switched off, stays, passes on what
 * it gets, and goes when it is the outermost one again. To learn whether it still is in
 * the chain when events are switched on, an empty piece of code is run: nobody can be
 * asked. To be in there twice would be a circle.
 *
 * Rejected: the profile callback (one and a half times the time of a plain loop);
 * changing code objects (programs compare them); a C stack of our own for deep
 * recursions (other libraries look at the stack's address, too).
 */
#include "python_hooks.h"

#if PY_VERSION_HEX < 0x030C0000

#include "interpreter_frame.h"
#include "python_lines.h"

#include <opcode.h>
#include <pthread.h>

/* The stack that code without Python calls may need between two looks at it: the parser
 * and regular expressions recurse. */
#define STACK_RESERVE ((size_t)384 * 1024)

/* Not taken into the hook: what they need would lie on the stack for each call. */
#define RARE  __attribute__((cold, noinline))
#define ALONE __attribute__((noinline))

#define ANY_GENERATOR (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

static _PyFrameEvalFunction next; /* NULL: the hook isn't in the chain */
static bool listening;            /* else frames are passed on */
static bool probed;               /* a frame was passed on */

/* Below this address the stack is short; before the first look it is so everywhere. */
static _Thread_local uintptr_t stack_limit HFI_FAST_TLS = UINTPTR_MAX;

/* -- the C stack ------------------------------------------------------------------- */

/* The end of this thread's stack, and its size; false if that is unknown. */
static bool
stack_bounds(uintptr_t *ret_low, size_t *ret_size) {
#if defined(__APPLE__)
    *ret_size = pthread_get_stacksize_np(pthread_self());
    *ret_low = (uintptr_t)pthread_get_stackaddr_np(pthread_self()) - *ret_size;
    return true;
#elif defined(__linux__)
    pthread_attr_t attributes;
    void *low;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return false;
    int bad = pthread_attr_getstack(&attributes, &low, ret_size);
    pthread_attr_destroy(&attributes);
    *ret_low = (uintptr_t)low;
    return bad == 0;
#else
    return false;
#endif
}

RARE static bool
stack_is_short(uintptr_t address) {
    uintptr_t low;
    size_t size;
    if (stack_limit == UINTPTR_MAX) {
        stack_limit = 0;
        if (stack_bounds(&low, &size))
            stack_limit = low + (size / 4 < STACK_RESERVE ? size / 4 : STACK_RESERVE);
    }
    return address < stack_limit;
}

/* Of a process's first thread glibc learns it from /proc/self/maps, line by line: 0.5
 * to 1 ms where much is loaded. So the thread that loads us, which is the first one,
 * looks then: forks know it, and it isn't in the first call that is recorded. */
__attribute__((constructor)) static void
look_at_the_stack(void) {
    (void)stack_is_short(UINTPTR_MAX);
}

/* -- subscripts that pass by the hook ---------------------------------------------- */

/* Its specialized subscripts look for a hook. */
#define PYTHON_3_11_4 0x030B04F0

static bool
subscripts_pass_by(void) {
    return Py_Version < PYTHON_3_11_4;
}

static void
keep_unspecialized(PyObject *object) {
    static uint32_t unused = UINT32_MAX;
    if (!object || !PyFunction_Check(object))
        return;
    PyFunctionObject *function = (PyFunctionObject *)object;
    if (function->func_version <= UINT16_MAX &&
        ((PyCodeObject *)function->func_code)->co_argcount == 2 &&
        function->vectorcall == _PyFunction_Vectorcall)
        function->func_version = unused--;
}

/* The class's note of its specialization may be gone: it is a mark only. */
static void
keep_classes_unspecialized(PyTypeObject *type, PyObject *name) {
    PyObject *reference;
    Py_ssize_t position = 0;
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
        ((PyHeapTypeObject *)type)->_spec_cache.getitem)
        keep_unspecialized(_PyType_Lookup(type, name));
    while (type->tp_subclasses &&
           PyDict_Next(type->tp_subclasses, &position, NULL, &reference)) {
        PyObject *subclass = PyWeakref_GET_OBJECT(reference);
        if (PyType_Check(subclass))
            keep_classes_unspecialized((PyTypeObject *)subclass, name);
    }
}

/* 0, or -1 with a Python error. */
static int
stop_passing_by(void) {
    PyObject *name = PyUnicode_InternFromString("__getitem__");
    if (!name)
        return -1;
    keep_classes_unspecialized(&PyBaseObject_Type, name);
    Py_DECREF(name);
    return 0;
}

/* -- what another hook of ours needs ----------------------------------------------- */

bool
hfi_frames_stack_is_short(void) {
    uintptr_t address = (uintptr_t)__builtin_frame_address(0);
    return address < stack_limit && stack_is_short(address);
}

void
hfi_frames_refuse(void) {
    PyErr_SetString(PyExc_RecursionError,
                    "maximum recursion depth exceeded: the C stack, of which "
                    "recorded calls take some, is nearly used up");
}

int
hfi_frames_keep_calls(void) {
    return subscripts_pass_by() ? stop_passing_by() : 0;
}

void
hfi_frames_keep_call(PyObject *function) {
    if (subscripts_pass_by())
        keep_unspecialized(function);
}

/* -- the hook ---------------------------------------------------------------------- */

/* Events were switched meanwhile. If another recording was opened, this thread may have
 * no location in it. */
RARE static void
leave_late(hfi_owner owner) {
    if (!hfi_events.recorder || hfi_here.generation != hfi_events.generation)
        return;
    hfi_location *location = hfi_thread_own_location();
    if (location && location->hider == owner)
        location->hider = 0;
    else if (location)
        hfi_location_leave(location, owner);
}

/* A frame that the interpreter will refuse to enter, or that only makes a generator. */
static inline bool
is_no_call(const PyThreadState *thread, const _PyInterpreterFrame *frame) {
    return (thread->recursion_remaining <= 0 && !thread->recursion_headroom) ||
           (frame->owner == FRAME_OWNED_BY_THREAD &&
            frame->f_code->co_flags & ANY_GENERATOR);
}

/* What makes a generator is no call, but takes time, since it goes through C. */
static inline void
count_made(const _PyInterpreterFrame *frame) {
    if (hfi_here.epoch == hfi_events.epoch && hfi_here.location)
        hfi_here.location->calls.made += (frame->f_code->co_flags & CO_COROUTINE) == 0;
}

ALONE static void
count_raised(void) {
    if (hfi_here.epoch == hfi_events.epoch && hfi_here.location)
        hfi_here.location->calls.raised++;
}

RARE static hfi_location *
find_location(const _PyInterpreterFrame *frame) {
    return hfi_thread_location((hfi_owner)frame, frame->f_code);
}

RARE static hfi_code
meet_frame(const _PyInterpreterFrame *frame, const hfi_location *location) {
    hfi_frames_keep_call((PyObject *)frame->f_func);
    return hfi_code_meet(frame->f_code, frame->f_globals, location->hider != 0);
}

/* True if a leave is to follow. By themselves, these two leave nothing on the stack
 * while the function runs. */
ALONE static bool
enter_frame(const PyThreadState *thread, const _PyInterpreterFrame *frame,
            uint64_t slot) {
    if (is_no_call(thread, frame)) {
        count_made(frame);
        return false;
    }
    hfi_location *location =
        hfi_here.epoch == hfi_events.epoch ? hfi_here.location : find_location(frame);
    if (!location)
        return false;
    hfi_code code = hfi_code_of_slot(slot);
    if (hfi_code_is_unmet(code, location->hider != 0))
        code = meet_frame(frame, location);
    return hfi_function_enter(location, (hfi_owner)frame, code);
}

ALONE static void
leave_frame(hfi_owner owner) {
    hfi_location *location = hfi_here.location;
    if (hfi_here.epoch != hfi_events.epoch || !location)
        leave_late(owner);
    else if (location->hider == owner)
        location->hider = 0;
    else
        hfi_location_leave(location, owner);
}

static PyObject *evaluate_frame(PyThreadState *thread, _PyInterpreterFrame *frame,
                                int throwing);

static bool
is_outermost(void) {
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) ==
           evaluate_frame;
}

/* Bytes of the C stack between the interpreter's loop and the hook, if a Python function
 * calls another one. If C code calls it, or unpacks its arguments, there are more, or
 * fewer. */
static uintptr_t direct_call; /* 0: not known */
static uintptr_t looked; /* the least that was seen, while it is looked for; else 0 */

static inline uintptr_t
below_the_loop(const PyThreadState *thread, uintptr_t address) {
    return (uintptr_t)thread->cframe - address;
}

/* `x[i]`, specialized for a class with a `__getitem__` in Python: the class notes which.
 * With a hook the interpreter calls that by C code, and without one by itself. */
ALONE static bool
is_subscript(const PyThreadState *thread, const _PyInterpreterFrame *frame) {
    const _PyInterpreterFrame *caller = thread->cframe->current_frame;
    int opcode = caller ? _Py_OPCODE(*caller->prev_instr) : -1;
    PyObject *self = frame->f_code->co_argcount == 2 ? frame->localsplus[0] : NULL;
    if (!self || !PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE) ||
        (opcode != BINARY_SUBSCR && opcode != BINARY_SUBSCR_ADAPTIVE &&
         opcode != BINARY_SUBSCR_GETITEM))
        return false;
    return ((PyHeapTypeObject *)Py_TYPE(self))->_spec_cache.getitem ==
           (PyObject *)frame->f_func;
}

/* Without a hook the interpreter enters a Python function that another one calls without
 * a call in C: to make that one is a part of what such an event costs. A generator is
 * resumed by C code always. */
static inline bool
is_from_c(const PyThreadState *thread, const _PyInterpreterFrame *frame,
          uintptr_t address) {
    return frame->owner == FRAME_OWNED_BY_THREAD &&
           below_the_loop(thread, address) != direct_call &&
           !is_subscript(thread, frame);
}

/* Events are off, and somebody's hook was over ours when they were switched off; or the
 * distance of a direct call is looked for. */
RARE static PyObject *
pass_on(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing,
        uintptr_t address) {
    _PyFrameEvalFunction to = next;
    uintptr_t here = below_the_loop(thread, address);
    probed = true;
    if (here < looked) {
        looked = here;
    } else if (!looked && is_outermost()) {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), to);
        next = NULL;
    }
    return to(thread, frame, throwing);
}

/* Lines are sampled, too: a function's samples are of the time between its events. */
RARE static PyObject *
evaluate_with_lines(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    uint32_t generation;
    bool entered = hfi_lines_enter_frame(frame, &generation);
    PyObject *result = next(thread, frame, throwing);
    leave_frame((hfi_owner)frame);
    if (entered)
        hfi_lines_leave_frame(frame, generation);
    if (!result)
        count_raised();
    return result;
}

static PyObject *
evaluate_frame(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    uintptr_t address = (uintptr_t)__builtin_frame_address(0);
    if (address < stack_limit && stack_is_short(address)) {
        hfi_frames_refuse();
        return NULL;
    }
    if (!listening)
        return pass_on(thread, frame, throwing, address);
    uint64_t slot = hfi_code_slot(frame->f_code);
    if (hfi_slot_is_left_out(slot) || !enter_frame(thread, frame, slot))
        return next(thread, frame, throwing);
    if (is_from_c(thread, frame, address))
        hfi_count_from_c(hfi_here.location, (hfi_owner)frame);
    if (hfi_lines.on)
        return evaluate_with_lines(thread, frame, throwing);
    PyObject *result = next(thread, frame, throwing);
    leave_frame((hfi_owner)frame);
    if (!result)
        count_raised();
    return result;
}

/* -- in the chain of hooks --------------------------------------------------------- */

/* 0, or -1 with a Python error. */
static int
run_alone(const char *expression) {
    PyObject *code = Py_CompileString(expression, "<holdfast>", Py_eval_input);
    PyObject *globals = code ? PyDict_New() : NULL;
    PyObject *result = globals ? PyEval_EvalCode(code, globals, globals) : NULL;
    Py_XDECREF(globals);
    Py_XDECREF(code);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Whether the hook, which lies under another one, gets a frame; 0 or 1, or -1 with a
 * Python error. */
static int
probe_chain(void) {
    probed = false;
    return run_alone("0") < 0 ? -1 : probed;
}

int
hfi_frames_find_direct_call(void) {
    direct_call = 0;
    if (!next)
        return 0;
    bool was_listening = listening;
    listening = false;
    looked = UINTPTR_MAX;
    int result = run_alone("(lambda: 0)()");
    direct_call = looked;
    looked = 0;
    listening = was_listening;
    return result;
}

static int
frames_install(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    int in_chain = is_outermost() ? 1 : next ? probe_chain() : 0;
    if (in_chain < 0 || hfi_frames_keep_calls() < 0)
        return -1;
    if (!in_chain) {
        next = _PyInterpreterState_GetEvalFrameFunc(interpreter);
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate_frame);
    }
    if ((!direct_call || !is_outermost()) && hfi_frames_find_direct_call() < 0)
        return -1;
    listening = true;
    return 0;
}

static int
frames_remove(void) {
    listening = false;
    if (is_outermost()) {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), next);
        next = NULL;
        return 0;
    }
    int in_chain = probe_chain();
    if (in_chain)
        return in_chain < 0 ? -1 : 0;
    next = NULL;
    return PyErr_WarnEx(PyExc_RuntimeWarning,
                        "another frame-evaluation hook was put in the place of the "
                        "recorder's: calls since then are not in the trace",
                        1);
}

const hfi_hook hfi_frame_hook = {frames_install, frames_remove, NULL};

#endif
