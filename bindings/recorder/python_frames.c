/* python_frames.c - the frame-evaluation hook of Python 3.11 (PEP 523).
 *
 * The interpreter calls the hook to run a frame, and the hook calls what was there
 * before it: the interpreter's own loop, as a rule. So enter and leave are two sides of
 * one C call, on every thread, and code between calls runs at its full speed: the
 * profile callback, which Python 3.11 has beside it, slows each instruction.
 *
 * Three things need care.
 *
 * The C stack. With a hook each Python call takes some of it (half a kilobyte to one),
 * where the interpreter alone takes none; sys.setrecursionlimit() no longer protects.
 * So the hook looks at the stack's address, and raises RecursionError while there is
 * still room to handle it.
 *
 * Generators. Calling a generator function runs its frame for an instruction or two,
 * which make the generator. That isn't a call of the program's: it has no event.
 *
 * Others who set the same hook (torch.compile). Whoever comes later calls the one that
 * it found, so two hooks may lie in either order, and only the outermost one can be
 * taken away. Ours, if others lie over it when events are switched off, stays, passes
 * on what it gets, and goes when it is the outermost one again. To learn whether it
 * still is in the chain when events are switched on, an empty piece of code is run:
 * nobody can be asked. To be in there twice would be a circle.
 *
 * Rejected: the profile callback (one and a half times the time of a plain loop);
 * changing code objects (programs compare them); a C stack of our own for deep
 * recursions (other libraries look at the stack's address, too).
 */
#include "python_hooks.h"

#if PY_VERSION_HEX < 0x030C0000

#include <pthread.h>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#endif
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* What code without Python calls may need between two looks at the stack: the parser
 * and regular expressions recurse. */
#define STACK_RESERVE ((size_t)384 * 1024)

#define ANY_GENERATOR (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

static _PyFrameEvalFunction next; /* NULL: the hook isn't in the chain */
static bool listening;            /* else frames are passed on */
static bool probed;               /* a frame was passed on */

/* Below this address the stack is short; before the first look it is so everywhere. */
static _Thread_local uintptr_t stack_limit HFI_FAST_TLS = UINTPTR_MAX;

/* -- the C stack ----------------------------------------------------------------------
 */

/* Where this thread's stack ends, and its size; false where nobody tells. */
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

static bool
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

/* -- the hook -------------------------------------------------------------------------
 */

/* The recording may have been closed meanwhile, and another one opened. */
static void
leave_late(hfi_owner owner, uint32_t generation) {
    if (!hfi_events.recorder || generation != hfi_events.generation)
        return;
    hfi_location *location = hfi_thread_location(0, NULL);
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

static PyObject *
evaluate_recorded(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing,
                  hfi_location *location) {
    hfi_owner owner = (hfi_owner)frame;
    hfi_code code = hfi_code_get(frame->f_code, frame->f_globals, location->hider != 0);
    if (!hfi_function_enter(location, owner, code))
        return next(thread, frame, throwing);
    uint64_t epoch = hfi_here.epoch;
    uint32_t generation = hfi_here.generation;
    PyObject *result = next(thread, frame, throwing);
    if (epoch != hfi_events.epoch)
        leave_late(owner, generation);
    else if (code.kind != HFI_CODE_HIDDEN)
        hfi_location_leave(location, owner);
    else if (location->hider == owner)
        location->hider = 0;
    return result;
}

static PyObject *evaluate(PyThreadState *thread, _PyInterpreterFrame *frame,
                          int throwing);

static bool
is_outermost(void) {
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate;
}

/* Events are off, and somebody's hook was over ours when they were switched off. */
static PyObject *
pass_on(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    _PyFrameEvalFunction to = next;
    probed = true;
    if (is_outermost()) {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), to);
        next = NULL;
    }
    return to(thread, frame, throwing);
}

static PyObject *
evaluate(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    uintptr_t address = (uintptr_t)__builtin_frame_address(0);
    if (address < stack_limit && stack_is_short(address)) {
        PyErr_SetString(PyExc_RecursionError,
                        "maximum recursion depth exceeded: the C stack, of which "
                        "recorded calls take some, is nearly used up");
        return NULL;
    }
    if (!listening)
        return pass_on(thread, frame, throwing);
    hfi_location *location = hfi_thread_location((hfi_owner)frame, frame->f_code);
    if (!location || is_no_call(thread, frame))
        return next(thread, frame, throwing);
    return evaluate_recorded(thread, frame, throwing, location);
}

/* -- in the chain of hooks ------------------------------------------------------------
 */

/* Whether the hook, which lies under another one, gets a frame; 0 or 1, or -1 with a
 * Python error. */
static int
probe(void) {
    PyObject *code = Py_CompileString("0", "<holdfast>", Py_eval_input);
    PyObject *globals = code ? PyDict_New() : NULL;
    probed = false;
    PyObject *result = globals ? PyEval_EvalCode(code, globals, globals) : NULL;
    Py_XDECREF(globals);
    Py_XDECREF(code);
    Py_XDECREF(result);
    return result ? probed : -1;
}

static int
frames_install(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    int in_chain = is_outermost() ? 1 : next ? probe() : 0;
    if (in_chain < 0)
        return -1;
    if (!in_chain) {
        next = _PyInterpreterState_GetEvalFrameFunc(interpreter);
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
    }
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
    int in_chain = probe();
    if (in_chain)
        return in_chain < 0 ? -1 : 0;
    next = NULL;
    return PyErr_WarnEx(PyExc_RuntimeWarning,
                        "another frame-evaluation hook was put in the place of the "
                        "recorder's: calls since then are not in the trace",
                        1);
}

const hfi_hook hfi_frame_hook = {frames_install, frames_remove};

#endif
