/* store_module.c - the extension holdfast._store: the store and its codecs for Python.
 *
 * Multi-phase initialisation, heap types, everything per module in its state: a
 * subinterpreter gets its own. The file ties together the types, the errors and the
 * registry of codecs; each type's file says what it is.
 *
 * Errors: every hf_status below zero, and the answers that nobody handled, become an
 * exception derived from Error, whose `status` is the identifier in status.h. A failed
 * system call is an OSError with its errno, so that the usual handlers work.
 */
#include "store_python.h"

#include <string.h>

#include "buffer.h"
#include "finalizers.h"
#include "graph.h"
#include "module.h"
#include "pickle.h"
#include "plain.h"

static struct PyModuleDef store_definition;

hfi_state *
hfi_state_of(PyTypeObject *type) {
    PyObject *module = PyType_GetModuleByDef(type, &store_definition);
    return module ? PyModule_GetState(module) : NULL;
}

static PyObject *
class_for(hfi_state *state, hf_status status) {
    switch ((int)status) {
    case HF_NOT_FOUND:
        return state->not_found_error;
    case HF_CONFLICT:
        return state->conflict_error;
    case HF_E_NOSPACE:
        return state->no_space_error;
    case HF_E_CORRUPT:
        return state->corrupt_error;
    case HF_E_GONE:
        return state->gone_error;
    default:
        return state->error;
    }
}

void *
hfi_raise(hfi_state *state, hf_status status, const hf_error *error) {
    if (PyErr_Occurred())
        return NULL;
    const char *text =
        error && error->message[0] ? error->message : hf_status_name(status);
    PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *exception = NULL;
    if (status == HF_E_NOMEM)
        exception = words ? PyObject_CallOneArg(PyExc_MemoryError, words) : NULL;
    else if (status == HF_E_SYSTEM)
        exception = words ? PyObject_CallFunction(PyExc_OSError, "iO",
                                                  error ? error->sys_errno : 0, words)
                          : NULL;
    else if (words)
        exception = PyObject_CallOneArg(class_for(state, status), words);
    PyObject *name = exception ? PyUnicode_FromString(hf_status_name(status)) : NULL;
    if (name && PyObject_SetAttrString(exception, "status", name) < 0)
        PyErr_Clear();
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(name);
    Py_XDECREF(words);
    Py_XDECREF(exception);
    return NULL;
}

/* ---- module functions
 * ------------------------------------------------------------------ */

static int
list_session(void *context, const hf_session_info *info) {
    PyObject *item = Py_BuildValue(
        "{s:s,s:s,s:L,s:i,s:K,s:K,s:I}", "name", info->name, "label", info->label,
        "owner_pid", (long long)info->owner_pid, "owner_alive", info->owner_alive,
        "generation", (unsigned long long)info->generation, "allocated_bytes",
        (unsigned long long)info->allocated_bytes, "process_count",
        info->process_count);
    int failed = !item || PyList_Append(context, item) < 0;
    Py_XDECREF(item);
    return failed ? HF_STOP : 0;
}

static PyObject *
sessions(PyObject *module, PyObject *Py_UNUSED(ignored)) {
    PyObject *list = PyList_New(0);
    hf_error error = HF_ERROR_INIT;
    hf_status status = list ? hf_session_list(list_session, list, &error) : HF_E_NOMEM;
    if (status != HF_OK || PyErr_Occurred()) {
        Py_XDECREF(list);
        return hfi_raise(PyModule_GetState(module), status, &error);
    }
    return list;
}

static PyObject *
collect(PyObject *module, PyObject *Py_UNUSED(ignored)) {
    uint32_t count = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS status = hf_session_collect(NULL, NULL, &count, &error);
    Py_END_ALLOW_THREADS if (status != HF_OK) return hfi_raise(
        PyModule_GetState(module), status, &error);
    return PyLong_FromUnsignedLong(count);
}

