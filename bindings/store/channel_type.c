/* channel_type.c - the Python type Channel: a worker's end of the control channel
 * (worker/channel.h).
 *
 * A frame is made with the interpreter attached, so that no thread changes its fields
 * meanwhile, and sent without it. Handlers of signals run between two calls, so SIGINT
 * never leaves half a frame behind; a wait for a frame looks for signals.
 *
 * A child that user code forks is not a worker. It would mix its frames with ours, and its
 * copy of the descriptor would hide our death from the frontend. So the child abandons the
 * channel. What it prints goes to its descriptors 1 and 2, which the frontend reads.
 */
#include "channel.h"
#include "control_frames.h"
#include <unistd.h>

/* A signal between the interpreter's last look and the system call is handled only when
 * that returns. */
#define SIGNAL_MS 100

/* A key of a frame that came; none of the table is called so. */
#define DESCRIPTORS "descriptors"

typedef struct channel_object {
    PyObject_HEAD hfi_channel *channel;
} channel_object;

static hfi_channel *
channel_of(PyObject *self) {
    return ((channel_object *)self)->channel;
}

hfi_channel *
hfi_python_channel(PyObject *self) {
    return channel_of(self);
}

static void *
raise_status(PyObject *self, hf_status status, const hf_error *error) {
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    if (status != HF_E_GONE)
        return hfi_raise(state, status, error);
    PyErr_SetString(state->channel_closed, error->message);
    return NULL;
}

static void *
raise_closed(PyObject *self) {
    PyErr_SetString(hfi_state_of(Py_TYPE(self))->channel_closed,
                    "the control channel is closed");
    return NULL;
}

/* ---- life ------------------------------------------------------------------------ */

static PyObject *
channel_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"fd", NULL};
    hf_error error = HF_ERROR_INIT;
    int fd;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i:Channel", names, &fd))
        return NULL;
    PyObject *self = type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    hf_status status =
        hfi_channel_create_consume(fd, &((channel_object *)self)->channel, &error);
    if (status != HF_OK) {
        raise_status(self, status, &error);
        Py_CLEAR(self);
    }
    return self;
}

