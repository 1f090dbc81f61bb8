/* plain_atoms.c - decoding the plain codec's atoms and references.
 *
 * The decoder itself reads the values that fill large containers (small numbers, short
 * ASCII texts, floats), inline; others, by their first byte, come here, where every
 * form of msgpack is understood. Both give the same objects.
 */
#include "plain_decoder.h"

#include <stdlib.h>

#include "python_error.h"

hf_status
hfi_plain_corrupt(hfi_decoder *d, const char *what) {
    return hf_error_set(d->reterr, HF_E_CORRUPT, "plain: %s, %zu bytes before the end",
                        what, (size_t)(d->unpacker.end - d->unpacker.at));
}

hf_status
hfi_plain_no_memory(hfi_decoder *d) {
    return hf_error_set(d->reterr, HF_E_NOMEM, "plain: no memory");
}

hf_status
hfi_plain_remember(hfi_decoder *d, PyObject *object) {
    if (!(d->flags & HFI_PLAIN_SHARED))
        return HF_OK; /* nothing refers to it */
    if (d->object_count == d->object_capacity) {
        size_t capacity = d->object_capacity ? 2 * d->object_capacity : 64;
        PyObject **objects = realloc(d->objects, capacity * sizeof(PyObject *));
        if (!objects)
            return hfi_plain_no_memory(d);
        d->objects = objects;
        d->object_capacity = capacity;
    }
    d->objects[d->object_count++] = object;
    return HF_OK;
}

/* Return `object`, and give it an index. Consumes it on failure. NULL is an exception.
 * */
static hf_status
finish_indexed(hfi_decoder *d, PyObject *object, PyObject **ret_value) {
    hf_status status;

    if (!object)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    status = hfi_plain_remember(d, object);
    if (status) {
        Py_DECREF(object);
        return status;
    }
    *ret_value = object;
    return HF_OK;
}

static hf_status
finish_object(hfi_decoder *d, PyObject *object, PyObject **ret_value) {
    if (!object)
        return hfi_error_from_python(HF_E_CORRUPT, d->reterr);
    *ret_value = object;
    return HF_OK;
}

/* The number in a REF or OUTSIDE. SIZE_MAX, which is no index, if its size is wrong. */
static size_t
index_of_item(const hfi_item *item) {
    size_t index = 0;

    if (item->size != 1 && item->size != 2 && item->size != 4)
        return SIZE_MAX;
    for (size_t i = 0; i < item->size; i++)
        index = index << 8 | item->data[i];
    return index;
}

static hf_status
decode_reference(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    size_t index = index_of_item(item);

    if (index >= d->object_count || !d->objects[index])
        return hfi_plain_corrupt(d, "a reference to an object that isn't there");
    *ret_value = Py_NewRef(d->objects[index]);
    return HF_OK;
}

static hf_status
decode_outside(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    size_t index = index_of_item(item);

    if (!d->outside || index >= (size_t)PyList_GET_SIZE(d->outside))
        return hfi_plain_corrupt(d, "an object that isn't beside the payload");
    *ret_value = Py_NewRef(PyList_GET_ITEM(d->outside, (Py_ssize_t)index));
    return HF_OK;
}

static hf_status
decode_big(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    size_t start = item->size && item->data[0] == '-';
    PyObject *number;
    char *text;

    /* PyLong_FromString takes blanks, underscores and prefixes:
     * no encoder writes them. */
    if (item->size == start)
        return hfi_plain_corrupt(d, "an int without digits");
    for (size_t i = start; i < item->size; i++) {
        int letter = item->data[i];
        if (!(letter >= '0' && letter <= '9') && !(letter >= 'a' && letter <= 'f'))
            return hfi_plain_corrupt(d, "an int with a wrong digit");
    }
    text = malloc(item->size + 1);
    if (!text)
        return hfi_plain_no_memory(d);
    memcpy(text, item->data, item->size);
    text[item->size] = '\0';
    number = PyLong_FromString(text, NULL, 16);
    free(text);
    return finish_object(d, number, ret_value);
}

