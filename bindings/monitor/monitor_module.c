/* monitor_module.c - holdfast._monitor: reads the monitor's samples.
 *
 * It has one type, View, over hf_monitor_view (holdfast/monitor.h). Its methods return
 * copies: numbers in dicts, and the columns of a table as bytes of native doubles and
 * 64-bit integers, which source.py casts to memoryviews. So a result doesn't keep the
 * writer's memory mapped, and NumPy isn't needed.
 *
 * Copying a table takes no lock and calls no Python code, so the interpreter is
 * detached meanwhile. The view lives as long as the object. There is no other state.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "holdfast/monitor.h"

/* A function as a void *: POSIX allows it, ISO C doesn't know it. */
#define SLOT(number, function)                                                         \
    { (number), __extension__(void *)(function) }

typedef struct view_object {
    PyObject_HEAD hf_monitor_view *view;
} view_object;

static PyObject *
raise_status(hf_status status, const hf_error *error) {
    PyObject *kind = status == HF_E_NOMEM     ? PyExc_MemoryError
                     : status == HF_NOT_FOUND ? PyExc_LookupError
                     : status == HF_E_SYSTEM  ? PyExc_OSError
                                              : PyExc_RuntimeError;
    PyErr_SetString(kind,
                    *error->message != '\0' ? error->message : hf_status_name(status));
    return NULL;
}

static PyObject *
view_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"fd", NULL};
    hf_error error = HF_ERROR_INIT;
    hf_monitor_view *view = NULL;
    int fd;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i", names, &fd))
        return NULL;
    hf_status status = hf_monitor_view_open_consume(fd, &view, &error);
    if (status != HF_OK)
        return raise_status(status, &error);
    view_object *self = (view_object *)type->tp_alloc(type, 0);
    if (self == NULL) {
        hf_monitor_view_close(view);
        return NULL;
    }
    self->view = view;
    return (PyObject *)self;
}

static void
view_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hf_monitor_view_close(((view_object *)self)->view);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- state and facts ------------------------------------------------------------ */

static PyObject *
pids_of(const int32_t *pids, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *pid = PyLong_FromLong(pids[i]);
        if (pid == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, pid);
    }
    return list;
}

/* 0 with an exception. */
static int
read_state(PyObject *self, hf_monitor_state *ret_state, hf_monitor_facts *ret_facts) {
    hf_error error = HF_ERROR_INIT;
    hf_status status =
        hf_monitor_view_state(((view_object *)self)->view, ret_state, ret_facts);
    if (status != HF_OK)
        raise_status(status, &error);
    return status == HF_OK;
}

/* Mean processor time of a reading of each level. */
static PyObject *
costs_of(const hf_monitor_state *state) {
    PyObject *list = PyList_New(HF_MONITOR_LEVELS);
    for (int i = 0; list != NULL && i < HF_MONITOR_LEVELS; i++) {
        uint64_t count = state->level_costed[i] > 0 ? state->level_costed[i] : 1;
        PyObject *cost =
            PyFloat_FromDouble((double)state->level_cost_ns[i] / (double)count);
        if (cost == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, cost);
    }
    return list;
}

static PyObject *
view_state(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hf_monitor_state state = {.struct_size = sizeof state};
    hf_monitor_facts facts = {.struct_size = sizeof facts};
    if (!read_state(self, &state, &facts))
        return NULL;
    return Py_BuildValue(
        "{s:N,s:I,s:L,s:L,s:L,s:L,s:K,s:K,s:K,s:K,s:N,s:N}", "running",
        PyBool_FromLong(state.running), "available", state.available, "interval_ns",
        (long long)state.interval_ns, "begin_ns", (long long)state.begin_ns, "unix_ns",
        (long long)state.unix_ns, "end_ns", (long long)state.end_ns, "samples",
        (unsigned long long)state.samples, "missed", (unsigned long long)state.missed,
        "cost_ns", (unsigned long long)state.cost_ns, "costed",
        (unsigned long long)state.costed, "pids",
        pids_of(state.pids, (size_t)state.pid_count), "level_costs", costs_of(&state));
}

