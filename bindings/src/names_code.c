/* names_code.c - what the walk of a save tells besides groups: which values are closed,
 * which code is behind a name, and whether the notebook's code is held elsewhere.
 *
 * A name that no code reached can be passed over by the next save (names_collect.c), if
 * it is known which code can run. So a save reports the functions and classes behind
 * each value that it looked at; those of them that somebody else holds, a library or a
 * thread, who may call them at any time; and the strays: functions of the notebook that
 * no name leads to. Those are found by counting (strays()). Every function holds one
 * reference to its globals, so what the namespace's reference count exceeds its count
 * before any user code ran, less the references of all functions that were found,
 * belongs to functions that were not.
 *
 * What is learnt stands in the record that will hold, also where the value is unchanged
 * and the commit dropped: it is about this process's objects at this moment, not about
 * the store.
 */
#include "names_save.h"

static PyObject *
code_list(hfi_save *at, PyObject *key) {
    PyObject *list = PyDict_GetItemWithError(at->code, key);
    if (list || PyErr_Occurred())
        return list;
    list = PyList_New(0);
    if (list && PyDict_SetItem(at->code, key, list) < 0)
        Py_CLEAR(list);
    Py_XDECREF(list); /* the dict has it */
    return list;
}

int
hfi_save_learn(hfi_save *at, hfi_graph *graph) {
    char *open = PyMem_Calloc(graph->count + 1, 1);
    if (!open) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < graph->count; i++)
        open[hfi_graph_group(graph, i)] |= (char)graph->roots[i].is_open;
    for (uint32_t i = 0; i < at->count; i++) {
        at->members[i].is_closed =
            !at->members[i].is_class && !open[hfi_graph_group(graph, i)];
        at->members[i].namespace_refs = graph->roots[i].namespace_refs;
    }
    PyMem_Free(open);
    for (size_t i = 0; i < graph->code_count; i++) {
        uint32_t root = graph->codes[i].root;
        PyObject *list = code_list(at, at->members[root].key);
        if (!list || PyList_Append(list, graph->codes[i].object) < 0)
            return -1;
        if (PyList_GET_SIZE(list) == 1 && graph->roots[root].is_held &&
            PyList_Append(at->held, at->members[root].key) < 0)
            return -1;
    }
    return 0;
}

void
hfi_save_remember(hfi_save *at, const hfi_member *one) {
    hfi_record *record = hfi_save_record_after(at, one->key);
    if (!record)
        return;
    record->is_closed = one->is_closed;
    record->bound = (uintptr_t)one->value;
    record->namespace_refs = one->namespace_refs;
}

void
hfi_save_count_declined(hfi_save *at) {
    at->names->declined_refs = 0;
    for (size_t i = 0; i < at->count; i++)
        if (at->members[i].is_declined)
            at->names->declined_refs += at->members[i].namespace_refs;
}

PyObject *
hfi_names_watch(PyObject *self, PyObject *namespace) {
    if (!PyDict_CheckExact(namespace))
        return PyErr_Format(PyExc_TypeError, "a namespace is a dict");
    hfi_names *names = (hfi_names *)(void *)self;
    Py_XSETREF(names->watched, Py_NewRef(namespace));
    names->watched_base = -1;
    Py_RETURN_NONE;
}

/* Without an argument: how many references a call holds to one depends on its form. */
PyObject *
hfi_names_strays(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hfi_names *names = (hfi_names *)(void *)self;
    if (!names->watched) {
        PyErr_SetString(PyExc_ValueError, "no namespace is watched");
        return NULL;
    }
    Py_ssize_t found = names->declined_refs, position = 0;
    PyObject *key, *value;
    while (names->pending && PyDict_Next(names->pending, &position, &key, &value))
        if (value != Py_None)
            found += ((hfi_record *)(void *)value)->namespace_refs;
    position = 0;
    while (PyDict_Next(names->records, &position, &key, &value)) {
        int replaced = names->pending ? PyDict_Contains(names->pending, key) : 0;
        if (replaced < 0)
            return NULL;
        if (!replaced)
            found += ((hfi_record *)(void *)value)->namespace_refs;
    }
    Py_ssize_t others = Py_REFCNT(names->watched) - found;
    if (names->watched_base < 0)
        names->watched_base = others;
    return PyLong_FromSsize_t(others - names->watched_base);
}
