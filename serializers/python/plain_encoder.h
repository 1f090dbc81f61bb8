/* plain_encoder.h - the state and functions that the files of the encoder share.
 *
 * Private to the plain_*.c files. Every function needs the GIL.
 */
#ifndef HOLDFAST_PLAIN_ENCODER_H
#define HOLDFAST_PLAIN_ENCODER_H

#include "codecs/plain_format.h"
#include "plain.h"
#include "pointer_map.h"

typedef struct hfi_plain_encoder_frame {
    PyObject *object;   /* borrowed: list, tuple, dict, set or frozenset */
    PyObject **items;   /* list, tuple: borrowed; else NULL */
    Py_ssize_t count;   /* list, tuple: of items */
    PyObject *pending;  /* dict: value of the key just given, borrowed; NULL after it */
    PyObject *key;      /* dict: key just given, borrowed */
    PyObject *iterator; /* set: owned */
    Py_ssize_t position; /* list, tuple: next index; dict: PyDict_Next's */
} hfi_plain_encoder_frame;

typedef struct hfi_plain_encoder {
    hfi_packer *packer;
    hfi_pointer_map seen; /* objects -> index, without the one at the top */
    PyObject *top;        /* has index 0 */
    uint32_t next_index;
    unsigned flags;                /* enum hfi_plain_flag */
    PyObject *outside;             /* of an array: a list, borrowed */
    hfi_pointer_map outside_index; /* objects -> place in it */
    hfi_plain_encoder_frame *frames;
    size_t depth;
    size_t capacity;
    hf_error *reterr;
} hfi_plain_encoder;

/* HF_DECLINED: the path to `object`, its type, and `why`. */
hf_status hfi_plain_decline(hfi_plain_encoder *e, PyObject *object, const char *why);
hf_status hfi_plain_fail_memory(hfi_plain_encoder *e);
void hfi_plain_pack_ext(hfi_packer *packer, enum hfi_plain_ext type, const void *body,
                        size_t size);
/* Look for `object` among those that were written. As hfi_plain_index. */
hf_status hfi_plain_look_up(hfi_plain_encoder *e, PyObject *object);

/* Give `object` its index. HF_STOP if it has one, and a reference was written. An
 * object with one reference is held by the container being walked, so it can't be met
 * again. */
static inline hf_status
hfi_plain_index(hfi_plain_encoder *e, PyObject *object) {
    if (Py_REFCNT(object) > 1 || object == e->top || e->next_index == 0 ||
        e->next_index == UINT32_MAX)
        return hfi_plain_look_up(e, object);
    e->next_index++;
    return HF_OK;
}

/* A REF or OUTSIDE of `index`. */
void hfi_plain_pack_place(hfi_packer *packer, enum hfi_plain_ext type, uint32_t index);
/* Write an atom, or open a container. HF_STOP: a reference was written instead. */
hf_status hfi_plain_encode_object(hfi_plain_encoder *e, PyObject *object);

enum { HFI_PLAIN_AHEAD = 8 }; /* items */

/* If objects lie scattered, most of the time is spent waiting for memory, so fetch them
 * ahead. */
static inline void
hfi_plain_expect(const hfi_plain_encoder *e, PyObject *const *items, Py_ssize_t left) {
    if (left > 2 * HFI_PLAIN_AHEAD) {
        __builtin_prefetch(items[2 * HFI_PLAIN_AHEAD]);
        hfi_pointer_map_expect(&e->seen, items[HFI_PLAIN_AHEAD]);
    }
}

/* plain_scalars.c: values without parts. HF_STOP as above. */
hf_status hfi_plain_encode_int(hfi_plain_encoder *e, PyObject *object);
hf_status hfi_plain_encode_float(hfi_plain_encoder *e, PyObject *object);
hf_status hfi_plain_encode_complex(hfi_plain_encoder *e, PyObject *object);
hf_status hfi_plain_encode_str(hfi_plain_encoder *e, PyObject *object);
/* bytes and bytearray. */
hf_status hfi_plain_encode_bytes(hfi_plain_encoder *e, PyObject *object);

#endif
