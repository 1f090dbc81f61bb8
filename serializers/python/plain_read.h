/* plain_read.h - the most frequent values of the plain codec, read inline.
 *
 * A decoder's loop spends a few nanoseconds on each item: here a call for each, and a
 * struct to hold the result, would double that. Items whose first byte isn't known here
 * go to plain_atoms.c.
 *
 * Every function needs the GIL.
 */
#ifndef HOLDFAST_PLAIN_READ_H
#define HOLDFAST_PLAIN_READ_H

#include "plain_decoder.h"
#include "python_error.h"

static inline int
hfi_is_ascii(const unsigned char *data, size_t size) {
    uint64_t high = 0, word;

    for (; size >= sizeof word; data += sizeof word, size -= sizeof word) {
        memcpy(&word, data, sizeof word);
        high |= word;
    }
    for (; size > 0; size--)
        high |= *data++;
    return !(high & UINT64_C(0x8080808080808080));
}

/* The number behind an integer's head, and how many bytes it takes; 0: not one of
 * those that are read here. */
static inline unsigned
hfi_take_int(const unsigned char *at, int64_t *ret_number) {
    switch (at[0]) {
    case 0xcc:
        *ret_number = at[1];
        return 1;
    case 0xcd:
        *ret_number = at[1] << 8 | at[2];
        return 2;
    case 0xce:
        *ret_number = hfi_load32(at + 1);
        return 4;
    case 0xd0:
        *ret_number = (int8_t)at[1];
        return 1;
    case 0xd1:
        *ret_number = (int16_t)(at[1] << 8 | at[2]);
        return 2;
    case 0xd2:
        *ret_number = (int32_t)hfi_load32(at + 1);
        return 4;
    case 0xd3:
        *ret_number = (int64_t)hfi_load64(at + 1);
        return 8;
    default:
        return 0;
    }
}

/* PyLong_FromLong is faster for most numbers than PyLong_FromLongLong. */
static inline PyObject *
hfi_int_new(int64_t number) {
    return sizeof(long) == sizeof number ? PyLong_FromLong((long)number)
                                         : PyLong_FromLongLong(number);
}

static inline PyObject *
hfi_ascii_new(const unsigned char *data, size_t size) {
    PyObject *text = PyUnicode_New((Py_ssize_t)size, 127);

    if (text)
        memcpy(PyUnicode_DATA(text), data, size);
    return text;
}

/* The bytes that a reference takes, and what it refers to; 0: it is none. */
static inline size_t
hfi_take_reference(const unsigned char *at, size_t *ret_index) {
    if (at[1] != HFI_PLAIN_REF || at[0] < 0xd4 || at[0] > 0xd6)
        return 0;
    *ret_index = at[0] == 0xd4   ? at[2]
                 : at[0] == 0xd5 ? (size_t)at[2] << 8 | at[3]
                                 : hfi_load32(at + 2);
    return 2 + ((size_t)1 << (at[0] - 0xd4));
}

/* As hfi_plain_decode_atom; no exception is left if memory runs out. */
static inline hf_status
hfi_read_atom(hfi_decoder *d, PyObject **ret_value) {
    const unsigned char *at = d->unpacker.at;
    size_t room = (size_t)(d->unpacker.end - at), size;
    PyObject *value;
    int64_t number;
    size_t index;

    if (room < 10) /* a head and the longest number fit */
        return hfi_plain_decode_atom(d, ret_value);
    if (at[0] <= 0x7f || at[0] >= 0xe0) {
        value = hfi_int_new((int8_t)at[0]);
        size = 1;
    } else if ((at[0] & 0xe0) == 0xa0) {
        size = 1 + (at[0] & 0x1fu);
        if (size <= 2 || room < size || !hfi_is_ascii(at + 1, size - 1))
            return hfi_plain_decode_atom(d, ret_value);
        value = hfi_ascii_new(at + 1, size - 1);
        if (value && hfi_plain_remember(d, value) != HF_OK) {
            Py_DECREF(value);
            return hfi_plain_no_memory(d);
        }
    } else if (at[0] == 0xcb) {
        uint64_t bits = hfi_load64(at + 1);
        double real;
        memcpy(&real, &bits, sizeof real);
        value = PyFloat_FromDouble(real);
        size = 9;
    } else if ((size = hfi_take_int(at, &number)) != 0) {
        value = hfi_int_new(number);
        size += 1;
    } else if ((size = hfi_take_reference(at, &index)) != 0 &&
               index < d->object_count) {
        value = Py_XNewRef(d->objects[index]);
        if (!value)
            return hfi_plain_decode_atom(d, ret_value);
    } else {
        return hfi_plain_decode_atom(d, ret_value);
    }
    if (!value)
        return hfi_error_from_python(HF_E_NOMEM, d->reterr);
    d->unpacker.at = at + size;
    *ret_value = value;
    return HF_OK;
}

#endif
