/* plain_format.h - the extensions of the plain codec to msgpack.
 *
 * A payload of format 2 is one msgpack value. None, bool, int of 64 bits, float, str,
 * bytes, list and dict are msgpack's own nil, bool, int, float64, str, bin, array and
 * map. The rest are these extension types, so any msgpack reader can walk a payload:
 *
 * - 1, KIND: 1 byte, a kind below. Only as the first item of an array, which is then
 *   no list: the items after it are the container's. A set's or frozenset's may be
 *   followed by the places of its elements (python/plain_sets.c), which keep its order.
 * - 2, REF: 1, 2 or 4 bytes, big-endian, the index of an object written before.
 * - 3, BIGINT: ASCII, "-" if negative, then lower-case hexadecimal digits.
 * - 4, COMPLEX: 16 bytes, real and imaginary float64, big-endian.
 * - 5, SURROGATES: str with lone surrogates, in UTF-8 that encodes them as they are.
 * - 6, BYTEARRAY: the bytes.
 * - 7, SINGLETON: 1 byte, a singleton below.
 * - 8, INTERNED: str that was interned, in UTF-8.
 * - 9, NAN: 8 bytes, float64, big-endian: every NaN that is a value by itself.
 * - 10, OUTSIDE: 1, 2 or 4 bytes, big-endian, the index of an object that goes
 *   beside the payload. Only in the elements of an array of objects (below).
 *
 * Objects are indexed in the order in which they begin, from 0: every container (lists
 * and dicts too), every BYTEARRAY and NAN, every bin of two bytes or more, and every
 * str but the empty one and those of one character up to U+00FF. Objects without an
 * index are singletons of CPython, or numbers, which are carried by value.
 *
 * The elements of an array of objects are a payload that holds one list, of atoms and
 * OUTSIDEs; the pickle around it has the meta and the objects beside it.
 *
 * The meta of an encoding is two bytes: the number of the format, and the flags below.
 *
 * An encoding without HFI_PLAIN_UNORDERED is canonical: decoded and encoded again, by
 * this process or another one of the same program, it gives the same meta and payload,
 * byte for byte. So of such a value two encodings differ exactly where the value, the
 * type of a part, the order of a dict, which parts are one object, or which strings are
 * interned differ. The one exception are sets of two or more elements, written as they
 * iterate, with their places where these aren't those of sets just made: that depends
 * on the hashes of the process and the history of the set, and keeping it as it was is
 * worth more than sorting.
 */
#ifndef HOLDFAST_PLAIN_FORMAT_H
#define HOLDFAST_PLAIN_FORMAT_H

enum { HFI_PLAIN_FORMAT = 2, HFI_PLAIN_META_SIZE = 2 };

enum hfi_plain_flag {
    HFI_PLAIN_UNORDERED = 1,  /* holds a set or frozenset of two or more elements */
    HFI_PLAIN_SHARED = 2,     /* holds a REF; without it a REF is corrupt */
    HFI_PLAIN_LOOKS_BACK = 4, /* holds the notebook's NAMESPACE */
    HFI_PLAIN_FLAGS = 7,      /* all of them; others are corrupt */
};

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
    HFI_PLAIN_OUTSIDE = 10,
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
    HFI_PLAIN_NAMESPACE = 3, /* the notebook's variables: globals() */
};

#endif
