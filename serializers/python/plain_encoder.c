/* plain_encoder.c - Python objects to the plain codec's msgpack.
 *
 * One loop over an explicit stack of open containers, so that a list nested 100,000
 * levels deep costs heap, not C stack. Items are borrowed: the caller holds the value,
 * and no Python code runs that could change it (see plain.c).
 *
 * Encoding a large container is mostly waiting for memory: each item is an object of
 * its own, and those with other owners are looked up in a large table. So the walk
 * prefetches the next items and slots. If the objects are scattered, that saves half of
 * the time.
 *
 * msgpack counts in 32 bits; longer strings and containers are declined.
 */
#include "plain_write.h"

#include <stdlib.h>

#include "plain.h"
#include "python_error.h"

enum { SHORT = 16 }; /* items */

/* ---- the stack ----------------------------------------------------------------- */

static hf_status
push_frame(hfi_plain_encoder *e, PyObject *object, PyObject *iterator) {
    if (e->depth == e->capacity) {
        size_t capacity = e->capacity ? 2 * e->capacity : 16;
        hfi_plain_encoder_frame *frames = realloc(e->frames, capacity * sizeof *frames);
        if (!frames) {
            Py_XDECREF(iterator);
            return hfi_plain_fail_memory(e);
        }
        e->frames = frames;
        e->capacity = capacity;
    }
    e->frames[e->depth++] =
        (hfi_plain_encoder_frame){.object = object, .iterator = iterator};
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
        e->frames[e->depth - 1].items = PySequence_Fast_ITEMS(object);
        e->frames[e->depth - 1].count = PySequence_Fast_GET_SIZE(object);
    }
    return HF_OK;
}

/* The next item of a set, borrowed: the set keeps holding it. */
static PyObject *
set_next(hfi_plain_encoder_frame *top) {
    PyObject *item = PyIter_Next(top->iterator);

    Py_XDECREF(item);
    return item;
}

/* The next item, borrowed, or NULL at the end; `ret_hashed`: it is a key or element. */
static inline PyObject *
frame_next(hfi_plain_encoder *e, hfi_plain_encoder_frame *top, int *ret_hashed) {
    PyObject *item = NULL;

    *ret_hashed = 0;
    if (top->items) {
        if (top->position < top->count) {
            PyObject **next = &top->items[top->position];
            hfi_plain_expect(e, next, top->count - top->position);
            item = *next;
            top->position++;
        }
    } else if (top->iterator) {
        *ret_hashed = 1;
        item = set_next(top);
    } else if (top->pending) {
        item = top->pending;
        top->pending = NULL;
    } else if (PyDict_Next(top->object, &top->position, &top->key, &top->pending)) {
        *ret_hashed = 1;
        item = top->key;
    }
    return item;
}

/* ---- containers ---------------------------------------------------------------- */

static void
pack_kind(hfi_packer *packer, enum hfi_plain_kind kind, size_t count) {
    const unsigned char head[4] = {(unsigned char)(0x91 + count), 0xd4, HFI_PLAIN_KIND,
                                   (unsigned char)kind};

    if (count > 14)
        hfi_pack_array(packer, count + 1);
    if (count > 14)
        hfi_packer_append(packer, head + 1, 3);
    else
        hfi_packer_append(packer, head, 4);
}

/* A set's kind with the places of its elements. */
static void
pack_placed(hfi_packer *packer, enum hfi_plain_kind kind, size_t count,
            const unsigned char *places, size_t size) {
    const unsigned char byte = (unsigned char)kind;

    hfi_pack_array(packer, count + 1);
    hfi_pack_ext(packer, 1 + size, HFI_PLAIN_KIND);
    hfi_packer_append(packer, &byte, 1);
    hfi_packer_append(packer, places, size);
}

