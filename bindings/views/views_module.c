/* views_module.c - holdfast._views: reads archives for views and for other programs.
 *
 * read() returns the data of the views (views_columns.c). write() makes files for other
 * programs. Both read the archive without the interpreter.
 *
 * It doesn't need the recorder's module: a notebook that is opened years later has no
 * recording.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdbool.h>

#include "views/overview.h"
#include "views/trace_files.h"
#include "views/views_columns.h"

static PyObject *
fail_with(hf_status status, const hf_error *error) {
    if (status == HF_E_NOMEM)
        return PyErr_NoMemory();
    PyErr_SetString(status == HF_E_SYSTEM ? PyExc_OSError : PyExc_ValueError,
                    error->message);
    return NULL;
}

/* -- the window -------------------------------------------------------------------- */

typedef struct window {
    double begin, end; /* s since the archive's begin; negative: its own */
} window;

static uint64_t
to_ticks(const hfi_archive_clock *clock, double seconds, uint64_t otherwise) {
    double ticks = seconds * (double)clock->ticks_per_second;
    if (seconds < 0 || !(ticks < (double)(UINT64_MAX - clock->begin)))
        return otherwise;
    return clock->begin + (uint64_t)ticks;
}

static void
window_ticks(const window *wanted, const hfi_archive *archive, uint64_t *ret_from,
             uint64_t *ret_to) {
    hfi_archive_clock clock = hfi_archive_get_clock(archive);
    *ret_from = to_ticks(&clock, wanted->begin, clock.begin);
    *ret_to = to_ticks(&clock, wanted->end, clock.begin + clock.length);
    if (*ret_to < *ret_from)
        *ret_to = *ret_from;
}

/* None: -1. */
static int
convert_seconds(PyObject *value, void *into) {
    double *seconds = into;
    *seconds = value == Py_None ? -1 : PyFloat_AsDouble(value);
    return !PyErr_Occurred();
}

/* -- read() ------------------------------------------------------------------------ */

PyDoc_STRVAR(
    read_doc,
    "read(path, /, *, begin=None, end=None, origin=0, slices=100000, paths=20000)\n"
    "--\n\n"
    "Read an OTF2 archive for the views.\n\n"
    "path is that of traces.otf2; begin and end, in seconds since the archive's begin, "
    "a window;\norigin is added to all times; slices bounds the blocks of all rows "
    "together (0: no rows), paths the\ncall paths. Returns a dict: realtime (ns since "
    "1970 of the archive's begin, or 0), length (ns),\nhost, processes, events, "
    "collapsed, regions, rows, paths and table. Columns are bytes of int64;\n"
    "times are in ns.\n\n"
    "Raises ValueError for an archive that can't be read.");

static PyObject *
views_read(PyObject *module, PyObject *arguments, PyObject *keywords) {
    (void)module;
    static char *names[] = {"", "begin", "end", "origin", "slices", "paths", NULL};
    PyObject *path = NULL, *dict = NULL;
    window wanted = {-1, -1};
    long long origin = 0;
    Py_ssize_t slices = 100000, paths = 20000;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|$O&O&Lnn:read", names,
                                     PyUnicode_FSConverter, &path, convert_seconds,
                                     &wanted.begin, convert_seconds, &wanted.end,
                                     &origin, &slices, &paths))
        return NULL;
    hfi_archive *archive = NULL;
    hfi_overview *overview = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    uint64_t from, to;
    Py_BEGIN_ALLOW_THREADS
    status = hfi_archive_open(PyBytes_AS_STRING(path), &archive, &error);
    if (status == HF_OK) {
        window_ticks(&wanted, archive, &from, &to);
        status = hfi_overview_create(archive, from, to, slices < 0 ? 0 : (size_t)slices,
                                     &overview, &error);
    }
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status != HF_OK)
        fail_with(status, &error);
    else if ((dict = PyDict_New()) != NULL &&
             !hfi_views_fill(dict, archive, overview, origin,
                             paths < 0 ? 0 : (size_t)paths))
        Py_CLEAR(dict);
    hfi_overview_close(overview);
    hfi_archive_close(archive);
    return dict;
}

PyDoc_STRVAR(span_doc,
             "span(path, /)\n--\n\nHow long an archive is, in ns, and when it "
             "began, in ns since 1970, or 0.\n\nRaises ValueError for one that "
             "can't be read.");

static PyObject *
views_span(PyObject *module, PyObject *name) {
    (void)module;
    PyObject *path;
    if (!PyUnicode_FSConverter(name, &path))
        return NULL;
    hfi_archive *archive = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hfi_archive_open(PyBytes_AS_STRING(path), &archive, &error);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status != HF_OK)
        return fail_with(status, &error);
    hfi_archive_clock clock = hfi_archive_get_clock(archive);
    uint64_t length = hfi_archive_ns(archive, clock.begin + clock.length);
    hfi_archive_close(archive);
    return Py_BuildValue("KK", (unsigned long long)length,
                         (unsigned long long)clock.realtime);
}

