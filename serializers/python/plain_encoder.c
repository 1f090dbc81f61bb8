/* plain_encoder.c - Python objects to the plain codec's msgpack.
 *
 * One loop over an explicit stack of open containers, so that a list nested 100,000
 * levels deep costs heap, not C stack. Items are borrowed: the caller holds the value,
 * and no Python code runs that could change it (see plain.c).
 *
 * Identity. Objects are indexed in the order in which they begin, but only those with a
 * reference count above one can be met twice, since whoever holds the one reference is
 * the container being walked. The others never enter the memo. That keeps a list of a
 * million fresh strings at the speed of its memcpy. The value at the top is held by the
 * caller only in name, so it is remembered by itself: a small value needs no memo.
 *
 * Where a nest holds something that plain can't carry, the stack is the path to it:
 * "['x'][3]: generator" goes into the error.
 *
 * msgpack counts in 32 bits; longer strings and containers are declined.
 */
#include "plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "codecs/plain_format.h"
#include "pointer_map.h"
#include "python_error.h"

typedef struct frame {
    PyObject *object;   /* borrowed: list, tuple, dict, set or frozenset */
    PyObject *pending;  /* dict: value of the key just given, borrowed; NULL after it */
    PyObject *key;      /* dict: key just given, borrowed */
    PyObject *iterator; /* set: owned */
    Py_ssize_t position; /* list, tuple: next index; dict: PyDict_Next's */
} frame;

typedef struct encoder {
    hfi_packer *packer;
    hfi_pointer_map seen; /* objects -> index, without the one at the top */
    PyObject *top;        /* has index 0 */
    uint32_t next_index;
    frame *frames;
    size_t depth;
    size_t capacity;
    hf_error *reterr;
} encoder;

/* ---- errors ------------------------------------------------------------------- */

enum {
    PATH_ENDS = 6, /* frames shown at either end of a deep path */
    PATH_SIZE = 320,
};

