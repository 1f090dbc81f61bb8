/* buffer.c - the codec of single objects that consist of memory.
 *
 * A numpy.ndarray (exactly; subclasses have state of their own and go to pickle) is its
 * owner's memory, a dtype, a shape, strides and an offset. The memory is added as one
 * buffer and mapped when read, so neither direction copies where it lies in the arena.
 * A lone view takes its owner's whole memory along: writes through it stay writes to
 * that memory, and a view that is saved again is still the same range of the same
 * region. Memory below HFI_ARRAY_INLINE_MAX goes into the payload and is copied. Arrays
 * of objects are no memory in this sense, and views of a memmap stay views of its file;
 * pickle carries them.
 *
 * Dtype, shape and strides are in the meta (array_meta.c). A restored array has the region as its base, so ndarray.resize() in place isn't possible on it;
 * NumPy allows that only to arrays that own malloc'ed memory.
 *
 * bytes, bytearray and array.array of HFI_BUFFER_BYTES_MIN or more are buffers as well,
 * so that saving them is one copy and never two; CPython owns their memory, so reading
 * copies once. A memoryview (one dimension of bytes, contiguous) is mapped; what object
 * it was a view of is not kept: a group with that object goes through pickle.
 *
 * The meta is untrusted: every element's address is checked against the buffer.
 */
#include "array_meta.h"

#include <limits.h>
#include <string.h>

#include "python_codecs.h"
#include "python_error.h"

typedef enum kind {
    KIND_NONE,
    KIND_ARRAY,
    KIND_BYTES,
    KIND_BYTEARRAY,
    KIND_STDLIB_ARRAY,
    KIND_MEMORYVIEW,
} kind;

static const char *const kind_names[] = {"",          "numpy.ndarray", "bytes",
                                         "bytearray", "array.array",   "memoryview"};

static kind
buffer_kind(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type ||
        type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type)
        return KIND_NONE; /* the most frequent types, before names are compared */
    if (PyBytes_CheckExact(value))
        return KIND_BYTES;
    if (PyByteArray_CheckExact(value))
        return KIND_BYTEARRAY;
    if (PyMemoryView_Check(value))
        return KIND_MEMORYVIEW;
    if (hfi_array_check(value) == 1)
        return KIND_ARRAY;
    if (strcmp(Py_TYPE(value)->tp_name, "array.array") == 0)
        return KIND_STDLIB_ARRAY;
    return KIND_NONE;
}

static int
buffer_accepts(const hf_codec *codec, void *value) {
    (void)codec;
    kind which = buffer_kind(value);
    if (which == KIND_NONE)
        return 0;
    if (which != KIND_ARRAY) {
        Py_ssize_t size = PyObject_Size(value);
        if (size < 0)
            PyErr_Clear();
        return which == KIND_MEMORYVIEW || which == KIND_STDLIB_ARRAY ||
               size >= HFI_BUFFER_BYTES_MIN;
    }
    int plain = hfi_array_is_plain(value);
    if (plain < 0)
        PyErr_Clear();
    return plain > 0;
}

/* ---- encoding ------------------------------------------------------------------- */

static hf_status
array_set_meta(const hfi_array_view *view, uint64_t offset, int is_own,
               const hfi_array_type *type, hf_sink *sink, hf_error *reterr) {
    hfi_meta_writer meta;
    hfi_meta_writer_init(&meta, hfi_array_meta_pairs(type) + 3u +
                                    (type->descr != NULL) + (unsigned)is_own);
    hfi_meta_put_text(&meta, "type", kind_names[KIND_ARRAY],
                      strlen(kind_names[KIND_ARRAY]));
    hfi_array_meta_put(&meta, view, type, offset);
    hfi_meta_put_number(&meta, "writeable", (uint64_t)view->writeable);
    hfi_meta_put_number(&meta, "bytes", view->size);
    if (is_own)
        hfi_meta_put_number(&meta, "own", 1);
    if (type->descr)
        hfi_meta_put_bytes(&meta, "descr", PyBytes_AS_STRING(type->descr),
                           (size_t)PyBytes_GET_SIZE(type->descr));
    return hfi_meta_writer_finish(&meta, sink, reterr);
}

/* Put the owner's memory into a buffer or the payload. Returns the offset of the first
 * element. */
