/* pointer_map.h - from pointers to small numbers, for walks over live objects. */
#ifndef HFI_POINTER_MAP_H
#define HFI_POINTER_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct hfi_pointer_map {
    const void **keys;
    uint32_t *values;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
} hfi_pointer_map;

void hfi_pointer_map_fini(hfi_pointer_map *map);
/* Where the key's value is; a new key has `*ret_new` 1 and value 0. NULL: no memory.
 * The pointer is good until the next call. */
uint32_t *hfi_pointer_map_put(hfi_pointer_map *map, const void *key, int *ret_new);

#endif