/* groups(namespace) -> [[name, ...], ...]: for tests and for the curious. */
static PyObject *
groups(PyObject *Py_UNUSED(module), PyObject *namespace) {
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
disarm(PyObject *Py_UNUSED(module), PyObject *object) {
    hfi_finalizers_disarm(object);
    Py_RETURN_NONE;
}

static PyMethodDef store_methods[] = {
    {"enable_numpy_allocator", (PyCFunction)(void (*)(void))hfi_numpy_allocator_enable,
     METH_VARARGS | METH_KEYWORDS,
     "enable_numpy_allocator(session, threshold=65536)\n--\n\n"
     "Let NumPy's new arrays of `threshold` bytes or more be born in the store, on "
     "every thread, wherever no other handler is chosen."},
    {"enable_library_allocator",
     (PyCFunction)(void (*)(void))hfi_library_allocator_enable,
     METH_VARARGS | METH_KEYWORDS,
     "enable_library_allocator(session, file, threshold=65536)\n--\n\n"
     "Let the large blocks of a loaded native library, such as libc10.so, be born in "
     "the store. False where that can't be done; nothing is changed then."},
    {"disable_numpy_allocator", hfi_numpy_allocator_disable, METH_NOARGS,
     "Let new arrays and blocks of libraries be born elsewhere again; those that are "
     "in "
     "the store stay there."},
    {"enable_arrow_pool", hfi_arrow_pool_enable, METH_O,
     "enable_arrow_pool(session)\n--\n\n"
     "Let Arrow's new buffers be born in the store, where pyarrow is imported and its "
     "pool is understood; gives whether it is. disable_numpy_allocator ends it, too."},
    {"sessions", sessions, METH_NOARGS, "This user's sessions, a dict each."},
    {"collect", collect, METH_NOARGS,
     "Destroy this user's sessions that nobody uses any more; gives how many."},
    {"groups", groups, METH_O,
     "The names of a namespace that share objects or memory, as a list of lists."},
    {"is_larger", is_larger, METH_VARARGS,
     "is_larger(values, limit, skip, /)\n--\n\n"
     "Whether more than `limit` references are met on the way from a list's values; "
     "the\nnamespace `skip` is not entered."},
    {"_entries", hfi_entries, METH_VARARGS,
     "_entries(session, generation, most): the entries of a generation that another "
     "process holds and has named, a dict each; those of plain values of up to `most` "
     "bytes with their 'content', for _decode."},
    {"_save_file", hfi_save_file, METH_VARARGS,
     "_save_file(session, path): the current generation to a file; what it took, as a "
     "dict."},
    {"_load_file", hfi_load_file, METH_VARARGS,
     "_load_file(session, path): prepare a commit in which a file's names replace all; "
     "its token, and what the file says of itself."},
    {"_array_memory", hfi_memory_of_array, METH_O,
     "(owner, Memory or None, offset): an array's whole memory, and where it starts in "
     "it."},
    {"_memory_at", hfi_memory_at, METH_VARARGS,
     "_memory_at(address, size, owner): `size` bytes at `address` as a Memory, which "
     "keeps `owner`."},
    {"_json_text", hfi_json_text, METH_O,
     "_json_text(text): as a string of JSON, in UTF-8."},
    {"_pipes_written", (PyCFunction)(void (*)(void))hfi_pipes_written, METH_FASTCALL,
     "_pipes_written(tally, first, second): bytes ever written to each pipe, of which "
     "the tally has those that were read; None where all were."},
    {"_own_pages", hfi_own_pages, METH_O,
     "_own_pages(ranges): the pages there that no other process maps, as runs."},
    {"_file_pages", hfi_file_pages, METH_O,
     "_file_pages(ranges): the pages of files there that this process has met, as "
     "runs."},
    {"_copy_pages", hfi_copy_pages, METH_O,
     "_copy_pages(runs): let a fork have them in advance; how many bytes it has."},
    {"_fork", hfi_fork, METH_VARARGS,
     "_fork(session, moves, reaper, kept=None): fork; the fork's pid, or 0 in it. "
     "`moves`: pairs of descriptors, each to be moved from the first to the second in "
     "the fork, its control channel's first; `reaper`: the process that becomes its "
     "parent. With `kept`, it sleeps until it is needed, and of the other descriptors "
     "keeps only these."},
    {"_succeed", hfi_succeed, METH_O,
     "_succeed(session): in a fork, go on in the dead parent's place; GoneError where "
     "it can't."},
    {"_prepare", hfi_prepare, METH_VARARGS,
     "_prepare(session, address, touched, write): make the region at `address` ready "
     "for `touched` bytes of it to be written or read; its size, or 0 where nothing "
     "was "
     "to be done."},
    {"_reseal", hfi_reseal, METH_VARARGS,
     "_reseal(session, address): undo what _prepare did for writing, where nothing was "
     "written; whether it did."},
    {"_copied", hfi_copied, METH_VARARGS,
     "_copied(session, address): how many bytes of the region there are private "
     "copies, and its size; zeros where it isn't a committed one."},
    {"_taken", hfi_taken, METH_O,
     "_taken(session): the sizes of the new blocks that were asked for since the last "
     "call, as native 64-bit words."},
    {"_stock", hfi_stock, METH_VARARGS,
     "_stock(session, sizes): have blocks of these sizes ready; how many bytes there "
     "are."},
    {"_provide", hfi_provide, METH_VARARGS,
     "_provide(session, sizes): begin to give free space memory for blocks of these "
     "sizes, or end it where there are none."},
    {"_provide_some", hfi_provide_some, METH_VARARGS,
     "_provide_some(session, bytes): do so much of it; whether there may be more to "
     "do."},
    {"_quarantine", hfi_quarantine, METH_VARARGS,
     "_quarantine(session, cause): what this process decodes now is not to be decoded "
     "any more."},
    {"_renew_turn", hfi_renew_turn, METH_O,
     "_renew_turn(session): the time that what is encoded or decoded now may take "
     "begins anew."},
    {"_pack_elements", hfi_elements_pack, METH_O,
     "(meta, Memory, outside) of an array of objects: its elements, and a list of "
     "those "
     "that\nthe Memory only refers to; None where it isn't one block."},
    {"_fill_elements", hfi_elements_fill, METH_VARARGS,
     "_fill_elements(array, meta, payload, outside): put them into an array again."},
    {"_finalizers", find_finalizers, METH_O,
     "_finalizers(value): the objects behind it whose class has a __del__ in Python "
     "that "
     "hasn't run."},
    {"_disarm", disarm, METH_O, "_disarm(object): its __del__ won't run any more."},
    {"register_codec", hfi_codec_register, METH_O,
     "register_codec($module, capsule, /)\n--\n\n"
     "Add a codec in C: a `const hf_codec *` in a capsule named \"holdfast.codec\"; "
     "see "
     "holdfast/codec.h."},
    {"_encode", hfi_stream_encode, METH_O, "For holdfast.marshal."},
    {"_decode", hfi_stream_decode, METH_VARARGS, "For holdfast.marshal."},
    {NULL, NULL, 0, NULL}};

/* ---- initialisation
 * ------------------------------------------------------------------- */

static int
add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type)
        return -1;
    *ret_type = (PyTypeObject *)type;
    return PyModule_AddType(module, *ret_type);
}

