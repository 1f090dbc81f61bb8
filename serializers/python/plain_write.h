/* plain_write.h - the most frequent values of the plain codec, written inline.
 *
 * An encoder's loop spends a few nanoseconds on each item: asking for room once and
 * writing head and body in place halves that. Other values (a shared or long text, a
 * large number, a NaN) go to plain_scalars.c, which gives the same bytes.
 *
 * Every function needs the GIL.
 */
#ifndef HOLDFAST_PLAIN_WRITE_H
#define HOLDFAST_PLAIN_WRITE_H

#include "plain_encoder.h"

enum {
    HFI_WRITE_TEXT = 31, /* characters whose number fits into the head */
    HFI_WRITE_ROOM = 1 + HFI_WRITE_TEXT,
};

/* 1 if the number has one digit of CPython's, which is below 2**30. */
static inline int
hfi_int_is_short(PyObject *object, int64_t *ret_number) {
#if PY_VERSION_HEX >= 0x030c0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)object))
        return 0;
    *ret_number = PyUnstable_Long_CompactValue((PyLongObject *)object);
#else
    Py_ssize_t size = Py_SIZE(object);
    if (size < -1 || size > 1)
        return 0;
    *ret_number = size * (int64_t)((PyLongObject *)object)->ob_digit[0];
#endif
    return 1;
}

/* Write it in the shortest form, as msgpack-c does. Returns the number of bytes. */
static inline size_t
hfi_write_int(unsigned char *at, int64_t number) {
    size_t width;

    if (number >= -32 && number <= 0x7f) {
        at[0] = (unsigned char)number;
        return 1;
    }
    if (number >= 0)
        width = number <= 0xff ? 0 : number <= 0xffff ? 1 : 2;
    else
        width = number >= INT8_MIN ? 0 : number >= INT16_MIN ? 1 : 2;
    at[0] = (unsigned char)((number >= 0 ? 0xcc : 0xd0) + width);
    width = (size_t)1 << width;
    for (size_t i = 0; i < width; i++)
        at[width - i] = (unsigned char)(number >> 8 * i);
    return 1 + width;
}

/* A text that is new to the encoding: only its container holds it. */
static inline size_t
hfi_write_text(hfi_plain_encoder *e, unsigned char *at, PyObject *object) {
    size_t size = (size_t)PyUnicode_GET_LENGTH(object);

    if (!PyUnicode_IS_COMPACT_ASCII(object) || size < 2 || size > HFI_WRITE_TEXT ||
        Py_REFCNT(object) > 1 || PyUnicode_CHECK_INTERNED(object) ||
        e->next_index == 0 || e->next_index == UINT32_MAX || object == e->top)
        return 0;
    e->next_index++;
    at[0] = (unsigned char)(0xa0 | size);
    memcpy(at + 1, PyUnicode_DATA(object), size);
    return 1 + size;
}

/* Big-endian. */
static inline void
hfi_store_double(unsigned char *at, double number) {
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    for (int i = 7; i >= 0; i--, bits >>= 8)
        at[i] = (unsigned char)bits;
}

static inline size_t
hfi_write_float(unsigned char *at, PyObject *object) {
    double number = PyFloat_AS_DOUBLE(object);

    if (number != number)
        return 0;
    at[0] = 0xcb;
    hfi_store_double(at + 1, number);
    return 9;
}

/* 1: `object` was written. 0: nothing was, and hfi_plain_encode_object is to do it. */
static inline int
hfi_write_atom(hfi_plain_encoder *e, PyObject *object) {
    hfi_packer *packer = e->packer;
    PyTypeObject *type = Py_TYPE(object);
    unsigned char *at;
    size_t size = 0;
    int64_t number;

    if (packer->capacity - packer->size < HFI_WRITE_ROOM &&
        hfi_packer_grow(packer, HFI_WRITE_ROOM) < 0)
        return 0;
    at = packer->data + packer->size;
    if (type == &PyUnicode_Type)
        size = hfi_write_text(e, at, object);
    else if (type == &PyLong_Type && hfi_int_is_short(object, &number))
        size = hfi_write_int(at, number);
    else if (type == &PyFloat_Type)
        size = hfi_write_float(at, object);
    packer->size += size;
    return size != 0;
}

#endif
