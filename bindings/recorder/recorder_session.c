/* recorder_session.c - holdfast._recorder: a recording is opened and closed, and lines
 * are sampled beside it.
 *
 * The rules of Score-P's environment variables are Python (holdfast.scorep.settings):
 * open() asks there and hands the answer to the recorder as its options. The two dicts
 * from names to ids belong to one recording and are emptied when the next one opens.
 */
#include "recorder_python.h"

#include "recorder/filter.h"
#include "python_events.h"
#include "python_lines.h"
#include "recorder/backend.h"
#include "recorder/parts.h"

PyDoc_STRVAR(
    open_doc,
    "open(directory=None, *, tracing=None, profiling=None, c_calls=False, "
    "children=False, joins=False, rank=None)\n--\n\n"
    "Open a recording. Events stay off until enable().\n\n"
    "What is None is taken from SCOREP_EXPERIMENT_DIRECTORY, SCOREP_ENABLE_TRACING "
    "and\nSCOREP_ENABLE_PROFILING (see holdfast.scorep.settings). tracing writes "
    "an OTF2 archive\n(traces.otf2), profiling a call-path profile (profile.cubex and "
    "others). "
    "c_calls records functions\nof extension modules as well, children the "
    "processes that are forked, in the same\nexperiment; joins makes this process a "
    "further one of the directory's experiment.\nrank is its number in MPI.\n\n"
    "Raises RuntimeError when one is open, OSError when the directory or the "
    "archive can't be\nmade.");

/* The rules of the SCOREP_... variables are settings.py's: (path, tracing, profiling,
 * bytes of a buffer, filter rules, whether it is Score-P's to record). */
static PyObject *
prepare_settings(PyObject *directory, PyObject *tracing, PyObject *profiling,
                 bool joins) {
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
    long rank; /* negative: none */
    unsigned long long buffer_bytes, reserve_bytes;
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
    const hfi_backend *own = with->tracing     ? &hfi_otf2_backend
                             : with->profiling ? &hfi_profile_backend
                                               : NULL;
    hf_recorder_options options = {
        .directory = PyBytes_AS_STRING(encoded),
        .backend = with->scorep ? &hfi_scorep_backend : own,
        .profiling = with->profiling && !with->scorep,
        .room = {with->depth, with->paths},
        .profile_files = {with->profile_name, with->profile_formats},
        .buffer_bytes = with->buffer_bytes,
        .reserve_bytes = with->reserve_bytes,
        .joins = with->joins,
        .has_rank = with->rank >= 0,
        .rank = with->rank < 0 ? 0 : (uint32_t)with->rank,
        .children = with->children};
    hf_status status = hfi_events_open(&options, c_calls, reterr);
    Py_DECREF(encoded);
    return status;
}

/* The directory of a recording that could not be opened. */
static void
remove_empty(PyObject *path) {
    PyObject *encoded = PyUnicode_EncodeFSDefault(path);
    if (encoded)
        (void)rmdir(PyBytes_AS_STRING(encoded));
    else
        PyErr_Clear();
    Py_XDECREF(encoded);
}