static hf_status
array_put_memory(hfi_array_view *view, hf_sink *sink, uint64_t *ret_offset,
                 hf_error *reterr) {
    uint64_t offset = (uint64_t)((char *)view->data - view->low);
    if (view->low_size < HFI_ARRAY_INLINE_MAX) {
        *ret_offset = offset;
        return view->low_size ? sink->write(sink, view->low, view->low_size, reterr)
                              : HF_OK;
    }
    uint32_t index = 0;
    uint64_t base = 0;
    hf_status status = sink->add_buffer(sink, view->low, view->low_size, view->owner,
                                        &index, &base, reterr);
    *ret_offset = base + offset;
    return status;
}

static hf_status
array_encode(PyObject *array, hf_sink *sink, hf_error *reterr) {
    hfi_array_view view;
    hfi_array_type type;
    /* First, since pickling the type runs Python code, which may resize the array. */
    if (hfi_array_type_init(&type, array, 1) < 0)
        return hfi_error_from_python(HF_DECLINED, reterr);
    hf_status status;
    uint64_t offset = 0;
    if (hfi_array_view_get(array, &view) < 0) {
        status = hfi_error_from_python(HF_DECLINED, reterr);
        goto out;
    }
    if (!view.low)
        status = hf_error_set(reterr, HF_DECLINED, "the array's memory isn't known");
    else if (strcmp(Py_TYPE(view.owner)->tp_name, "mmap.mmap") == 0)
        status = hf_error_set(reterr, HF_DECLINED, "a view of a mapped file");
    else {
        status = array_put_memory(&view, sink, &offset, reterr);
        int is_own = view.owner == array && view.low_size < HFI_ARRAY_INLINE_MAX;
        if (status == HF_OK)
            status = array_set_meta(&view, offset, is_own, &type, sink, reterr);
    }
    hfi_array_view_fini(&view);
out:
    hfi_array_type_fini(&type);
    return status;
}

/* The array's own type code (a different format is used for that of texts), else the
 * format. New reference, a str; NULL with an exception. */
static PyObject *
typecode_of(PyObject *value, kind which, const Py_buffer *buffer) {
    if (which == KIND_STDLIB_ARRAY)
        return PyObject_GetAttrString(value, "typecode");
    return PyUnicode_FromString(buffer->format ? buffer->format : "B");
}

static hf_status
exporter_set_meta(PyObject *typecode, kind which, const Py_buffer *buffer,
                  uint64_t offset, hf_sink *sink, hf_error *reterr) {
    Py_ssize_t size = 0;
    const char *code = typecode ? PyUnicode_AsUTF8AndSize(typecode, &size) : NULL;
    if (!code)
        return hfi_error_from_python(HF_DECLINED, reterr);
    hfi_meta_writer meta;
    hfi_meta_writer_init(&meta, 5);
    hfi_meta_put_text(&meta, "type", kind_names[which], strlen(kind_names[which]));
    hfi_meta_put_text(&meta, "typecode", code, (size_t)size);
    hfi_meta_put_number(&meta, "offset", offset);
    hfi_meta_put_number(&meta, "bytes", (uint64_t)buffer->len);
    hfi_meta_put_number(&meta, "writeable", !buffer->readonly);
    return hfi_meta_writer_finish(&meta, sink, reterr);
}

static hf_status
exporter_encode(PyObject *value, kind which, hf_sink *sink, hf_error *reterr) {
    PyObject *view = PyMemoryView_FromObject(value);
    if (!view)
        return hfi_error_from_python(HF_DECLINED, reterr);
    Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
    hf_status status = HF_OK;
    uint32_t index = 0;
    uint64_t offset = 0;
    if (!PyBuffer_IsContiguous(buffer, 'C') ||
        (which == KIND_MEMORYVIEW &&
         (buffer->ndim != 1 ||
          strcmp(buffer->format ? buffer->format : "B", "B") != 0)))
        status =
            hf_error_set(reterr, HF_DECLINED, "a memoryview of more than plain bytes");
    else if (buffer->len)
        status = sink->add_buffer(sink, buffer->buf, (size_t)buffer->len, view, &index,
                                  &offset, reterr);
    if (status == HF_OK) {
        PyObject *typecode = typecode_of(value, which, buffer);
        status = exporter_set_meta(typecode, which, buffer, offset, sink, reterr);
        Py_XDECREF(typecode);
    }
    Py_DECREF(view);
    return status;
}

static hf_status
buffer_encode(const hf_codec *codec, void *value, hf_sink *sink, hf_error *reterr) {
    (void)codec;
    kind which = buffer_kind(value);
    return which == KIND_ARRAY ? array_encode(value, sink, reterr)
                               : exporter_encode(value, which, sink, reterr);
}

/* ---- decoding ------------------------------------------------------------------- */

