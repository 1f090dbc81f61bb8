/* session_type.c - the Python type Session: one attachment to a store.
 *
 * A Session is a handle, not the data: several may name the same shared-memory object.
 * Objects that need an attachment (regions under arrays, Names, blocks from NumPy's
 * allocator) outlive the Session object, since a user may keep an array after all else
 * is gone. So the C handle is in a counted hfi_attachment. close() and the destructor
 * give up one use, and the last user detaches. If close() failed while arrays live,
 * every orderly shutdown would be an error.
 *
 * Locks: none here. Every call that may wait (writer lock, system calls) runs with the
 * interpreter detached, and no Python code is called meanwhile.
 *
 * A child of fork() must attach anew by from_fd(); see store.h.
 */
#include "attachment.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "module_functions.h"
#include "tuning/tuning.h"

hfi_attachment *
hfi_attachment_acquire(hfi_attachment *attachment) {
    atomic_fetch_add_explicit(&attachment->uses, 1, memory_order_relaxed);
    return attachment;
}

void
hfi_attachment_release(hfi_attachment *attachment) {
    if (!attachment ||
        atomic_fetch_sub_explicit(&attachment->uses, 1, memory_order_acq_rel) != 1)
        return;
    hf_session_close(attachment->session);
    free(attachment);
}

typedef struct session_object {
    PyObject_HEAD hfi_attachment *attachment; /* NULL once closed */
    char readonly;
} session_object;

static session_object *
as_session(PyObject *self) {
    return (session_object *)self;
}

hfi_attachment *
hfi_session_attachment(hfi_state *state, PyObject *object) {
    if (!PyObject_TypeCheck(object, state->session_type)) {
        PyErr_Format(PyExc_TypeError, "a holdfast Session is needed, not %.100s",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    hfi_attachment *attachment = as_session(object)->attachment;
    if (!attachment)
        PyErr_SetString(PyExc_ValueError, "the session is closed");
    return attachment;
}

hfi_attachment *
hfi_attachment_of(PyObject *module, PyObject *session) {
    return hfi_session_attachment(PyModule_GetState(module), session);
}

static hf_session *
handle_of(PyObject *self) {
    hfi_attachment *attachment =
        hfi_session_attachment(hfi_state_of(Py_TYPE(self)), self);
    return attachment ? attachment->session : NULL;
}

static PyObject *
session_wrap(PyTypeObject *type, hf_session *session) {
    hfi_attachment *attachment = malloc(sizeof *attachment);
    PyObject *self = attachment ? type->tp_alloc(type, 0) : PyErr_NoMemory();
    if (!self) {
        free(attachment);
        hf_session_close(session);
        return NULL;
    }
    attachment->session = session;
    atomic_init(&attachment->uses, 1);
    attachment->waits = 0;
    as_session(self)->attachment = attachment;
    return self;
}

PyDoc_STRVAR(
    create_doc,
    "create(label='', capacity=0, memfd=False, owner_publishes=False)\n"
    "--\n\n"
    "Create a session that this process owns.\n\n"
    "Parameters\n"
    "----------\n"
    "label : str\n"
    "    What people read in a list of sessions, for example the notebook's path.\n"
    "capacity : int\n"
    "    The most bytes to which it may grow; 0 for what the file system has.\n"
    "memfd : bool\n"
    "    Whether the session has no name in the file system. Then others attach by "
    "its\n"
    "    descriptor only.\n"
    "owner_publishes : bool\n"
    "    Whether only this process can publish and destroy it. Others hand it the "
    "tokens "
    "of\n"
    "    what they have prepared.\n\n"
    "Returns\n"
    "-------\n"
    "Session\n"
    "    The session, which is empty.\n\n"
    "Raises\n"
    "------\n"
    "NoSpaceError\n"
    "    The file system is full.\n"
    "OSError\n"
    "    A system call failed.");

/* An int; one that is out of range is left to the library, which says so. */
static int
to_capacity(PyObject *number, void *ret) {
    unsigned long long *ret_capacity = ret;
    *ret_capacity = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Clear();
    return !PyErr_Occurred();
}

static PyObject *
session_create(PyObject *cls, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"label", "capacity", "memfd", "owner_publishes", NULL};
    const char *label = "";
    unsigned long long capacity = 0;
    int memfd = 0, owner_publishes = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|sO&pp:create", names, &label,
                                     to_capacity, &capacity, &memfd, &owner_publishes))
        return NULL;
    hf_session_options options = {
        .struct_size = sizeof options,
        .capacity_bytes = capacity,
        .label = label,
        .flags = (memfd ? HF_SESSION_MEMFD : 0u) |
                 (owner_publishes ? HF_SESSION_OWNER_PUBLISHES : 0u)};
    hf_session *session = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_session_create(&options, &session, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of((PyTypeObject *)cls), status, &error);
    return session_wrap((PyTypeObject *)cls, session);
}