static PyObject *
gpus_of(const hf_monitor_facts *facts) {
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list != NULL && i < facts->gpu_count; i++) {
        PyObject *gpu = Py_BuildValue("{s:s,s:d}", "name", facts->gpu[i].name,
                                      "memory_bytes", facts->gpu[i].memory_bytes);
        if (gpu == NULL || PyList_Append(list, gpu) != 0)
            Py_CLEAR(list);
        Py_XDECREF(gpu);
    }
    return list;
}

static PyObject *
view_facts(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hf_monitor_state state = {.struct_size = sizeof state};
    hf_monitor_facts facts = {.struct_size = sizeof facts};
    if (!read_state(self, &state, &facts))
        return NULL;
    return Py_BuildValue("{s:d,s:L,s:d,s:d,s:s,s:d,s:s,s:s,s:N,s:s}", "cores",
                         facts.cores, "machine_cores", (long long)facts.machine_cores,
                         "memory_bytes", facts.memory_bytes, "memory_limit_bytes",
                         facts.memory_limit_bytes, "memory_limit_source",
                         facts.memory_limit_source, "slurm_limit_bytes",
                         facts.slurm_limit_bytes, "slurm_limit_source",
                         facts.slurm_limit_source, "slurm_job", facts.slurm_job, "gpus",
                         gpus_of(&facts), "gpu_trouble", facts.gpu_trouble);
}

/* ---- rows ----------------------------------------------------------------------- */

static PyObject *
bytes_of(const void *numbers, size_t count) {
    if (numbers == NULL)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize(numbers, (Py_ssize_t)(count * 8));
}

static PyObject *
column_of(const hf_monitor_column *column, size_t count) {
    return Py_BuildValue("(ssNNN)", column->name,
                         column->kind == HF_MONITOR_AMOUNT ? "amount" : "gauge",
                         bytes_of(column->values, count), bytes_of(column->lows, count),
                         bytes_of(column->highs, count));
}

static PyObject *
table_of(const hf_monitor_rows *rows) {
    PyObject *columns = PyList_New((Py_ssize_t)rows->columns);
    for (size_t i = 0; columns != NULL && i < rows->columns; i++) {
        PyObject *column = column_of(rows->column[i], rows->count);
        if (column == NULL)
            Py_CLEAR(columns);
        else
            PyList_SET_ITEM(columns, (Py_ssize_t)i, column);
    }
    if (columns == NULL)
        return NULL;
    return Py_BuildValue("(NNN)", bytes_of(rows->times, rows->count),
                         bytes_of(rows->widths, rows->count), columns);
}