/* The memory that the entry holds: a pin that exports it (new reference), and its
 * size. */
static hf_status
memory_open(hf_source *source, PyObject **ret_pin, char **ret_data, size_t *ret_size,
            hf_error *reterr) {
    if (source->buffer_count) {
        void *data, *pin;
        hf_status status = source->map_buffer(source, 0, &data, ret_size, &pin, reterr);
        if (status == HF_OK) {
            *ret_pin = pin;
            *ret_data = data;
        }
        return status;
    }
    PyObject *copy = PyByteArray_FromStringAndSize(source->payload,
                                                   (Py_ssize_t)source->payload_size);
    if (!copy)
        return hfi_error_from_python(HF_E_NOMEM, reterr);
    *ret_pin = copy;
    *ret_data = PyByteArray_AS_STRING(copy);
    *ret_size = source->payload_size;
    return HF_OK;
}

static PyObject *
dtype_from_meta(const hfi_meta *meta) {
    size_t size = 0;
    const void *pickle = hfi_meta_bytes(meta, "descr", &size);
    if (pickle) {
        PyObject *module = PyImport_ImportModule("pickle");
        PyObject *result = module ? PyObject_CallMethod(module, "loads", "y#", pickle,
                                                        (Py_ssize_t)size)
                                  : NULL;
        Py_XDECREF(module);
        return result;
    }
    const char *text = hfi_meta_text(meta, "dtype", &size);
    if (!text) {
        PyErr_SetString(PyExc_ValueError, "an array without a dtype");
        return NULL;
    }
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, NULL);
}

static PyObject *
tuple_of(const int64_t *numbers, size_t count) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (!number) {
            Py_DECREF(tuple);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, number);
    }
    return tuple;
}

/* numpy.ndarray. An import statement does a dozen look-ups even for a module that is
 * there. */
static PyObject *
array_type(void) {
    PyObject *numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    PyObject *type = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    if (type)
        return type;
    PyErr_Clear();
    numpy = PyImport_ImportModule("numpy");
    type = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    Py_XDECREF(numpy);
    return type;
}

/* An array whose memory is its own, so that it can be resized:
 * a copy of the payload. */
static PyObject *
own_array(PyObject *type, PyObject *sizes, PyObject *dtype, PyObject *steps,
          const hf_source *source) {
    PyObject *array =
        PyObject_CallFunction(type, "OOOiO", sizes, dtype, Py_None, 0, steps);
    if (array && hfi_array_fill(array, source->payload, source->payload_size) < 0)
        Py_CLEAR(array);
    return array;
}

/* numpy.ndarray(shape, dtype, pin, offset, strides): NumPy itself checks that every
 * element lies inside the buffer. Without a pin the array gets memory of its own. */
static PyObject *
array_make(const hfi_meta *meta, PyObject *pin, const hf_source *source,
           hf_error *reterr) {
    int64_t shape[HFI_ARRAY_DIMENSIONS_MAX], strides[HFI_ARRAY_DIMENSIONS_MAX];
    size_t dimensions = 0, stride_count = 0;
    uint64_t offset = 0, writeable = 1;
    if (hfi_meta_numbers(meta, "shape", shape, HFI_ARRAY_DIMENSIONS_MAX, &dimensions,
                         reterr) != HF_OK ||
        hfi_meta_numbers(meta, "strides", strides, HFI_ARRAY_DIMENSIONS_MAX,
                         &stride_count, reterr) != HF_OK ||
        hfi_meta_number(meta, "offset", &offset, reterr) != HF_OK ||
        hfi_meta_number(meta, "writeable", &writeable, reterr) != HF_OK ||
        dimensions != stride_count || offset > (uint64_t)PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_ValueError, "an array's meta doesn't hold together");
        return NULL;
    }
    PyObject *type = array_type();
    PyObject *dtype = type ? dtype_from_meta(meta) : NULL;
    PyObject *sizes = tuple_of(shape, dimensions),
             *steps = tuple_of(strides, dimensions);
    PyObject *array = NULL;
    if (dtype && sizes && steps)
        array = pin ? PyObject_CallFunction(type, "OOOKO", sizes, dtype, pin,
                                            (unsigned long long)offset, steps)
                    : own_array(type, sizes, dtype, steps, source);
    if (array && !writeable) {
        PyObject *flags = PyObject_GetAttrString(array, "flags");
        if (!flags || PyObject_SetAttrString(flags, "writeable", Py_False) < 0)
            Py_CLEAR(array);
        Py_XDECREF(flags);
    }
    Py_XDECREF(type);
    Py_XDECREF(dtype);
    Py_XDECREF(sizes);
    Py_XDECREF(steps);
    return array;
}

