/* server_functions.c - the fork server of worker/fork_server.h for Python: an object whose
 * methods are what the language does.
 *
 * The interpreter is attached only while a method runs, and around a fork, which is made
 * as os.fork() makes it. In the fork it stays attached. An exception ends the fork server.
 */
#include "control_frames.h"
#include "module_functions.h"

#include "fork_server.h"

#include <unistd.h>

typedef struct python_server {
    PyObject *object;
    PyThreadState *thread; /* while it is detached */
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

/* Call a method, with a text if there is one. It returns True if something is left to
 * do. */
static hf_status
call_method(void *context, const char *method, const hfi_part *text) {
    python_server *server = context;
    attach_server(server);
    PyObject *result =
        text == NULL ? PyObject_CallMethod(server->object, method, NULL)
                     : PyObject_CallMethod(server->object, method, "N",
                                           PyUnicode_DecodeUTF8(text->data,
                                                                (Py_ssize_t)text->size,
                                                                "surrogateescape"));
    hf_status status = result == NULL      ? HF_E_INVALID
                       : result == Py_True ? HF_AGAIN
                                           : HF_OK;
    Py_XDECREF(result);
    detach_server(server);
    return status;
}

static hf_status
want_modules(void *context, hfi_parts names, hf_error *reterr) {
    hf_status status = HF_OK;
    (void)reterr;
    for (size_t i = 0; status == HF_OK && i < names.count; i++)
        status = call_method(context, "want_module", &names.items[i]);
    return status;
}

static hf_status
import_next(void *context, hf_error *reterr) {
    (void)reterr;
    return call_method(context, "idle", NULL);
}

static hf_status
finish_imports(void *context, hf_error *reterr) {
    (void)reterr;
    return call_method(context, "finish_imports", NULL);
}

static hf_status
before_fork(void *context, hfi_part role, hf_error *reterr) {
    (void)reterr;
    return call_method(context, "before_fork", &role);
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
    PyObject *channel;
    int session;
    python_server server = {0};
    hfi_state *state = PyModule_GetState(module);
    const hfi_fork_server_language language = {
        .context = &server,
        .around_fork = {&server, prepare_interpreter, resume_interpreter},
        .want_modules = want_modules,
        .idle = import_next,
        .finish_imports = finish_imports,
        .before_fork = before_fork,
        .in_fork = in_fork};
    hf_error error = HF_ERROR_INIT;
    if (!PyArg_ParseTuple(args, "OO!i:_serve_forks", &server.object,
                          state->channel_type, &channel, &session))
        return NULL;
    detach_server(&server);
    hf_status status =
        hfi_fork_server_serve(&language, hfi_python_channel(channel), session, &error);
    attach_server(&server);
    if (status != HF_OK)
        return hfi_raise(state, status, &error);
    Py_RETURN_NONE;
}

PyMethodDef hfi_server_functions[] = {
    {"_serve_forks", serve_forks, METH_VARARGS,
     "_serve_forks(server, channel, session): fork workers until the frontend's end. "
     "`server` has the methods of worker/fork_server.h; idle and before_fork return "
     "whether something is left to do."},
    {NULL, NULL, 0, NULL}};
