/* fork_functions.c - forks of a Python process (worker/fork.h): the interpreter's calls around them.
 *
 * They are made as os.fork() makes them: PyOS_BeforeFork, the fork,
 * PyOS_AfterFork_Parent and PyOS_AfterFork_Child. These run the hooks of
 * os.register_at_fork, which may be any code: `random` is reseeded, a lock is taken and
 * released again.
 *
 * In a quiet fork (`hooks` is given) no hook runs in the process that forks. All of
 * them run in the fork when it goes on, as if it had made the fork itself: `before`
 * first, then `after_in_child`. _fork_child(hooks) makes an ordinary child as quietly.
 * There are three steps:
 *
 *   in the parent   The caller holds the import lock from before the fork until after it,
 *                   as PyOS_BeforeFork would, so no module is half entered.
 *   in the fork     PyOS_AfterFork_Child while the interpreter's list of hooks is empty.
 *                   Until then the fork calls nothing of the interpreter, whose locks
 *                   other threads may have held.
 *   in the fork     _run_fork_hooks(): PyOS_BeforeFork and PyOS_AfterFork_Child, with
 *                   the hooks.
 *
 * Hooks can't run in the fork without the second step. If another thread has asked for
 * the interpreter's lock, the first hook in Python releases it for that thread, which
 * doesn't exist in the fork, and waits for ever. (And without the first step Python
 * 3.13 aborts.)
 *
 * Locks that the fork inherits:
 *
 *   the import lock          The forking thread has it. PyOS_AfterFork_Child releases it;
 *                            below Python 3.13 it makes it anew.
 *   the interpreter's own    (the GIL, the lists of threads and interpreters, pending
 *                            calls) PyOS_AfterFork_Child makes them anew.
 *   a module's lock          If another thread imports the module at the fork, nobody
 *                            ever releases it in the fork, as after os.fork().
 *   malloc's, and others     fork() itself and handlers of pthread_atfork.
 *   the user's, in Python    Hooks; see holdfast/base/fork_hooks.py for those that wait.
 */
#include "module_functions.h"
#include "attachment.h"

#include "fork.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- the interpreter's calls; `hooks`: its list of those that run in a fork, or NULL ---- */

static void
prepare_interpreter(void *hooks) {
    if (!hooks)
        PyOS_BeforeFork();
}

static void
resume_interpreter(void *hooks, pid_t pid) {
    if (pid != 0) {
        if (!hooks)
            PyOS_AfterFork_Parent();
        return;
    }
    if (hooks)
        PyList_SetSlice(hooks, 0, PY_SSIZE_T_MAX, NULL); /* allocates nothing */
    PyOS_AfterFork_Child();
}

/* ---- the functions ---- */

static int
read_purpose(const char *name, hfi_fork_purpose *ret_purpose) {
    int sleeps = strcmp(name, "sleeper") == 0;
    *ret_purpose = sleeps ? HFI_FORK_SLEEPER : HFI_FORK_CELL;
    if (sleeps || strcmp(name, "cell") == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "a fork is a cell or a sleeper, not \"%s\"", name);
    return -1;
}

static int
read_descriptors(PyObject *moves, PyObject *kept, hfi_descriptor_move *ret_moves,
                 int *ret_kept) {
    if (PyTuple_GET_SIZE(moves) > HFI_DESCRIPTORS_MAX ||
        PyTuple_GET_SIZE(kept) > HFI_DESCRIPTORS_MAX) {
        PyErr_SetString(PyExc_ValueError, "so many descriptors can't be moved or kept");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(moves); i++)
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(moves, i), "ii", &ret_moves[i].from,
                              &ret_moves[i].to))
            return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kept); i++) {
        ret_kept[i] = PyObject_AsFileDescriptor(PyTuple_GET_ITEM(kept, i));
        if (ret_kept[i] < 0)
            return -1;
    }
    return 0;
}