/* -- write() ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    hf_status (*write_trace)(hfi_archive *, uint64_t, uint64_t, FILE *, hf_error *);
    hf_status (*write_profile)(const hfi_profile *, FILE *);
} formats[] = {{"chrome", hfi_trace_write_chrome, NULL},
               {"speedscope", hfi_trace_write_speedscope, NULL},
               {"collapsed", NULL, hfi_trace_write_collapsed},
               {"callgrind", NULL, hfi_profile_write_callgrind},
               {"pstats", NULL, hfi_profile_write_pstats},
               {"json", NULL, hfi_profile_write_json},
               {"cubex", NULL, hfi_profile_write_cubex}};

static hf_status
write_stream(size_t format, hfi_archive *archive, const window *wanted, FILE *file,
             hf_error *reterr) {
    uint64_t from, to;
    window_ticks(wanted, archive, &from, &to);
    if (formats[format].write_trace)
        return formats[format].write_trace(archive, from, to, file, reterr);
    hfi_overview *overview;
    hf_status status = hfi_overview_create(archive, from, to, 0, &overview, reterr);
    if (status != HF_OK)
        return status;
    status = formats[format].write_profile(hfi_overview_profile(overview), file);
    if (status != HF_OK)
        (void)hf_error_set(reterr, status, "out of memory");
    hfi_overview_close(overview);
    return status;
}

/* The file is complete, or doesn't exist. */
static hf_status
write_file(size_t format, const char *path, const window *wanted, const char *target,
           hf_error *reterr) {
    hfi_archive *archive = NULL;
    hf_status status = hfi_archive_open(path, &archive, reterr);
    if (status != HF_OK)
        return status;
    FILE *file = fopen(target, "wb");
    if (!file) {
        hfi_archive_close(archive);
        return hf_error_set_errno(reterr, errno, "creating %s", target);
    }
    errno = 0;
    status = write_stream(format, archive, wanted, file, reterr);
    int failed = ferror(file) ? (errno ? errno : EIO) : 0;
    if (fclose(file) != 0 && !failed)
        failed = errno;
    if (status == HF_OK && failed)
        status = hf_error_set_errno(reterr, failed, "writing %s", target);
    if (status != HF_OK)
        (void)remove(target);
    hfi_archive_close(archive);
    return status;
}

PyDoc_STRVAR(write_doc,
             "write(path, target, format, /, *, begin=None, end=None)\n--\n\n"
             "Write an archive's window as a file of another program: chrome, "
             "speedscope, collapsed,\ncallgrind, pstats, json or cubex.\n\n"
             "Raises ValueError for a format that isn't one of these or an archive "
             "that can't be read,\nOSError if the target can't be written; it is "
             "removed then.");

static PyObject *
views_write(PyObject *module, PyObject *arguments, PyObject *keywords) {
    (void)module;
    static char *names[] = {"", "", "", "begin", "end", NULL};
    PyObject *path = NULL, *target = NULL;
    const char *format;
    window wanted = {-1, -1};
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "O&O&s|$O&O&:write", names, PyUnicode_FSConverter,
            &path, PyUnicode_FSConverter, &target, &format, convert_seconds,
            &wanted.begin, convert_seconds, &wanted.end)) {
        Py_XDECREF(path);
        Py_XDECREF(target);
        return NULL;
    }
    size_t at = 0, count = sizeof formats / sizeof *formats;
    while (at < count && strcmp(formats[at].name, format) != 0)
        at++;
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_E_INVALID;
    if (at == count) {
        (void)hf_error_set(&error, status, "there is no format %s", format);
    } else {
        Py_BEGIN_ALLOW_THREADS
        status = write_file(at, PyBytes_AS_STRING(path), &wanted,
                            PyBytes_AS_STRING(target), &error);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(path);
    Py_DECREF(target);
    if (status != HF_OK)
        return fail_with(status, &error);
    Py_RETURN_NONE;
}

/* -- the module -------------------------------------------------------------------- */

static PyMethodDef methods[] = {{"read", (PyCFunction)(void (*)(void))views_read,
                                 METH_VARARGS | METH_KEYWORDS, read_doc},
                                {"span", views_span, METH_O, span_doc},
                                {"write", (PyCFunction)(void (*)(void))views_write,
                                 METH_VARARGS | METH_KEYWORDS, write_doc},
                                {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "holdfast._views",
    .m_doc = "OTF2 archives, read for the eye and for other programs.",
    .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__views(void);

PyMODINIT_FUNC
PyInit__views(void) {
    return PyModuleDef_Init(&definition);
}