static int
add_error(PyObject *module, const char *name, const char *doc, PyObject *base,
          PyObject **ret_error) {
    *ret_error = PyErr_NewExceptionWithDoc(name, doc, base, NULL);
    return *ret_error
               ? PyModule_AddObjectRef(module, strrchr(name, '.') + 1, *ret_error)
               : -1;
}

static int
add_errors(PyObject *module, hfi_state *state) {
    if (add_error(module, "holdfast._store.Error",
                  "What the store or a codec could not do; `status` names it.", NULL,
                  &state->error) < 0)
        return -1;
    return add_error(module, "holdfast._store.NotFoundError",
                     "No such session or name.", state->error,
                     &state->not_found_error) < 0 ||
                   add_error(module, "holdfast._store.ConflictError",
                             "Another commit came between.", state->error,
                             &state->conflict_error) < 0 ||
                   add_error(module, "holdfast._store.NoSpaceError",
                             "The arena or its file system is full.", state->error,
                             &state->no_space_error) < 0 ||
                   add_error(module, "holdfast._store.CorruptError",
                             "What was read back is not what was written.",
                             state->error, &state->corrupt_error) < 0 ||
                   add_error(module, "holdfast._store.GoneError",
                             "The session was destroyed, or its owner died.",
                             state->error, &state->gone_error) < 0
               ? -1
               : 0;
}

