/* python_monitoring.c - sys.monitoring (PEP 669), from Python 3.12 on.
 *
 * The interpreter writes its own instructions into code objects that call back at a
 * start, a return, a yield and a resumption, on every thread; a callback that answers
 * DISABLE takes the instruction out again. So code that is left out costs nothing after
 * its first call, and code between calls runs at its full speed. Exceptions that leave
 * a frame, or are thrown into a generator, have events that can't be taken out, but
 * happen seldom.
 *
 * A callback gets the code, not the frame. The function that enters is known by the
 * address of the innermost frame, which is that of the code. It is an object of a type
 * of ours that the interpreter calls without a step between: a built-in function would
 * cost 7 ns more a call, a third of what the interpreter itself takes for both events.
 *
 * Tool ids 0 to 2 and 5 are for debuggers, coverage, profilers and optimizers: ours is
 * 3 or 4, so that cProfile and a debugger work beside a recording. Events that another
 * recording disabled are enabled again when a new one begins; this wakes the events
 * that other tools have disabled as well, and they disable them a second time.
 *
 * Code that is only left out because something hidden calls it stays enabled: the
 * program may call it, too.
 *
 * Rejected: local events for each code object (each has to be found first). The
 * frame-evaluation hook, as on 3.11: without anything recorded it takes 3 to 7 ns less
 * for a trivial call and more for a deep one, but each call then goes through the C
 * stack, where 3.12 ends a recursion below a thousand; and what is left out would pay.
 */
#include "python_hooks.h"

#if PY_VERSION_HEX >= 0x030C0000

static struct {
    int tool;            /* -1: events are off */
    uint32_t generation; /* of the recording that may have disabled events */
    PyObject *disable;   /* sys.monitoring.DISABLE */
    PyTypeObject *type;  /* of the callbacks */
} monitor = {.tool = -1};

/* -- the callbacks: (code, offset, …) ---------------------------------------------- */

static PyObject *
on_enter(PyObject *unused, PyObject *const *arguments, size_t count, PyObject *names) {
    (void)unused, (void)count, (void)names;
    PyCodeObject *code = (PyCodeObject *)arguments[0];
    hfi_owner owner = hfi_frame_current(PyThreadState_Get());
    hfi_location *location = hfi_thread_location(owner, code);
    if (!location)
        Py_RETURN_NONE;
    hfi_code found = hfi_code_get(code, NULL, location->hider != 0);
    if (found.kind == HFI_CODE_LEFT_OUT)
        return Py_NewRef(monitor.disable);
    (void)hfi_function_enter(location, owner, found);
    Py_RETURN_NONE;
}

/* Thrown into: an enter whose event can't be disabled. */
static PyObject *
on_throw(PyObject *unused, PyObject *const *arguments, size_t count, PyObject *names) {
    PyObject *result = on_enter(unused, arguments, count, names);
    Py_DECREF(result);
    Py_RETURN_NONE;
}

static PyObject *
on_leave(PyObject *unused, PyObject *const *arguments, size_t count, PyObject *names) {
    (void)unused, (void)count, (void)names;
    PyCodeObject *code = (PyCodeObject *)arguments[0];
    hfi_location *location = hfi_thread_location(0, code);
    if (!location)
        Py_RETURN_NONE;
    hfi_owner owner = hfi_frame_current(PyThreadState_Get());
    if (!location->hider && location->depth &&
        location->stack[location->depth - 1].owner == owner) {
        hfi_location_leave(location, owner);
        Py_RETURN_NONE;
    }
    if (hfi_code_find(code).kind == HFI_CODE_LEFT_OUT)
        return Py_NewRef(monitor.disable);
    hfi_function_leave(location, owner, code);
    Py_RETURN_NONE;
}

static PyObject *
on_unwind(PyObject *unused, PyObject *const *arguments, size_t count, PyObject *names) {
    const hfi_location *before = hfi_here.location;
    size_t depth = before ? before->depth : 0;
    PyObject *result = on_leave(unused, arguments, count, names);
    if (before && hfi_here.location == before && before->depth < depth)
        hfi_here.location->calls.raised++;
    Py_DECREF(result);
    Py_RETURN_NONE;
}

static const struct {
    const char *event;
    vectorcallfunc call;
} callbacks[] = {
    {"PY_START", on_enter},  {"PY_RESUME", on_enter}, {"PY_THROW", on_throw},
    {"PY_RETURN", on_leave}, {"PY_YIELD", on_leave},  {"PY_UNWIND", on_unwind},
};

