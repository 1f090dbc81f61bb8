/* unpacker.c - a pull reader for msgpack.
 *
 * It reads heads, one at a time, and leaves building of values to the caller: the plain
 * codec builds Python objects from them without an intermediate tree, the describers
 * look at one or two heads only, and the msgpack codec checks a payload before
 * msgpack-c may allocate for it. msgpack-c's own unpacker was rejected for these three:
 * it allocates whatever an array head announces (four bytes can ask for 100 GiB), stops
 * at 32 levels, and makes a tree of objects that would be walked a second time.
 *
 * Invariants: `at <= end`; nothing is read at or past `end`; an announced count never
 * exceeds the bytes left, since every item takes one byte at least. All forms of
 * msgpack are accepted, also those longer than needed.
 *
 * skip() works without recursion. It keeps for each open level how many items are still
 * missing, and refuses a level beyond its small table.
 */
#include "unpacker.h"

#include <string.h>

enum { SKIP_DEPTH_MAX = 64 };

void
hfi_unpacker_init(hfi_unpacker *unpacker, const void *data, size_t size) {
    unpacker->at = data;
    unpacker->end = unpacker->at + size;
}

/* Take `width` bytes as a big-endian number. */
static int
take_big_endian(hfi_unpacker *unpacker, unsigned width, uint64_t *ret_number) {
    uint64_t number = 0;

    if ((size_t)(unpacker->end - unpacker->at) < width)
        return -1;
    for (unsigned i = 0; i < width; i++)
        number = number << 8 | *unpacker->at++;
    *ret_number = number;
    return 0;
}

static hf_status
take_body(hfi_unpacker *unpacker, hfi_item_kind kind, uint64_t size, hfi_item *item) {
    if ((uint64_t)(unpacker->end - unpacker->at) < size)
        return HF_AGAIN;
    item->kind = kind;
    item->size = (size_t)size;
    item->data = unpacker->at;
    unpacker->at += size;
    return HF_OK;
}

static hf_status
take_count(hfi_unpacker *unpacker, hfi_item_kind kind, uint64_t count, hfi_item *item) {
    uint64_t items = kind == HFI_ITEM_MAP ? 2 * count : count;

    if ((uint64_t)(unpacker->end - unpacker->at) < items)
        return HF_AGAIN;
    item->kind = kind;
    item->size = (size_t)count;
    return HF_OK;
}

static hf_status
take_ext(hfi_unpacker *unpacker, uint64_t size, hfi_item *item) {
    if (unpacker->at == unpacker->end)
        return HF_AGAIN;
    item->ext_type = (int8_t)*unpacker->at++;
    return take_body(unpacker, HFI_ITEM_EXT, size, item);
}

static void
set_float(hfi_item *item, unsigned head, uint64_t bits) {
    item->kind = HFI_ITEM_FLOAT;
    if (head == 0xca) {
        uint32_t bits32 = (uint32_t)bits;
        float narrow;
        memcpy(&narrow, &bits32, sizeof narrow);
        item->as.f = (double)narrow;
    } else {
        memcpy(&item->as.f, &bits, sizeof bits);
    }
}

static void
set_unsigned(hfi_item *item, uint64_t number) {
    item->kind = number > INT64_MAX ? HFI_ITEM_UINT : HFI_ITEM_INT;
    item->as.u = number;
}

/* Sign-extend a number of `width` bytes. */
static void
set_signed(hfi_item *item, uint64_t number, unsigned width) {
    unsigned shift = 64 - 8 * width;

    item->kind = HFI_ITEM_INT;
    item->as.i = (int64_t)(number << shift) >> shift;
}

static hf_status
take_simple(unsigned head, hfi_item *item) {
    if (head == 0xc1)
        return HF_E_CORRUPT;
    item->kind = head == 0xc0 ? HFI_ITEM_NIL : HFI_ITEM_BOOL;
    item->as.i = head == 0xc3;
    return HF_OK;
}

