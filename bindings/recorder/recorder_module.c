/* recorder_module.c - holdfast._recorder: the recorder for Python.
 *
 * Thin: arguments in, one call, result out. Here are the module, its switches and what
 * happens at a fork; recorder_python.h says where the other functions are.
 *
 * With no recording open every function but open() and close() does nothing and costs
 * nothing, since programs keep their regions when they run without a recorder.
 *
 * A fork waits until a recording that is being closed is written, and the child joins
 * or forgets its parent's (os.register_at_fork, at import). The module's functions rely
 * on the interpreter's lock, as the recorder does; a free-threaded interpreter takes
 * the lock back when it imports this module.
 */
#include "recorder_python.h"

#include "recorder/clock.h"
#include "python_events.h"
#include "region_names.h"

PyDoc_STRVAR(enable_doc, "enable()\n--\n\nSwitch call and return events on, on every "
                         "thread.");

static PyObject *
recorder_enable(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (hfi_events_enable() < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(disable_doc, "disable()\n--\n\nSwitch call and return events off. User "
                          "regions are still recorded.");

static PyObject *
recorder_disable(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (hfi_events_disable() < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    switch_thread_doc,
    "switch_thread(on, /)\n--\n\n"
    "Switch call and return events on or off on this thread, and on those that "
    "start from now on.");

static PyObject *
recorder_switch_thread(PyObject *module, PyObject *on) {
    (void)module;
    int is_on = PyObject_IsTrue(on);
    if (is_on < 0 || hfi_events_switch_thread(is_on) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
recorder_is_open(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(hfi_events_get_recorder() != NULL);
}

static PyObject *
recorder_is_enabled(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(hfi_events_are_enabled());
}

/* -- recording and rules ----------------------------------------------------------- */

static PyObject *
set_recording(bool on) {
    hfi_location *location = hfi_events_get_location();
    if (location)
        hf_recorder_set_recording(hfi_events_get_recorder(), location, on);
    Py_RETURN_NONE;
}

static PyObject *
enable_recording(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return set_recording(true);
}

static PyObject *
disable_recording(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return set_recording(false);
}

static PyObject *
is_recording(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hf_recorder *recorder = hfi_events_get_recorder();
    return PyBool_FromLong(recorder && hf_recorder_is_recording(recorder));
}

PyDoc_STRVAR(exclude_doc,
             "exclude(prefix, /, *, callees=False)\n--\n\n"
             "Leave out code whose file name begins with prefix, and with callees "
             "all that it\ncalls but cells. The longest prefix decides. To be called "
             "before open().");

static PyObject *
recorder_exclude(PyObject *module, PyObject *arguments, PyObject *keywords) {
    (void)module;
    static char *names[] = {"", "callees", NULL};
    PyObject *bytes;
    int callees = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|$p:exclude", names,
                                     PyUnicode_FSConverter, &bytes, &callees))
        return NULL;
    int result = hfi_region_names_exclude(PyBytes_AS_STRING(bytes), callees != 0);
    Py_DECREF(bytes);
    if (result < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(show_file_doc,
             "show_file(filename, shown, /)\n--\n\n"
             "Show code with this co_filename, a cell's, under another file name, "
             "such as 'In[5]'.\nTo be called before the code first runs.");

static PyObject *
recorder_show_file(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *file, *shown;
    if (!PyArg_ParseTuple(arguments, "UU:show_file", &file, &shown))
        return NULL;
    if (hfi_region_names_show_file(file, shown) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    begin_cell_doc,
    "begin_cell(filename, /)\n--\n\n"
    "Enter the region of a cell, 'cell In[5]', which goes on until end_cell(). "
    "Code of the cell's\nstatements is not recorded beside it. A cell within "
    "a cell is a part of it.");

static PyObject *
recorder_begin_cell(PyObject *module, PyObject *file) {
    (void)module;
    if (!PyUnicode_Check(file)) {
        PyErr_SetString(PyExc_TypeError, "filename must be a str");
        return NULL;
    }
    hfi_events_begin_cell(hfi_region_names_shown(file));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(end_cell_doc,
             "end_cell()\n--\n\n"
             "Leave the cell's region, and what is open below it, at the time of the "
             "last disable().");

static PyObject *
recorder_end_cell(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hfi_events_end_cell();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    share_doc,
    "share()\n--\n\n"
    "Other processes may join the recording from now on, by open(joins=True) "
    "with its directory.\nForked children need no such call. Programs that are "
    "started learn of it. Raises OSError.");

static PyObject *
recorder_share(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_children_share(&error);
    if (status != HF_OK)
        return hfi_recorder_raise(status, &error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(tell_children_doc,
             "_tell_children(text, /)\n--\n\n"
             "Put this into the environment of programs that are started from now on, "
             "until the recording ends.");

static PyObject *
recorder_tell_children(PyObject *module, PyObject *text) {
    (void)module;
    const char *wanted = PyUnicode_AsUTF8(text);
    if (!wanted || hfi_children_tell(wanted) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
recorder_before_fork(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hfi_events_before_fork();
    Py_RETURN_NONE;
}

static PyObject *
recorder_after_fork(PyObject *module, PyObject *in_child) {
    (void)module;
    hf_error error = HF_ERROR_INIT;
    if (hfi_events_after_fork(in_child == Py_True, &error) < 0)
        PySys_FormatStderr("holdfast: this process isn't recorded: %s\n",
                           error.message);
    if (!hfi_events_get_recorder())
        hfi_children_forget();
    Py_RETURN_NONE;
}

static PyObject *
recorder_forget_in_fork(PyObject *module, PyObject *forgets) {
    (void)module;
    hfi_events_forget_in_fork(forgets == Py_True);
    Py_RETURN_NONE;
}

static PyObject *
recorder_insist(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hfi_sigterm_insist();
    Py_RETURN_NONE;
}

/* -- the module -------------------------------------------------------------------- */

PyDoc_STRVAR(is_open_doc, "is_open()\n"
                          "--\n\n"
                          "Return whether a recording is open in this process.");

PyDoc_STRVAR(is_enabled_doc,
             "is_enabled()\n"
             "--\n\n"
             "Return whether call and return events of this thread are on.");

PyDoc_STRVAR(enable_recording_doc,
             "enable_recording()\n"
             "--\n\n"
             "Record again after disable_recording(), on every thread.");

PyDoc_STRVAR(disable_recording_doc,
             "disable_recording()\n"
             "--\n\n"
             "Record nothing until enable_recording(), on any thread: neither "
             "functions nor user regions.");

PyDoc_STRVAR(is_recording_doc, "is_recording()\n"
                               "--\n\n"
                               "Return whether a recording is open that "
                               "disable_recording() hasn't suspended.");

PyDoc_STRVAR(watch_greenlets_doc, "_watch_greenlets()\n--\n\n"
                                  "The library greenlet has just been imported.");

static PyObject *
recorder_watch_greenlets(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hfi_events_watch_greenlets();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"share", recorder_share, METH_NOARGS, share_doc},
    {"enable", recorder_enable, METH_NOARGS, enable_doc},
    {"disable", recorder_disable, METH_NOARGS, disable_doc},
    {"switch_thread", recorder_switch_thread, METH_O, switch_thread_doc},
    {"is_open", recorder_is_open, METH_NOARGS, is_open_doc},
    {"is_enabled", recorder_is_enabled, METH_NOARGS, is_enabled_doc},
    {"enable_recording", enable_recording, METH_NOARGS, enable_recording_doc},
    {"disable_recording", disable_recording, METH_NOARGS, disable_recording_doc},
    {"is_recording", is_recording, METH_NOARGS, is_recording_doc},
    {"exclude", (PyCFunction)(void (*)(void))recorder_exclude,
     METH_VARARGS | METH_KEYWORDS, exclude_doc},
    {"show_file", recorder_show_file, METH_VARARGS, show_file_doc},
    {"begin_cell", recorder_begin_cell, METH_O, begin_cell_doc},
    {"end_cell", recorder_end_cell, METH_NOARGS, end_cell_doc},
    {"_tell_children", recorder_tell_children, METH_O, tell_children_doc},
    {"_watch_greenlets", recorder_watch_greenlets, METH_NOARGS, watch_greenlets_doc},
    {"_before_fork", recorder_before_fork, METH_NOARGS, NULL},
    {"_forget_in_fork", recorder_forget_in_fork, METH_O,
     "_forget_in_fork(on): whether a forked child forgets what is recorded here"},
    {"_insist_on_sigterm", recorder_insist, METH_NOARGS,
     "_insist_on_sigterm()\n--\n\n"},
    {"_after_fork", recorder_after_fork, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

static int
watch_forks(PyObject *module) {
    PyObject *functools = PyImport_ImportModule("functools");
    PyObject *os = functools ? PyImport_ImportModule("os") : NULL;
    PyObject *regis = os ? PyObject_GetAttrString(os, "register_at_fork") : NULL;
    PyObject *after = regis ? PyObject_GetAttrString(module, "_after_fork") : NULL;
    PyObject *none = PyTuple_New(0);
    PyObject *keywords =
        after && none
            ? Py_BuildValue(
                  "{sNsNsN}", "before", PyObject_GetAttrString(module, "_before_fork"),
                  "after_in_parent",
                  PyObject_CallMethod(functools, "partial", "OO", after, Py_False),
                  "after_in_child",
                  PyObject_CallMethod(functools, "partial", "OO", after, Py_True))
            : NULL;
    PyObject *result = keywords ? PyObject_Call(regis, none, keywords) : NULL;
    Py_XDECREF(keywords);
    Py_XDECREF(none);
    Py_XDECREF(after);
    Py_XDECREF(regis);
    Py_XDECREF(os);
    Py_XDECREF(functools);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int
module_exec(PyObject *module) {
    recorder_state *state = hfi_recorder_state(module);
    hfi_clock_init();
    state->regions = PyDict_New();
    state->parameters = PyDict_New();
    if (!state->regions || !state->parameters ||
        PyModule_AddFunctions(module, hfi_recorder_session_methods) < 0 ||
        PyModule_AddFunctions(module, hfi_recorder_region_methods) < 0)
        return -1;
    return watch_forks(module);
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg) {
    recorder_state *state = hfi_recorder_state(module);
    Py_VISIT(state->regions);
    Py_VISIT(state->parameters);
    Py_VISIT(state->directory);
    Py_VISIT(state->profile);
    return 0;
}

static int
module_clear(PyObject *module) {
    recorder_state *state = hfi_recorder_state(module);
    Py_CLEAR(state->regions);
    Py_CLEAR(state->parameters);
    Py_CLEAR(state->directory);
    Py_CLEAR(state->profile);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)module_exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "holdfast._recorder",
    .m_doc = "Interpreter events, written to an OTF2 archive and a call-path profile.",
    .m_size = sizeof(recorder_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear};

PyMODINIT_FUNC PyInit__recorder(void);

PyMODINIT_FUNC
PyInit__recorder(void) {
    return PyModuleDef_Init(&definition);
}