static PyObject *
session_open(PyObject *cls, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", "readonly", NULL};
    const char *text;
    int readonly = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$p:open", names, &text,
                                     &readonly))
        return NULL;
    hf_session *session = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status =
        (readonly ? hf_session_open_readonly : hf_session_open)(text, &session, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of((PyTypeObject *)cls), status, &error);
    PyObject *self = session_wrap((PyTypeObject *)cls, session);
    if (self)
        as_session(self)->readonly = (char)readonly;
    return self;
}

static PyObject *
session_from_fd(PyObject *cls, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"", "readonly", NULL};
    PyObject *number;
    int readonly = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$p:from_fd", names, &number,
                                     &readonly))
        return NULL;
    int fd = PyObject_AsFileDescriptor(number);
    if (fd < 0)
        return NULL;
    hf_session *session = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = (readonly ? hf_session_open_fd_readonly : hf_session_open_fd)(fd, &session,
                                                                           &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of((PyTypeObject *)cls), status, &error);
    PyObject *self = session_wrap((PyTypeObject *)cls, session);
    if (self)
        as_session(self)->readonly = (char)readonly;
    return self;
}

/* Waits of other threads end, each with an error. A wake-up can come too early, when the
 * other thread is about to sleep: so it is repeated. */
static void
end_waits(hfi_attachment *attachment) {
    while (attachment && attachment->waits) {
        const struct timespec nap = {0, 1000000};
        Py_BEGIN_ALLOW_THREADS
        hfi_session_wake(attachment->session);
        nanosleep(&nap, NULL);
        Py_END_ALLOW_THREADS
    }
}

