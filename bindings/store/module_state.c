/* module_state.c - the module's state: its life, and the errors that it raises.
 *
 * Every negative hf_status, and every answer that wasn't handled, becomes an exception
 * derived from Error. Its `status` is the identifier in status.h. A failed system call
 * is an OSError with its errno, and missing memory a MemoryError, so that the usual
 * handlers work.
 */
#include "module_state.h"

#include <string.h>

hfi_state *
hfi_state_of(PyTypeObject *type) {
    PyObject *module = PyType_GetModuleByDef(type, &hfi_store_definition);
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
    case HF_E_ACCESS:
        return state->access_error;
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

/* ---- the classes of errors ------------------------------------------------------ */

static int
add_error(PyObject *module, const char *name, const char *doc, PyObject *base,
          PyObject **ret_error) {
    *ret_error = PyErr_NewExceptionWithDoc(name, doc, base, NULL);
    return *ret_error
               ? PyModule_AddObjectRef(module, strrchr(name, '.') + 1, *ret_error)
               : -1;
}

int
hfi_state_add_errors(PyObject *module, hfi_state *state) {
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
                   add_error(module, "holdfast._store.AccessError",
                             "It is another user's, or its owner's alone.",
                             state->error, &state->access_error) < 0 ||
                   add_error(module, "holdfast._store.GoneError",
                             "The session was destroyed, or its owner died.",
                             state->error, &state->gone_error) < 0 ||
                   add_error(module, "holdfast._store.ChannelClosed",
                             "The frontend closed its end, or this process is a forked "
                             "child of a worker.",
                             NULL, &state->channel_closed) < 0
               ? -1
               : 0;
}

/* ---- the module's life ---------------------------------------------------------- */

static int
state_traverse(PyObject *module, visitproc visit, void *arg) {
    hfi_state *state = PyModule_GetState(module);
    Py_VISIT(state->session_type);
    Py_VISIT(state->region_type);
    Py_VISIT(state->memory_type);
    Py_VISIT(state->array_type);
    Py_VISIT(state->table_type);
    Py_VISIT(state->names_type);
    Py_VISIT(state->channel_type);
    Py_VISIT(state->error);
    Py_VISIT(state->not_found_error);
    Py_VISIT(state->conflict_error);
    Py_VISIT(state->no_space_error);
    Py_VISIT(state->corrupt_error);
    Py_VISIT(state->gone_error);
    Py_VISIT(state->access_error);
    Py_VISIT(state->channel_closed);
    Py_VISIT(state->plugins);
    return 0;
}

static int
state_clear(PyObject *module) {
    hfi_state *state = PyModule_GetState(module);
    Py_CLEAR(state->session_type);
    Py_CLEAR(state->region_type);
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->array_type);
    Py_CLEAR(state->table_type);
    Py_CLEAR(state->names_type);
    Py_CLEAR(state->channel_type);
    Py_CLEAR(state->error);
    Py_CLEAR(state->not_found_error);
    Py_CLEAR(state->conflict_error);
    Py_CLEAR(state->no_space_error);
    Py_CLEAR(state->corrupt_error);
    Py_CLEAR(state->gone_error);
    Py_CLEAR(state->access_error);
    Py_CLEAR(state->channel_closed);
    return 0;
}

static void
state_free(void *module) {
    hfi_state *state = PyModule_GetState(module);
    state_clear(module);
    hfi_registry_close(state->registry);
    state->registry = NULL;
    Py_CLEAR(state->plugins); /* only now: the registry points into them */
}

struct PyModuleDef hfi_store_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "holdfast._store",
    .m_doc = "Named values in shared memory; see holdfast.store.",
    .m_size = sizeof(hfi_state),
    .m_traverse = state_traverse,
    .m_clear = state_clear,
    .m_free = state_free};
