/* plain.h - the plain codec's parts, shared between its files. Every function here
 * needs the GIL. The format is in codecs/plain_format.h. */
#ifndef HOLDFAST_PLAIN_H
#define HOLDFAST_PLAIN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "codecs/packer.h"
#include "holdfast/codec.h"

extern const hf_codec hfi_codec_plain;

/* Write one value; `ret_flags` are those of its meta. HF_DECLINED names the path to
 * what can't be carried, and its type; HF_E_NOMEM, HF_E_CODEC. No Python exception is
 * left set. */
HF_CHECK hf_status hfi_plain_encode(PyObject *value, hfi_packer *packer,
                                    unsigned *ret_flags, hf_error *reterr);
/* Read one value that fills the payload: a new reference. HF_E_CORRUPT, HF_E_NOMEM. No
 * Python exception is left set. */
HF_CHECK hf_status hfi_plain_decode(const void *payload, size_t size, unsigned flags,
                                    PyObject **ret_value, hf_error *reterr);

/* 1 where decoding and encoding again, in any process, gives the bytes of the encoding
 * that has this meta; codecs/plain_format.h says what holds. Needs no GIL. */
int hfi_plain_is_canonical(const void *meta, size_t size);

/* 1 where hashing `key` neither overflows the C stack nor meets an unfinished tuple.
 * Both directions ask it: what the decoder would refuse, the encoder declines. */
int hfi_plain_hashable(PyObject *key);
/* A text of which CPython has only one object, at least after decoding. */
int hfi_plain_is_singleton(PyObject *text);
/* Neither a container nor mutable: what a slice may hold. */
int hfi_plain_is_atom(PyObject *object);

#endif
