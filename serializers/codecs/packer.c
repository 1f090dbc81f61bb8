/* packer.c - the buffer below the msgpack writer.
 *
 * One block that doubles. realloc moves large blocks by remapping on Linux, so growth
 * costs little even at hundreds of megabytes; a list of chunks was rejected because the
 * payload is handed to the sink in one piece, which then knows its exact size.
 *
 * Most values are small. The first block may be the caller's, on its stack. Then they
 * are written without an allocation.
 *
 * Past 64 MiB doubling would waste too much memory: from there on the block grows by
 * half.
 */
#include "packer.h"

#include <stdlib.h>

enum {
    CAPACITY_FIRST = 256,
    CAPACITY_SLOW = 64 << 20,
};

void
hfi_packer_init(hfi_packer *packer) {
    memset(packer, 0, sizeof *packer);
}

void
hfi_packer_init_in(hfi_packer *packer, void *block, size_t size) {
    *packer = (hfi_packer){.data = block, .capacity = size, .is_borrowed = 1};
}

void
hfi_packer_fini(hfi_packer *packer) {
    if (!packer->is_borrowed)
        free(packer->data);
    memset(packer, 0, sizeof *packer);
}

int
hfi_packer_grow(hfi_packer *packer, size_t size) {
    size_t capacity = packer->capacity ? packer->capacity : CAPACITY_FIRST;
    unsigned char *data;

    if (packer->failed)
        return -1;
    if (size > SIZE_MAX / 4 - packer->size)
        goto fail;
    while (capacity - packer->size < size)
        capacity += capacity < CAPACITY_SLOW ? capacity : capacity / 2;
    data = realloc(packer->is_borrowed ? NULL : packer->data, capacity);
    if (!data)
        goto fail;
    if (packer->is_borrowed)
        memcpy(data, packer->data, packer->size);
    packer->is_borrowed = 0;
    packer->data = data;
    packer->capacity = capacity;
    return 0;

fail:
    /* The room is set to 0, so each later append comes here and fails. */
    packer->capacity = packer->size;
    packer->failed = 1;
    return -1;
}
