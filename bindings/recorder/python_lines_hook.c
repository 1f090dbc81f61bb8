/* python_lines_hook.c - calls of the user's own functions, for the sampler of lines.
 *
 * It works beside the hooks of events and without them, so that lines can be sampled
 * whichever recorder runs, and if no functions are recorded.
 *
 * On 3.11 it is a frame-evaluation hook of its own. If another hook lies over it when
 * it is to go, it stays, passes on what it gets, and goes when it is the outermost one
 * again. If the hook of events lies over it, that one enters and leaves the frames that
 * it records, so that a function's samples are of the time that its events have:
 * otherwise the recorder's work between them would be the caller's, which is most of a
 * short function's time. From 3.12 on it is a tool of sys.monitoring; libraries' code loses its events
 * when it is met first, so that it pays nothing.
 */
#include "interpreter_frame.h"
#include "python_lines.h"

#if PY_VERSION_HEX < 0x030C0000

static _PyFrameEvalFunction below; /* NULL: the hook isn't in the chain */
static bool probed;                /* a frame was passed on */

static PyObject *evaluate_sampled(PyThreadState *thread, _PyInterpreterFrame *frame,
                                  int throwing);

static bool
is_outermost(void) {
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) ==
           evaluate_sampled;
}

static void
leave_chain(void) {
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), below);
    below = NULL;
}

static PyObject *
pass_on(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    _PyFrameEvalFunction to = below;
    probed = true;
    if (is_outermost())
        leave_chain();
    return to(thread, frame, throwing);
}

static PyObject *
evaluate_sampled(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing) {
    if (!hfi_lines.on)
        return pass_on(thread, frame, throwing);
    if (hfi_frames_stack_is_short()) {
        hfi_frames_refuse();
        return NULL;
    }
    _PyFrameEvalFunction to = below;
    uint32_t generation;
    bool entered = hfi_lines_enter_frame(frame, &generation);
    if (entered)
        hfi_frames_keep_call((PyObject *)frame->f_func);
    PyObject *result = to(thread, frame, throwing);
    if (entered)
        hfi_lines_leave_frame(frame, generation);
    return result;
}

/* Whether the hook, which lies under another one, still gets frames; -1 with a Python
 * error. */
static int
probe_chain(void) {
    PyObject *code = Py_CompileString("0", "<holdfast>", Py_eval_input);
    PyObject *globals = code ? PyDict_New() : NULL;
    bool on = hfi_lines.on;
    probed = hfi_lines.on = false;
    PyObject *result = globals ? PyEval_EvalCode(code, globals, globals) : NULL;
    hfi_lines.on = on;
    Py_XDECREF(globals);
    Py_XDECREF(code);
    Py_XDECREF(result);
    return result ? probed : -1;
}

static int
install_lines(void) {
    int in_chain = is_outermost() ? 1 : below ? probe_chain() : 0;
    if (in_chain < 0 || hfi_frames_keep_calls() < 0)
        return -1;
    if (!in_chain) {
        PyInterpreterState *interpreter = PyInterpreterState_Get();
        below = _PyInterpreterState_GetEvalFrameFunc(interpreter);
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate_sampled);
    }
    return hfi_frames_find_direct_call();
}

static int
uninstall_lines(void) {
    if (is_outermost())
        leave_chain();
    return hfi_frames_find_direct_call();
}

#else

static struct {
    int tool;          /* -1: none is taken */
    PyObject *disable; /* sys.monitoring.DISABLE */
} monitor = {.tool = -1};

static _PyInterpreterFrame *
current_frame(void) {
    return (_PyInterpreterFrame *)hfi_frame_current(PyThreadState_Get());
}

static bool
enter_code(PyObject *code) {
    hfi_line_code *found = hfi_lines.on ? hfi_lines_find((PyCodeObject *)code) : NULL;
    hfi_line_stack *stack = found ? hfi_lines_stack() : NULL;
    if (stack)
        (void)hfi_line_push(stack, HFI_INSTRUCTION_OF(current_frame()), found);
    return found != NULL;
}

static bool
leave_code(PyObject *code) {
    if (!hfi_lines.on || !hfi_lines_find((PyCodeObject *)code))
        return false;
    hfi_line_stack *stack = hfi_lines_stack();
    if (stack)
        hfi_line_leave(stack, HFI_INSTRUCTION_OF(current_frame()));
    return true;
}

