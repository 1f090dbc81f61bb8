/* pool.h - many small pieces of memory that all go at once. */
#ifndef HFI_POOL_H
#define HFI_POOL_H

#include <stddef.h>

typedef struct hfi_pool_chunk hfi_pool_chunk;

typedef struct hfi_pool { /* all zero: empty */
    hfi_pool_chunk *chunks;
    char *at; /* in the newest chunk */
    size_t left;
} hfi_pool;

/* `size` bytes, all zero, aligned to 16; NULL where there is no memory. */
void *hfi_pool_take(hfi_pool *pool, size_t size);
/* Free everything that was taken. */
void hfi_pool_fini(hfi_pool *pool);

#endif
