/* names_code.c - what the walk of a save tells besides groups: which values are closed,
 * which code is behind a name, and whether the notebook's code is held elsewhere.
 *
 * A name that no code reached can be passed over by the next save (names_collect.c), if
 * it is known which code can run. So a save reports the functions and classes behind
 * each value that it looked at; those of them that somebody else holds, a library or a
 * thread, who may call them at any time; and the strays: functions of the notebook that
 * no name leads to. Those are found by counting. Every function holds one reference to
 * its globals, so what the namespace's reference count exceeds its count before any
 * user code ran, less the references of all functions that were found, belongs to
 * functions that were not.
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

int
hfi_save_find_strays(hfi_save *at) {
    if (at->names->namespace_base < 0)
        return 0;
    Py_ssize_t found = 0, position = 0;
    PyObject *key, *value;
    while (PyDict_Next(at->names->pending, &position, &key, &value))
        if (value != Py_None)
            found += ((hfi_record *)(void *)value)->namespace_refs;
    position = 0;
    while (PyDict_Next(at->names->records, &position, &key, &value)) {
        int replaced = PyDict_Contains(at->names->pending, key);
        if (replaced < 0)
            return -1;
        if (!replaced)
            found += ((hfi_record *)(void *)value)->namespace_refs;
    }
    for (size_t i = 0; i < at->count; i++)
        if (at->members[i].is_declined)
            found += at->members[i].namespace_refs;
    at->strays = at->namespace_refs - at->names->namespace_base - found;
    return 0;
}

PyObject *
hfi_names_watch(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"namespace", NULL};
    PyObject *namespace;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:watch", words, &PyDict_Type,
                                     &namespace))
        return NULL;
    /* The same references are held as in hfi_names_save. */
    PyObject *own = PySet_New(NULL);
    PyObject *before = own ? hfi_carry_enter(self, namespace, own) : NULL;
    if (before) {
        ((hfi_names *)(void *)self)->namespace_base = Py_REFCNT(namespace);
        hfi_carry_leave(before);
    }
    Py_XDECREF(own);
    return before ? Py_NewRef(Py_None) : NULL;
}