static PyObject *
fork_process(PyObject *module, PyObject *args) {
    const char *purpose;
    PyObject *object, *moves, *kept, *hooks = NULL;
    hfi_descriptor_move moved[HFI_DESCRIPTORS_MAX];
    int kept_fds[HFI_DESCRIPTORS_MAX];
    int frontend;
    hfi_fork_request request = {.moves = moved, .kept = kept_fds};
    if (!PyArg_ParseTuple(args, "sOO!iO!|O!:_fork", &purpose, &object, &PyTuple_Type,
                          &moves, &frontend, &PyTuple_Type, &kept, &PyList_Type,
                          &hooks) ||
        read_purpose(purpose, &request.purpose) < 0 ||
        read_descriptors(moves, kept, moved, kept_fds) < 0)
        return NULL;
    if (object != Py_None) {
        hfi_attachment *attachment = hfi_attachment_of(module, object);
        if (!attachment)
            return NULL;
        request.session = attachment->session;
    }
    request.frontend = (pid_t)frontend;
    request.move_count = (size_t)PyTuple_GET_SIZE(moves);
    request.kept_count = (size_t)PyTuple_GET_SIZE(kept);
    request.hooks = (hfi_fork_hooks){hooks, prepare_interpreter, resume_interpreter};
    hf_error error = HF_ERROR_INIT;
    pid_t pid;
    double seconds;
    hf_status status = hfi_fork(&request, &pid, &seconds, &error);
    if (status != HF_OK)
        return hfi_raise(PyModule_GetState(module), status, &error);
    return Py_BuildValue("id", (int)pid, seconds);
}

static PyObject *
note_timers(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(hfi_fork_note_timers());
}

static PyObject *
start_timers(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    hfi_fork_start_timers();
    Py_RETURN_NONE;
}

static PyObject *
run_fork_hooks(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyOS_BeforeFork();
    PyOS_AfterFork_Child();
    Py_RETURN_NONE;
}

static PyObject *
fork_child(PyObject *module, PyObject *hooks) {
    (void)module;
    if (!PyList_CheckExact(hooks))
        return PyErr_Format(PyExc_TypeError, "a list of hooks is needed");
    pid_t pid = fork();
    int err = errno;
    resume_interpreter(hooks, pid);
    errno = err;
    return pid < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromPid(pid);
}

static PyObject *
succeed_parent(PyObject *module, PyObject *object) {
    hfi_attachment *attachment = hfi_attachment_of(module, object);
    if (!attachment)
        return NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_session_fork_succeed(attachment->session, &error);
    if (status != HF_OK)
        return hfi_raise(PyModule_GetState(module), status, &error);
    Py_RETURN_NONE;
}

PyMethodDef hfi_fork_functions[] = {
    {"_fork", fork_process, METH_VARARGS,
     "_fork(purpose, session, moves, frontend, kept, hooks=None): fork, as "
     "worker/fork.h "
     "says; the fork's pid, or 0 in it, and the processor time of the process that "
     "made "
     "it. `purpose`: 'cell' or 'sleeper'; `session`: a session, or None; "
     "`moves`: pairs of descriptors, each to be moved from the first to the second in "
     "the "
     "fork, its control channel's first; `frontend`: the process that becomes its "
     "parent; `kept`: other descriptors that it needs. With `hooks`, the interpreter's "
     "list of those that run in a fork, none runs: the list is empty in the fork. The "
     "caller holds the import lock then."},
    {"_fork_child", fork_child, METH_O,
     "_fork_child(hooks): fork a child of this process; its pid, or 0 in it. `hooks`, "
     "and the import lock: as above."},
    {"_run_fork_hooks", run_fork_hooks, METH_NOARGS,
     "_run_fork_hooks(): in a fork whose hooks have not run, run those that os.fork() "
     "runs before it and in it."},
    {"_note_timers", note_timers, METH_NOARGS,
     "_note_timers(): before a fork, note the interval timers of this process, which "
     "it "
     "won't have; whether one runs."},
    {"_start_timers", start_timers, METH_NOARGS,
     "_start_timers(): in a fork, start those that were noted, with the time that was "
     "left then."},
    {"_succeed", succeed_parent, METH_O,
     "_succeed(session): in a fork, go on in the dead parent's place; GoneError if "
     "it can't."},
    {NULL, NULL, 0, NULL}};