static PyObject *
view_rows(PyObject *self, PyObject *args) {
    int level;
    long long begin_ns, end_ns;
    hf_monitor_rows rows = {.struct_size = sizeof rows};
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    if (!PyArg_ParseTuple(args, "iLL", &level, &begin_ns, &end_ns))
        return NULL;
    if (level < 0 || level >= HF_MONITOR_LEVELS)
        return PyErr_Format(PyExc_LookupError, "there is no level %d", level);
    Py_BEGIN_ALLOW_THREADS
    status = hf_monitor_view_rows(((view_object *)self)->view, (hf_monitor_level)level,
                                  begin_ns, end_ns, &rows, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return raise_status(status, &error);
    PyObject *table = table_of(&rows);
    hf_monitor_rows_fini(&rows);
    return table;
}

/* ---- cells ---------------------------------------------------------------------- */

static PyObject *
reading_of(const hf_monitor_reading *reading) {
    if (!reading->valid)
        return Py_NewRef(Py_None);
    return Py_BuildValue(
        "{s:L,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "time_ns",
        (long long)reading->time_ns, "cpu_seconds", reading->cpu_seconds,
        "memory_bytes", reading->memory_bytes, "pss_bytes", reading->pss_bytes,
        "uss_bytes", reading->uss_bytes, "io_read_count", reading->io_read_count,
        "io_write_count", reading->io_write_count, "io_read_bytes",
        reading->io_read_bytes, "io_write_bytes", reading->io_write_bytes,
        "disk_read_bytes", reading->disk_read_bytes, "disk_write_bytes",
        reading->disk_write_bytes);
}

static PyObject *
readings_of(const hf_monitor_reading *readings) {
    PyObject *list = PyList_New(HF_MONITOR_LEVELS);
    for (int i = 0; list != NULL && i < HF_MONITOR_LEVELS; i++) {
        PyObject *reading = reading_of(&readings[i]);
        if (reading == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, reading);
    }
    return list;
}

static const char *
choose_word(const char *const *words, size_t count, uint32_t number) {
    return number < count ? words[number] : "unknown";
}

static PyObject *
cell_of(const hf_monitor_cell *cell, const char *source) {
    static const char *const kinds[] = {"plain", "instrumented", "isolated", "multi"};
    static const char *const outcomes[] = {"running", "ok", "error", "interrupted",
                                           "died"};
    PyObject *text =
        PyUnicode_DecodeUTF8(source, (Py_ssize_t)strlen(source), "replace");
    return Py_BuildValue(
        "{s:L,s:L,s:N,s:O,s:L,s:L,s:L,s:d,s:d,s:d,s:s,s:s,s:N,s:N,s:N}", "index",
        (long long)cell->index, "number", (long long)cell->number, "source", text,
        "source_cut", cell->source_cut ? Py_True : Py_False, "begin_ns",
        (long long)cell->begin_ns, "end_ns", (long long)cell->end_ns, "unix_ns",
        (long long)cell->unix_ns, "peak_bytes", cell->peak_bytes, "begin_bytes",
        cell->begin_bytes, "end_bytes", cell->end_bytes, "kind",
        choose_word(kinds, sizeof kinds / sizeof *kinds, cell->kind), "outcome",
        choose_word(outcomes, sizeof outcomes / sizeof *outcomes, cell->outcome),
        "pids", pids_of(cell->pids, cell->pid_count), "begin", readings_of(cell->begin),
        "end", readings_of(cell->end));
}

static PyObject *
view_cell(PyObject *self, PyObject *argument) {
    hf_monitor_cell cell = {.struct_size = sizeof cell};
    char *source = NULL;
    hf_error error = HF_ERROR_INIT;
    long long index = PyLong_AsLongLong(argument);
    if (index == -1 && PyErr_Occurred() != NULL)
        return NULL;
    hf_status status =
        hf_monitor_view_cell(((view_object *)self)->view, index, &cell, &source);
    if (status != HF_OK)
        return raise_status(status, &error);
    PyObject *found = cell_of(&cell, source);
    free(source);
    return found;
}

static PyObject *
view_cells(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    int64_t first, end;
    hf_monitor_view_cells(((view_object *)self)->view, &first, &end);
    return Py_BuildValue("(LL)", (long long)first, (long long)end);
}

/* ---- the module ----------------------------------------------------------------- */

static PyMethodDef view_methods[] = {
    {"state", view_state, METH_NOARGS, "Whether it samples, how often, at what cost."},
    {"facts", view_facts, METH_NOARGS, "What the machine has."},
    {"rows", view_rows, METH_VARARGS,
     "rows(level, begin_ns, end_ns) -> (times, widths, columns), all as bytes."},
    {"cells", view_cells, METH_NOARGS, "The range of the cells that are kept."},
    {"cell", view_cell, METH_O, "One of them; LookupError if it was dropped."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot view_slots[] = {
    SLOT(Py_tp_new, view_new),
    SLOT(Py_tp_dealloc, view_dealloc),
    {Py_tp_methods, view_methods},
    {Py_tp_doc,
     (void *)(uintptr_t) "The monitor's shared memory. Takes the descriptor."},
    {0, NULL}};

static PyType_Spec view_spec = {.name = "holdfast._monitor.View",
                                .basicsize = sizeof(view_object),
                                .flags = Py_TPFLAGS_DEFAULT,
                                .slots = view_slots};

static int
monitor_exec(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &view_spec, NULL);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return failed;
}

static PyModuleDef_Slot monitor_slots[] = {SLOT(Py_mod_exec, monitor_exec), {0, NULL}};

static struct PyModuleDef monitor_definition = {
    PyModuleDef_HEAD_INIT, .m_name = "holdfast._monitor",
    .m_doc = "Reading what the monitor has sampled; see holdfast.monitor.",
    .m_slots = monitor_slots};

PyMODINIT_FUNC PyInit__monitor(void);

PyMODINIT_FUNC
PyInit__monitor(void) {
    return PyModuleDef_Init(&monitor_definition);
}
