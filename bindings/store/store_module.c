/* store_module.c - the extension holdfast._store: the store and its codecs for Python.
 *
 * Multi-phase initialisation, heap types, and all state in the module, so a
 * subinterpreter has its own. This file is on top. It joins the types, the errors, the
 * registry of codecs and the tables of functions (module_functions.h), each of which
 * has its own file. Its own functions show the walk over objects.
 */
#include <string.h>

#include "python_codecs.h"
#include "finalizers.h"
#include "addresses.h"
#include "graph.h"
#include "array_view.h"
#include "attachment.h"
#include "control_frames.h"
#include "module_functions.h"
#include "names_type.h"
#include "plain.h"
#include "table_view.h"
#include "tuning/tuning.h"

/* ---- the walk over objects ------------------------------------------------------ */

/* groups(namespace) -> [[name, ...], ...]: for tests and for the curious. */
static PyObject *
list_name_groups(PyObject *Py_UNUSED(module), PyObject *namespace) {
    if (!PyDict_CheckExact(namespace)) {
        PyErr_SetString(PyExc_TypeError, "a namespace is a dict");
        return NULL;
    }
    hfi_graph graph;
    PyObject *keys = PyDict_Keys(namespace), *values = PyDict_Values(namespace);
    PyObject *result = NULL;
    hfi_graph_input input = {.skip = namespace, .caller_refs = 1};
    if (values) {
        input.objects = PySequence_Fast_ITEMS(values);
        input.count = (size_t)PyList_GET_SIZE(values);
    }
    if (keys && values && hfi_graph_init(&graph, &input) == 0) {
        result = PyList_New(0);
        for (uint32_t i = 0; result && i < graph.names; i++) {
            PyObject *group = NULL;
            if (hfi_graph_group(&graph, i) != i)
                continue;
            group = PyList_New(0);
            for (uint32_t k = i; group && k < graph.names; k++)
                if (hfi_graph_group(&graph, k) == i &&
                    PyList_Append(group, PyList_GET_ITEM(keys, k)) < 0)
                    Py_CLEAR(group);
            if (!group || PyList_Append(result, group) < 0)
                Py_CLEAR(result);
            Py_XDECREF(group);
        }
        hfi_graph_fini(&graph);
    }
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return result;
}

/* is_larger(values, limit, skip) -> bool */
static PyObject *
is_larger(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *values, *skip;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(arguments, "O!nO:is_larger", &PyList_Type, &values, &limit,
                          &skip))
        return NULL;
    hfi_graph_input input = {.objects = PySequence_Fast_ITEMS(values),
                             .count = (size_t)PyList_GET_SIZE(values),
                             .skip = skip,
                             .caller_refs = 1};
    int larger = hfi_graph_is_larger(&input, limit > 0 ? (size_t)limit : 0);
    return larger < 0 ? NULL : PyBool_FromLong(larger);
}

static PyObject *
find_finalizers(PyObject *Py_UNUSED(module), PyObject *value) {
    return hfi_finalizers_find(value);
}

static PyObject *
disarm_finalizers(PyObject *Py_UNUSED(module), PyObject *object) {
    hfi_finalizers_disarm(object);
    Py_RETURN_NONE;
}

static PyObject *
weak_callback(PyObject *Py_UNUSED(module), PyObject *object) {
    PyObject *callback =
        PyWeakref_Check(object) ? ((PyWeakReference *)object)->wr_callback : NULL;
    return Py_NewRef(callback ? callback : Py_None);
}

PyDoc_STRVAR(groups_doc, "groups($module, namespace, /)\n"
                         "--\n\n"
                         "Find the names that share objects or memory.\n\n"
                         "Parameters\n"
                         "----------\n"
                         "namespace : dict\n"
                         "    Values by name.\n\n"
                         "Returns\n"
                         "-------\n"
                         "list of list of str\n"
                         "    The groups of names.");

PyDoc_STRVAR(is_larger_doc,
             "is_larger(values, limit, skip, /)\n"
             "--\n\n"
             "Return whether many references lead on from some values.\n\n"
             "Parameters\n"
             "----------\n"
             "values : list\n"
             "    The values.\n"
             "limit : int\n"
             "    How many references are few.\n"
             "skip : dict\n"
             "    A namespace that is not entered.\n\n"
             "Returns\n"
             "-------\n"
             "bool\n"
             "    Whether there are more.");

