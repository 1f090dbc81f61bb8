/* array_meta.c - what an entry's meta says of a NumPy array.
 *
 * The dtype is NumPy's type string if that says everything. Otherwise, for structures,
 * types with titles or metadata, and types of other packages (ml_dtypes' bfloat16), there
 * are three: the type as text for people, the type string ("simple": "|V12") for programs
 * that know no structures, and the pickle of the dtype ("descr") for Python. Readers in C
 * are in shm_store/arrays/.
 */
#include "array_meta.h"

#include <string.h>

/* The type string, or the type's letter if another type has the same string: `long
 * long` and `long` are two types of the same size. NULL with an exception. */
static PyObject *
simple_text(PyObject *dtype) {
    PyObject *letter = PyObject_GetAttrString(dtype, "char");
    PyObject *builtin = letter ? PyObject_GetAttrString(dtype, "isbuiltin") : NULL;
    if (builtin && PyObject_IsTrue(builtin) == 1 &&
        (PyUnicode_CompareWithASCIIString(letter, "q") == 0 ||
         PyUnicode_CompareWithASCIIString(letter, "Q") == 0)) {
        Py_DECREF(builtin);
        return letter;
    }
    Py_XDECREF(letter);
    if (!builtin)
        return NULL;
    Py_DECREF(builtin);
    return PyObject_GetAttrString(dtype, "str");
}

/* 1 if another package has added the type to NumPy: its type string is that of another
 * type, or none. -1 with an exception. */
static int
is_added(PyObject *dtype) {
    PyObject *builtin = PyObject_GetAttrString(dtype, "isbuiltin");
    long kind = builtin ? PyLong_AsLong(builtin) : -1;
    Py_XDECREF(builtin);
    return kind < 0 ? -1 : kind == 2;
}

/* The type string for programs that don't know the type: bytes, if it is an added one. */
static PyObject *
plain_text(PyObject *dtype, int added) {
    if (!added)
        return PyObject_GetAttrString(dtype, "str");
    PyObject *size = PyObject_GetAttrString(dtype, "itemsize");
    PyObject *text = size ? PyUnicode_FromFormat("|V%S", size) : NULL;
    Py_XDECREF(size);
    return text;
}

static PyObject *
pickle_of(PyObject *dtype) {
    PyObject *module = PyImport_ImportModule("pickle");
    PyObject *bytes =
        module ? PyObject_CallMethod(module, "dumps", "Oi", dtype, 5) : NULL;
    Py_XDECREF(module);
    return bytes;
}

int
hfi_array_type_init(hfi_array_type *ret_type, PyObject *array, int descr) {
    hfi_array_type type = {NULL, NULL, NULL};
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    PyObject *fields = dtype ? PyObject_GetAttrString(dtype, "names") : NULL;
    PyObject *metadata = fields ? PyObject_GetAttrString(dtype, "metadata") : NULL;
    int added = metadata ? is_added(dtype) : -1;
    int failed = added < 0;
    if (!failed && !added && fields == Py_None && metadata == Py_None) {
        type.text = simple_text(dtype);
        failed = !type.text;
    } else if (!failed) {
        type.text = PyObject_Str(dtype);
        type.plain = plain_text(dtype, added);
        type.descr = descr ? pickle_of(dtype) : NULL;
        failed = !type.text || !type.plain || (descr && !type.descr);
    }
    failed = failed || !PyUnicode_AsUTF8(type.text) ||
             (type.plain && !PyUnicode_AsUTF8(type.plain));
    Py_XDECREF(dtype);
    Py_XDECREF(fields);
    Py_XDECREF(metadata);
    if (failed)
        hfi_array_type_fini(&type);
    *ret_type = type;
    return failed ? -1 : 0;
}

void
hfi_array_type_fini(hfi_array_type *type) {
    Py_CLEAR(type->text);
    Py_CLEAR(type->plain);
    Py_CLEAR(type->descr);
}

unsigned
hfi_array_meta_pairs(const hfi_array_type *type) {
    return type->plain ? 5 : 4;
}

static void
put_text(hfi_meta_writer *meta, const char *key, PyObject *text) {
    Py_ssize_t size = 0;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &size);
    hfi_meta_put_text(meta, key, bytes, (size_t)size);
}

static void
put_numbers(hfi_meta_writer *meta, const char *key, const Py_ssize_t *numbers,
            int count) {
    hfi_meta_put_key(meta, key);
    msgpack_pack_array(&meta->packer, (size_t)count);
    for (int i = 0; i < count; i++)
        msgpack_pack_int64(&meta->packer, numbers[i]);
}

void
hfi_array_meta_put(hfi_meta_writer *meta, const hfi_array_view *view,
                   const hfi_array_type *type, uint64_t offset) {
    put_text(meta, "dtype", type->text);
    if (type->plain)
        put_text(meta, "simple", type->plain);
    put_numbers(meta, "shape", view->shape, view->dimensions);
    put_numbers(meta, "strides", view->strides, view->dimensions);
    hfi_meta_put_number(meta, "offset", offset);
}
