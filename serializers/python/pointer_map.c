/* pointer_map.c - from pointers to small numbers, for walks over live objects.
 *
 * Open addressing with linear probing, at most two thirds full, never shrinking. Keys
 * and values lie in separate arrays: a walk mostly asks "seen?" and so touches keys
 * only. Pointers are mixed by a multiplication (Fibonacci hashing), since objects are
 * aligned to 16 bytes and their low bits say nothing. A Python dict or set would do the
 * same with an int object for every key: ten times the time for a list of a million
 * lists.
 */
#include "pointer_map.h"

#include <stdlib.h>

static size_t
slot_of(const hfi_pointer_map *map, const void *key) {
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 20) & (map->capacity - 1);
    while (map->keys[at] && map->keys[at] != key)
        at = (at + 1) & (map->capacity - 1);
    return at;
}

static int
grow(hfi_pointer_map *map) {
    size_t capacity = map->capacity ? map->capacity * 2 : 1024;
    hfi_pointer_map larger = {calloc(capacity, sizeof *larger.keys),
                              calloc(capacity, sizeof *larger.values), capacity,
                              map->count};
    if (!larger.keys || !larger.values) {
        hfi_pointer_map_fini(&larger);
        return -1;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (!map->keys[i])
            continue;
        size_t at = slot_of(&larger, map->keys[i]);
        larger.keys[at] = map->keys[i];
        larger.values[at] = map->values[i];
    }
    hfi_pointer_map_fini(map);
    *map = larger;
    return 0;
}

void
hfi_pointer_map_fini(hfi_pointer_map *map) {
    free(map->keys);
    free(map->values);
    *map = (hfi_pointer_map){NULL, NULL, 0, 0};
}

uint32_t *
hfi_pointer_map_put(hfi_pointer_map *map, const void *key, int *ret_new) {
    if (map->count * 3 >= map->capacity * 2 && grow(map) < 0)
        return NULL;
    size_t at = slot_of(map, key);
    *ret_new = map->keys[at] == NULL;
    if (*ret_new) {
        map->keys[at] = key;
        map->count++;
    }
    return &map->values[at];
}
