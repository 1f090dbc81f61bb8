/* control_frames.c - frames of the control channel as Python has them: a keyword for each
 * field of one that is sent, and a dict for one that came.
 *
 * Python has no list of frames of its own. Fields become msgpack objects, whatever they
 * are, and the reader of workers/frame.c finds out whether these are a frame of the
 * table, as the frontend does with the same function: so a wrong frame raises where it is
 * sent. If the table has several of one name, it is the first that has all the fields.
 */
#include "channel.h"
#include "control_frames.h"
#include "module_functions.h"

#define ZONE_SIZE 1024

/* A buffer, or a large text, until the frame was sent. */
typedef struct hfi_borrowed {
    Py_buffer view;
    struct hfi_borrowed *next;
} hfi_borrowed;

/* ---- frames that are sent -------------------------------------------------------- */

static void *
zone_memory(hfi_python_frame *frame, size_t size) {
    void *memory = msgpack_zone_malloc(frame->zone, size > 0 ? size : 1);
    if (memory == NULL)
        PyErr_NoMemory();
    return memory;
}

/* `data`: where the object has them; NULL: it has a buffer. */
static const Py_buffer *
borrow_bytes(hfi_python_frame *frame, PyObject *value, const char *data,
             Py_ssize_t size) {
    hfi_borrowed *borrowed = zone_memory(frame, sizeof *borrowed);
    if (borrowed == NULL)
        return NULL;
    if (data != NULL ? PyBuffer_FillInfo(&borrowed->view, value,
                                         (void *)(uintptr_t)data, size, 1, PyBUF_SIMPLE)
                     : PyObject_GetBuffer(value, &borrowed->view, PyBUF_SIMPLE))
        return NULL;
    borrowed->next = frame->borrowed;
    frame->borrowed = borrowed;
    if (borrowed->view.len > (Py_ssize_t)HFI_FRAME_SIZE_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "a frame of %zd bytes is longer than the channel allows",
                     borrowed->view.len);
        return NULL;
    }
    return &borrowed->view;
}

/* A text that has no UTF-8. A path goes as the bytes that the system knows, which the
 * frontend shows with U+FFFD; another text with backslashes. */
static const char *
borrow_escaped(hfi_python_frame *frame, PyObject *value, Py_ssize_t *ret_size) {
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return NULL;
    PyErr_Clear();
    PyObject *encoded = PyUnicode_AsEncodedString(value, "utf-8", "surrogateescape");
    if (encoded == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        encoded = PyUnicode_AsEncodedString(value, "utf-8", "backslashreplace");
    }
    const Py_buffer *view = encoded ? borrow_bytes(frame, encoded, NULL, 0) : NULL;
    Py_XDECREF(encoded);
    if (view == NULL)
        return NULL;
    *ret_size = view->len;
    return view->buf;
}

static int
put_text(hfi_python_frame *frame, PyObject *value, msgpack_object *ret_object) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == NULL)
        text = borrow_escaped(frame, value, &size);
    else if (size >= (Py_ssize_t)HFI_CHANNEL_LARGE &&
             borrow_bytes(frame, value, text, size) == NULL)
        return -1;
    if (text == NULL)
        return -1;
    ret_object->type = MSGPACK_OBJECT_STR;
    ret_object->via.str = (msgpack_object_str){(uint32_t)size, text};
    return 0;
}

static int
put_bytes(hfi_python_frame *frame, PyObject *value, msgpack_object *ret_object) {
    const Py_buffer *view = PyBytes_Check(value)
                                ? borrow_bytes(frame, value, PyBytes_AS_STRING(value),
                                               PyBytes_GET_SIZE(value))
                                : borrow_bytes(frame, value, NULL, 0);
    if (view == NULL)
        return -1;
    ret_object->type = MSGPACK_OBJECT_BIN;
    ret_object->via.bin = (msgpack_object_bin){(uint32_t)view->len, view->buf};
    return 0;
}

static int
put_number(PyObject *value, msgpack_object *ret_object) {
    if (PyFloat_Check(value)) {
        ret_object->type = MSGPACK_OBJECT_FLOAT64;
        ret_object->via.f64 = PyFloat_AS_DOUBLE(value);
        return 0;
    }
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return -1;
    ret_object->type =
        number < 0 ? MSGPACK_OBJECT_NEGATIVE_INTEGER : MSGPACK_OBJECT_POSITIVE_INTEGER;
    ret_object->via.i64 = number;
    return 0;
}

