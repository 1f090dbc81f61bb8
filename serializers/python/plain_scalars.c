/* plain_scalars.c - encoding numbers and texts to the plain codec's msgpack.
 *
 * Values without a type in msgpack go into an extension: integers beyond 64 bits,
 * complex numbers, texts with lone surrogates. A text that was interned is marked, so
 * that it is interned again and attribute names stay fast. A NaN has an index, since `x
 * is y` is all that makes it differ; other numbers are carried by value. Singletons of
 * CPython have no index either: there, `is` says nothing, and C code can make a second
 * one, which decoding would not.
 *
 * A text that isn't ASCII is encoded into other memory: PyUnicode_AsUTF8 would leave a
 * second copy in every string of the user's.
 */
#include "plain_write.h"

#include "python_error.h"

static hf_status
encode_big(hfi_plain_encoder *e, PyObject *object) {
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
        status = hfi_plain_decline(e, object, " (too large)");
    } else if (digits[0] == '-') {
        hfi_pack_ext(e->packer, (size_t)(size - skip), HFI_PLAIN_BIGINT);
        hfi_packer_append(e->packer, "-", 1);
        hfi_packer_append(e->packer, digits + 3, (size_t)(size - 3));
    } else {
        hfi_plain_pack_ext(e->packer, HFI_PLAIN_BIGINT, digits + skip,
                           (size_t)(size - skip));
    }
    Py_DECREF(text);
    return status;
}

hf_status
hfi_plain_encode_int(hfi_plain_encoder *e, PyObject *object) {
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

hf_status
hfi_plain_encode_float(hfi_plain_encoder *e, PyObject *object) {
    double number = PyFloat_AS_DOUBLE(object);
    unsigned char body[8];
    hf_status status;

    if (number == number) {
        hfi_pack_double(e->packer, number);
        return HF_OK;
    }
    status = hfi_plain_index(e, object);
    if (status)
        return status;
    hfi_store_double(body, number);
    hfi_plain_pack_ext(e->packer, HFI_PLAIN_NAN, body, sizeof body);
    return HF_OK;
}

hf_status
hfi_plain_encode_complex(hfi_plain_encoder *e, PyObject *object) {
    Py_complex number = PyComplex_AsCComplex(object);
    unsigned char body[16];

    hfi_store_double(body, number.real);
    hfi_store_double(body + 8, number.imag);
    hfi_plain_pack_ext(e->packer, HFI_PLAIN_COMPLEX, body, sizeof body);
    return HF_OK;
}

static hf_status
encode_text(hfi_plain_encoder *e, PyObject *object, const char *data, Py_ssize_t size) {
    hf_status status;

    if (!hfi_plain_is_singleton(object)) {
        status = hfi_plain_index(e, object);
        if (status)
            return status;
        if ((uint64_t)size > UINT32_MAX)
            return hfi_plain_decline(e, object, " (too large)");
        if (PyUnicode_CHECK_INTERNED(object)) {
            hfi_plain_pack_ext(e->packer, HFI_PLAIN_INTERNED, data, (size_t)size);
            return HF_OK;
        }
    }
    hfi_pack_str(e->packer, (size_t)size);
    hfi_packer_append(e->packer, data, (size_t)size);
    return HF_OK;
}

static hf_status
encode_wide(hfi_plain_encoder *e, PyObject *object) {
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
    status = hfi_plain_index(e, object);
    if (status)
        return status;
    bytes = PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass");
    if (!bytes)
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
    if ((uint64_t)PyBytes_GET_SIZE(bytes) > UINT32_MAX)
        status = hfi_plain_decline(e, object, " (too large)");
    else
        hfi_plain_pack_ext(e->packer, HFI_PLAIN_SURROGATES, PyBytes_AS_STRING(bytes),
                           (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return status;
}

hf_status
hfi_plain_encode_str(hfi_plain_encoder *e, PyObject *object) {
#if PY_VERSION_HEX < 0x030c0000
    if (PyUnicode_READY(object) < 0)
        return hfi_error_from_python(HF_E_CODEC, e->reterr);
#endif
    if (PyUnicode_IS_COMPACT_ASCII(object))
        return encode_text(e, object, (const char *)PyUnicode_DATA(object),
                           PyUnicode_GET_LENGTH(object));
    return encode_wide(e, object);
}

hf_status
hfi_plain_encode_bytes(hfi_plain_encoder *e, PyObject *object) {
    int mutable = PyByteArray_CheckExact(object);
    Py_ssize_t size = mutable ? PyByteArray_GET_SIZE(object) : PyBytes_GET_SIZE(object);
    hf_status status = HF_OK;

    if (mutable || size > 1)
        status = hfi_plain_index(e, object);
    if (status)
        return status;
    if ((uint64_t)size > UINT32_MAX)
        return hfi_plain_decline(e, object, " (too large)");
    if (mutable) {
        hfi_plain_pack_ext(e->packer, HFI_PLAIN_BYTEARRAY,
                           PyByteArray_AS_STRING(object), (size_t)size);
        return HF_OK;
    }
    hfi_pack_bin(e->packer, (size_t)size);
    hfi_packer_append(e->packer, PyBytes_AS_STRING(object), (size_t)size);
    return HF_OK;
}
