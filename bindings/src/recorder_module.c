/* recorder_module.c - holdfast._recorder: the recorder for Python.
 *
 * Thin: arguments in, one call, result out. User regions and parameters are looked up
 * in two dicts from name to id, which live as long as the recording, so that a region
 * in a loop costs one dict look-up and the event.
 *
 * With no recording open every function but open() and close() does nothing and costs
 * nothing, since programs keep their regions when they run without a recorder.
 *
 * A fork waits until a recording that is being closed is written, and the child joins
 * or forgets its parent's (os.register_at_fork, at import). The module's functions rely
 * on the interpreter's lock, as the recorder does; a free-threaded interpreter takes
 * the lock back when it imports this module.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "recorder/clock.h"
#include "recorder/filter.h"
#include "recorder/python_events.h"
#include "recorder/region_names.h"
#include "recorder/scorep_backend.h"
#include "recorder/sigterm.h"

#include <errno.h>

typedef struct module_state {
    PyObject *regions;    /* str: int */
    PyObject *parameters; /* (str, kind): int */
    PyObject *directory;  /* absolute; of the latest recording, or NULL */
    PyObject *profile;    /* its first file's path, None, or NULL */
    bool tracing;
} module_state;

static module_state *
state_of(PyObject *module) {
    return PyModule_GetState(module);
}

static PyObject *
raise_status(hf_status status, const hf_error *error) {
    if (status == HF_E_NOMEM)
        return PyErr_NoMemory();
    if (status == HF_BUSY) {
        PyErr_SetString(PyExc_RuntimeError, "a recording is already open");
        return NULL;
    }
    if (status == HF_E_SYSTEM) {
        PyErr_SetString(PyExc_OSError, error->message);
        return NULL;
    }
    PyErr_Format(PyExc_RuntimeError, "%s: %s", hf_status_name(status), error->message);
    return NULL;
}

PyDoc_STRVAR(
    open_doc,
    "open(directory=None, *, tracing=None, profiling=None, c_calls=False, "
    "children=False, joins=False)\n--\n\n"
    "Open a recording. Events stay off until enable().\n\n"
    "What is None is taken from SCOREP_EXPERIMENT_DIRECTORY, SCOREP_ENABLE_TRACING "
    "and\nSCOREP_ENABLE_PROFILING (see holdfast.scorep.settings). tracing writes "
    "an OTF2 archive\n(traces.otf2), profiling a call-path profile (profile.cubex and "
    "others). "
    "c_calls records functions\nof extension modules as well, children the "
    "processes that are forked, in the same\nexperiment; joins makes this process a "
    "further one of the directory's experiment.\n\n"
    "Raises RuntimeError when one is open, OSError when the directory or the "
    "archive can't be\nmade.");

/* The rules of the SCOREP_... variables are settings.py's: (path, tracing, profiling,
 * bytes of a buffer, filter rules, whether it is Score-P's to record). */
static PyObject *
prepare(PyObject *directory, PyObject *tracing, PyObject *profiling, bool joins) {
    PyObject *settings = PyImport_ImportModule("holdfast.scorep.settings");
    if (!settings)
        return NULL;
    PyObject *prepared =
        PyObject_CallMethod(settings, "prepare", "OOOO", directory, tracing, profiling,
                            joins ? Py_True : Py_False);
    Py_DECREF(settings);
    return prepared;
}

/* (in the block of file names, excluded, pattern) each. */
static int
take_filter(PyObject *rules) {
    hfi_filter_clear();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rules); i++) {
        int in_files, exclude;
        const char *pattern;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(rules, i), "pps", &in_files, &exclude,
                              &pattern))
            return -1;
        if (hfi_filter_add(in_files ? HFI_FILTER_FILES : HFI_FILTER_REGIONS,
                           exclude != 0, pattern) != HF_OK) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

typedef struct prepared_settings {
    PyObject *path;
    int tracing, profiling, scorep;
    bool children, joins;
    unsigned long long buffer_bytes;
    PyObject *rules;
    PyObject *profile; /* its first file's path, or None */
    const char *profile_name;
    unsigned profile_formats;
    unsigned long long depth, paths;
} prepared_settings;