static size_t path_add(char *path, size_t used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t
path_add(char *path, size_t used, const char *format, ...) {
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(path + used, PATH_SIZE - used, format, args);
    va_end(args);
    used += length > 0 ? (size_t)length : 0;
    return used < PATH_SIZE ? used : PATH_SIZE - 1;
}

static size_t
path_add_key(char *path, size_t used, PyObject *key) {
    PyObject *words = hfi_plain_is_atom(key) ? PyObject_Repr(key) : NULL;
    const char *text = words ? PyUnicode_AsUTF8(words) : NULL;

    if (text)
        used = path_add(path, used, "[%.40s]", text);
    else
        used = path_add(path, used, "[%s]", Py_TYPE(key)->tp_name);
    Py_XDECREF(words);
    PyErr_Clear(); /* a repr that failed: the type stood in for it */
    return used;
}

static size_t
path_add_frame(char *path, size_t used, const frame *at) {
    if (at->iterator)
        return path_add(path, used, "{...}");
    if (PyDict_CheckExact(at->object)) {
        if (at->pending) /* the value is still to come: it is the key */
            return path_add(path, used, ".keys()");
        return path_add_key(path, used, at->key);
    }
    return path_add(path, used, "[%zd]", at->position - 1);
}

static hf_status
decline(encoder *e, PyObject *object, const char *why) {
    char path[PATH_SIZE] = "";
    size_t used = 0;

    for (size_t i = 0; i < e->depth; i++) {
        if (e->depth > 2 * PATH_ENDS && i == PATH_ENDS) {
            used = path_add(path, used, "...");
            i = e->depth - PATH_ENDS;
        }
        used = path_add_frame(path, used, &e->frames[i]);
    }
    return hf_error_set(e->reterr, HF_DECLINED, "%s%s%s%s", path, used ? ": " : "",
                        Py_TYPE(object)->tp_name, why);
}

static hf_status
fail_memory(encoder *e) {
    return hf_error_set(e->reterr, HF_E_NOMEM, "plain: no memory");
}

/* ---- the stack ----------------------------------------------------------------- */

static hf_status
frame_push(encoder *e, PyObject *object, PyObject *iterator) {
    if (e->depth == e->capacity) {
        size_t capacity = e->capacity ? 2 * e->capacity : 16;
        frame *frames = realloc(e->frames, capacity * sizeof *frames);
        if (!frames) {
            Py_XDECREF(iterator);
            return fail_memory(e);
        }
        e->frames = frames;
        e->capacity = capacity;
    }
    e->frames[e->depth++] = (frame){.object = object, .iterator = iterator};
    return HF_OK;
}

/* The next item of a set, borrowed: the set keeps holding it. */
static PyObject *
set_next(frame *top) {
    PyObject *item = PyIter_Next(top->iterator);

    Py_XDECREF(item);
    return item;
}

/* The next item, borrowed, or NULL at the end; `ret_hashed`: it is a key or element. */
static PyObject *
frame_next(frame *top, int *ret_hashed) {
    PyObject *item = NULL;

    *ret_hashed = 0;
    if (PyList_CheckExact(top->object)) {
        if (top->position < PyList_GET_SIZE(top->object))
            item = PyList_GET_ITEM(top->object, top->position++);
    } else if (PyTuple_CheckExact(top->object)) {
        if (top->position < PyTuple_GET_SIZE(top->object))
            item = PyTuple_GET_ITEM(top->object, top->position++);
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

/* ---- identity ------------------------------------------------------------------ */

static void
pack_ext(hfi_packer *packer, enum hfi_plain_ext type, const void *body, size_t size) {
    hfi_pack_ext(packer, size, (int8_t)type);
    hfi_pack_ext_body(packer, body, size);
}

static void
pack_reference(hfi_packer *packer, uint32_t index) {
    unsigned char body[4] = {(unsigned char)(index >> 24), (unsigned char)(index >> 16),
                             (unsigned char)(index >> 8), (unsigned char)index};
    size_t width = index <= 0xff ? 1 : index <= 0xffff ? 2 : 4;

    pack_ext(packer, HFI_PLAIN_REF, body + 4 - width, width);
}

/* Give `object` its index. HF_STOP where it has one and a reference was written. */
static hf_status
index_object(encoder *e, PyObject *object) {
    int new = 1;

    if (e->next_index == 0) {
        e->top = object;
    } else if (object == e->top) {
        pack_reference(e->packer, 0);
        return HF_STOP;
    } else if (Py_REFCNT(object) > 1) {
        uint32_t *index = hfi_pointer_map_put(&e->seen, object, &new);
        if (!index)
            return fail_memory(e);
        if (!new) {
            pack_reference(e->packer, *index);
            return HF_STOP;
        }
        *index = e->next_index;
    }
    if (e->next_index == UINT32_MAX)
        return decline(e, object, " (more than 2**32 objects)");
    e->next_index++;
    return HF_OK;
}

/* ---- scalars ------------------------------------------------------------------- */

static hf_status
encode_big(encoder *e, PyObject *object) {
    PyObject *text = PyNumber_ToBase(object, 16); /* "-0x1f" */
    const char *digits;
    Py_ssize_t size, skip;
    hf_status status = HF_OK;

    if (!text)
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
    digits = (const char *)PyUnicode_DATA(text);
    size = PyUnicode_GET_LENGTH(text);
    skip = 2;
    if ((uint64_t)size > UINT32_MAX) {
        status = decline(e, object, " (too large)");
    } else if (digits[0] == '-') {
        hfi_pack_ext(e->packer, (size_t)(size - skip), HFI_PLAIN_BIGINT);
        hfi_packer_append(e->packer, "-", 1);
        hfi_packer_append(e->packer, digits + 3, (size_t)(size - 3));
    } else {
        pack_ext(e->packer, HFI_PLAIN_BIGINT, digits + skip, (size_t)(size - skip));
    }
    Py_DECREF(text);
    return status;
}

static hf_status
encode_int(encoder *e, PyObject *object) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(object, &overflow);

    if (!overflow) {
        hfi_pack_int64(e->packer, number);
        return HF_OK;
    }
    if (overflow > 0) {
        unsigned long long wide = PyLong_AsUnsignedLongLong(object);
        if (!PyErr_Occurred()) {
            hfi_pack_uint64(e->packer, wide);
            return HF_OK;
        }
        PyErr_Clear(); /* OverflowError: it is a big one */
    }
    return encode_big(e, object);
}

static void
store_double(unsigned char *body, double number) {
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    for (int i = 7; i >= 0; i--, bits >>= 8)
        body[i] = (unsigned char)bits;
}

static hf_status
encode_float(encoder *e, PyObject *object) {
    double number = PyFloat_AS_DOUBLE(object);
    unsigned char body[8];
    hf_status status;

    if (number == number || Py_REFCNT(object) == 1) {
        hfi_pack_double(e->packer, number);
        return HF_OK;
    }
    status = index_object(e, object);
    if (status)
        return status;
    store_double(body, number);
    pack_ext(e->packer, HFI_PLAIN_NAN, body, sizeof body);
    return HF_OK;
}

static hf_status
encode_complex(encoder *e, PyObject *object) {
    Py_complex number = PyComplex_AsCComplex(object);
    unsigned char body[16];

    store_double(body, number.real);
    store_double(body + 8, number.imag);
    pack_ext(e->packer, HFI_PLAIN_COMPLEX, body, sizeof body);
    return HF_OK;
}

static hf_status
encode_text(encoder *e, PyObject *object, const char *data, Py_ssize_t size) {
    hf_status status;

    if (size > 1) {
        status = index_object(e, object);
        if (status)
            return status;
        if ((uint64_t)size > UINT32_MAX)
            return decline(e, object, " (too large)");
        if (PyUnicode_CHECK_INTERNED(object)) {
            pack_ext(e->packer, HFI_PLAIN_INTERNED, data, (size_t)size);
            return HF_OK;
        }
    }
    hfi_pack_str(e->packer, (size_t)size);
    hfi_pack_str_body(e->packer, data, (size_t)size);
    return HF_OK;
}

/* Beyond ASCII the text is encoded aside: PyUnicode_AsUTF8 would leave a second copy in
 * every string of the user's. */
static hf_status
encode_wide(encoder *e, PyObject *object) {
    PyObject *bytes = PyUnicode_AsUTF8String(object);
    hf_status status;

    if (bytes) {
        status =
            encode_text(e, object, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
        Py_DECREF(bytes);
        return status;
    }
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
    PyErr_Clear(); /* lone surrogates: the other way below */
    status = index_object(e, object);
    if (status)
        return status;
    bytes = PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass");
    if (!bytes)
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
    if ((uint64_t)PyBytes_GET_SIZE(bytes) > UINT32_MAX)
        status = decline(e, object, " (too large)");
    else
        pack_ext(e->packer, HFI_PLAIN_SURROGATES, PyBytes_AS_STRING(bytes),
                 (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return status;
}

static hf_status
encode_str(encoder *e, PyObject *object) {
#if PY_VERSION_HEX < 0x030c0000
    if (PyUnicode_READY(object) < 0)
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
#endif
    if (PyUnicode_IS_COMPACT_ASCII(object))
        return encode_text(e, object, (const char *)PyUnicode_DATA(object),
                           PyUnicode_GET_LENGTH(object));
    return encode_wide(e, object);
}

static hf_status
encode_bytes(encoder *e, PyObject *object) {
    int mutable = PyByteArray_CheckExact(object);
    Py_ssize_t size = mutable ? PyByteArray_GET_SIZE(object) : PyBytes_GET_SIZE(object);
    hf_status status = index_object(e, object);

    if (status)
        return status;
    if ((uint64_t)size > UINT32_MAX)
        return decline(e, object, " (too large)");
    if (mutable) {
        pack_ext(e->packer, HFI_PLAIN_BYTEARRAY, PyByteArray_AS_STRING(object),
                 (size_t)size);
        return HF_OK;
    }
    hfi_pack_bin(e->packer, (size_t)size);
    hfi_pack_bin_body(e->packer, PyBytes_AS_STRING(object), (size_t)size);
    return HF_OK;
}

/* ---- containers ---------------------------------------------------------------- */

static void
pack_kind(hfi_packer *packer, enum hfi_plain_kind kind, size_t count) {
    unsigned char body = (unsigned char)kind;

    hfi_pack_array(packer, count + 1);
    pack_ext(packer, HFI_PLAIN_KIND, &body, 1);
}

static hf_status encode_object(encoder *e, PyObject *object);

/* range and slice: three atoms, so that no frame is needed. */
static hf_status
encode_triple(encoder *e, PyObject *object, enum hfi_plain_kind kind) {
    static const char *const names[] = {"start", "stop", "step"};
    hf_status status = index_object(e, object);

    if (status)
        return status;
    pack_kind(e->packer, kind, 3);
    for (int i = 0; i < 3; i++) {
        PyObject *part = PyObject_GetAttrString(object, names[i]);
        if (!part)
            return hfi_error_from_python(HF_E_CODEC, e->reterr);
        Py_DECREF(part); /* the object keeps holding it */
        if (!hfi_plain_is_atom(part))
            return decline(e, object, " (of containers)");
        status = encode_object(e, part);
        if (status && status != HF_STOP)
            return status;
    }
    return HF_OK;
}

static hf_status
encode_set(encoder *e, PyObject *object) {
    Py_ssize_t count = PySet_GET_SIZE(object);
    PyObject *iterator;

    pack_kind(e->packer,
              PyFrozenSet_CheckExact(object) ? HFI_PLAIN_FROZENSET : HFI_PLAIN_SET,
              (size_t)count);
    iterator = PyObject_GetIter(object);
    if (!iterator)
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
    return frame_push(e, object, iterator);
}

static hf_status
encode_container(encoder *e, PyObject *object) {
    Py_ssize_t count = PyDict_CheckExact(object) ? PyDict_GET_SIZE(object)
                       : PyAnySet_Check(object)  ? PySet_GET_SIZE(object)
                                                 : Py_SIZE(object);
    hf_status status = index_object(e, object);

    if (status)
        return status;
    if ((uint64_t)count >= UINT32_MAX)
        return decline(e, object, " (too large)");
    if (PyAnySet_Check(object))
        return encode_set(e, object);
    if (PyDict_CheckExact(object))
        hfi_pack_map(e->packer, (size_t)count);
    else if (PyTuple_CheckExact(object))
        pack_kind(e->packer, HFI_PLAIN_TUPLE, (size_t)count);
    else
        hfi_pack_array(e->packer, (size_t)count);
    return frame_push(e, object, NULL);
}

static hf_status
encode_constant(encoder *e, PyObject *object) {
    unsigned char singleton;

    if (object == Py_None) {
        hfi_pack_nil(e->packer);
    } else if (object == Py_True) {
        hfi_pack_true(e->packer);
    } else if (object == Py_False) {
        hfi_pack_false(e->packer);
    } else if (object == Py_Ellipsis || object == Py_NotImplemented) {
        singleton =
            object == Py_Ellipsis ? HFI_PLAIN_ELLIPSIS : HFI_PLAIN_NOTIMPLEMENTED;
        pack_ext(e->packer, HFI_PLAIN_SINGLETON, &singleton, 1);
    } else {
        return decline(e, object, "");
    }
    return HF_OK;
}

/* Write an atom, or open a container. HF_STOP: a reference was written instead. */
static hf_status
encode_object(encoder *e, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);

    if (type == &PyLong_Type)
        return encode_int(e, object);
    if (type == &PyUnicode_Type)
        return encode_str(e, object);
    if (type == &PyFloat_Type)
        return encode_float(e, object);
    if (type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type ||
        type == &PySet_Type || type == &PyFrozenSet_Type)
        return encode_container(e, object);
    if (type == &PyBytes_Type || type == &PyByteArray_Type)
        return encode_bytes(e, object);
    if (type == &PyComplex_Type)
        return encode_complex(e, object);
    if (type == &PyRange_Type)
        return encode_triple(e, object, HFI_PLAIN_RANGE);
    if (type == &PySlice_Type)
        return encode_triple(e, object, HFI_PLAIN_SLICE);
    return encode_constant(e, object);
}

static hf_status
encode_all(encoder *e, PyObject *value) {
    hf_status status = encode_object(e, value);

    while ((status == HF_OK || status == HF_STOP) && e->depth > 0) {
        int hashed;
        PyObject *item = frame_next(&e->frames[e->depth - 1], &hashed);
        if (!item) {
            if (PyErr_Occurred())
                return hfi_error_from_python(HF_E_CODEC, e->reterr);
            Py_CLEAR(e->frames[e->depth - 1].iterator);
            e->depth--;
        } else if (hashed && PyTuple_CheckExact(item) && !hfi_plain_hashable(item)) {
            return decline(e, item, " (a key too deep)");
        } else {
            status = encode_object(e, item);
        }
    }
    return status == HF_STOP ? HF_OK : status;
}

hf_status
hfi_plain_encode(PyObject *value, hfi_packer *packer, hf_error *reterr) {
    encoder e = {.packer = packer, .reterr = reterr};
    hf_status status;

    status = encode_all(&e, value);
    if (!status && hfi_packer_failed(packer))
        status = fail_memory(&e);
    while (e.depth > 0)
        Py_XDECREF(e.frames[--e.depth].iterator);
    free(e.frames);
    hfi_pointer_map_fini(&e.seen);
    return status;
}
