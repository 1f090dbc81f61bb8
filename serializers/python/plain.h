/* plain.h - the plain codec's parts, shared between its files. Every function here
 * needs the GIL. The format is in codecs/plain_format.h.
 */
#ifndef HOLDFAST_PLAIN_H
#define HOLDFAST_PLAIN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "codecs/packer.h"
#include "codecs/plain_format.h"
#include "holdfast/codec.h"

extern const hf_codec hfi_codec_plain;

/* Write one value; `ret_flags` are those of its meta. HF_DECLINED names the path to the
 * object that can't be carried, and its type; HF_E_NOMEM, HF_E_CODEC. No Python
 * exception is left set. */
HF_CHECK hf_status hfi_plain_encode(PyObject *value, hfi_packer *packer,
                                    unsigned *ret_flags, hf_error *reterr);
/* Read one value that fills the payload: a new reference. HF_E_CORRUPT, HF_E_NOMEM. No
 * Python exception is left set. */
HF_CHECK hf_status hfi_plain_decode(const void *payload, size_t size, unsigned flags,
                                    PyObject **ret_value, hf_error *reterr);

/* Write the elements of an array of objects as one list: atoms as they are; of every
 * other object its place in `outside`, a list, to which it is added when it is first
 * met. NULL is None, as in NumPy. Gives the meta, HFI_PLAIN_META_SIZE bytes.
 * HF_DECLINED, HF_E_NOMEM, HF_E_CODEC, as hfi_plain_encode. */
HF_CHECK hf_status hfi_plain_encode_elements(PyObject *const *elements, size_t count,
                                             PyObject *outside, hfi_packer *packer,
                                             unsigned char *ret_meta, hf_error *reterr);
/* Read them into the array's memory, whose elements are dropped; on failure some of
 * them are new and some old. HF_E_CORRUPT, also if the payload doesn't hold `count`
 * elements; HF_E_VERSION, HF_E_NOMEM. */
HF_CHECK hf_status hfi_plain_decode_elements(const hf_source *source, PyObject *outside,
                                             PyObject **elements, size_t count,
                                             hf_error *reterr);

/* 1 if decoding and encoding again, in any process, gives the bytes of the encoding
 * that has this meta; codecs/plain_format.h has the rule. Needs no GIL. */
int hfi_plain_is_canonical(const void *meta, size_t size);

/* HF_E_VERSION or HF_E_CORRUPT if this isn't the meta of an encoding of ours. */
hf_status hfi_plain_check_meta(const unsigned char *meta, size_t size,
                               hf_error *reterr);
/* 1 if hashing `key` neither overflows the C stack nor meets an unfinished tuple. Both
 * directions ask it, so that the encoder declines every key that the decoder would
 * refuse. */
int hfi_plain_hashable(PyObject *key);
/* A text of which CPython has only one object, at least after decoding. */
int hfi_plain_is_singleton(PyObject *text);
/* 1 if decoding asks for the notebook's variables. */
int hfi_plain_looks_back(const void *meta, size_t size);
/* The notebook's variables, for which a value is carried now, or None: new
 * reference. */
PyObject *hfi_plain_namespace(void);
/* Neither a container nor mutable, so it may be a part of a slice. */
int hfi_plain_is_atom(PyObject *object);

/* ---- plain_sets.c: the order of a set's elements, as places in its table ---- */

/* The places of the elements of an exact set or frozenset: a block that the caller
 * frees. NULL with `*ret_size` 0 if inserting the elements in their order gives the
 * same table, if the table is too sparse, or if the layout of tables isn't known; NULL
 * with `*ret_size` 1 without memory. No exception is set. */
unsigned char *hfi_set_places(PyObject *set, size_t *ret_size);

/* Give an empty, new set or frozenset the items of a list, at these places. 1: done. 0:
 * the places, which may lie, aren't where the items would be found, or two items are
 * equal; the set is empty then. -1 with an exception. */
int hfi_set_place(PyObject *set, PyObject *items, const unsigned char *places,
                  size_t size);

#endif
