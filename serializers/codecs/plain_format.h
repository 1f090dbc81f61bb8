/* plain_format.h - what the plain codec adds to msgpack.
 *
 * A payload of format 1 is one msgpack value. None, bool, int of 64 bits, float, str,
 * bytes, list and dict are msgpack's own nil, bool, int, float64, str, bin, array and
 * map. The rest are these extension types, so any msgpack reader can walk a payload:
 *
 * - 1, KIND: 1 byte, a kind below. Only as the first item of an array, which is then
 *   no list: the items after it are the container's.
 * - 2, REF: 1, 2 or 4 bytes, big-endian, the index of an object written before.
 * - 3, BIGINT: ASCII, "-" where negative, then lower-case hexadecimal digits.
 * - 4, COMPLEX: 16 bytes, real and imaginary float64, big-endian.
 * - 5, SURROGATES: str with lone surrogates, in UTF-8 that encodes them as they are.
 * - 6, BYTEARRAY: the bytes.
 * - 7, SINGLETON: 1 byte, a singleton below.
 * - 8, INTERNED: str that was interned, in UTF-8.
 * - 9, NAN: 8 bytes, float64, big-endian, a NaN that others refer to.
 *
 * Objects are indexed in the order in which they begin, from 0: every container (lists
 * and dicts too), every bin, BYTEARRAY, SURROGATES, INTERNED and NAN, and every str of
 * two bytes or more. Shorter ones are singletons in CPython anyway.
 *
 * The meta of an encoding is one byte: the number of the format.
 */
#ifndef HOLDFAST_PLAIN_FORMAT_H
#define HOLDFAST_PLAIN_FORMAT_H

enum { HFI_PLAIN_FORMAT = 1 };

enum hfi_plain_ext {
    HFI_PLAIN_KIND = 1,
    HFI_PLAIN_REF = 2,
    HFI_PLAIN_BIGINT = 3,
    HFI_PLAIN_COMPLEX = 4,
    HFI_PLAIN_SURROGATES = 5,
    HFI_PLAIN_BYTEARRAY = 6,
    HFI_PLAIN_SINGLETON = 7,
    HFI_PLAIN_INTERNED = 8,
    HFI_PLAIN_NAN = 9,
};

enum hfi_plain_kind {
    HFI_PLAIN_TUPLE = 1,
    HFI_PLAIN_SET = 2,
    HFI_PLAIN_FROZENSET = 3,
    HFI_PLAIN_RANGE = 4, /* start, stop, step: ints */
    HFI_PLAIN_SLICE = 5, /* start, stop, step: no containers */
};

enum hfi_plain_singleton {
    HFI_PLAIN_ELLIPSIS = 1,
    HFI_PLAIN_NOTIMPLEMENTED = 2,
};

#endif