static int
add_codecs(hfi_state *state) {
    const hf_codec *const codecs[] = {&hfi_codec_module, &hfi_codec_buffer,
                                      &hfi_codec_plain, &hfi_codec_pickle};
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_registry_create(&state->registry, &error);
    state->plugins = PyList_New(0);
    if (!state->plugins)
        return -1;
    for (size_t i = 0; status == HF_OK && i < sizeof codecs / sizeof *codecs; i++)
        status = hf_registry_add(state->registry, codecs[i], &error);
    if (status != HF_OK)
        hfi_raise(state, status, &error);
    return status == HF_OK ? 0 : -1;
}

static int
store_exec(PyObject *module) {
    hfi_state *state = PyModule_GetState(module);
    if (add_type(module, &hfi_session_spec, &state->session_type) < 0 ||
        add_type(module, &hfi_region_spec, &state->region_type) < 0 ||
        add_type(module, &hfi_memory_spec, &state->memory_type) < 0 ||
        add_type(module, &hfi_names_spec, &state->names_type) < 0 ||
        add_errors(module, state) < 0 || add_codecs(state) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "__version__", HF_VERSION);
}

static int
store_traverse(PyObject *module, visitproc visit, void *arg) {
    hfi_state *state = PyModule_GetState(module);
    Py_VISIT(state->session_type);
    Py_VISIT(state->region_type);
    Py_VISIT(state->memory_type);
    Py_VISIT(state->names_type);
    Py_VISIT(state->error);
    Py_VISIT(state->not_found_error);
    Py_VISIT(state->conflict_error);
    Py_VISIT(state->no_space_error);
    Py_VISIT(state->corrupt_error);
    Py_VISIT(state->gone_error);
    Py_VISIT(state->plugins);
    return 0;
}

static int
store_clear(PyObject *module) {
    hfi_state *state = PyModule_GetState(module);
    Py_CLEAR(state->session_type);
    Py_CLEAR(state->region_type);
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->names_type);
    Py_CLEAR(state->error);
    Py_CLEAR(state->not_found_error);
    Py_CLEAR(state->conflict_error);
    Py_CLEAR(state->no_space_error);
    Py_CLEAR(state->corrupt_error);
    Py_CLEAR(state->gone_error);
    return 0;
}

static void
store_free(void *module) {
    hfi_state *state = PyModule_GetState(module);
    store_clear(module);
    hf_registry_close(state->registry);
    state->registry = NULL;
    Py_CLEAR(state->plugins); /* not before: the registry points into them */
}

static PyModuleDef_Slot store_slots[] = {HFI_SLOT(Py_mod_exec, store_exec), {0, NULL}};

static struct PyModuleDef store_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "holdfast._store",
    .m_doc = "Named values in shared memory; see holdfast.store.",
    .m_size = sizeof(hfi_state),
    .m_methods = store_methods,
    .m_slots = store_slots,
    .m_traverse = store_traverse,
    .m_clear = store_clear,
    .m_free = store_free};

PyMODINIT_FUNC PyInit__store(void);

PyMODINIT_FUNC
PyInit__store(void) {
    return PyModuleDef_Init(&store_definition);
}