static PyObject *
recorder_open(PyObject *module, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"directory", "tracing", "profiling", "c_calls",
                            "children",  "joins",   "rank",      NULL};
    PyObject *directory = Py_None, *tracing = Py_None, *profiling = Py_None;
    PyObject *rank = Py_None;
    int c_calls = 0, children = 0, joins = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O$OOpppO:open", names,
                                     &directory, &tracing, &profiling, &c_calls,
                                     &children, &joins, &rank))
        return NULL;
    long number = rank == Py_None ? -1 : PyLong_AsLong(rank);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    hf_error error = HF_ERROR_INIT;
    if (hfi_events_get_recorder())
        return hfi_recorder_raise(HF_BUSY, &error);
    PyObject *prepared = prepare_settings(directory, tracing, profiling, joins != 0);
    prepared_settings with = {
        .children = children != 0, .joins = joins != 0, .rank = number};
    if (!prepared ||
        !PyArg_ParseTuple(prepared, "UppKO!p(OsIKK)K", &with.path, &with.tracing,
                          &with.profiling, &with.buffer_bytes, &PyList_Type,
                          &with.rules, &with.scorep, &with.profile, &with.profile_name,
                          &with.profile_formats, &with.depth, &with.paths,
                          &with.reserve_bytes) ||
        take_filter(with.rules) < 0) {
        Py_XDECREF(prepared);
        return NULL;
    }
    hf_status status = open_prepared(&with, c_calls != 0, &error);
    if (status == HF_OK) {
        recorder_state *state = hfi_recorder_state(module);
        PyDict_Clear(state->regions);
        PyDict_Clear(state->parameters);
        Py_XSETREF(state->directory, Py_NewRef(with.path));
        state->tracing = with.tracing != 0;
        Py_XSETREF(state->profile, Py_NewRef(with.profile));
    }
    if (status != HF_OK && !joins)
        remove_empty(with.path);
    Py_DECREF(prepared);
    if (status != HF_OK)
        return hfi_recorder_raise(status, &error);
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
        return hfi_recorder_raise(status, &error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(directory_doc, "directory()\n--\n\nThe open recording's experiment "
                            "directory, or None.");

static PyObject *
recorder_directory(PyObject *module, PyObject *unused) {
    (void)unused;
    return Py_NewRef(hfi_events_get_recorder() ? hfi_recorder_state(module)->directory
                                               : Py_None);
}

PyDoc_STRVAR(
    close_doc,
    "close(*, later=False, leave=False)\n--\n\n"
    "Switch events off and write everything. A trace of one process and without a "
    "profile may be put\noff: with later it waits for finish(), and with leave a large "
    "one is left in the log file, of which\nany process makes it by recover(). Returns "
    "a "
    "dict: directory, trace (path of traces.otf2 or None),\nprofile (path or None, of "
    "the first of its files), events, kinds (a dict of those that cost more or\nless "
    "than others: events that are nested or deep, or steps of generators; made "
    "generators; calls\nthat C code made, also deep ones (Python 3.11), that an "
    "exception ended, or of C functions),\nown_seconds (processor time for memory and "
    "files), others (of other processes), lost (events that\ncould not be written), "
    "trouble (why, as errno; or 0), rewound (events), flushes (of full "
    "buffers),\nflush_seconds (that they took), collapsed (calls that have no path of "
    "their own in the profile),\nlocations, regions, waits (whether the trace is still "
    "to be written by finish()), left (the same by\nrecover()). Returns None when no "
    "recording is open.");

static PyObject *
recorder_close(PyObject *module, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"later", "leave", NULL};
    int later = 0, leave = 0;
    hfi_trace_fate fate = HFI_TRACE_WRITTEN;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$pp:close", names, &later,
                                     &leave))
        return NULL;
    hfi_trace_fate most = leave   ? HFI_TRACE_LEFT
                          : later ? HFI_TRACE_WAITS
                                  : HFI_TRACE_WRITTEN;
    recorder_state *state = hfi_recorder_state(module);
    if (!hfi_events_get_recorder())
        Py_RETURN_NONE;
    hfi_recording_totals totals = {0};
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_events_close(most, &totals, &fate, &error);
    hfi_children_forget();
    if (status != HF_OK)
        return hfi_recorder_raise(status, &error);
    PyObject *trace = state->tracing
                          ? PyUnicode_FromFormat("%U/traces.otf2", state->directory)
                          : Py_NewRef(Py_None);
    if (!trace)
        return NULL;
    PyObject *kinds = Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsK}", "nested", (unsigned long long)totals.kinds.nested,
        "deep", (unsigned long long)totals.kinds.deep, "steps",
        (unsigned long long)totals.kinds.steps, "made",
        (unsigned long long)totals.calls.made, "from_c",
        (unsigned long long)totals.calls.from_c, "deep_from_c",
        (unsigned long long)totals.calls.deep_from_c, "raised",
        (unsigned long long)totals.calls.raised, "of_c",
        (unsigned long long)totals.calls.of_c, "bound",
        (unsigned long long)totals.calls.bound);
    return Py_BuildValue(
        "{sOsNsOsKsNsdsKsdsKsisKsKsdsKsnsnsOsO}", "directory", state->directory,
        "trace", trace, "profile", state->profile, "events",
        (unsigned long long)totals.events, "kinds", kinds, "own_seconds",
        totals.own_seconds, "others", (unsigned long long)totals.others.events,
        "others_seconds", (double)totals.others.cpu_ns / 1e9, "lost",
        (unsigned long long)totals.lost, "trouble", totals.trouble, "rewound",
        (unsigned long long)totals.rewound, "flushes",
        (unsigned long long)totals.flushes, "flush_seconds", totals.flush_seconds,
        "collapsed", (unsigned long long)totals.collapsed, "locations",
        (Py_ssize_t)totals.locations, "regions", (Py_ssize_t)totals.regions, "waits",
        fate == HFI_TRACE_WAITS ? Py_True : Py_False, "left",
        fate == HFI_TRACE_LEFT ? Py_True : Py_False);
}

PyDoc_STRVAR(finish_doc,
             "finish()\n--\n\n"
             "Write the trace that close(later=True) has put off; else nothing "
             "happens.\n\nRaises OSError, RuntimeError, MemoryError: it isn't written, "
             "and recover() can try again.");

static PyObject *
recorder_finish(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_events_finish(&error);
    if (status != HF_OK && status != HF_NOT_FOUND)
        return hfi_recorder_raise(status, &error);
    Py_RETURN_NONE;
}

/* -- what other processes have left ------------------------------------------------ */

