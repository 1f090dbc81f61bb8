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
#include "names_bind.h"
#include "names_save.h"

/* Into `code`: each key's list, one for all that share objects, since a function that
 * two names lead to was met from one of them only. Into `held` (or NULL): the keys with
 * code of groups that somebody else holds a part of. */
static int
tell_code(hfi_graph *graph, PyObject *keys, PyObject *code, PyObject *held) {
    PyObject **lists = PyMem_Calloc(graph->count + 1, sizeof *lists);
    char *is_held = PyMem_Calloc(graph->count + 1, 1);
    int failed = !lists || !is_held;
    for (size_t i = 0; i < graph->code_count && !failed; i++) {
        uint32_t group = hfi_graph_group(graph, graph->codes[i].root);
        if (!lists[group])
            lists[group] = PyList_New(0);
        failed =
            !lists[group] || PyList_Append(lists[group], graph->codes[i].object) < 0;
    }
    for (uint32_t i = 0; i < graph->count && !failed; i++)
        is_held[hfi_graph_group(graph, i)] |= (char)graph->roots[i].is_held;
    for (uint32_t i = 0; i < graph->count && !failed; i++) {
        uint32_t group = hfi_graph_group(graph, i);
        PyObject *key = PyList_GET_ITEM(keys, i);
        if (lists[group])
            failed = PyDict_SetItem(code, key, lists[group]) < 0 ||
                     (held && is_held[group] && PyList_Append(held, key) < 0);
    }
    for (size_t i = 0; lists && i < graph->count; i++)
        Py_XDECREF(lists[i]);
    PyMem_Free(lists);
    PyMem_Free(is_held);
    if (failed && !PyErr_Occurred())
        PyErr_NoMemory();
    return failed ? -1 : 0;
}

/* The key of a root: of a name, or of a class that the walk found. New reference. */
static PyObject *
root_key(const hfi_graph *graph, uint32_t root, PyObject *keys) {
    if (root < graph->names)
        return Py_NewRef(PyList_GET_ITEM(keys, root));
    PyObject *carry = PyImport_ImportModule("holdfast._carry");
    PyObject *key =
        carry ? PyObject_CallMethod(carry, "class_key", "O", graph->roots[root].object)
              : NULL;
    Py_XDECREF(carry);
    return key;
}

static int
walk_bound(hfi_binding *at, PyObject *code, PyObject *values) {
    hfi_graph graph;
    hfi_graph_input input = {.objects = PySequence_Fast_ITEMS(values),
                             .count = (size_t)PyList_GET_SIZE(values),
                             .classes = PySequence_Fast_ITEMS(at->classes),
                             .class_count = (size_t)PyList_GET_SIZE(at->classes),
                             .skip = at->namespace};
    if (hfi_graph_init(&graph, &input) < 0)
        return -1;
    PyObject *keys = graph.code_count ? PyList_New(0) : NULL;
    int failed = graph.code_count && !keys;
    for (uint32_t i = 0; keys && i < graph.count && !failed; i++) {
        PyObject *key = root_key(&graph, i, at->open);
        failed = !key || PyList_Append(keys, key) < 0;
        Py_XDECREF(key);
    }
    if (keys && !failed)
        failed = tell_code(&graph, keys, code, NULL) < 0;
    Py_XDECREF(keys);
    hfi_graph_fini(&graph);
    return failed ? -1 : 0;
}

/* Into `at->numbers`: each key's list, as tell_code(). */
static int
tell_numbers(hfi_save *at, const hfi_graph *graph) {
    int failed = 0;
    for (size_t i = 0; i < graph->number_count && !failed; i++) {
        const hfi_graph_number *one = &graph->numbers[i];
        PyObject *key = at->members[at->walked[one->root]].key;
        PyObject *value = PyLong_FromUnsignedLongLong(one->value);
        PyObject *empty = value ? PyList_New(0) : NULL;
        PyObject *list = empty ? PyDict_SetDefault(at->numbers, key, empty) : NULL;
        failed = !list || PyList_Append(list, value) < 0;
        Py_XDECREF(empty);
        Py_XDECREF(value);
    }
    return failed ? -1 : 0;
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
    for (size_t i = 0; i < at->count; i++) {
        hfi_member *one = &at->members[i];
        int has_root = one->root != HFI_NO_ROOT;
        one->is_closed =
            !one->is_class && !(has_root && open[hfi_graph_group(graph, one->root)]);
        if (has_root)
            one->namespace_refs = graph->roots[one->root].namespace_refs;
    }
    PyMem_Free(open);
    PyObject *keys = graph->code_count ? PyList_New(0) : NULL;
    int failed = graph->code_count && !keys;
    for (size_t i = 0; keys && i < graph->count && !failed; i++)
        failed = PyList_Append(keys, at->members[at->walked[i]].key) < 0;
    if (keys && !failed)
        failed = tell_code(graph, keys, at->code, at->held) < 0;
    Py_XDECREF(keys);
    return failed || tell_numbers(at, graph) < 0 ? -1 : 0;
}

PyObject *
hfi_binding_code(hfi_binding *at) {
    PyObject *code = PyDict_New(), *values = PyList_New(0);
    int failed = !code || !values;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(at->open); i++) {
        hfi_record *record = hfi_binding_record(at, PyList_GET_ITEM(at->open, i));
        PyObject *value = record && record->bound ? record->bound : Py_None;
        failed = PyList_Append(values, value) < 0;
    }
    if (!failed && (PyList_GET_SIZE(values) || PyList_GET_SIZE(at->classes)))
        failed = walk_bound(at, code, values) < 0;
    Py_XDECREF(values);
    if (failed)
        Py_CLEAR(code);
    return code;
}

int
hfi_save_remember(hfi_record *record, const hfi_member *one) {
    record->is_closed = (uint8_t)one->is_closed;
    hfi_record_bind(record, one->value, !one->group && hfi_graph_is_atom(one->value));
    return hfi_record_set_namespace_refs(record, one->namespace_refs);
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
    Py_ssize_t found = names->declined_refs;
    hfi_record *record;
    for (size_t position = 0; (record = hfi_records_next(&names->pending, &position));)
        found += record->rest ? record->rest->namespace_refs : 0;
    for (size_t position = 0; (record = hfi_records_next(&names->records, &position));)
        if (record->rest && !hfi_records_find(&names->pending, record->key))
            found += record->rest->namespace_refs;
    Py_ssize_t others = Py_REFCNT(names->watched) - found;
    if (names->watched_base < 0)
        names->watched_base = others;
    return PyLong_FromSsize_t(others - names->watched_base);
}