/* range and slice: three atoms, so that no frame is needed. */
static hf_status
encode_triple(hfi_plain_encoder *e, PyObject *object, enum hfi_plain_kind kind) {
    static const char *const names[] = {"start", "stop", "step"};
    hf_status status = hfi_plain_index(e, object);

    if (status)
        return status;
    pack_kind(e->packer, kind, 3);
    for (int i = 0; i < 3; i++) {
        PyObject *part = PyObject_GetAttrString(object, names[i]);
        if (!part)
            return hfi_error_from_python(HF_E_CODEC, e->reterr);
        Py_DECREF(part); /* the object keeps holding it */
        if (!hfi_plain_is_atom(part))
            return hfi_plain_decline(e, object, " (of containers)");
        status = hfi_plain_encode_object(e, part);
        if (status && status != HF_STOP)
            return status;
    }
    return HF_OK;
}

static hf_status
encode_set(hfi_plain_encoder *e, PyObject *object) {
    Py_ssize_t count = PySet_GET_SIZE(object);
    enum hfi_plain_kind kind =
        PyFrozenSet_CheckExact(object) ? HFI_PLAIN_FROZENSET : HFI_PLAIN_SET;
    size_t places_size;
    unsigned char *places = hfi_set_places(object, &places_size);
    PyObject *iterator;

    if (places_size && !places)
        return hfi_plain_fail_memory(e);
    if (places)
        pack_placed(e->packer, kind, (size_t)count, places, places_size);
    else
        pack_kind(e->packer, kind, (size_t)count);
    free(places);
    if (count > 1)
        e->flags |= HFI_PLAIN_UNORDERED;
    iterator = PyObject_GetIter(object);
    if (!iterator)
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
    return push_frame(e, object, iterator);
}

/* The first atoms of a short list or tuple are written at once. Often these are all its
 * items: then no frame is needed. */
static hf_status
encode_items(hfi_plain_encoder *e, PyObject *object, Py_ssize_t count) {
    PyObject **items = PySequence_Fast_ITEMS(object);
    Py_ssize_t done = 0;
    hf_status status;

    if (count <= SHORT)
        while (done < count && hfi_write_atom(e, items[done]))
            done++;
    if (done == count)
        return HF_OK;
    status = push_frame(e, object, NULL);
    if (!status)
        e->frames[e->depth - 1].position = done;
    return status;
}

/* globals(), to which some variables refer: each process has its own. */
static int
is_namespace(PyObject *dict) {
    static PyObject *mark;
    if (!mark && !(mark = PyUnicode_InternFromString("__builtins__")))
        PyErr_Clear();
    if (!mark || PyDict_Contains(dict, mark) != 1)
        return 0;
    PyObject *namespace = hfi_plain_namespace();
    PyErr_Clear();
    Py_XDECREF(namespace); /* compared by its address alone */
    return namespace == dict;
}

static void
pack_singleton(hfi_packer *packer, unsigned char which) {
    hfi_plain_pack_ext(packer, HFI_PLAIN_SINGLETON, &which, 1);
}

static hf_status
encode_container(hfi_plain_encoder *e, PyObject *object, PyTypeObject *type) {
    int is_set = type == &PySet_Type || type == &PyFrozenSet_Type;
    Py_ssize_t count = type == &PyDict_Type ? PyDict_GET_SIZE(object)
                       : is_set             ? PySet_GET_SIZE(object)
                                            : Py_SIZE(object);
    if (type == &PyDict_Type && is_namespace(object)) {
        pack_singleton(e->packer, HFI_PLAIN_NAMESPACE);
        e->flags |= HFI_PLAIN_LOOKS_BACK;
        return HF_OK;
    }
    hf_status status = hfi_plain_index(e, object);

    if (status)
        return status;
    if ((uint64_t)count >= UINT32_MAX)
        return hfi_plain_decline(e, object, " (too large)");
    if (is_set)
        return encode_set(e, object);
    if (type == &PyDict_Type) {
        hfi_pack_map(e->packer, (size_t)count);
        return count ? push_frame(e, object, NULL) : HF_OK;
    }
    if (type == &PyTuple_Type)
        pack_kind(e->packer, HFI_PLAIN_TUPLE, (size_t)count);
    else
        hfi_pack_array(e->packer, (size_t)count);
    return encode_items(e, object, count);
}

