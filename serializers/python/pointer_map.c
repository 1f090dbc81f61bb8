/* pointer_map.c - a map from pointers to small numbers, for walks over live objects.
 *
 * The plain encoder looks up an object's index in it, the walk for groups the root that
 * reached an object first. It uses open addressing with linear probing, is at most two
 * thirds full, and never shrinks. Most look-ups take one cache miss, which matters for
 * a million of them. Nothing is removed, so there are no tombstones. The first table is
 * small, since most values are. Each next one is four times as large, from a megabyte
 * on twice as large. So with ten million keys each takes 24 to 48 bytes.
 *
 * Objects are aligned to 16 bytes and neighbours are often met after each other. So the
 * low bits are dropped and the others multiplied by the golden ratio. The keys aren't
 * hostile input: they are the process's own addresses. A Python dict from id() would
 * make an int object for every key: ten times the time for a million.
 *
 * The keys are not referenced: the walk holds the value, and nothing runs that could
 * free a part of it.
 */
#include "pointer_map.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 16, SLOTS_SLOW = 1 << 16 };

struct hfi_pointer_slot {
    const void *key; /* NULL: free */
    uint32_t value;
};

static size_t
first_place(const hfi_pointer_map *map, const void *key) {
    uint64_t hash = ((uint64_t)(uintptr_t)key >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) & map->mask;
}

/* The slot of `key`, or the free one where it would go. */
static struct hfi_pointer_slot *
slot_of_pointer(const hfi_pointer_map *map, const void *key) {
    size_t at = first_place(map, key);
    while (map->slots[at].key && map->slots[at].key != key)
        at = (at + 1) & map->mask;
    return &map->slots[at];
}

static int
grow_map(hfi_pointer_map *map) {
    size_t count = map->slots ? map->mask + 1 : 0;
    size_t larger = !count ? SLOTS_FIRST : count < SLOTS_SLOW ? 4 * count : 2 * count;
    hfi_pointer_map grown = {calloc(larger, sizeof *grown.slots), larger - 1,
                             map->count};
    if (!grown.slots)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (map->slots[i].key)
            *slot_of_pointer(&grown, map->slots[i].key) = map->slots[i];
    free(map->slots);
    *map = grown;
    return 0;
}

void
hfi_pointer_map_fini(hfi_pointer_map *map) {
    free(map->slots);
    *map = (hfi_pointer_map){NULL, 0, 0};
}

void
hfi_pointer_map_expect(const hfi_pointer_map *map, const void *key) {
    if (map->slots)
        __builtin_prefetch(&map->slots[first_place(map, key)], 1);
}

uint32_t *
hfi_pointer_map_put(hfi_pointer_map *map, const void *key, int *ret_new) {
    if (3 * map->count >= 2 * map->mask && grow_map(map) < 0)
        return NULL;
    struct hfi_pointer_slot *slot = slot_of_pointer(map, key);
    *ret_new = slot->key == NULL;
    if (*ret_new) {
        slot->key = key;
        map->count++;
    }
    return &slot->value;
}
