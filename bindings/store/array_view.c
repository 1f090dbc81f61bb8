/* array_view.c - an array of the store as a Python buffer, for programs without NumPy.
 *
 * holdfast/array.h says where an array lies, in an entry of its own or in a group; it is
 * mapped here, and exported with its format, shape and strides. So a memoryview is what
 * a program gets that doesn't have NumPy, and whatever takes buffers can read it.
 *
 * Formats are those of the struct module, and of PEP 3118 for complex numbers ("Zd") and
 * UTF-32 ("5w"). Times, durations and structures have none that says what they are: they
 * aren't exported, since their bytes alone would be another value.
 *
 * The buffer is read-only. What NumPy would let the reader write to is a private copy,
 * which nothing would ever save.
 */
#include "array_view.h"

#include <stdint.h>
#include <stdio.h>

#include "names.h"
#include "names_type.h"

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t),
               "shapes are handed on as they are");

typedef struct array_object {
    PyObject_HEAD hfi_attachment *attachment;
    hf_array array;
    struct ArrowArray owner; /* of a column: has the memory. Else without a release */
    Py_ssize_t size;         /* bytes of all elements */
    char format[16];
} array_object;

static array_object *
as_array(PyObject *self) {
    return (array_object *)self;
}

/* ---- formats --------------------------------------------------------------------- */

static const char *
number_format(char kind, uint32_t itemsize) {
    static const struct {
        char kind;
        uint32_t itemsize;
        const char *format;
    } known[] = {
        {'b', 1, "?"}, {'i', 1, "b"}, {'i', 2, "h"},  {'i', 4, "i"},   {'i', 8, "q"},
        {'u', 1, "B"}, {'u', 2, "H"}, {'u', 4, "I"},  {'u', 8, "Q"},   {'f', 2, "e"},
        {'f', 4, "f"}, {'f', 8, "d"}, {'c', 8, "Zf"}, {'c', 16, "Zd"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].kind == kind && known[i].itemsize == itemsize)
            return known[i].format;
    return NULL;
}

/* 0 if there is none. */
static int
write_format(const hf_array *array, char *ret_format, size_t room) {
    const uint16_t probe = 1;
    char native = *(const unsigned char *)&probe ? '<' : '>';
    char order[2] = {0};
    if (array->byte_order != '|' && array->byte_order != native)
        order[0] = array->byte_order;
    const char *number = number_format(array->kind, array->itemsize);
    if (number)
        return snprintf(ret_format, room, "%s%s", order, number);
    if (array->kind == 'S')
        return snprintf(ret_format, room, "%us", array->itemsize);
    if (array->kind == 'U')
        return snprintf(ret_format, room, "%s%uw", order, array->itemsize / 4);
    return 0;
}

/* ---- the object ------------------------------------------------------------------ */

static int
array_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    array_object *object = as_array(self);
    static char nothing;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE ||
        (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        PyErr_SetString(PyExc_BufferError,
                        "this array is exported for reading, with its strides");
        return -1;
    }
    *view = (Py_buffer){.buf = object->array.data ? object->array.data : &nothing,
                        .obj = Py_NewRef(self),
                        .len = object->size,
                        .itemsize = object->array.itemsize,
                        .readonly = 1,
                        .ndim = (int)object->array.dimensions,
                        .format = flags & PyBUF_FORMAT ? object->format : NULL,
                        .shape = (Py_ssize_t *)object->array.shape,
                        .strides = (Py_ssize_t *)object->array.strides};
    return 0;
}

static void
array_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    hf_array_release(&as_array(self)->array);
    hfi_attachment_release(as_array(self)->attachment);
    if (as_array(self)->owner.release)
        as_array(self)->owner.release(&as_array(self)->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot array_slots[] = {
    {Py_tp_doc, "An array of the store; exports a buffer with a format and a shape."},
    HFI_SLOT(Py_tp_dealloc, array_dealloc),
    HFI_SLOT(Py_bf_getbuffer, array_getbuffer),
    {0, NULL}};

PyType_Spec hfi_array_object_spec = {.name = "holdfast._store.Array",
                                     .basicsize = sizeof(array_object),
                                     .flags = Py_TPFLAGS_DEFAULT |
                                              Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                              Py_TPFLAGS_IMMUTABLETYPE,
                                     .slots = array_slots};

/* ---- Names.view ------------------------------------------------------------------ */

static Py_ssize_t
size_of(const hf_array *array) {
    Py_ssize_t size = array->itemsize;
    for (uint32_t i = 0; i < array->dimensions; i++)
        size *= (Py_ssize_t)array->shape[i];
    return size;
}

/* The object's memoryview; None if its elements have no format. Takes `object`. */
static PyObject *
look_consume(PyObject *object, const hf_array *array) {
    as_array(object)->array = *array;
    as_array(object)->size = size_of(array);
    PyObject *view;
    if (write_format(array, as_array(object)->format, sizeof as_array(object)->format))
        view = PyMemoryView_FromObject(object);
    else
        view = Py_NewRef(Py_None);
    Py_DECREF(object);
    return view;
}

PyObject *
hfi_array_view_new_consume(hfi_state *state, const hf_array *array,
                           struct ArrowArray *owner) {
    PyObject *object = state->array_type->tp_alloc(state->array_type, 0);
    if (!object) {
        owner->release(owner);
        return NULL;
    }
    as_array(object)->owner = *owner;
    return look_consume(object, array);
}

PyObject *
hfi_names_view(PyObject *self, PyObject *name) {
    hfi_names *names = hfi_names_of(self);
    hfi_state *state = hfi_state_of(Py_TYPE(self));
    Py_ssize_t size;
    const char *key = PyUnicode_AsUTF8AndSize(name, &size);
    if (!key)
        return NULL;
    hf_array array = {.struct_size = sizeof array};
    hf_error error = HF_ERROR_INIT;
    hf_status status = names->snapshot ? hf_array_of(names->snapshot, key, (size_t)size,
                                                     &array, &error)
                                       : HF_NOT_FOUND;
    if (status < 0)
        return hfi_raise(state, status, &error);
    if (status != HF_OK)
        Py_RETURN_NONE;
    PyObject *object = state->array_type->tp_alloc(state->array_type, 0);
    if (!object) {
        hf_array_release(&array);
        return NULL;
    }
    as_array(object)->attachment = hfi_attachment_acquire(names->attachment);
    return look_consume(object, &array);
}