/* The callback that is registered for each event. */
typedef struct callback {
    PyObject_HEAD vectorcallfunc call;
} callback;

static PyMemberDef callback_members[] = {{"__vectorcalloffset__", Py_T_PYSSIZET,
                                          offsetof(callback, call), Py_READONLY, NULL},
                                         {NULL, 0, 0, 0, NULL}};

static PyType_Slot callback_slots[] = {
    {Py_tp_call, __extension__(void *) PyVectorcall_Call},
    {Py_tp_members, callback_members},
    {0, NULL}};

static PyType_Spec callback_spec = {
    .name = "holdfast._recorder.callback",
    .basicsize = sizeof(callback),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = callback_slots};

enum { CALLBACK_COUNT = sizeof callbacks / sizeof *callbacks };

/* -- on and off -------------------------------------------------------------------- */

/* A call whose result is of no interest: 0, or -1 with a Python error. */
static int
drop_result(PyObject *result) {
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int
take_tool(PyObject *monitoring) {
    for (int tool = 3; tool <= 4; tool++) {
        if (drop_result(PyObject_CallMethod(monitoring, "use_tool_id", "is", tool,
                                            "holdfast")) == 0)
            return tool;
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "the tool ids 3 and 4 of sys.monitoring are both taken");
    return -1;
}

static PyObject *
callback_make(vectorcallfunc call) {
    callback *made = PyObject_New(callback, monitor.type);
    if (made)
        made->call = call;
    return (PyObject *)made;
}

/* Register the callbacks; the sum of their events, or -1 with a Python error. */
static long
register_callbacks(PyObject *monitoring, int tool) {
    PyObject *events = PyObject_GetAttrString(monitoring, "events");
    long sum = events ? 0 : -1;
    for (size_t i = 0; i < CALLBACK_COUNT && sum >= 0; i++) {
        PyObject *event = PyObject_GetAttrString(events, callbacks[i].event);
        PyObject *function = callback_make(callbacks[i].call);
        if (event && function &&
            drop_result(PyObject_CallMethod(monitoring, "register_callback", "iOO",
                                            tool, event, function)) == 0)
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
start_events(PyObject *monitoring, int tool) {
    if (!monitor.disable &&
        !(monitor.disable = PyObject_GetAttrString(monitoring, "DISABLE")))
        return -1;
    if (!monitor.type &&
        !(monitor.type = (PyTypeObject *)PyType_FromSpec(&callback_spec)))
        return -1;
    if (monitor.generation != hfi_events.generation &&
        drop_result(PyObject_CallMethod(monitoring, "restart_events", NULL)) < 0)
        return -1;
    monitor.generation = hfi_events.generation;
    long events = register_callbacks(monitoring, tool);
    if (events < 0)
        return -1;
    return drop_result(
        PyObject_CallMethod(monitoring, "set_events", "il", tool, events));
}

static int
monitor_install(void) {
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    if (!monitoring) {
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is missing");
        return -1;
    }
    int tool = take_tool(monitoring);
    if (tool < 0)
        return -1;
    monitor.tool = tool;
    if (start_events(monitoring, tool) == 0)
        return 0;
    PyObject *error = PyErr_GetRaisedException();
    if (hfi_monitor_hook.remove() < 0)
        PyErr_Clear();
    PyErr_SetRaisedException(error);
    return -1;
}

static int
monitor_remove(void) {
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    int tool = monitor.tool;
    monitor.tool = -1;
    if (!monitoring || tool < 0)
        return 0;
    int result =
        drop_result(PyObject_CallMethod(monitoring, "set_events", "ii", tool, 0));
    PyObject *events = PyObject_GetAttrString(monitoring, "events");
    for (size_t i = 0; i < CALLBACK_COUNT && events; i++) {
        PyObject *event = PyObject_GetAttrString(events, callbacks[i].event);
        if (!event || drop_result(PyObject_CallMethod(monitoring, "register_callback",
                                                      "iOO", tool, event, Py_None)) < 0)
            result = -1;
        Py_XDECREF(event);
    }
    Py_XDECREF(events);
    if (drop_result(PyObject_CallMethod(monitoring, "free_tool_id", "i", tool)) < 0)
        result = -1;
    return events ? result : -1;
}

const hfi_hook hfi_monitor_hook = {monitor_install, monitor_remove, NULL};

#endif
