/* plain_decoder.h - the state and functions that the files of the decoder share.
 *
 * Private to the plain_*.c files. Every function needs the GIL.
 */
#ifndef HOLDFAST_PLAIN_DECODER_H
#define HOLDFAST_PLAIN_DECODER_H

#include "codecs/plain_format.h"
#include "base/unpacker.h"
#include "plain.h"

typedef struct hfi_decoder_frame {
    PyObject *object; /* owned; range and slice: a tuple of the three parts */
    PyObject *key;    /* owned: dict key that waits for its value; a set with places:
                         the list of its elements */
    const unsigned char *places; /* of a set's elements, in the payload; or NULL */
    size_t places_size;
    size_t left;      /* items that are still to come */
    Py_ssize_t index; /* items that are in place; for a dict, pairs */
    size_t number;    /* index of the object, for range and slice */
    int kind;
    int tracked; /* tuple: an item is of the collector's concern */
} hfi_decoder_frame;

typedef struct hfi_decoder {
    hfi_unpacker unpacker;
    size_t owed;
    unsigned flags;     /* of the meta */
    PyObject *outside;  /* of an array's elements: a list, borrowed; else NULL */
    PyObject **objects; /* by index; borrowed; NULL while a range or slice is open */
    size_t object_count;
    size_t object_capacity;
    hfi_decoder_frame *frames;
    size_t depth;
    size_t capacity;
    hf_error *reterr;
} hfi_decoder;

hf_status hfi_plain_corrupt(hfi_decoder *d, const char *what);
hf_status hfi_plain_no_memory(hfi_decoder *d);

/* plain_atoms.c: remember an object under the next index, so that later items can refer
 * to it. HF_E_NOMEM. */
hf_status hfi_plain_remember(hfi_decoder *d, PyObject *object);
/* Read one value that is no container: a new reference. HF_STOP if a container begins;
 * the position has not moved then. HF_E_CORRUPT, HF_E_NOMEM. */
hf_status hfi_plain_decode_atom(hfi_decoder *d, PyObject **ret_value);

#endif
