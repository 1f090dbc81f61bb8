/* plain_decoder.c - the plain codec's msgpack to Python objects.
 *
 * One loop over an explicit stack of open containers. A container is created at its
 * full length when it begins, so that a reference inside it can already point to it,
 * and each finished item goes straight to its place.
 *
 * The bytes are hostile until checked:
 *   - `owed` is the number of items that all open containers still wait for. It may
 * never exceed the bytes left, so what is allocated ahead is bounded by the payload's
 * size, however the counts nest.
 *   - A reference gives an object that began before. It is borrowed in `objects`, and
 *     stays alive because its container does: the first item that a container drops (a
 *     second equal key or element) ends the decoding.
 *   - An open tuple has empty places, which hash() would follow, and a tuple may
 * contain itself. So keys that are tuples are walked first (hfi_plain_hashable). An
 * open frozenset that something refers to is refused by PySet_Add.
 *   - Keys made to collide cost time, as they do in any dict; they break nothing.
 * A failure drops what was built. The interpreter's own deallocation of deep lists,
 * tuples, dicts and sets doesn't recurse; a slice's does, so slices hold no containers.
 */
#include "plain.h"

#include <stdlib.h>

#include "codecs/plain_format.h"
#include "codecs/unpacker.h"
#include "python_error.h"

/* Kinds of frame: those of the format, and msgpack's own two. */
enum { FRAME_LIST = 0, FRAME_DICT = 64 };

typedef struct frame {
    PyObject *object; /* owned; range and slice: a tuple of the three parts */
    PyObject *key;    /* owned: dict key that waits for its value */
    size_t left;      /* items that are still to come */
    Py_ssize_t index; /* items that are in place; for a dict, pairs */
    size_t number;    /* index of the object, for range and slice */
    int kind;
} frame;

typedef struct decoder {
    hfi_unpacker unpacker;
    size_t owed;
    unsigned flags;
    PyObject **objects; /* by index; borrowed; NULL while a range or slice is open */
    size_t object_count;
    size_t object_capacity;
    frame *frames;
    size_t depth;
    size_t capacity;
    hf_error *reterr;
} decoder;

static hf_status
corrupt(decoder *d, const char *what) {
    return hf_error_set(d->reterr, HF_E_CORRUPT, "plain: %s, %zu bytes before the end",
                        what, (size_t)(d->unpacker.end - d->unpacker.at));
}

static hf_status
fail_memory(decoder *d) {
    return hf_error_set(d->reterr, HF_E_NOMEM, "plain: no memory");
}

/* ---- identity ------------------------------------------------------------------ */

static hf_status
index_object(decoder *d, PyObject *object) {
    if (!(d->flags & HFI_PLAIN_SHARED))
        return HF_OK; /* nothing refers to it */
    if (d->object_count == d->object_capacity) {
        size_t capacity = d->object_capacity ? 2 * d->object_capacity : 64;
        PyObject **objects = realloc(d->objects, capacity * sizeof(PyObject *));
        if (!objects)
            return fail_memory(d);
        d->objects = objects;
        d->object_capacity = capacity;
    }
    d->objects[d->object_count++] = object;
    return HF_OK;
}

/* Give back `object` with an index. Consumes it on failure; NULL is an exception. */
static hf_status
finish_indexed(decoder *d, PyObject *object, PyObject **ret_value) {
    hf_status status;

    if (!object)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    status = index_object(d, object);
    if (status) {
        Py_DECREF(object);
        return status;
    }
    *ret_value = object;
    return HF_OK;
}

static hf_status
finish(decoder *d, PyObject *object, PyObject **ret_value) {
    if (!object)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    *ret_value = object;
    return HF_OK;
}

static hf_status
decode_reference(decoder *d, const hfi_item *item, PyObject **ret_value) {
    size_t index = 0;

    if (item->size != 1 && item->size != 2 && item->size != 4)
        return corrupt(d, "a reference of a wrong size");
    for (size_t i = 0; i < item->size; i++)
        index = index << 8 | item->data[i];
    if (index >= d->object_count || !d->objects[index])
        return corrupt(d, "a reference to an object that isn't there");
    *ret_value = Py_NewRef(d->objects[index]);
    return HF_OK;
}

/* ---- atoms --------------------------------------------------------------------- */

