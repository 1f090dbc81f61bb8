/* python_threads.c - threads that start while the profile hook is on.
 *
 * `threading` calls a hook on each new thread; ours switches the thread to the C
 * callback at its first event and takes that event itself. Threads started through
 * `_thread` directly know no hook, so its functions are wrapped, once and for good:
 * outside a recording the wrapper hands its arguments on as they are. Modules that took
 * the function out of `_thread` earlier (threading does) keep the plain one.
 *
 * The wrapped original is the wrapper's own `self`, and so is the function that a
 * thread is to run: no table, nothing to release.
 *
 * Rejected: a Python subclass of Thread (programs have their own); scanning for new
 * threads (misses short ones).
 */
#include "python_hooks.h"

#include <string.h>

static PyObject *saved_hook; /* threading's, from before; NULL: not watching */

/* The hook of `threading`: (frame, event, arg), once for each thread. */
static PyObject *
thread_first_event(PyObject *unused, PyObject *arguments) {
    (void)unused;
    PyObject *frame, *event, *arg;
    if (!PyArg_ParseTuple(arguments, "OUO", &frame, &event, &arg))
        return NULL;
    bool is_call = PyUnicode_CompareWithASCIIString(event, "call") == 0;
    hfi_profile_join(is_call);
    Py_RETURN_NONE;
}

static PyObject *
thread_run(PyObject *function, PyObject *arguments, PyObject *keywords) {
    hfi_profile_join(false);
    return PyObject_Call(function, arguments, keywords);
}

static PyMethodDef run_definition = {"thread_run",
                                     (PyCFunction)(void (*)(void))thread_run,
                                     METH_VARARGS | METH_KEYWORDS, NULL};

/* In the place of _thread.start_*: replace the function by one that joins first. */
static PyObject *
thread_start(PyObject *original, PyObject *arguments, PyObject *keywords) {
    if (!hfi_events.on_since || PyTuple_GET_SIZE(arguments) == 0 ||
        !PyCallable_Check(PyTuple_GET_ITEM(arguments, 0)))
        return PyObject_Call(original, arguments, keywords);
    PyObject *run =
        PyCFunction_NewEx(&run_definition, PyTuple_GET_ITEM(arguments, 0), NULL);
    PyObject *changed = run ? PyTuple_New(PyTuple_GET_SIZE(arguments)) : NULL;
    for (Py_ssize_t i = 0; changed && i < PyTuple_GET_SIZE(arguments); i++)
        PyTuple_SET_ITEM(changed, i,
                         Py_NewRef(i ? PyTuple_GET_ITEM(arguments, i) : run));
    PyObject *result = changed ? PyObject_Call(original, changed, keywords) : NULL;
    Py_XDECREF(changed);
    Py_XDECREF(run);
    return result;
}

static PyMethodDef start_definitions[] = {
    {"start_new_thread", (PyCFunction)(void (*)(void))thread_start,
     METH_VARARGS | METH_KEYWORDS, NULL},
    {"start_new", (PyCFunction)(void (*)(void))thread_start,
     METH_VARARGS | METH_KEYWORDS, NULL},
    {"start_joinable_thread", (PyCFunction)(void (*)(void))thread_start,
     METH_VARARGS | METH_KEYWORDS, NULL},
};

static PyMethodDef hook_definition = {"thread_first_event", thread_first_event,
                                      METH_VARARGS, NULL};

static int
wrap_starters(void) {
    static bool done;
    if (done)
        return 0;
    PyObject *module = PyImport_ImportModule("_thread");
    if (!module)
        return -1;
    int result = 0;
    for (size_t i = 0; i < sizeof start_definitions / sizeof *start_definitions; i++) {
        const char *name = start_definitions[i].ml_name;
        PyObject *original = PyObject_GetAttrString(module, name);
        if (!original) { /* not in this version */
            PyErr_Clear();
            continue;
        }
        PyObject *wrapper = PyCFunction_NewEx(&start_definitions[i], original, NULL);
        if (!wrapper || PyObject_SetAttrString(module, name, wrapper) < 0)
            result = -1;
        Py_XDECREF(wrapper);
        Py_DECREF(original);
    }
    Py_DECREF(module);
    done = result == 0;
    return result;
}

int
hfi_threads_watch(void) {
    if (saved_hook)
        return 0;
    if (wrap_starters() < 0)
        return -1;
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *hook = PyCFunction_NewEx(&hook_definition, NULL, NULL);
    PyObject *before =
        threading ? PyObject_GetAttrString(threading, "_profile_hook") : NULL;
    int result = -1;
    if (hook && before &&
        PyObject_SetAttrString(threading, "_profile_hook", hook) == 0) {
        saved_hook = Py_NewRef(before);
        result = 0;
    }
    Py_XDECREF(before);
    Py_XDECREF(hook);
    Py_XDECREF(threading);
    return result;
}

int
hfi_threads_unwatch(void) {
    if (!saved_hook)
        return 0;
    PyObject *threading = PyImport_ImportModule("threading");
    int result = -1;
    if (threading)
        result = PyObject_SetAttrString(threading, "_profile_hook", saved_hook);
    Py_XDECREF(threading);
    Py_CLEAR(saved_hook);
    return result;
}