static PyObject *
session_close(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hfi_attachment *attachment = as_session(self)->attachment;
    as_session(self)->attachment = NULL;
    end_waits(attachment);
    Py_BEGIN_ALLOW_THREADS
    hfi_attachment_release(attachment);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* Call a function of the store that returns only a status, while other threads run. */
static PyObject *
call_detached(PyObject *self, hf_status (*call)(hf_session *, hf_error *)) {
    hf_session *session = handle_of(self);
    if (!session)
        return NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = call(session, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
    Py_RETURN_NONE;
}

static PyObject *
session_destroy(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    return call_detached(self, hf_session_destroy);
}

static PyObject *
session_reap(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"trim", NULL};
    int trim = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:reap", names, &trim))
        return NULL;
    hf_session *session = handle_of(self);
    if (!session)
        return NULL;
    uint32_t processes = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_session_reap(session, trim, &processes, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
    return PyLong_FromUnsignedLong(processes);
}

static PyObject *
session_verify(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    return call_detached(self, hf_session_verify);
}

/* With threads_stopped the caller promises that no thread writes to any region now.
 * Then the interpreter stays attached: otherwise another Python thread could run and
 * write. */
static PyObject *
session_privatize(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"threads_stopped", NULL};
    int stopped = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:privatize", names, &stopped))
        return NULL;
    hf_session *session = handle_of(self);
    if (!session)
        return NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    if (stopped) {
        status = hf_session_privatize(session, 1, &error);
    } else {
        Py_BEGIN_ALLOW_THREADS
        status = hf_session_privatize(session, 0, &error);
        Py_END_ALLOW_THREADS
    }
    if (status != HF_OK)
        return hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
    Py_RETURN_NONE;
}

static PyObject *
session_publish(PyObject *self, PyObject *token) {
    hf_session *session = handle_of(self);
    if (!session)
        return NULL;
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(token, &bytes, &size) < 0)
        return NULL;
    hf_prepared prepared;
    if (size != (Py_ssize_t)sizeof prepared) {
        PyErr_Format(PyExc_ValueError,
                     "a prepared commit is named by %zu bytes, not %zd",
                     sizeof prepared, size);
        return NULL;
    }
    memcpy(&prepared, bytes, sizeof prepared);
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_session_publish(session, &prepared, &generation, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
    return PyLong_FromUnsignedLongLong(generation);
}

static PyObject *
session_info(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    hf_session *session = handle_of(self);
    if (!session)
        return NULL;
    hf_session_info info = {.struct_size = sizeof info};
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_session_describe(session, &info, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
    return Py_BuildValue(
        "{s:s,s:s,s:L,s:i,s:O,s:L,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:I}", "name",
        info.name, "label", info.label, "owner_pid", (long long)info.owner_pid,
        "owner_alive", info.owner_alive, "owner_publishes",
        info.owner_publishes ? Py_True : Py_False, "created_unix_ns",
        (long long)info.created_unix_ns, "generation",
        (unsigned long long)info.generation, "entry_count",
        (unsigned long long)info.entry_count, "capacity_bytes",
        (unsigned long long)info.capacity_bytes, "allocated_bytes",
        (unsigned long long)info.allocated_bytes, "committed_bytes",
        (unsigned long long)info.committed_bytes, "reserved_bytes",
        (unsigned long long)info.reserved_bytes, "retired_bytes",
        (unsigned long long)info.retired_bytes, "free_bytes",
        (unsigned long long)info.free_bytes, "process_count", info.process_count,
        "extent_count", info.extent_count);
}

/* One wait, until it ends, or something wakes it: a signal, or close(). Negative with an
 * exception; 1: another generation; 0: still the same one. */
static int
wait_once(PyObject *self, uint64_t generation, int64_t deadline_ns) {
    hf_session *session = handle_of(self);
    if (!session)
        return -1;
    hfi_attachment *attachment = hfi_attachment_acquire(as_session(self)->attachment);
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    attachment->waits++;
    Py_BEGIN_ALLOW_THREADS
    status = hfi_session_wait_once(session, generation, deadline_ns, &error);
    Py_END_ALLOW_THREADS
    attachment->waits--;
    hfi_attachment_release(attachment);
    if (PyErr_CheckSignals() < 0)
        return -1;
    if (status < 0) {
        hfi_raise(hfi_state_of(Py_TYPE(self)), status, &error);
        return -1;
    }
    return status == HF_OK;
}

static PyObject *
session_wait(PyObject *self, PyObject *args) {
    unsigned long long generation;
    PyObject *timeout = Py_None;
    if (!PyArg_ParseTuple(args, "K|O:_wait", &generation, &timeout))
        return NULL;
    double seconds = timeout == Py_None ? -1 : PyFloat_AsDouble(timeout);
    if (PyErr_Occurred())
        return NULL;
    if (timeout != Py_None && !(seconds >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a timeout is 0 or more seconds, or None");
        return NULL;
    }
    int64_t ms = seconds < 0 || seconds > 1e12 ? -1 : (int64_t)(seconds * 1000);
    int64_t deadline_ns = hfi_session_wait_deadline(ms);
    int changed;
    do
        changed = wait_once(self, generation, deadline_ns);
    while (!changed && (ms < 0 || hfi_session_wait_deadline(0) < deadline_ns));
    return changed < 0 ? NULL : PyBool_FromLong(changed);
}

static PyObject *
session_readonly(PyObject *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(as_session(self)->readonly);
}

static PyObject *
session_name(PyObject *self, void *Py_UNUSED(closure)) {
    hf_session *session = handle_of(self);
    return session ? PyUnicode_FromString(hf_session_name(session)) : NULL;
}

static PyObject *
session_fd(PyObject *self, void *Py_UNUSED(closure)) {
    hf_session *session = handle_of(self);
    return session ? PyLong_FromLong(hf_session_fd(session)) : NULL;
}

static PyObject *
session_generation(PyObject *self, void *Py_UNUSED(closure)) {
    hf_session *session = handle_of(self);
    return session ? PyLong_FromUnsignedLongLong(hf_session_generation(session)) : NULL;
}

static PyObject *
session_enter(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    return handle_of(self) ? Py_NewRef(self) : NULL;
}

static PyObject *
session_exit(PyObject *self, PyObject *Py_UNUSED(args)) {
    return session_close(self, NULL);
}

static void
session_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hfi_attachment_release(as_session(self)->attachment);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(open_doc, "open($type, name, /, *, readonly=False)\n"
                       "--\n\n"
                       "Attach to a session by its name.\n\n"
                       "Parameters\n"
                       "----------\n"
                       "name : str\n"
                       "    The session's `name`.\n"
                       "readonly : bool\n"
                       "    Whether what would change the session is an `AccessError`. "
                       "Its arrays can be\n"
                       "    written to all the same, which changes this process's "
                       "copies only.\n\n"
                       "Returns\n"
                       "-------\n"
                       "Session\n"
                       "    The session of the other process.\n\n"
                       "Raises\n"
                       "------\n"
                       "NotFoundError\n"
                       "    There is no session of this name.\n"
                       "GoneError\n"
                       "    It was destroyed.\n"
                       "CorruptError\n"
                       "    It is damaged.\n"
                       "Error\n"
                       "    It is another user's, has another layout version, or has "
                       "no room for a process.");

PyDoc_STRVAR(from_fd_doc,
             "from_fd($type, fd, /, *, readonly=False)\n"
             "--\n\n"
             "Attach to a session by a descriptor of its object.\n\n"
             "Parameters\n"
             "----------\n"
             "fd : int or object with fileno()\n"
             "    The descriptor, for example a session's `fd`. It is duplicated.\n"
             "readonly : bool\n"
             "    Whether this process only reads it: as `open` has it.\n\n"
             "Returns\n"
             "-------\n"
             "Session\n"
             "    The session of the other process.\n\n"
             "Raises\n"
             "------\n"
             "GoneError\n"
             "    The session was destroyed.\n"
             "CorruptError\n"
             "    It is damaged, or the descriptor is of something else.\n"
             "Error\n"
             "    It has another layout version, or no room for a process.");

PyDoc_STRVAR(close_doc, "close($self, /)\n"
                        "--\n\n"
                        "Detach this process from the session.\n\n"
                        "Arrays that lie in the store stay valid; the last one "
                        "detaches. A second call does nothing.");

PyDoc_STRVAR(destroy_doc,
             "destroy($self, /)\n"
             "--\n\n"
             "Remove the session for all processes.\n\n"
             "Its memory is freed when the last process detaches.\n\n"
             "Raises\n"
             "------\n"
             "OSError\n"
             "    The name can't be removed. The session is destroyed all the same.\n"
             "AccessError\n"
             "    Only the living owner may (`create`, `owner_publishes`).");

PyDoc_STRVAR(
    info_doc,
    "info($self, /)\n"
    "--\n\n"
    "Return sizes and counts of the session.\n\n"
    "Returns\n"
    "-------\n"
    "dict\n"
    "    `name`, `label`, `owner_pid`, `owner_alive` (1, 0), "
    "`owner_publishes`,\n    `created_unix_ns`, `generation`,\n"
    "    `entry_count`, `process_count`, `extent_count`, and in bytes "
    "`capacity_bytes`,\n"
    "    `allocated_bytes`, `committed_bytes`, `reserved_bytes` (not committed yet),\n"
    "    `retired_bytes` (replaced, but still read) and `free_bytes`.\n\n"
    "Raises\n"
    "------\n"
    "GoneError\n"
    "    The session was destroyed.");

PyDoc_STRVAR(reap_doc, "reap($self, trim=False)\n"
                       "--\n\n"
                       "Free what dead processes left in the session.\n\n"
                       "Parameters\n"
                       "----------\n"
                       "trim : bool\n"
                       "    Whether free space goes back to the file system, too.\n\n"
                       "Returns\n"
                       "-------\n"
                       "int\n"
                       "    How many dead processes there were.\n\n"
                       "Raises\n"
                       "------\n"
                       "GoneError\n"
                       "    The session was destroyed.");

PyDoc_STRVAR(verify_doc, "verify($self, /)\n"
                         "--\n\n"
                         "Check every checksum of the current generation.\n\n"
                         "Raises\n"
                         "------\n"
                         "CorruptError\n"
                         "    A checksum is wrong. The message names the entry.\n"
                         "GoneError\n"
                         "    The session was destroyed.");

PyDoc_STRVAR(privatize_doc,
             "privatize($self, threads_stopped=False)\n"
             "--\n\n"
             "Turn what this process published private, at the same addresses.\n\n"
             "After it, writing to an array that was published changes this process's "
             "copy only.\n\n"
             "Parameters\n"
             "----------\n"
             "threads_stopped : bool\n"
             "    Whether the caller promises that no thread writes to mapped values "
             "now. Then the\n"
             "    interpreter's lock is kept, so that this stays true.\n\n"
             "Raises\n"
             "------\n"
             "OSError\n"
             "    Memory can't be mapped.");

PyDoc_STRVAR(
    publish_doc,
    "publish($self, token, /)\n"
    "--\n\n"
    "Publish a prepared commit.\n\n"
    "Parameters\n"
    "----------\n"
    "token : bytes\n"
    "    What `Names.save` returned as 'prepared', in any process of the session.\n\n"
    "Returns\n"
    "-------\n"
    "int\n"
    "    The new generation.\n\n"
    "Raises\n"
    "------\n"
    "ConflictError\n"
    "    Another commit was published since.\n"
    "AccessError\n"
    "    Only its owner publishes the session, as a kernel does for a notebook.\n"
    "ValueError\n"
    "    The token has the wrong length.\n"
    "GoneError\n"
    "    The session was destroyed.");

PyDoc_STRVAR(wait_doc, "_wait($self, generation, timeout=None, /)\n"
                       "--\n\n"
                       "Sleep until the current generation is another one.\n\n"
                       "`close` in another thread ends it.\n\n"
                       "Parameters\n"
                       "----------\n"
                       "generation : int\n"
                       "    The generation that is known.\n"
                       "timeout : float or None\n"
                       "    Seconds; None: without limit.\n\n"
                       "Returns\n"
                       "-------\n"
                       "bool\n"
                       "    Whether it is another one; False after the time.\n\n"
                       "Raises\n"
                       "------\n"
                       "GoneError\n"
                       "    The session was destroyed.\n"
                       "ValueError\n"
                       "    The timeout is negative, or the session is closed.\n"
                       "OSError\n"
                       "    This system can't wait.");

static PyMethodDef session_methods[] = {
    {"create", HFI_METHOD(session_create), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     create_doc},
    {"open", HFI_METHOD(session_open), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     open_doc},
    {"from_fd", HFI_METHOD(session_from_fd), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     from_fd_doc},
    {"close", session_close, METH_NOARGS, close_doc},
    {"destroy", session_destroy, METH_NOARGS, destroy_doc},
    {"info", session_info, METH_NOARGS, info_doc},
    {"reap", HFI_METHOD(session_reap), METH_VARARGS | METH_KEYWORDS, reap_doc},
    {"verify", session_verify, METH_NOARGS, verify_doc},
    {"privatize", HFI_METHOD(session_privatize), METH_VARARGS | METH_KEYWORDS,
     privatize_doc},
    {"publish", session_publish, METH_O, publish_doc},
    {"_wait", session_wait, METH_VARARGS, wait_doc},
    {"__enter__", session_enter, METH_NOARGS, NULL},
    {"__exit__", session_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef session_properties[] = {
    {"name", session_name, NULL, "Name to open it by; '' without one.", NULL},
    {"fd", session_fd, NULL, "Descriptor of the object, owned by the session.", NULL},
    {"readonly", session_readonly, NULL, "Whether it was opened for reading only.",
     NULL},
    {"generation", session_generation, NULL, "Current generation; 0 is empty.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot session_slots[] = {
    {Py_tp_doc, "An attachment of this process to a session in shared memory."},
    HFI_SLOT(Py_tp_dealloc, session_dealloc),
    {Py_tp_methods, session_methods},
    {Py_tp_getset, session_properties},
    {0, NULL}};

PyType_Spec hfi_session_spec = {.name = "holdfast._store.Session",
                                .basicsize = sizeof(session_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                                         Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                         Py_TPFLAGS_IMMUTABLETYPE,
                                .slots = session_slots};

/* ---- functions of the module ---------------------------------------------------- */

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
list_sessions(PyObject *module, PyObject *Py_UNUSED(ignored)) {
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
collect_sessions(PyObject *module, PyObject *Py_UNUSED(ignored)) {
    uint32_t count = 0;
    hf_error error = HF_ERROR_INIT;
    hf_status status;
    Py_BEGIN_ALLOW_THREADS
    status = hf_session_collect(NULL, NULL, &count, &error);
    Py_END_ALLOW_THREADS
    if (status != HF_OK)
        return hfi_raise(PyModule_GetState(module), status, &error);
    return PyLong_FromUnsignedLong(count);
}

PyDoc_STRVAR(sessions_doc,
             "sessions($module, /)\n"
             "--\n\n"
             "List this user's sessions.\n\n"
             "Returns\n"
             "-------\n"
             "list of dict\n"
             "    For each `name`, `label`, `owner_pid`, `owner_alive` (1, 0, or -1 if "
             "that isn't known),\n"
             "    `generation`, `allocated_bytes` and `process_count`.\n\n"
             "Raises\n"
             "------\n"
             "OSError\n"
             "    Shared memory can't be listed.");

PyDoc_STRVAR(collect_doc, "collect($module, /)\n"
                          "--\n\n"
                          "Destroy this user's sessions that nobody uses any more.\n\n"
                          "Returns\n"
                          "-------\n"
                          "int\n"
                          "    How many were destroyed.\n\n"
                          "Raises\n"
                          "------\n"
                          "OSError\n"
                          "    Shared memory can't be listed.");

PyMethodDef hfi_session_functions[] = {
    {"sessions", list_sessions, METH_NOARGS, sessions_doc},
    {"collect", collect_sessions, METH_NOARGS, collect_doc},
    {NULL, NULL, 0, NULL}};
