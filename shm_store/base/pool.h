/* pool.h - many small pieces of memory that are all freed at once.
 *
 * Pieces can't be freed one by one. Threads: a pool belongs to one thread at a time.
 */
#ifndef HFI_POOL_H
#define HFI_POOL_H

#include <stddef.h>

typedef struct hfi_pool_chunk hfi_pool_chunk;

typedef struct hfi_pool { /* all zero: empty */
    hfi_pool_chunk *chunks;
    char *at; /* in the newest ordinary chunk */
    size_t left;
    hfi_pool_chunk *spare; /* ordinary ones, to be used again */
} hfi_pool;

/* `size` bytes, contents unspecified, aligned to 16; NULL without memory. */
void *hfi_pool_take(hfi_pool *pool, size_t size);
/* Give up all pieces; about `keep` bytes of memory stay for later. */
void hfi_pool_clear(hfi_pool *pool, size_t keep);
/* Give up everything, and free it. */
void hfi_pool_fini(hfi_pool *pool);

#endif