static hf_status
open_prepared(const prepared_settings *with, bool c_calls, hf_error *reterr) {
    PyObject *encoded = PyUnicode_EncodeFSDefault(with->path);
    if (!encoded) {
        PyErr_Clear();
        return hf_error_set(reterr, HF_E_INVALID,
                            "the directory's name can't be encoded");
    }
    const hfi_backend *own = with->tracing ? &hfi_otf2_backend : NULL;
    hf_recorder_options options = {.directory = PyBytes_AS_STRING(encoded),
                                   .backend = with->scorep ? &hfi_scorep_backend : own,
                                   .profiling = with->profiling && !with->scorep,
                                   .room = {with->depth, with->paths},
                                   .profile_name = with->profile_name,
                                   .profile_formats = with->profile_formats,
                                   .buffer_bytes = with->buffer_bytes,
                                   .joins = with->joins,
                                   .children = with->children};
    hf_status status = hfi_events_open(&options, c_calls, reterr);
    Py_DECREF(encoded);
    return status;
}

static PyObject *
recorder_open(PyObject *module, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"directory", "tracing", "profiling", "c_calls",
                            "children",  "joins",   NULL};
    PyObject *directory = Py_None, *tracing = Py_None, *profiling = Py_None;
    int c_calls = 0, children = 0, joins = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O$OOppp:open", names,
                                     &directory, &tracing, &profiling, &c_calls,
                                     &children, &joins))
        return NULL;
    hf_error error = HF_ERROR_INIT;
    if (hfi_events_get_recorder())
        return raise_status(HF_BUSY, &error);
    PyObject *prepared = prepare(directory, tracing, profiling, joins != 0);
    prepared_settings with = {.children = children != 0, .joins = joins != 0};
    if (!prepared ||
        !PyArg_ParseTuple(prepared, "UppKO!p(OsIKK)", &with.path, &with.tracing,
                          &with.profiling, &with.buffer_bytes, &PyList_Type,
                          &with.rules, &with.scorep, &with.profile, &with.profile_name,
                          &with.profile_formats, &with.depth, &with.paths) ||
        take_filter(with.rules) < 0) {
        Py_XDECREF(prepared);
        return NULL;
    }
    hf_status status = open_prepared(&with, c_calls != 0, &error);
    if (status == HF_OK) {
        module_state *state = state_of(module);
        PyDict_Clear(state->regions);
        PyDict_Clear(state->parameters);
        Py_XSETREF(state->directory, Py_NewRef(with.path));
        state->tracing = with.tracing != 0;
        Py_XSETREF(state->profile, Py_NewRef(with.profile));
    }
    Py_DECREF(prepared);
    if (status != HF_OK)
        return raise_status(status, &error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(load_scorep_doc,
             "load_scorep(table, bundle, subsystems, /)\n--\n\n"
             "Load Score-P's libraries into this process, unless it has them; see "
             "holdfast.scorep.loading.\n\nRaises OSError when that is impossible.");

static PyObject *
load_scorep(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *table, *bundle, *subsystems;
    if (!PyArg_ParseTuple(arguments, "sss:load_scorep", &table, &bundle, &subsystems))
        return NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_scorep_load(table, bundle, subsystems, &error);
    if (status != HF_OK)
        return raise_status(status, &error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(directory_doc, "directory()\n--\n\nThe open recording's experiment "
                            "directory, or None.");

static PyObject *
recorder_directory(PyObject *module, PyObject *unused) {
    (void)unused;
    return Py_NewRef(hfi_events_get_recorder() ? state_of(module)->directory : Py_None);
}

PyDoc_STRVAR(
    close_doc,
    "close()\n--\n\n"
    "Switch events off and write everything. Returns a dict: directory, trace "
    "(path of\ntraces.otf2 or None), profile (path or None, of the first of its "
    "files), events, lost\n(events that could not be written), rewound (events), "
    "flushes (of full buffers),\ncollapsed (calls that have no path of their own in "
    "the "
    "profile), locations, regions.\nReturns None when no recording is open.");

static PyObject *
recorder_close(PyObject *module, PyObject *unused) {
    (void)unused;
    module_state *state = state_of(module);
    if (!hfi_events_get_recorder())
        Py_RETURN_NONE;
    hfi_recording_totals totals = {0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_events_close(&totals, &error);
    if (status != HF_OK)
        return raise_status(status, &error);
    PyObject *trace = state->tracing
                          ? PyUnicode_FromFormat("%U/traces.otf2", state->directory)
                          : Py_NewRef(Py_None);
    if (!trace)
        return NULL;
    return Py_BuildValue(
        "{sOsNsOsKsKsKsKsKsnsn}", "directory", state->directory, "trace", trace,
        "profile", state->profile, "events", (unsigned long long)totals.events, "lost",
        (unsigned long long)totals.lost, "rewound", (unsigned long long)totals.rewound,
        "flushes", (unsigned long long)totals.flushes, "collapsed",
        (unsigned long long)totals.collapsed, "locations", (Py_ssize_t)totals.locations,
        "regions", (Py_ssize_t)totals.regions);
}

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

/* -- user regions --------------------------------------------------------------------
 */

static const char *
text_of(PyObject *value, PyObject **ret_bytes) {
    *ret_bytes = PyUnicode_AsEncodedString(value, "utf-8", "backslashreplace");
    return *ret_bytes ? PyBytes_AS_STRING(*ret_bytes) : NULL;
}

/* The id of a name in one of the dicts: 1 found, 0 not, -1 with an error. */
static int
id_find(PyObject *ids, PyObject *key, uint32_t *ret_id) {
    PyObject *known = PyDict_GetItemWithError(ids, key);
    if (!known)
        return PyErr_Occurred() ? -1 : 0;
    *ret_id = (uint32_t)PyLong_AsUnsignedLong(known);
    return 1;
}

static int
id_keep(PyObject *ids, PyObject *key, uint32_t id) {
    PyObject *value = PyLong_FromUnsignedLong(id);
    int result = value ? PyDict_SetItem(ids, key, value) : -1;
    Py_XDECREF(value);
    return result;
}

static int
region_find(module_state *state, PyObject *name, PyObject *file, unsigned int line,
            uint32_t *ret_region) {
    int found = id_find(state->regions, name, ret_region);
    if (found)
        return found > 0 ? 0 : -1;
    PyObject *name_bytes = NULL, *file_bytes = NULL;
    const char *name_text = text_of(name, &name_bytes);
    const char *file_text =
        file == Py_None ? "" : text_of(hfi_region_names_shown(file), &file_bytes);
    int result = -1;
    if (name_text && file_text && hfi_filter_excludes(file_text, name_text)) {
        *ret_region = HFI_REGION_NONE;
        result = id_keep(state->regions, name, *ret_region);
    } else if (name_text && file_text) {
        if (hfi_definitions_add_region(
                hf_recorder_get_definitions(hfi_events_get_recorder()), name_text,
                file_text, line, HFI_REGION_USER, ret_region) == HF_OK)
            result = id_keep(state->regions, name, *ret_region);
        else
            PyErr_NoMemory();
    }
    Py_XDECREF(name_bytes);
    Py_XDECREF(file_bytes);
    return result;
}

PyDoc_STRVAR(region_begin_doc,
             "region_begin(name, file=None, line=0, /)\n--\n\n"
             "Enter a user region. The first use of a name fixes its file and line.");

static PyObject *
region_begin(PyObject *module, PyObject *arguments) {
    PyObject *name, *file = Py_None;
    unsigned int line = 0;
    if (!PyArg_ParseTuple(arguments, "U|OI:region_begin", &name, &file, &line))
        return NULL;
    if (file != Py_None && !PyUnicode_Check(file)) {
        PyErr_SetString(PyExc_TypeError, "file must be a str or None");
        return NULL;
    }
    hfi_location *location = hfi_events_get_location();
    if (!location)
        Py_RETURN_NONE;
    uint32_t region;
    if (region_find(state_of(module), name, file, line, &region) < 0)
        return NULL;
    if (region != HFI_REGION_NONE)
        hfi_location_enter(location, HFI_OWNER_USER, region);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(region_end_doc,
             "region_end(name, /)\n--\n\n"
             "Leave the user region of this name that was entered last on this thread. "
             "False when\nnone is open, else True.");

static PyObject *
region_end(PyObject *module, PyObject *name) {
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "name must be a str");
        return NULL;
    }
    hfi_location *location = hfi_events_get_location();
    if (!location)
        Py_RETURN_TRUE;
    uint32_t region;
    int found = id_find(state_of(module)->regions, name, &region);
    if (found < 0)
        return NULL;
    bool is_left_out = found && region == HFI_REGION_NONE;
    return PyBool_FromLong(is_left_out ||
                           (found && hfi_location_leave_user(location, region)));
}

/* -- rewinding -----------------------------------------------------------------------
 */

static int
string_find(PyObject *text, uint32_t *ret_id) {
    PyObject *bytes;
    const char *chars = text_of(text, &bytes);
    if (!chars)
        return -1;
    hf_status status = hfi_definitions_add_string(
        hf_recorder_get_definitions(hfi_events_get_recorder()), chars, ret_id);
    Py_DECREF(bytes);
    if (status != HF_OK)
        PyErr_NoMemory();
    return status == HF_OK ? 0 : -1;
}

PyDoc_STRVAR(rewind_begin_doc,
             "rewind_begin(name, /)\n--\n\nMark a point of this thread's trace.");

static PyObject *
rewind_begin(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *name;
    if (!PyArg_ParseTuple(arguments, "U:rewind_begin", &name))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t id;
    if (!location)
        Py_RETURN_NONE;
    if (string_find(name, &id) < 0)
        return NULL;
    if (hfi_location_rewind_begin(location, id) != HF_OK)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    rewind_end_doc,
    "rewind_end(name, drop, /)\n--\n\n"
    "Forget the mark; with drop, drop the events since it. False when there is no "
    "such mark\nor the events can't be dropped any more, else True.");

static PyObject *
rewind_end(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *name;
    int drop;
    if (!PyArg_ParseTuple(arguments, "Up:rewind_end", &name, &drop))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t id;
    if (!location)
        Py_RETURN_TRUE;
    if (string_find(name, &id) < 0)
        return NULL;
    return PyBool_FromLong(hfi_location_rewind_end(location, id, drop != 0) == HF_OK);
}

/* -- parameters ----------------------------------------------------------------------
 */

static int
parameter_find(module_state *state, PyObject *name, hfi_parameter_kind kind,
               uint32_t *ret_parameter) {
    PyObject *key = Py_BuildValue("(Oi)", name, (int)kind);
    if (!key)
        return -1;
    int result = id_find(state->parameters, key, ret_parameter);
    if (result == 0) {
        PyObject *bytes;
        const char *text = text_of(name, &bytes);
        hf_status status = HF_E_NOMEM;
        if (text)
            status = hfi_definitions_add_parameter(
                hf_recorder_get_definitions(hfi_events_get_recorder()), text, kind,
                ret_parameter);
        Py_XDECREF(bytes);
        if (text && status != HF_OK)
            PyErr_NoMemory();
        result = status == HF_OK ? id_keep(state->parameters, key, *ret_parameter) : -1;
    }
    Py_DECREF(key);
    return result < 0 ? -1 : 0;
}

PyDoc_STRVAR(parameter_int_doc, "parameter_int(name, value, /)\n--\n\n"
                                "Record a signed value of 64 bits for this thread.");

static PyObject *
parameter_int(PyObject *module, PyObject *arguments) {
    PyObject *name;
    long long value;
    if (!PyArg_ParseTuple(arguments, "UL:parameter_int", &name, &value))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t parameter;
    if (!location)
        Py_RETURN_NONE;
    if (parameter_find(state_of(module), name, HFI_PARAMETER_INT, &parameter) < 0)
        return NULL;
    hfi_location_parameter_int(location, parameter, value);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(parameter_uint_doc,
             "parameter_uint(name, value, /)\n--\n\n"
             "Record an unsigned value of 64 bits for this thread.");

static PyObject *
parameter_uint(PyObject *module, PyObject *arguments) {
    PyObject *name, *number;
    if (!PyArg_ParseTuple(arguments, "UO!:parameter_uint", &name, &PyLong_Type,
                          &number))
        return NULL;
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t parameter;
    if (!location)
        Py_RETURN_NONE;
    if (parameter_find(state_of(module), name, HFI_PARAMETER_UINT, &parameter) < 0)
        return NULL;
    hfi_location_parameter_uint(location, parameter, value);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(parameter_string_doc, "parameter_string(name, value, /)\n--\n\n"
                                   "Record a text for this thread.");

static PyObject *
parameter_string(PyObject *module, PyObject *arguments) {
    PyObject *name, *text;
    if (!PyArg_ParseTuple(arguments, "UU:parameter_string", &name, &text))
        return NULL;
    hfi_location *location = hfi_events_get_location();
    uint32_t parameter, string;
    if (!location)
        Py_RETURN_NONE;
    if (parameter_find(state_of(module), name, HFI_PARAMETER_STRING, &parameter) < 0 ||
        string_find(text, &string) < 0)
        return NULL;
    hfi_location_parameter_string(location, parameter, string);
    Py_RETURN_NONE;
}

/* -- recording and rules -------------------------------------------------------------
 */

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
             "such as 'In[5]'.\nIts module code is the region 'cell In[5]'. To be "
             "called before the code first runs.");

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

PyDoc_STRVAR(share_doc,
             "share()\n--\n\n"
             "Other processes may join the recording from now on, by open(joins=True) "
             "with its directory.\nForked children need no such call. Raises OSError.");

static PyObject *
recorder_share(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_events_share(&error);
    if (status != HF_OK)
        return raise_status(status, &error);
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
    Py_RETURN_NONE;
}

static PyObject *
recorder_insist(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hfi_sigterm_insist();
    Py_RETURN_NONE;
}

/* -- the module ----------------------------------------------------------------------
 */

static PyMethodDef methods[] = {
    {"open", (PyCFunction)(void (*)(void))recorder_open, METH_VARARGS | METH_KEYWORDS,
     open_doc},
    {"load_scorep", load_scorep, METH_VARARGS, load_scorep_doc},
    {"share", recorder_share, METH_NOARGS, share_doc},
    {"directory", recorder_directory, METH_NOARGS, directory_doc},
    {"close", recorder_close, METH_NOARGS, close_doc},
    {"enable", recorder_enable, METH_NOARGS, enable_doc},
    {"disable", recorder_disable, METH_NOARGS, disable_doc},
    {"is_open", recorder_is_open, METH_NOARGS, "is_open()\n--\n\n"},
    {"is_enabled", recorder_is_enabled, METH_NOARGS, "is_enabled()\n--\n\n"},
    {"region_begin", region_begin, METH_VARARGS, region_begin_doc},
    {"region_end", region_end, METH_O, region_end_doc},
    {"rewind_begin", rewind_begin, METH_VARARGS, rewind_begin_doc},
    {"rewind_end", rewind_end, METH_VARARGS, rewind_end_doc},
    {"parameter_int", parameter_int, METH_VARARGS, parameter_int_doc},
    {"parameter_uint", parameter_uint, METH_VARARGS, parameter_uint_doc},
    {"parameter_string", parameter_string, METH_VARARGS, parameter_string_doc},
    {"enable_recording", enable_recording, METH_NOARGS, "enable_recording()\n--\n\n"},
    {"disable_recording", disable_recording, METH_NOARGS,
     "disable_recording()\n--\n\n"},
    {"is_recording", is_recording, METH_NOARGS, "is_recording()\n--\n\n"},
    {"exclude", (PyCFunction)(void (*)(void))recorder_exclude,
     METH_VARARGS | METH_KEYWORDS, exclude_doc},
    {"show_file", recorder_show_file, METH_VARARGS, show_file_doc},
    {"_before_fork", recorder_before_fork, METH_NOARGS, NULL},
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
    module_state *state = state_of(module);
    hfi_clock_init();
    state->regions = PyDict_New();
    state->parameters = PyDict_New();
    if (!state->regions || !state->parameters)
        return -1;
    return watch_forks(module);
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg) {
    module_state *state = state_of(module);
    Py_VISIT(state->regions);
    Py_VISIT(state->parameters);
    Py_VISIT(state->directory);
    Py_VISIT(state->profile);
    return 0;
}

static int
module_clear(PyObject *module) {
    module_state *state = state_of(module);
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
    .m_size = sizeof(module_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear};

PyMODINIT_FUNC PyInit__recorder(void);

PyMODINIT_FUNC
PyInit__recorder(void) {
    return PyModuleDef_Init(&definition);
}
