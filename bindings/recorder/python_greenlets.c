/* python_greenlets.c - a thread's switches between greenlets.
 *
 * The library greenlet, below gevent and SQLAlchemy's asyncio, gives a thread several C
 * stacks. It tells a trace function of each switch, one for a thread; ours calls the one
 * that was there before. It is set when a thread is met first after the library's import,
 * and stays: without a recording it only passes on.
 *
 * Rejected: to look at each event which greenlet runs (a switch is then noticed late: one
 * that waits in C has no event).
 */
#include "python_lines.h"

/* The thread itself has no parent: 0. */
static uintptr_t
name_of(PyObject *greenlet) {
    PyObject *parent = PyObject_GetAttrString(greenlet, "parent");
    bool is_thread = parent == Py_None;
    PyErr_Clear();
    Py_XDECREF(parent);
    return is_thread ? 0 : (uintptr_t)greenlet;
}

static void
note_switch(uintptr_t from, uintptr_t to) {
    hfi_lines_switch(from, to);
    if (!hfi_events.recorder || hfi_here.generation != hfi_events.generation ||
        !hfi_here.own)
        return;
    if (from == to)
        return;
    bool doubtful = !hfi_thread_is_on() || hfi_here.epoch != hfi_events.epoch;
    if (hfi_thread_switch(from, to, doubtful) || doubtful)
        hfi_here.epoch = 0; /* look at the frames before the next event */
}

/* (event, (origin, target)) */
static PyObject *
on_switch(PyObject *previous, PyObject *arguments) {
    PyObject *event, *from, *to;
    if (PyArg_ParseTuple(arguments, "O(OO)", &event, &from, &to))
        note_switch(name_of(from), name_of(to));
    else
        PyErr_Clear();
    return previous == Py_None ? Py_NewRef(Py_None)
                               : PyObject_Call(previous, arguments, NULL);
}

static PyMethodDef on_switch_definition = {"holdfast_on_switch", on_switch,
                                           METH_VARARGS, NULL};

static bool
is_ours(PyObject *function) {
    return PyCFunction_Check(function) &&
           PyCFunction_GET_FUNCTION(function) == on_switch;
}

static void
watch_switches(PyObject *library) {
    PyObject *previous = PyObject_CallMethod(library, "gettrace", NULL);
    if (previous && !is_ours(previous)) {
        PyObject *ours = PyCFunction_NewEx(&on_switch_definition, previous, NULL);
        PyObject *result =
            ours ? PyObject_CallMethod(library, "settrace", "O", ours) : NULL;
        Py_XDECREF(result);
        Py_XDECREF(ours);
    }
    Py_XDECREF(previous);
}

void
hfi_greenlets_watch(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *library = /* borrowed */
        PyDict_GetItemString(PyImport_GetModuleDict(), "greenlet");
    if (library)
        watch_switches(library);
    PyErr_Restore(type, value, traceback);
}
