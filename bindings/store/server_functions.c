/* server_functions.c - the fork server of worker/fork_server.h for Python: an object whose
 * methods are what the language does.
 *
 * The interpreter is attached only while a method runs, and around a fork, which is made
 * as os.fork() makes it. In the fork it stays attached. An exception ends the fork server.
 */
#include "module_functions.h"
#include "module_state.h"

#include "fork_server.h"

#include <unistd.h>

typedef struct python_server {
    PyObject *object;
    PyThreadState *thread; /* while it is detached */
    PyObject *names;       /* a list that the loop has: its texts are the parts */
    hfi_part *parts;
} python_server;

static void
attach_server(void *context) {
    PyEval_RestoreThread(((python_server *)context)->thread);
}

static void
detach_server(void *context) {
    ((python_server *)context)->thread = PyEval_SaveThread();
}

/* ---- around a fork --------------------------------------------------------------- */

static void
prepare_interpreter(void *context) {
    attach_server(context);
    PyOS_BeforeFork();
}

static void
resume_interpreter(void *context, pid_t pid) {
    if (pid == 0) {
        PyOS_AfterFork_Child();
        return;
    }
    PyOS_AfterFork_Parent();
    detach_server(context);
}

/* ---- calls of methods ------------------------------------------------------------ */

/* The list's texts, which live as long as it. */
static hf_status
keep_names(python_server *server, PyObject *list_consume, hfi_parts *ret_names) {
    Py_XSETREF(server->names, list_consume);
    if (!PyList_Check(list_consume)) {
        PyErr_SetString(PyExc_TypeError, "names are a list");
        return HF_E_INVALID;
    }
    size_t count = (size_t)PyList_GET_SIZE(list_consume);
    hfi_part *parts =
        PyMem_RawRealloc(server->parts, (count + 1) * sizeof *server->parts);
    if (parts == NULL)
        return HF_E_NOMEM;
    server->parts = parts;
    for (size_t i = 0; i < count; i++) {
        Py_ssize_t size;
        parts[i].data = PyUnicode_AsUTF8AndSize(
            PyList_GET_ITEM(list_consume, (Py_ssize_t)i), &size);
        if (parts[i].data == NULL)
            return HF_E_INVALID;
        parts[i].size = (size_t)size;
    }
    *ret_names = (hfi_parts){parts, count};
    return HF_OK;
}

/* Call a method, with a text if `argument` isn't NULL. It returns the names, or whether
 * something is left to do. */
static hf_status
call_method(void *context, const char *method, const hfi_part *argument,
            hfi_parts *ret_names) {
    python_server *server = context;
    attach_server(server);
    PyObject *text = argument != NULL ? PyUnicode_DecodeUTF8(argument->data,
                                                             (Py_ssize_t)argument->size,
                                                             "surrogateescape")
                                      : NULL;
    PyObject *result = argument == NULL || text != NULL
                           ? PyObject_CallMethod(server->object, method,
                                                 text != NULL ? "O" : NULL, text)
                           : NULL;
    hf_status status = result == NULL      ? HF_E_INVALID
                       : ret_names != NULL ? keep_names(server, result, ret_names)
                       : result == Py_True ? HF_AGAIN
                                           : HF_OK;
    if (ret_names == NULL)
        Py_XDECREF(result);
    Py_XDECREF(text);
    detach_server(server);
    return status;
}

static hf_status
prepare_server(void *context, hfi_parts *ret_modules, hf_error *reterr) {
    (void)reterr;
    return call_method(context, "prepare", NULL, ret_modules);
}

static hf_status
want_modules(void *context, hfi_parts names, hf_error *reterr) {
    hf_status status = HF_OK;
    (void)reterr;
    for (size_t i = 0; status == HF_OK && i < names.count; i++)
        status = call_method(context, "want_module", &names.items[i], NULL);
    return status;
}

static hf_status
import_next(void *context, hf_error *reterr) {
    (void)reterr;
    return call_method(context, "idle", NULL, NULL);
}

static hf_status
finish_imports(void *context, hfi_parts *ret_modules, hf_error *reterr) {
    (void)reterr;
    return call_method(context, "finish_imports", NULL, ret_modules);
}

static hf_status
before_fork(void *context, hfi_part role, hf_error *reterr) {
    (void)reterr;
    return call_method(context, "before_fork", &role, NULL);
}

/* The interpreter is attached, and the method doesn't return. */
static void
in_fork(void *context, hfi_part role, bool is_bare, int control, int session) {
    PyObject_CallMethod(((python_server *)context)->object, "in_fork", "s#Oii",
                        role.data, (Py_ssize_t)role.size, is_bare ? Py_True : Py_False,
                        control, session);
    _exit(1);
}

/* ---- the function ---------------------------------------------------------------- */

static PyObject *
serve_forks(PyObject *module, PyObject *args) {
    int control, session;
    python_server server = {0};
    const hfi_fork_server_language language = {
        .context = &server,
        .around_fork = {&server, prepare_interpreter, resume_interpreter},
        .prepare = prepare_server,
        .want_modules = want_modules,
        .idle = import_next,
        .finish_imports = finish_imports,
        .before_fork = before_fork,
        .in_fork = in_fork};
    hf_error error = HF_ERROR_INIT;
    if (!PyArg_ParseTuple(args, "Oii:_serve_forks", &server.object, &control, &session))
        return NULL;
    detach_server(&server);
    hf_status status = hfi_fork_server_serve(&language, control, session, &error);
    attach_server(&server);
    Py_XDECREF(server.names);
    PyMem_RawFree(server.parts);
    if (status != HF_OK)
        return hfi_raise(PyModule_GetState(module), status, &error);
    Py_RETURN_NONE;
}

PyMethodDef hfi_server_functions[] = {
    {"_serve_forks", serve_forks, METH_VARARGS,
     "_serve_forks(server, control, session): fork workers until the frontend's end. "
     "`server` has the methods of worker/fork_server.h. prepare and finish_imports "
     "return names of modules; idle and before_fork whether something is left to do. "
     "Takes the descriptor `control`."},
    {NULL, NULL, 0, NULL}};