static PyObject *
stdlib_array_make(const hfi_meta *meta, const char *data, size_t size) {
    size_t length = 0;
    const char *typecode = hfi_meta_text(meta, "typecode", &length);
    PyObject *module = PyImport_ImportModule("array");
    PyObject *bytes =
        PyMemoryView_FromMemory((char *)(uintptr_t)data, (Py_ssize_t)size, PyBUF_READ);
    PyObject *array = NULL;
    if (module && bytes && typecode)
        array =
            PyObject_CallMethod(module, "array", "s#", typecode, (Py_ssize_t)length);
    PyObject *done = array ? PyObject_CallMethod(array, "frombytes", "O", bytes) : NULL;
    if (!done)
        Py_CLEAR(array);
    if (!array && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "an array without a type code");
    Py_XDECREF(done);
    Py_XDECREF(module);
    Py_XDECREF(bytes);
    return array;
}

static PyObject *
memoryview_make(PyObject *pin, uint64_t offset, uint64_t size, uint64_t writeable) {
    PyObject *whole = PyMemoryView_FromObject(pin);
    PyObject *part = whole ? PySequence_GetSlice(whole, (Py_ssize_t)offset,
                                                 (Py_ssize_t)(offset + size))
                           : NULL;
    Py_XDECREF(whole);
    if (part && !writeable)
        Py_SETREF(part, PyObject_CallMethod(part, "toreadonly", NULL));
    return part;
}

static PyObject *
exporter_make(kind which, const hfi_meta *meta, PyObject *pin, const char *data,
              size_t size, hf_error *reterr) {
    uint64_t offset = 0, bytes = 0, writeable = 0;
    if (hfi_meta_number(meta, "offset", &offset, reterr) != HF_OK ||
        hfi_meta_number(meta, "bytes", &bytes, reterr) != HF_OK ||
        hfi_meta_number(meta, "writeable", &writeable, reterr) != HF_OK ||
        offset > size || bytes > size - offset) {
        PyErr_SetString(PyExc_ValueError, "a buffer's meta doesn't hold together");
        return NULL;
    }
    switch (which) {
    case KIND_BYTES:
        return PyBytes_FromStringAndSize(data + offset, (Py_ssize_t)bytes);
    case KIND_BYTEARRAY:
        return PyByteArray_FromStringAndSize(data + offset, (Py_ssize_t)bytes);
    case KIND_STDLIB_ARRAY:
        return stdlib_array_make(meta, data + offset, bytes);
    case KIND_MEMORYVIEW:
        return memoryview_make(pin, offset, bytes, writeable);
    default:
        PyErr_SetString(PyExc_ValueError, "a buffer of an unknown type");
        return NULL;
    }
}

static hf_status
buffer_decode(const hf_codec *codec, hf_source *source, void **ret_value,
              hf_error *reterr) {
    (void)codec;
    hfi_meta meta;
    PyObject *pin = NULL, *value = NULL;
    char *data = NULL;
    size_t size = 0, length = 0;
    hf_status status = hfi_meta_init(&meta, source->meta, source->meta_size, reterr);
    if (status != HF_OK)
        return status;
    const char *type = hfi_meta_text(&meta, "type", &length);
    kind which = KIND_NONE;
    for (int i = KIND_ARRAY; type && i <= KIND_MEMORYVIEW; i++)
        if (strlen(kind_names[i]) == length && !memcmp(kind_names[i], type, length))
            which = (kind)i;
    int is_own =
        which == KIND_ARRAY && !source->buffer_count && hfi_meta_find(&meta, "own");
    if (!is_own)
        status = memory_open(source, &pin, &data, &size, reterr);
    if (status == HF_OK) {
        value = which == KIND_ARRAY
                    ? array_make(&meta, pin, source, reterr)
                    : exporter_make(which, &meta, pin, data, size, reterr);
        if (value)
            *ret_value = value;
        else
            status = hfi_error_from_python(HF_E_CORRUPT, reterr);
        Py_XDECREF(pin);
    }
    hfi_meta_fini(&meta);
    return status;
}

const hf_codec hfi_codec_buffer = {
    .struct_size = sizeof(hf_codec),
    .number = HF_CODEC_BUFFER,
    .name = "buffer",
    .order = 100,
    .accepts = buffer_accepts,
    .encode = buffer_encode,
    .decode = buffer_decode,
};