static hf_status
encode_constant(hfi_plain_encoder *e, PyObject *object) {
    if (object == Py_None) {
        hfi_pack_nil(e->packer);
    } else if (object == Py_True) {
        hfi_pack_true(e->packer);
    } else if (object == Py_False) {
        hfi_pack_false(e->packer);
    } else if (object == Py_Ellipsis || object == Py_NotImplemented) {
        pack_singleton(e->packer, object == Py_Ellipsis ? HFI_PLAIN_ELLIPSIS
                                                        : HFI_PLAIN_NOTIMPLEMENTED);
    } else {
        return hfi_plain_decline(e, object, "");
    }
    return HF_OK;
}

hf_status
hfi_plain_encode_object(hfi_plain_encoder *e, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);

    if (type == &PyUnicode_Type)
        return hfi_plain_encode_str(e, object);
    if (type == &PyLong_Type)
        return hfi_plain_encode_int(e, object);
    if (type == &PyFloat_Type)
        return hfi_plain_encode_float(e, object);
    if (type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type ||
        type == &PySet_Type || type == &PyFrozenSet_Type)
        return encode_container(e, object, type);
    if (type == &PyBytes_Type || type == &PyByteArray_Type)
        return hfi_plain_encode_bytes(e, object);
    if (type == &PyComplex_Type)
        return hfi_plain_encode_complex(e, object);
    if (type == &PyRange_Type)
        return encode_triple(e, object, HFI_PLAIN_RANGE);
    if (type == &PySlice_Type)
        return encode_triple(e, object, HFI_PLAIN_SLICE);
    return encode_constant(e, object);
}

static hf_status
encode_all(hfi_plain_encoder *e, PyObject *value) {
    hf_status status = hfi_plain_encode_object(e, value);

    while ((status == HF_OK || status == HF_STOP) && e->depth > 0) {
        int hashed;
        PyObject *item = frame_next(e, &e->frames[e->depth - 1], &hashed);
        if (item && hfi_write_atom(e, item)) {
            status = HF_OK;
        } else if (!item) {
            if (PyErr_Occurred())
                return hfi_error_from_python(HF_E_CODEC, e->reterr);
            Py_CLEAR(e->frames[e->depth - 1].iterator);
            e->depth--;
        } else if (hashed && PyTuple_CheckExact(item) && !hfi_plain_hashable(item)) {
            return hfi_plain_decline(e, item, " (a key too deep)");
        } else {
            status = hfi_plain_encode_object(e, item);
        }
    }
    return status == HF_STOP ? HF_OK : status;
}

/* 1 if it was a number or None. These aren't shared, and are written without the
 * encoder. */
static int
encode_number(PyObject *value, hfi_packer *packer) {
    PyTypeObject *type = Py_TYPE(value);
    unsigned char bytes[HFI_WRITE_ROOM];
    size_t size = 0;
    int64_t number;

    if (type == &PyLong_Type && hfi_int_is_short(value, &number))
        size = hfi_write_int(bytes, number);
    else if (type == &PyFloat_Type)
        size = hfi_write_float(bytes, value);
    else if (value == Py_None)
        hfi_pack_nil(packer);
    hfi_packer_append(packer, bytes, size);
    return size || value == Py_None;
}

hf_status
hfi_plain_encode(PyObject *value, hfi_packer *packer, unsigned *ret_flags,
                 hf_error *reterr) {
    hfi_plain_encoder e;
    hf_status status;

    *ret_flags = 0;
    if (encode_number(value, packer) && !hfi_packer_failed(packer))
        return HF_OK;
    e = (hfi_plain_encoder){.packer = packer, .reterr = reterr};
    status = encode_all(&e, value);
    if (!status && hfi_packer_failed(packer))
        status = hfi_plain_fail_memory(&e);
    while (e.depth > 0)
        Py_XDECREF(e.frames[--e.depth].iterator);
    free(e.frames);
    hfi_pointer_map_fini(&e.seen);
    *ret_flags = e.flags;
    return status;
}
