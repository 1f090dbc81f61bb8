/* unpacker.h - read msgpack from untrusted bytes, one item at a time.
 *
 * The unpacker borrows the bytes, allocates nothing, and never reads past their end.
 *
 * Threads: an unpacker belongs to one thread at a time.
 */
#ifndef HOLDFAST_UNPACKER_H
#define HOLDFAST_UNPACKER_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/status.h"

typedef enum hfi_item_kind {
    HFI_ITEM_NIL,
    HFI_ITEM_BOOL,
    HFI_ITEM_INT,  /* fits int64_t */
    HFI_ITEM_UINT, /* above INT64_MAX */
    HFI_ITEM_FLOAT,
    HFI_ITEM_STR, /* bytes are not checked to be UTF-8 */
    HFI_ITEM_BIN,
    HFI_ITEM_EXT,
    HFI_ITEM_ARRAY, /* `size` items follow */
    HFI_ITEM_MAP,   /* 2 * `size` items follow */
} hfi_item_kind;

typedef struct hfi_item {
    hfi_item_kind kind;
    int ext_type;
    size_t size; /* bytes of str, bin, ext; items of array; pairs of map */
    const unsigned char *data; /* borrowed: str, bin, ext */
    union {
        int64_t i; /* bool, int */
        uint64_t u;
        double f;
    } as;
} hfi_item;

typedef struct hfi_unpacker {
    const unsigned char *at;
    const unsigned char *end;
} hfi_unpacker;

void hfi_unpacker_init(hfi_unpacker *unpacker, const void *data, size_t size);

/* Read one head, and the body of a str, bin or ext. HF_AGAIN if the bytes end inside
 * it, or if an array or map announces more items than there are bytes; HF_E_CORRUPT for
 * the byte that msgpack never uses. The position moves on success only. */
HF_CHECK hf_status hfi_unpacker_next(hfi_unpacker *unpacker, hfi_item *ret_item);

/* Pass over one whole value, nests included, without recursion. HF_E_LIMIT if it nests
 * deeper than `depth_max` (0 to 64). Else as hfi_unpacker_next. */
HF_CHECK hf_status hfi_unpacker_skip(hfi_unpacker *unpacker, unsigned depth_max);

/* Big-endian loads. */
static inline uint32_t
hfi_load32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t
hfi_load64(const unsigned char *p) {
    return (uint64_t)hfi_load32(p) << 32 | hfi_load32(p + 4);
}

#endif
