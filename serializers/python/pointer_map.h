/* pointer_map.h - a map from pointers to small numbers, for walks over live objects.
 *
 * Open addressing; the map doesn't keep the objects alive.
 *
 * Threads: a map belongs to one thread at a time.
 */
#ifndef HFI_POINTER_MAP_H
#define HFI_POINTER_MAP_H

#include <stddef.h>
#include <stdint.h>

/* All zeros is an empty map; it allocates with the first key. */
typedef struct hfi_pointer_map {
    struct hfi_pointer_slot *slots;
    size_t mask; /* slots - 1; the number of slots is a power of two */
    size_t count;
} hfi_pointer_map;

void hfi_pointer_map_fini(hfi_pointer_map *map);
/* The place of the key's value; a new key has `*ret_new` 1 and value 0. NULL: no
 * memory. The pointer is good until the next call. */
uint32_t *hfi_pointer_map_put(hfi_pointer_map *map, const void *key, int *ret_new);
/* Have the processor fetch the memory that a look-up of `key` reads. */
void hfi_pointer_map_expect(const hfi_pointer_map *map, const void *key);

#endif