static void
channel_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hfi_channel_destroy(channel_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
channel_fileno(PyObject *self, PyObject *ignored) {
    int fd = hfi_channel_fd(channel_of(self));
    (void)ignored;
    return fd >= 0 ? PyLong_FromLong(fd) : raise_closed(self);
}

static PyObject *
channel_close(PyObject *self, PyObject *ignored) {
    (void)ignored;
    Py_BEGIN_ALLOW_THREADS
    hfi_channel_close(channel_of(self));
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *
channel_begin_anew(PyObject *self, PyObject *ignored) {
    (void)ignored;
    hfi_channel_begin_anew(channel_of(self));
    Py_RETURN_NONE;
}

static PyObject *
channel_abandon(PyObject *self, PyObject *ignored) {
    (void)ignored;
    hfi_channel_begin_anew(channel_of(self));
    hfi_channel_close(channel_of(self));
    Py_RETURN_NONE;
}

static PyObject *
channel_watch(PyObject *self, PyObject *args) {
    hf_error error = HF_ERROR_INIT;
    int tally, pipes[2];
    if (!PyArg_ParseTuple(args, "iii:watch", &tally, &pipes[0], &pipes[1]))
        return NULL;
    hf_status status =
        hfi_channel_watch_consume(channel_of(self), tally, pipes, &error);
    if (status != HF_OK)
        return raise_status(self, status, &error);
    Py_RETURN_NONE;
}

static PyObject *
get_open(PyObject *self, void *ignored) {
    (void)ignored;
    return PyBool_FromLong(hfi_channel_fd(channel_of(self)) >= 0);
}

static PyObject *
get_tally(PyObject *self, void *ignored) {
    (void)ignored;
    return PyLong_FromLong(hfi_channel_tally(channel_of(self)));
}

static PyObject *
get_pending(PyObject *self, void *ignored) {
    (void)ignored;
    return PyBool_FromLong(hfi_channel_has_frames(channel_of(self)) ||
                           hfi_channel_has_ended(channel_of(self)));
}

/* ---- sending --------------------------------------------------------------------- */

/* What a frame of now says about the pipes. May wait, and other threads run then. */
static hfi_ints
count_written(PyObject *self, int64_t written[2]) {
    hf_status status = hfi_channel_count(channel_of(self), false, written);
    if (status == HF_AGAIN) {
        Py_BEGIN_ALLOW_THREADS
        status = hfi_channel_count(channel_of(self), true, written);
        Py_END_ALLOW_THREADS
    }
    return status == HF_OK ? (hfi_ints){written, 2} : (hfi_ints){NULL, 0};
}

/* 0, or -1 with an exception. */
static int
send_frame(PyObject *self, const hfi_frame *frame, bool keeps) {
    hf_error error = HF_ERROR_INIT;
    hfi_packed packed;
    hf_status status = hfi_packed_init(&packed, frame, &error);
    if (status == HF_OK) {
        Py_BEGIN_ALLOW_THREADS
        status = keeps ? hfi_channel_keep(channel_of(self), &packed, &error)
                       : hfi_channel_send(channel_of(self), &packed, &error);
        Py_END_ALLOW_THREADS
    }
    hfi_packed_fini(&packed);
    if (status != HF_OK)
        raise_status(self, status, &error);
    return status == HF_OK ? 0 : -1;
}

static PyObject *
send_fields(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names,
            bool keeps) {
    int64_t written[2];
    hfi_python_frame frame;
    if (count != 1 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "an op, and fields by their names");
        return NULL;
    }
    int failed = hfi_python_frame_init(&frame, hfi_state_of(Py_TYPE(self)), args[0],
                                       names, args + 1);
    if (!failed) {
        if (hfi_channel_has_place(&frame.frame.head))
            frame.frame.head.raw = count_written(self, written);
        failed = send_frame(self, &frame.frame.head, keeps);
    }
    hfi_python_frame_fini(&frame);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *
channel_send(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return send_fields(self, args, count, names, false);
}

static PyObject *
channel_keep(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return send_fields(self, args, count, names, true);
}

static PyObject *
channel_send_handle(PyObject *self, PyObject *args) {
    long long number;
    PyObject *fd;
    if (!PyArg_ParseTuple(args, "LO:send_handle", &number, &fd))
        return NULL;
    int descriptor = fd != Py_None ? (int)PyLong_AsLong(fd) : -1;
    if (PyErr_Occurred())
        return NULL;
    return send_frame(self,
                      HFI_FRAME(from_worker_handle, .head.fds = {descriptor},
                                .handle = number, .found = fd != Py_None),
                      false)
               ? NULL
               : Py_NewRef(Py_None);
}

/* ---- receiving ------------------------------------------------------------------- */

/* Read what has come. 0, or -1 with an exception. */
static int
fill_channel(PyObject *self) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_channel_has_ended(channel_of(self)))
        return 0;
    hf_status status = hfi_channel_fill(channel_of(self), &error);
    if (status != HF_OK)
        raise_status(self, status, &error);
    return status == HF_OK ? 0 : -1;
}

/* As a dict, with its descriptors, which are its taker's. */
static PyObject *
dict_of_consume(hfi_incoming *incoming) {
    PyObject *dict = hfi_python_value(incoming->received.object);
    PyObject *list = dict != NULL && incoming->fd_count > 0
                         ? PyList_New((Py_ssize_t)incoming->fd_count)
                         : NULL;
    for (size_t i = 0; list != NULL && i < incoming->fd_count; i++) {
        PyObject *fd = PyLong_FromLong(incoming->fds[i]);
        if (fd == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, fd);
    }
    if (dict != NULL && incoming->fd_count > 0) {
        if (list == NULL || PyDict_SetItemString(dict, DESCRIPTORS, list) != 0)
            Py_CLEAR(dict);
        else
            incoming->fd_count = 0;
    }
    Py_XDECREF(list);
    hfi_incoming_free(incoming);
    return dict;
}

static PyObject *
channel_poll(PyObject *self, PyObject *ignored) {
    (void)ignored;
    if (fill_channel(self) != 0)
        return NULL;
    if (!hfi_channel_has_frames(channel_of(self)) &&
        hfi_channel_has_ended(channel_of(self)))
        return raise_closed(self);
    PyObject *frames = PyList_New(0);
    hfi_incoming *incoming;
    while (frames != NULL &&
           (incoming = hfi_channel_next(channel_of(self), NULL)) != NULL) {
        PyObject *frame = dict_of_consume(incoming);
        if (frame == NULL || PyList_Append(frames, frame) != 0)
            Py_CLEAR(frames);
        Py_XDECREF(frame);
    }
    return frames;
}

static PyObject *
wait_for_frame(PyObject *self, const char *op) {
    hfi_channel *channel = channel_of(self);
    hfi_incoming *incoming;
    while ((incoming = hfi_channel_next(channel, op)) == NULL) {
        if (hfi_channel_has_ended(channel) || hfi_channel_fd(channel) < 0)
            return raise_closed(self);
        Py_BEGIN_ALLOW_THREADS
        hfi_channel_wait(channel, SIGNAL_MS);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() != 0 || fill_channel(self) != 0)
            return NULL;
    }
    return dict_of_consume(incoming);
}