PyDoc_STRVAR(recover_doc,
             "recover(directory, /)\n--\n\n"
             "Write what processes have recorded that were killed, or left it, into "
             "the directory's "
             "archive.\n"
             "Returns a dict: processes (that were killed), ended (that ended in "
             "order, and left "
             "their\nrecording), left (whose recordings are still there: alive, or not "
             "readable), events. Returns None when there is nothing.\n\n"
             "Raises RuntimeError while such a process may be alive, OSError.");

static PyObject *
recorder_recover(PyObject *module, PyObject *directory) {
    (void)module;
    PyObject *bytes;
    hfi_recovered recovered;
    hf_error error = HF_ERROR_INIT;
    if (!PyUnicode_FSConverter(directory, &bytes))
        return NULL;
    hf_status status = hfi_events_recover(PyBytes_AS_STRING(bytes), &recovered, &error);
    Py_DECREF(bytes);
    if (status == HF_NOT_FOUND)
        Py_RETURN_NONE;
    if (status == HF_BUSY) {
        PyErr_SetString(PyExc_RuntimeError, "a process still records there");
        return NULL;
    }
    if (status != HF_OK)
        return hfi_recorder_raise(status, &error);
    return Py_BuildValue("{snsnsnsK}", "processes", (Py_ssize_t)recovered.processes,
                         "ended", (Py_ssize_t)recovered.ended, "left",
                         (Py_ssize_t)recovered.left, "events",
                         (unsigned long long)recovered.events);
}

PyDoc_STRVAR(
    state_doc,
    "state(directory, /)\n--\n\n"
    "What a directory has besides a trace: 'recording' if a process records into "
    "it now, 'ended' if\na process has ended its recording and writes the trace "
    "soon, 'left' if a process that is dead, or\nwrites no more, has left events, "
    "which recover() writes, or "
    "'' if there is nothing.");

static PyObject *
recorder_look(PyObject *module, PyObject *directory) {
    static const char *const names[] = {[HFI_RECORDING_NONE] = "",
                                        [HFI_RECORDING_ENDED] = "ended",
                                        [HFI_RECORDING_GOES_ON] = "recording",
                                        [HFI_RECORDING_LEFT] = "left"};
    (void)module;
    PyObject *bytes;
    if (!PyUnicode_FSConverter(directory, &bytes))
        return NULL;
    hfi_recording_state state = hfi_recovery_look(PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return PyUnicode_FromString(names[state]);
}

PyDoc_STRVAR(lines_begin_doc,
             "lines_begin(path, libraries, /)\n--\n\n"
             "Sample at which lines the threads are, into a new file. Code is left out "
             "whose file name begins\nwith one of the libraries'. Raises RuntimeError "
             "if lines are sampled already, OSError if they can't be.");

static int
lines_begin_in(const char *path, PyObject *libraries) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_lines_start(path, libraries, &error);
    if (status == HF_BUSY)
        PyErr_SetString(PyExc_RuntimeError, "lines are sampled already");
    else if (status != HF_OK)
        hfi_recorder_raise(status, &error);
    if (status != HF_OK)
        return -1;
    if (hfi_lines_hook.install() == 0)
        return 0;
    hfi_lines_stop();
    return -1;
}

static PyObject *
lines_begin(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *path, *libraries;
    if (!PyArg_ParseTuple(arguments, "O&O!:lines_begin", PyUnicode_FSConverter, &path,
                          &PyTuple_Type, &libraries))
        return NULL;
    bool are_names = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(libraries); i++)
        are_names = are_names && PyUnicode_Check(PyTuple_GET_ITEM(libraries, i));
    if (!are_names)
        PyErr_SetString(PyExc_TypeError, "libraries must be of str");
    int result = are_names ? lines_begin_in(PyBytes_AS_STRING(path), libraries) : -1;
    Py_DECREF(path);
    if (result < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(lines_end_doc, "lines_end()\n--\n\n"
                            "End what lines_begin() began; else nothing happens.");

static PyObject *
lines_end(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (!hfi_lines.on)
        Py_RETURN_NONE;
    int result = hfi_lines_hook.remove();
    hfi_lines_stop();
    if (result < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef hfi_recorder_session_methods[] = {
    {"open", (PyCFunction)(void (*)(void))recorder_open, METH_VARARGS | METH_KEYWORDS,
     open_doc},
    {"load_scorep", load_scorep, METH_VARARGS, load_scorep_doc},
    {"recover", recorder_recover, METH_O, recover_doc},
    {"state", recorder_look, METH_O, state_doc},
    {"directory", recorder_directory, METH_NOARGS, directory_doc},
    {"close", (PyCFunction)(void (*)(void))recorder_close, METH_VARARGS | METH_KEYWORDS,
     close_doc},
    {"finish", recorder_finish, METH_NOARGS, finish_doc},
    {"lines_begin", lines_begin, METH_VARARGS, lines_begin_doc},
    {"lines_end", lines_end, METH_NOARGS, lines_end_doc},
    {NULL, NULL, 0, NULL}};