static hf_status
decode_big(decoder *d, const hfi_item *item, PyObject **ret_value) {
    size_t start = item->size && item->data[0] == '-';
    PyObject *number;
    char *text;

    /* PyLong_FromString takes blanks, underscores and prefixes: no encoder writes them.
     */
    if (item->size == start)
        return corrupt(d, "an int without digits");
    for (size_t i = start; i < item->size; i++) {
        int letter = item->data[i];
        if (!(letter >= '0' && letter <= '9') && !(letter >= 'a' && letter <= 'f'))
            return corrupt(d, "an int with a wrong digit");
    }
    text = malloc(item->size + 1);
    if (!text)
        return fail_memory(d);
    memcpy(text, item->data, item->size);
    text[item->size] = '\0';
    number = PyLong_FromString(text, NULL, 16);
    free(text);
    return finish(d, number, ret_value);
}

static double
load_double(const unsigned char *body) {
    uint64_t bits = hfi_load64(body);
    double number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

static hf_status
decode_interned(decoder *d, const hfi_item *item, PyObject **ret_value) {
    PyObject *text =
        PyUnicode_DecodeUTF8((const char *)item->data, (Py_ssize_t)item->size, NULL);

    if (text)
        PyUnicode_InternInPlace(&text);
    return finish_indexed(d, text, ret_value);
}

static hf_status
decode_singleton(decoder *d, const hfi_item *item, PyObject **ret_value) {
    if (item->size == 1 && item->data[0] == HFI_PLAIN_ELLIPSIS)
        *ret_value = Py_NewRef(Py_Ellipsis);
    else if (item->size == 1 && item->data[0] == HFI_PLAIN_NOTIMPLEMENTED)
        *ret_value = Py_NewRef(Py_NotImplemented);
    else
        return corrupt(d, "an unknown singleton");
    return HF_OK;
}

static hf_status
decode_ext(decoder *d, const hfi_item *item, PyObject **ret_value) {
    const char *data = (const char *)item->data;
    Py_ssize_t size = (Py_ssize_t)item->size;

    switch (item->ext_type) {
    case HFI_PLAIN_REF:
        return decode_reference(d, item, ret_value);
    case HFI_PLAIN_BIGINT:
        return decode_big(d, item, ret_value);
    case HFI_PLAIN_COMPLEX:
        if (size != 16)
            return corrupt(d, "a complex of a wrong size");
        return finish(
            d,
            PyComplex_FromDoubles(load_double(item->data), load_double(item->data + 8)),
            ret_value);
    case HFI_PLAIN_SURROGATES:
        return finish_indexed(d, PyUnicode_DecodeUTF8(data, size, "surrogatepass"),
                              ret_value);
    case HFI_PLAIN_BYTEARRAY:
        return finish_indexed(d, PyByteArray_FromStringAndSize(data, size), ret_value);
    case HFI_PLAIN_SINGLETON:
        return decode_singleton(d, item, ret_value);
    case HFI_PLAIN_INTERNED:
        return decode_interned(d, item, ret_value);
    case HFI_PLAIN_NAN:
        if (size != 8)
            return corrupt(d, "a NaN of a wrong size");
        return finish_indexed(d, PyFloat_FromDouble(load_double(item->data)),
                              ret_value);
    default:
        return corrupt(d, "an unknown extension type");
    }
}

static hf_status
decode_str(decoder *d, const hfi_item *item, PyObject **ret_value) {
    PyObject *text =
        PyUnicode_DecodeUTF8((const char *)item->data, (Py_ssize_t)item->size, NULL);

    if (!text || hfi_plain_is_singleton(text))
        return finish(d, text, ret_value);
    return finish_indexed(d, text, ret_value);
}

static hf_status
decode_bytes(decoder *d, const hfi_item *item, PyObject **ret_value) {
    PyObject *bytes =
        PyBytes_FromStringAndSize((const char *)item->data, (Py_ssize_t)item->size);

    if (item->size <= 1)
        return finish(d, bytes, ret_value);
    return finish_indexed(d, bytes, ret_value);
}

/* ---- containers ---------------------------------------------------------------- */

static hf_status
frame_push(decoder *d, PyObject *object, int kind, size_t left) {
    if (d->depth == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 16;
        frame *frames = realloc(d->frames, capacity * sizeof *frames);
        if (!frames) {
            Py_DECREF(object);
            return fail_memory(d);
        }
        d->frames = frames;
        d->capacity = capacity;
    }
    d->frames[d->depth++] = (frame){
        .object = object, .left = left, .kind = kind, .number = d->object_count - 1};
    return HF_OK;
}

static PyObject *
container_new(int kind, size_t count) {
    switch (kind) {
    case FRAME_LIST:
        return PyList_New((Py_ssize_t)count);
    case FRAME_DICT:
        return PyDict_New();
    case HFI_PLAIN_SET:
        return PySet_New(NULL);
    case HFI_PLAIN_FROZENSET:
        return PyFrozenSet_New(NULL);
    default:
        return PyTuple_New((Py_ssize_t)count);
    }
}

/* The kind of an array: its first item tells, where it is a KIND. */
static hf_status
take_kind(decoder *d, size_t *count, int *ret_kind) {
    hfi_unpacker ahead = d->unpacker;
    hfi_item item;

    *ret_kind = FRAME_LIST;
    if (*count == 0 || hfi_unpacker_next(&ahead, &item) != HF_OK ||
        item.kind != HFI_ITEM_EXT || item.ext_type != HFI_PLAIN_KIND)
        return HF_OK;
    if (item.size != 1 || item.data[0] < HFI_PLAIN_TUPLE ||
        item.data[0] > HFI_PLAIN_SLICE)
        return corrupt(d, "an unknown kind of container");
    d->unpacker = ahead;
    *ret_kind = item.data[0];
    *count -= 1;
    if ((*ret_kind == HFI_PLAIN_RANGE || *ret_kind == HFI_PLAIN_SLICE) && *count != 3)
        return corrupt(d, "a range or slice without its three parts");
    return HF_OK;
}

/* Begin a container: pushed, with `*ret_value` NULL, or finished where it is empty. */
static hf_status
open_container(decoder *d, int kind, size_t count, PyObject **ret_value) {
    size_t left = kind == FRAME_DICT ? 2 * count : count;
    int late = kind == HFI_PLAIN_RANGE || kind == HFI_PLAIN_SLICE;
    PyObject *object;
    hf_status status;

    if (left > (size_t)(d->unpacker.end - d->unpacker.at) ||
        d->owed > (size_t)(d->unpacker.end - d->unpacker.at) - left)
        return corrupt(d, "more items announced than there are bytes");
    d->owed += left;
    object = container_new(kind, count);
    if (!object)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    status = index_object(d, late ? NULL : object);
    if (status) {
        Py_DECREF(object);
        return status;
    }
    if (left == 0) {
        *ret_value = object;
        return HF_OK;
    }
    return frame_push(d, object, kind, left);
}

static hf_status
open_array(decoder *d, size_t count, PyObject **ret_value) {
    int kind;
    hf_status status = take_kind(d, &count, &kind);

    return status ? status : open_container(d, kind, count, ret_value);
}

/* Read one item: an object, or NULL where it began a container. */
static hf_status
decode_item(decoder *d, PyObject **ret_value) {
    hfi_item item;

    *ret_value = NULL;
    if (hfi_unpacker_next(&d->unpacker, &item) != HF_OK)
        return corrupt(d, "not msgpack");
    d->owed--;
    switch (item.kind) {
    case HFI_ITEM_INT:
        return finish(d, PyLong_FromLongLong(item.as.i), ret_value);
    case HFI_ITEM_STR:
        return decode_str(d, &item, ret_value);
    case HFI_ITEM_FLOAT:
        return finish(d, PyFloat_FromDouble(item.as.f), ret_value);
    case HFI_ITEM_ARRAY:
        return open_array(d, item.size, ret_value);
    case HFI_ITEM_MAP:
        return open_container(d, FRAME_DICT, item.size, ret_value);
    case HFI_ITEM_NIL:
        return finish(d, Py_NewRef(Py_None), ret_value);
    case HFI_ITEM_BOOL:
        return finish(d, PyBool_FromLong(item.as.i != 0), ret_value);
    case HFI_ITEM_UINT:
        return finish(d, PyLong_FromUnsignedLongLong(item.as.u), ret_value);
    case HFI_ITEM_BIN:
        return decode_bytes(d, &item, ret_value);
    case HFI_ITEM_EXT:
        return decode_ext(d, &item, ret_value);
    }
    return corrupt(d, "not msgpack");
}

static hf_status
place_dict(decoder *d, frame *top, PyObject *value) {
    int failed;

    if (!top->key) {
        top->key = value;
        if (PyTuple_CheckExact(value) && !hfi_plain_hashable(value))
            return corrupt(d, "a key that can't be hashed");
        return HF_OK;
    }
    failed = PyDict_SetItem(top->object, top->key, value) < 0;
    Py_DECREF(value);
    if (failed)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    Py_CLEAR(top->key);
    if (PyDict_GET_SIZE(top->object) != ++top->index)
        return corrupt(d, "a key given twice");
    return HF_OK;
}

static hf_status
place_element(decoder *d, frame *top, PyObject *value) {
    int failed;

    if (PyTuple_CheckExact(value) && !hfi_plain_hashable(value)) {
        Py_DECREF(value);
        return corrupt(d, "an element that can't be hashed");
    }
    failed = PySet_Add(top->object, value) < 0;
    Py_DECREF(value);
    if (failed)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    if (PySet_GET_SIZE(top->object) != ++top->index)
        return corrupt(d, "an element given twice");
    return HF_OK;
}

/* Put a finished item into the container on top. Consumes it. */
static hf_status
place(decoder *d, frame *top, PyObject *value) {
    switch (top->kind) {
    case FRAME_LIST:
        PyList_SET_ITEM(top->object, top->index++, value);
        return HF_OK;
    case FRAME_DICT:
        return place_dict(d, top, value);
    case HFI_PLAIN_SET:
    case HFI_PLAIN_FROZENSET:
        return place_element(d, top, value);
    case HFI_PLAIN_RANGE:
    case HFI_PLAIN_SLICE:
        if (!hfi_plain_is_atom(value) ||
            (top->kind == HFI_PLAIN_RANGE && !PyLong_Check(value))) {
            Py_DECREF(value);
            return corrupt(d, "a range or slice of something else");
        }
        break;
    }
    PyTuple_SET_ITEM(top->object, top->index++, value);
    return HF_OK;
}

/* End the container on top: its object, a new reference. */
static hf_status
close_container(decoder *d, PyObject **ret_value) {
    frame *top = &d->frames[--d->depth];
    PyObject *parts = top->object;
    PyObject *object;

    if (top->kind != HFI_PLAIN_RANGE && top->kind != HFI_PLAIN_SLICE) {
        *ret_value = top->object;
        return HF_OK;
    }
    if (top->kind == HFI_PLAIN_RANGE)
        object = PyObject_CallObject((PyObject *)&PyRange_Type, parts);
    else
        object = PySlice_New(PyTuple_GET_ITEM(parts, 0), PyTuple_GET_ITEM(parts, 1),
                             PyTuple_GET_ITEM(parts, 2));
    Py_DECREF(parts);
    if (d->flags & HFI_PLAIN_SHARED)
        d->objects[top->number] = object;
    return finish(d, object, ret_value);
}

static hf_status
decode_all(decoder *d, PyObject **ret_value) {
    PyObject *value;
    hf_status status;

    for (;;) {
        status = decode_item(d, &value);
        while (!status && value && d->depth > 0) {
            frame *top = &d->frames[d->depth - 1];
            status = place(d, top, value);
            value = NULL;
            if (!status && --top->left == 0)
                status = close_container(d, &value);
        }
        if (status)
            return status;
        if (value)
            break;
    }
    if (d->unpacker.at != d->unpacker.end) {
        Py_DECREF(value);
        return corrupt(d, "more than one value");
    }
    *ret_value = value;
    return HF_OK;
}

hf_status
hfi_plain_decode(const void *payload, size_t size, unsigned flags, PyObject **ret_value,
                 hf_error *reterr) {
    decoder d = {.owed = 1, .flags = flags, .reterr = reterr};
    hf_status status;

    hfi_unpacker_init(&d.unpacker, payload, size);
    status = decode_all(&d, ret_value);
    while (d.depth > 0) {
        frame *top = &d.frames[--d.depth];
        Py_XDECREF(top->key);
        Py_DECREF(top->object);
    }
    free(d.frames);
    free(d.objects);
    return status;
}
