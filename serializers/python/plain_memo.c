/* plain_memo.c - the encoder's identity table.
 *
 * Open addressing with linear probing, at most half full: one cache miss for most
 * look-ups, which is what a million of them cost. A Python dict from id() to int, as
 * pickle.py has it, would allocate an int for each object; a set of chains would miss
 * twice. Nothing is ever removed, so there are no tombstones.
 *
 * Addresses are multiples of 16, and neighbours are often encoded after each other; so
 * the low bits are dropped and the rest multiplied by the golden ratio. The table is
 * not exposed to hostile input: addresses are the process's own.
 *
 * The objects are not referenced: the encoder holds the value, and nothing runs that
 * could free a part of it.
 */
#include "plain_memo.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 256 };

struct hfi_memo_slot {
    const void *object; /* NULL: free */
    uint32_t index;
};

void
hfi_memo_init(hfi_memo *memo) {
    memset(memo, 0, sizeof *memo);
}

void
hfi_memo_fini(hfi_memo *memo) {
    free(memo->slots);
    memset(memo, 0, sizeof *memo);
}

/* The slot of `object`, or the free one where it would go. */
static struct hfi_memo_slot *
slot_of(const hfi_memo *memo, const void *object) {
    uint64_t hash = ((uint64_t)(uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & memo->mask;

    while (memo->slots[at].object && memo->slots[at].object != object)
        at = (at + 1) & memo->mask;
    return &memo->slots[at];
}

static int
memo_grow(hfi_memo *memo) {
    size_t count = memo->slots ? memo->mask + 1 : 0;
    hfi_memo grown = {.used = memo->used};

    grown.mask = (count ? 4 * count : SLOTS_FIRST) - 1;
    grown.slots = calloc(grown.mask + 1, sizeof *grown.slots);
    if (!grown.slots)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (memo->slots[i].object)
            *slot_of(&grown, memo->slots[i].object) = memo->slots[i];
    }
    free(memo->slots);
    *memo = grown;
    return 0;
}

int
hfi_memo_find_or_insert(hfi_memo *memo, const void *object, uint32_t index,
                        uint32_t *ret_index) {
    struct hfi_memo_slot *slot;

    if ((!memo->slots || 2 * memo->used > memo->mask) && memo_grow(memo) < 0)
        return -1;
    slot = slot_of(memo, object);
    if (slot->object) {
        *ret_index = slot->index;
        return 1;
    }
    slot->object = object;
    slot->index = index;
    memo->used++;
    return 0;
}