/* False for a number that needs more than 64 bits. */
static PyObject *
may_be_address(PyObject *module, PyObject *number) {
    (void)module;
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (value == -1 && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(!overflow && hfi_may_be_address(value));
}

static PyMethodDef walk_functions[] = {
    {"groups", list_name_groups, METH_O, groups_doc},
    {"is_larger", is_larger, METH_VARARGS, is_larger_doc},
    {"_finalizers", find_finalizers, METH_O,
     "_finalizers(value): the objects behind it whose class has a __del__ in Python "
     "that hasn't run, and the weak references with a callback."},
    {"_may_be_address", may_be_address, METH_O,
     "_may_be_address(number): whether it lies where programs, heaps and mappings do."},
    {"_weak_callback", weak_callback, METH_O,
     "_weak_callback(reference): what a weak reference or proxy calls, or None."},
    {"_disarm", disarm_finalizers, METH_O,
     "_disarm(object): its __del__ or its callback won't run any more."},
    {NULL, NULL, 0, NULL}};

/* ---- initialisation ------------------------------------------------------------- */

static PyMethodDef *const functions[] = {
    walk_functions,
    hfi_arrow_pool_functions,
    hfi_codec_functions,
    hfi_control_frames_functions,
    hfi_fork_functions,
    hfi_json_text_functions,
    hfi_library_allocator_functions,
    hfi_listing_functions,
    hfi_memory_functions,
    hfi_modules_functions,
    hfi_numpy_allocator_functions,
    hfi_object_array_functions,
    hfi_moment_functions,
    hfi_own_pages_functions,
    hfi_preparation_functions,
    hfi_save_file_functions,
    hfi_server_functions,
    hfi_session_functions,
    hfi_stream_functions,
};

static int
add_functions(PyObject *module) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (PyModule_AddFunctions(module, functions[i]) < 0)
            return -1;
    return 0;
}

static int
add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type)
        return -1;
    *ret_type = (PyTypeObject *)type;
    return PyModule_AddType(module, *ret_type);
}

static int
add_codecs(hfi_state *state) {
    const hf_codec *const codecs[] = {&hfi_codec_module, &hfi_codec_buffer,
                                      &hfi_codec_plain,  &hfi_codec_pickle,
                                      &hfi_codec_raw,    &hfi_codec_msgpack};
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_registry_create(&state->registry, &error);
    state->plugins = PyList_New(0);
    if (!state->plugins)
        return -1;
    for (size_t i = 0; status == HF_OK && i < sizeof codecs / sizeof *codecs; i++)
        status = hfi_registry_add(state->registry, codecs[i], &error);
    if (status != HF_OK)
        hfi_raise(state, status, &error);
    return status == HF_OK ? 0 : -1;
}

static int
store_exec(PyObject *module) {
    hfi_state *state = PyModule_GetState(module);
    hfi_addresses_init();
    if (add_type(module, &hfi_session_spec, &state->session_type) < 0 ||
        add_type(module, &hfi_region_spec, &state->region_type) < 0 ||
        add_type(module, &hfi_memory_spec, &state->memory_type) < 0 ||
        add_type(module, &hfi_array_object_spec, &state->array_type) < 0 ||
        add_type(module, &hfi_table_object_spec, &state->table_type) < 0 ||
        add_type(module, &hfi_names_spec, &state->names_type) < 0 ||
        add_type(module, &hfi_channel_spec, &state->channel_type) < 0 ||
        hfi_state_add_errors(module, state) < 0 || add_codecs(state) < 0 ||
        add_functions(module) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "_LARGE_BYTES", (long)HFI_LARGE) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "__version__", HF_VERSION);
}

static PyModuleDef_Slot store_slots[] = {HFI_SLOT(Py_mod_exec, store_exec), {0, NULL}};

PyMODINIT_FUNC PyInit__store(void);

PyMODINIT_FUNC
PyInit__store(void) {
    hfi_store_definition.m_slots = store_slots;
    return PyModuleDef_Init(&hfi_store_definition);
}