static int put_value(hfi_python_frame *frame, PyObject *value, int depth,
                     msgpack_object *ret_object);

static int
put_list(hfi_python_frame *frame, PyObject *values, int depth,
         msgpack_object *ret_object) {
    size_t count = (size_t)PySequence_Fast_GET_SIZE(values);
    msgpack_object *items = zone_memory(frame, count * sizeof *items);
    int failed = items == NULL;
    for (size_t i = 0; !failed && i < count; i++)
        failed = put_value(frame, PySequence_Fast_ITEMS(values)[i], depth, &items[i]);
    ret_object->type = MSGPACK_OBJECT_ARRAY;
    ret_object->via.array = (msgpack_object_array){(uint32_t)count, items};
    return failed;
}

static int
put_dict(hfi_python_frame *frame, PyObject *values, int depth,
         msgpack_object *ret_object) {
    size_t count = (size_t)PyDict_GET_SIZE(values);
    msgpack_object_kv *pairs = zone_memory(frame, count * sizeof *pairs), *at = pairs;
    PyObject *key, *value;
    Py_ssize_t place = 0;
    int failed = pairs == NULL;
    for (; !failed && PyDict_Next(values, &place, &key, &value); at++)
        failed = put_value(frame, key, depth, &at->key) ||
                 put_value(frame, value, depth, &at->val);
    ret_object->type = MSGPACK_OBJECT_MAP;
    ret_object->via.map = (msgpack_object_map){(uint32_t)count, pairs};
    return failed;
}

static int
put_value(hfi_python_frame *frame, PyObject *value, int depth,
          msgpack_object *ret_object) {
    if (depth > HFI_FRAME_DEPTH_MAX) {
        PyErr_SetString(PyExc_ValueError, "a frame is nested too deeply");
        return -1;
    }
    if (PyUnicode_Check(value))
        return put_text(frame, value, ret_object);
    if (value == Py_None) {
        ret_object->type = MSGPACK_OBJECT_NIL;
        return 0;
    }
    if (PyBool_Check(value)) {
        ret_object->type = MSGPACK_OBJECT_BOOLEAN;
        ret_object->via.boolean = value == Py_True;
        return 0;
    }
    if (PyLong_Check(value) || PyFloat_Check(value))
        return put_number(value, ret_object);
    if (PyDict_Check(value))
        return put_dict(frame, value, depth + 1, ret_object);
    if (PyList_Check(value) || PyTuple_Check(value))
        return put_list(frame, value, depth + 1, ret_object);
    if (PyBytes_Check(value) || PyByteArray_CheckExact(value) ||
        PyMemoryView_Check(value)) /* no others: a class may have a buffer in Python */
        return put_bytes(frame, value, ret_object);
    PyErr_Format(PyExc_TypeError, "a %s can't be a frame's", Py_TYPE(value)->tp_name);
    return -1;
}

static bool
has_field(const hfi_row *row, PyObject *name) {
    const hfi_field *field = row->shape()->fields;
    while (field->name != NULL &&
           PyUnicode_CompareWithASCIIString(name, field->name) != 0)
        field++;
    return field->name != NULL;
}

static const hfi_row *
find_row(PyObject *op, PyObject *names) {
    Py_ssize_t count = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    for (const hfi_row *const *row = hfi_rows; *row != NULL; row++) {
        Py_ssize_t known = 0;
        if (strcmp((*row)->way, "from") != 0 ||
            PyUnicode_CompareWithASCIIString(op, (*row)->op) != 0)
            continue;
        while (known < count && has_field(*row, PyTuple_GET_ITEM(names, known)))
            known++;
        if (known == count)
            return *row;
    }
    PyErr_Format(PyExc_ValueError, "no frame %U has the fields %R", op,
                 names != NULL ? names : Py_None);
    return NULL;
}