/* Heads 0xc4 to 0xdf: a number of 1 to 8 bytes (or 2^n) follows the head. */
static hf_status
take_long(hfi_unpacker *unpacker, unsigned head, hfi_item *item) {
    /* bytes after the head that hold a size or a number */
    static const unsigned char widths[28] = {
        1, 2, 4,                /* bin 8, 16, 32 */
        1, 2, 4,                /* ext 8, 16, 32 */
        4, 8,                   /* float 32, 64 */
        1, 2, 4, 8, 1, 2, 4, 8, /* uint and int 8 to 64 */
        0, 0, 0, 0, 0,          /* fixext 1 to 16 */
        1, 2, 4,                /* str 8, 16, 32 */
        2, 4, 2, 4,             /* array and map 16, 32 */
    };
    unsigned width = widths[head - 0xc4];
    uint64_t number;

    if (take_big_endian(unpacker, width, &number) < 0)
        return HF_AGAIN;
    if (head <= 0xc6)
        return take_body(unpacker, HFI_ITEM_BIN, number, item);
    if (head <= 0xc9)
        return take_ext(unpacker, number, item);
    if (head <= 0xcb)
        set_float(item, head, number);
    else if (head <= 0xcf)
        set_unsigned(item, number);
    else if (head <= 0xd3)
        set_signed(item, number, width);
    else if (head <= 0xd8)
        return take_ext(unpacker, (uint64_t)1 << (head - 0xd4), item);
    else if (head <= 0xdb)
        return take_body(unpacker, HFI_ITEM_STR, number, item);
    else
        return take_count(unpacker, head <= 0xdd ? HFI_ITEM_ARRAY : HFI_ITEM_MAP,
                          number, item);
    return HF_OK;
}

hf_status
hfi_unpacker_next(hfi_unpacker *unpacker, hfi_item *ret_item) {
    const unsigned char *start = unpacker->at;
    hf_status status = HF_OK;
    unsigned head;

    if (unpacker->at == unpacker->end)
        return HF_AGAIN;
    head = *unpacker->at++;
    if (head <= 0x7f || head >= 0xe0) {
        ret_item->kind = HFI_ITEM_INT;
        ret_item->as.i = (int8_t)head;
    } else if (head <= 0x8f) {
        status = take_count(unpacker, HFI_ITEM_MAP, head & 0x0f, ret_item);
    } else if (head <= 0x9f) {
        status = take_count(unpacker, HFI_ITEM_ARRAY, head & 0x0f, ret_item);
    } else if (head <= 0xbf) {
        status = take_body(unpacker, HFI_ITEM_STR, head & 0x1f, ret_item);
    } else if (head <= 0xc3) {
        status = take_simple(head, ret_item);
    } else {
        status = take_long(unpacker, head, ret_item);
    }
    if (status)
        unpacker->at = start;
    return status;
}

hf_status
hfi_unpacker_skip(hfi_unpacker *unpacker, unsigned depth_max) {
    uint64_t owed[SKIP_DEPTH_MAX + 1] = {1};
    const unsigned char *start = unpacker->at;
    unsigned depth = 0;
    hf_status status = HF_OK;
    hfi_item item;

    if (depth_max > SKIP_DEPTH_MAX)
        depth_max = SKIP_DEPTH_MAX;
    for (;;) {
        while (depth > 0 && owed[depth] == 0)
            depth--;
        if (owed[depth] == 0)
            break;
        owed[depth]--;
        status = hfi_unpacker_next(unpacker, &item);
        if (status)
            break;
        if (item.kind != HFI_ITEM_ARRAY && item.kind != HFI_ITEM_MAP)
            continue;
        if (depth == depth_max) {
            status = HF_E_LIMIT;
            break;
        }
        owed[++depth] = item.kind == HFI_ITEM_MAP ? 2 * (uint64_t)item.size : item.size;
    }
    if (status)
        unpacker->at = start;
    return status;
}