static PyObject *
channel_wait_for(PyObject *self, PyObject *op) {
    const char *name = PyUnicode_AsUTF8(op);
    return name != NULL ? wait_for_frame(self, name) : NULL;
}

static PyObject *
channel_await_end(PyObject *self, PyObject *ignored) {
    PyObject *frame;
    (void)ignored;
    while ((frame = wait_for_frame(self, NULL)) != NULL)
        Py_DECREF(frame);
    if (!PyErr_ExceptionMatches(hfi_state_of(Py_TYPE(self))->channel_closed))
        return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* Of a frame that lacks one the others are closed. */
static PyObject *
channel_take_descriptors(PyObject *self, PyObject *frame) {
    (void)self;
    PyObject *taken = PyObject_CallMethod(frame, "pop", "s[]", DESCRIPTORS);
    Py_ssize_t count = taken != NULL ? PyList_GET_SIZE(taken) : 0, came = 0;
    while (came < count && PyLong_AsLong(PyList_GET_ITEM(taken, came)) >= 0)
        came++;
    if (came == count)
        return taken;
    for (Py_ssize_t i = 0; i < count; i++)
        close((int)PyLong_AsLong(PyList_GET_ITEM(taken, i)));
    Py_DECREF(taken);
    return PyErr_Format(PyExc_ValueError,
                        "a descriptor that was announced didn't come");
}

static PyMethodDef channel_methods[] = {
    {"fileno", channel_fileno, METH_NOARGS, "Return the descriptor."},
    {"close", channel_close, METH_NOARGS,
     "Close this process's end; safe to call again."},
    {"abandon", channel_abandon, METH_NOARGS,
     "In a forked child, leave the channel to the parent."},
    {"begin_anew", channel_begin_anew, METH_NOARGS,
     "In a fork whose descriptor is the end of another channel, forget the old "
     "one."},
    {"watch", channel_watch, METH_VARARGS,
     "Say with each frame how much had been written to these pipes by then.\n\n"
     "(tally, first, second): `tally` is the descriptor of what the frontend has read "
     "of "
     "them; it is the channel's from now on. The pipes are copied: the user may point "
     "1 "
     "and 2 elsewhere."},
    {"send", HFI_METHOD(channel_send), METH_FASTCALL | METH_KEYWORDS,
     "Send one frame; waits while the frontend is slow."},
    {"keep", HFI_METHOD(channel_keep), METH_FASTCALL | METH_KEYWORDS,
     "Send a small frame together with the next one.\n\n"
     "One system call for both, and the frontend wakes up once: if another one "
     "follows at once."},
    {"send_handle", channel_send_handle, METH_VARARGS,
     "Send a `handle` frame and its descriptor, which stays the caller's.\n\n"
     "None: it wasn't found."},
    {"poll", channel_poll, METH_NOARGS,
     "Return every frame that has arrived, without waiting.\n\n"
     "Raises ChannelClosed at the end, when no frame is left."},
    {"wait_for", channel_wait_for, METH_O,
     "Wait for a frame of this kind; others stay for `poll`, in their order.\n\n"
     "A handler of a signal that raises ends the wait."},
    {"take_descriptors", channel_take_descriptors, METH_O,
     "Return the descriptors that came with a frame; the caller owns them."},
    {"await_end", channel_await_end, METH_NOARGS,
     "Read until the frontend closes the channel.\n\n"
     "A prepared commit is published while its process lives."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef channel_attributes[] = {
    {"open", get_open, NULL, "Whether this end is open.", NULL},
    {"tally", get_tally, NULL, "Its descriptor; -1 if nothing is watched.", NULL},
    {"pending", get_pending, NULL,
     "Whether `poll` would return a frame that was already read.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot channel_slots[] = {
    {Py_tp_doc,
     "Channel(fd): one Unix stream socket that carries frames, and "
     "descriptors with them. Any thread may send, the main thread receives."},
    HFI_SLOT(Py_tp_new, channel_new),
    HFI_SLOT(Py_tp_dealloc, channel_dealloc),
    {Py_tp_methods, channel_methods},
    {Py_tp_getset, channel_attributes},
    {0, NULL}};

PyType_Spec hfi_channel_spec = {.name = "holdfast._store.Channel",
                                .basicsize = sizeof(channel_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                .slots = channel_slots};