static double
load_double(const unsigned char *body) {
    uint64_t bits = hfi_load64(body);
    double number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

static hf_status
decode_interned(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    PyObject *text =
        PyUnicode_DecodeUTF8((const char *)item->data, (Py_ssize_t)item->size, NULL);

    if (text)
        PyUnicode_InternInPlace(&text);
    return finish_indexed(d, text, ret_value);
}

/* The namespace of the process that decodes. It is None if there is no notebook (a
 * saved session's listing). */
static hf_status
decode_namespace(hfi_decoder *d, PyObject **ret_value) {
    PyObject *namespace = hfi_plain_namespace();
    if (namespace == Py_None)
        Py_SETREF(namespace, PyDict_New());
    return finish_object(d, namespace, ret_value);
}

static hf_status
decode_singleton(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    if (item->size == 1 && item->data[0] == HFI_PLAIN_ELLIPSIS)
        *ret_value = Py_NewRef(Py_Ellipsis);
    else if (item->size == 1 && item->data[0] == HFI_PLAIN_NOTIMPLEMENTED)
        *ret_value = Py_NewRef(Py_NotImplemented);
    else if (item->size == 1 && item->data[0] == HFI_PLAIN_NAMESPACE)
        return decode_namespace(d, ret_value);
    else
        return hfi_plain_corrupt(d, "an unknown singleton");
    return HF_OK;
}

static hf_status
decode_ext(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    const char *data = (const char *)item->data;
    Py_ssize_t size = (Py_ssize_t)item->size;

    switch (item->ext_type) {
    case HFI_PLAIN_REF:
        return decode_reference(d, item, ret_value);
    case HFI_PLAIN_OUTSIDE:
        return decode_outside(d, item, ret_value);
    case HFI_PLAIN_BIGINT:
        return decode_big(d, item, ret_value);
    case HFI_PLAIN_COMPLEX:
        if (size != 16)
            return hfi_plain_corrupt(d, "a complex of a wrong size");
        return finish_object(
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
            return hfi_plain_corrupt(d, "a NaN of a wrong size");
        return finish_indexed(d, PyFloat_FromDouble(load_double(item->data)),
                              ret_value);
    default:
        return hfi_plain_corrupt(d, "an unknown extension type");
    }
}

static hf_status
decode_str(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    PyObject *text =
        PyUnicode_DecodeUTF8((const char *)item->data, (Py_ssize_t)item->size, NULL);

    if (!text || hfi_plain_is_singleton(text))
        return finish_object(d, text, ret_value);
    return finish_indexed(d, text, ret_value);
}

static hf_status
decode_bytes(hfi_decoder *d, const hfi_item *item, PyObject **ret_value) {
    PyObject *bytes =
        PyBytes_FromStringAndSize((const char *)item->data, (Py_ssize_t)item->size);

    if (item->size <= 1)
        return finish_object(d, bytes, ret_value);
    return finish_indexed(d, bytes, ret_value);
}

hf_status
hfi_plain_decode_atom(hfi_decoder *d, PyObject **ret_value) {
    const unsigned char *start = d->unpacker.at;
    hfi_item item;

    if (hfi_unpacker_next(&d->unpacker, &item) != HF_OK)
        return hfi_plain_corrupt(d, "not msgpack");
    switch (item.kind) {
    case HFI_ITEM_INT:
        return finish_object(d, PyLong_FromLongLong(item.as.i), ret_value);
    case HFI_ITEM_UINT:
        return finish_object(d, PyLong_FromUnsignedLongLong(item.as.u), ret_value);
    case HFI_ITEM_FLOAT:
        return finish_object(d, PyFloat_FromDouble(item.as.f), ret_value);
    case HFI_ITEM_NIL:
        return finish_object(d, Py_NewRef(Py_None), ret_value);
    case HFI_ITEM_BOOL:
        return finish_object(d, PyBool_FromLong(item.as.i != 0), ret_value);
    case HFI_ITEM_STR:
        return decode_str(d, &item, ret_value);
    case HFI_ITEM_BIN:
        return decode_bytes(d, &item, ret_value);
    case HFI_ITEM_EXT:
        return decode_ext(d, &item, ret_value);
    case HFI_ITEM_ARRAY:
    case HFI_ITEM_MAP:
        break;
    }
    d->unpacker.at = start;
    return HF_STOP;
}
