/* names_code.c - the code behind a name.
 *
 * The next save can skip a name that no code reached (names_scan.c). For that it must
 * know which code can run. So a save reports the functions and classes behind each
 * value that it looked at. It also reports those that other code holds, a library or a
 * thread, which may call them at any time. A bind reports the code behind the values
 * that it bound.
 */
#include "names_code.h"

PyObject *
hfi_code_class_key(PyObject *cls) {
    PyObject *carry = PyImport_ImportModule("holdfast.carry.pickling");
    PyObject *key = carry ? PyObject_CallMethod(carry, "class_key", "O", cls) : NULL;
    Py_XDECREF(carry);
    return key;
}

int
hfi_code_list(hfi_graph *graph, PyObject *keys, PyObject *code, PyObject *held) {
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

int
hfi_code_list_numbers(const hfi_graph *graph, PyObject *keys, PyObject *numbers) {
    int failed = 0;
    for (size_t i = 0; i < graph->number_count && !failed; i++) {
        const hfi_graph_number *one = &graph->numbers[i];
        PyObject *key = PyList_GET_ITEM(keys, one->root);
        PyObject *value = PyLong_FromUnsignedLongLong(one->value);
        PyObject *empty = value ? PyList_New(0) : NULL;
        PyObject *list = empty ? PyDict_SetDefault(numbers, key, empty) : NULL;
        failed = !list || PyList_Append(list, value) < 0;
        Py_XDECREF(empty);
        Py_XDECREF(value);
    }
    return failed ? -1 : 0;
}

/* The keys of all roots: of the names, and of the classes that the walk found. */
static PyObject *
root_keys(const hfi_graph *graph, PyObject *keys) {
    PyObject *all = PyList_GetSlice(keys, 0, (Py_ssize_t)graph->names);
    for (size_t i = graph->names; all && i < graph->count; i++) {
        PyObject *cls = Py_NewRef(graph->roots[i].object);
        PyObject *key = hfi_code_class_key(cls);
        if (!key || PyList_Append(all, key) < 0)
            Py_CLEAR(all);
        Py_XDECREF(key);
        Py_DECREF(cls);
    }
    return all;
}

static int
walk_values(PyObject *keys, PyObject *values, PyObject *classes, PyObject *namespace,
            PyObject *code) {
    hfi_graph graph;
    hfi_graph_input input = {.objects = PySequence_Fast_ITEMS(values),
                             .count = (size_t)PyList_GET_SIZE(values),
                             .classes = PySequence_Fast_ITEMS(classes),
                             .class_count = (size_t)PyTuple_GET_SIZE(classes),
                             .skip = namespace};
    if (hfi_graph_init(&graph, &input) < 0)
        return -1;
    PyObject *all = graph.code_count ? root_keys(&graph, keys) : NULL;
    int failed =
        graph.code_count && (!all || hfi_code_list(&graph, all, code, NULL) < 0);
    Py_XDECREF(all);
    hfi_graph_fini(&graph);
    return failed ? -1 : 0;
}

PyObject *
hfi_code_behind(PyObject *keys, PyObject *values, PyObject *classes,
                PyObject *namespace) {
    PyObject *code = PyDict_New();
    if (!code || (!PyList_GET_SIZE(values) && !PyList_GET_SIZE(classes)))
        return code;
    PyObject *known = PyList_AsTuple(classes); /* the walk may decode more of them */
    int failed = !known || walk_values(keys, values, known, namespace, code) < 0;
    Py_XDECREF(known);
    if (failed)
        Py_CLEAR(code);
    return code;
}