int
hfi_python_frame_init(hfi_python_frame *frame, hfi_state *state, PyObject *op,
                      PyObject *names, PyObject *const *values) {
    size_t count = names != NULL ? (size_t)PyTuple_GET_SIZE(names) : 0;
    msgpack_object map = {.type = MSGPACK_OBJECT_MAP};
    hf_error error = HF_ERROR_INIT;
    frame->borrowed = NULL;
    frame->zone = msgpack_zone_new(ZONE_SIZE);
    if (frame->zone == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    msgpack_object_kv *pairs = zone_memory(frame, count * sizeof *pairs);
    const hfi_row *row = pairs != NULL ? find_row(op, names) : NULL;
    if (row == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (put_text(frame, PyTuple_GET_ITEM(names, i), &pairs[i].key) != 0 ||
            put_value(frame, values[i], 1, &pairs[i].val) != 0)
            return -1;
    map.via.map = (msgpack_object_map){(uint32_t)count, pairs};
    const hfi_received made = {.unpacked = {frame->zone, map}, .object = &map};
    hf_status status = hfi_frame_read(&made, row, &frame->frame.head, &error);
    if (status != HF_OK)
        hfi_raise(state, status, &error);
    return status == HF_OK ? 0 : -1;
}

void
hfi_python_frame_fini(hfi_python_frame *frame) {
    for (hfi_borrowed *borrowed = frame->borrowed; borrowed != NULL;
         borrowed = borrowed->next)
        PyBuffer_Release(&borrowed->view);
    if (frame->zone != NULL)
        msgpack_zone_free(frame->zone);
}

/* ---- frames that came ------------------------------------------------------------ */

static PyObject *
list_of_objects(const msgpack_object_array *array) {
    PyObject *list = PyList_New((Py_ssize_t)array->size);
    for (uint32_t i = 0; list != NULL && i < array->size; i++) {
        PyObject *item = hfi_python_value(&array->ptr[i]);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *
dict_of_objects(const msgpack_object_map *map) {
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && i < map->size; i++) {
        PyObject *key = hfi_python_value(&map->ptr[i].key);
        PyObject *value = key != NULL ? hfi_python_value(&map->ptr[i].val) : NULL;
        if (value == NULL || PyDict_SetItem(dict, key, value) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

PyObject *
hfi_python_value(const msgpack_object *object) {
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
        Py_RETURN_NONE;
    case MSGPACK_OBJECT_BOOLEAN:
        return PyBool_FromLong(object->via.boolean);
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return PyLong_FromUnsignedLongLong(object->via.u64);
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return PyLong_FromLongLong(object->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return PyFloat_FromDouble(object->via.f64);
    case MSGPACK_OBJECT_STR:
        return PyUnicode_DecodeUTF8(
            object->via.str.ptr, (Py_ssize_t)object->via.str.size, "surrogateescape");
    case MSGPACK_OBJECT_BIN:
        return PyBytes_FromStringAndSize(object->via.bin.ptr,
                                         (Py_ssize_t)object->via.bin.size);
    case MSGPACK_OBJECT_ARRAY:
        return list_of_objects(&object->via.array);
    case MSGPACK_OBJECT_MAP:
        return dict_of_objects(&object->via.map);
    default:
        return PyErr_Format(PyExc_ValueError, "a frame has a value of type %d",
                            (int)object->type);
    }
}

/* ---- what else the table says ---------------------------------------------------- */

static const char *const keeps[] = {
#define FRAME(way, receiver, op, changes, fds, fields, text) (changes) ? NULL : #op,
    HFI_FRAMES_OUT(FRAME, , )
#undef FRAME
};

static PyObject *
control_protocol(PyObject *module, PyObject *ignored) {
    PyObject *found = PyFrozenSet_New(NULL);
    (void)module;
    (void)ignored;
    for (size_t i = 0; found != NULL && i < sizeof keeps / sizeof *keeps; i++) {
        PyObject *op = keeps[i] != NULL ? PyUnicode_FromString(keeps[i]) : NULL;
        if (keeps[i] != NULL && (op == NULL || PySet_Add(found, op) != 0))
            Py_CLEAR(found);
        Py_XDECREF(op);
    }
    return found != NULL ? Py_BuildValue("(iN)", HFI_CONTROL_VERSION, found) : NULL;
}

PyMethodDef hfi_control_frames_functions[] = {
    {"_control_protocol", control_protocol, METH_NOARGS,
     "_control_protocol(): the version, and the ops of the frames that change nothing "
     "of "
     "the notebook."},
    {NULL, NULL, 0, NULL}};