static PyObject *
on_enter(PyObject *unused, PyObject *const *arguments, Py_ssize_t count) {
    (void)unused, (void)count;
    return Py_NewRef(enter_code(arguments[0]) ? Py_None : monitor.disable);
}

static PyObject *
on_leave(PyObject *unused, PyObject *const *arguments, Py_ssize_t count) {
    (void)unused, (void)count;
    return Py_NewRef(leave_code(arguments[0]) ? Py_None : monitor.disable);
}

/* Events that can't be disabled. */
static PyObject *
on_throw(PyObject *unused, PyObject *const *arguments, Py_ssize_t count) {
    (void)unused, (void)count;
    (void)enter_code(arguments[0]);
    Py_RETURN_NONE;
}

static PyObject *
on_unwind(PyObject *unused, PyObject *const *arguments, Py_ssize_t count) {
    (void)unused, (void)count;
    (void)leave_code(arguments[0]);
    Py_RETURN_NONE;
}

#define CALLBACK(event, function)                                                      \
    { event, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL }

static PyMethodDef callbacks[] = {
    CALLBACK("PY_START", on_enter), CALLBACK("PY_RESUME", on_enter),
    CALLBACK("PY_THROW", on_throw), CALLBACK("PY_RETURN", on_leave),
    CALLBACK("PY_YIELD", on_leave), CALLBACK("PY_UNWIND", on_unwind),
};

enum { CALLBACK_COUNT = sizeof callbacks / sizeof *callbacks };

static int
drop_result(PyObject *result) {
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int
take_tool(PyObject *monitoring) {
    for (int tool = 4; tool >= 3; tool--) {
        if (drop_result(PyObject_CallMethod(monitoring, "use_tool_id", "is", tool,
                                            "holdfast lines")) == 0)
            return tool;
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "the tool ids 3 and 4 of sys.monitoring are both taken");
    return -1;
}

/* Register the callbacks, or None for each; the sum of their events, or -1 with a
 * Python error. */
static long
register_callbacks(PyObject *monitoring, bool on) {
    PyObject *events = PyObject_GetAttrString(monitoring, "events");
    long sum = events ? 0 : -1;
    for (size_t i = 0; i < CALLBACK_COUNT && sum >= 0; i++) {
        PyObject *event = PyObject_GetAttrString(events, callbacks[i].ml_name);
        PyObject *function =
            on ? PyCFunction_NewEx(&callbacks[i], NULL, NULL) : Py_NewRef(Py_None);
        if (event && function &&
            drop_result(PyObject_CallMethod(monitoring, "register_callback", "iOO",
                                            monitor.tool, event, function)) == 0)
            sum |= PyLong_AsLong(event);
        else
            sum = -1;
        Py_XDECREF(function);
        Py_XDECREF(event);
    }
    Py_XDECREF(events);
    return sum;
}

static int
uninstall_lines(void) {
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    if (!monitoring || monitor.tool < 0)
        return 0;
    int result = drop_result(
        PyObject_CallMethod(monitoring, "set_events", "ii", monitor.tool, 0));
    if (register_callbacks(monitoring, false) < 0 ||
        drop_result(
            PyObject_CallMethod(monitoring, "free_tool_id", "i", monitor.tool)) < 0)
        result = -1;
    monitor.tool = -1;
    return result;
}

static int
install_lines(void) {
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    if (!monitoring) {
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is missing");
        return -1;
    }
    if (monitor.tool >= 0) /* in a forked child */
        return drop_result(PyObject_CallMethod(monitoring, "restart_events", NULL));
    if (!monitor.disable &&
        !(monitor.disable = PyObject_GetAttrString(monitoring, "DISABLE")))
        return -1;
    if ((monitor.tool = take_tool(monitoring)) < 0)
        return -1;
    long events = register_callbacks(monitoring, true);
    if (events >= 0 &&
        drop_result(PyObject_CallMethod(monitoring, "restart_events", NULL)) == 0 &&
        drop_result(PyObject_CallMethod(monitoring, "set_events", "il", monitor.tool,
                                        events)) == 0)
        return 0;
    PyObject *error = PyErr_GetRaisedException();
    if (uninstall_lines() < 0)
        PyErr_Clear();
    PyErr_SetRaisedException(error);
    return -1;
}

#endif

const hfi_hook hfi_lines_hook = {install_lines, uninstall_lines, NULL};
