/* spool.h - records that are written together, each kept in the memory in which it was
 * made.
 *
 * Threads: a spool belongs to one thread at a time.
 */
#ifndef HFI_SPOOL_H
#define HFI_SPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define HFI_SPOOL_UNIT 64u /* chunks lie at multiples of it */

typedef struct hfi_spool_chunk {
    char *bytes;
    size_t size, used;
    uint64_t offset; /* of its first byte, set by hfi_spool_place */
} hfi_spool_chunk;

typedef struct hfi_spool { /* all zero: empty */
    hfi_spool_chunk *chunks;
    size_t count, kept,
        capacity;   /* numbers of chunks: in use, with memory, in the list */
    size_t current; /* the ordinary one that has room */
} hfi_spool;

/* Room for `size` bytes, contents unspecified, that will lie at a multiple of
 * `alignment`, 8 up to a unit; and the number of its chunk. NULL without memory. */
void *hfi_spool_take(hfi_spool *spool, size_t size, size_t alignment,
                     uint32_t *ret_chunk);
/* Number of bytes that will be written: all pieces, and zeros between. */
size_t hfi_spool_size(const hfi_spool *spool);
/* The pieces will lie from `offset` on, a multiple of a unit. No piece can be added
 * after this. */
void hfi_spool_place(hfi_spool *spool, uint64_t offset);
/* The offset at which a piece will lie. */
uint64_t hfi_spool_offset(const hfi_spool *spool, uint32_t chunk, const void *piece);
/* One part for each chunk, in order: `spool->count` of them. */
void hfi_spool_parts(const hfi_spool *spool, struct iovec *ret_parts);
/* Give up all pieces; about `keep` bytes of memory stay for later. */
void hfi_spool_clear(hfi_spool *spool, size_t keep);
/* Give up everything, and free it. */
void hfi_spool_fini(hfi_spool *spool);

#endif
