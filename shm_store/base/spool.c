/* spool.c - records that are written one after the other, from the memory in which they
 * were made.
 *
 * The entries of a commit are made one by one. They are written all at once, when their
 * number and the place of the commit are known. They don't move in between, since the
 * tree points to them. They aren't copied either: the chunks in which they were made
 * are the parts of one write. So the place of a piece follows from its chunk's place,
 * and its distance from the chunk's start.
 *
 * A piece that is given up before the end is written, too, but nothing refers to it. A
 * piece that is larger than an ordinary chunk gets a chunk of its own, and the ordinary
 * chunk is still used. Some chunks are kept for the next time. malloc would give them
 * back to the system, and each use would cost a page fault for each page.
 *
 * Rejected: a buffer for the whole, into which everything is copied. It is as large
 * again, and a new process pays a fault for each of its pages, too.
 *
 * Not for threads: a spool has one user.
 */
#include "spool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE (64u << 10)

static size_t
in_units(size_t size) {
    return (size + HFI_SPOOL_UNIT - 1) & ~(size_t)(HFI_SPOOL_UNIT - 1);
}

/* The next chunk of the list, with `size` bytes: a kept one, or a new one. */
static hfi_spool_chunk *
add_chunk(hfi_spool *spool, size_t size) {
    if (spool->kept == spool->capacity) {
        size_t capacity = spool->capacity ? spool->capacity * 2 : 16;
        hfi_spool_chunk *chunks =
            realloc(spool->chunks, capacity * sizeof *spool->chunks);
        if (!chunks)
            return NULL;
        spool->chunks = chunks;
        spool->capacity = capacity;
    }
    hfi_spool_chunk *chunk = &spool->chunks[spool->count];
    int has_kept = spool->kept > spool->count;
    if (size != CHUNK_SIZE || !has_kept) {
        char *bytes = malloc(size);
        if (!bytes)
            return NULL;
        if (has_kept)
            spool->chunks[spool->kept] = *chunk;
        *chunk = (hfi_spool_chunk){.bytes = bytes, .size = size};
        spool->kept++;
    }
    chunk->used = 0;
    spool->count++;
    return chunk;
}

void *
hfi_spool_take(hfi_spool *spool, size_t size, size_t alignment, uint32_t *ret_chunk) {
    size_t whole = in_units(size);
    if (whole < size || whole > PTRDIFF_MAX) /* malloc takes no more */
        return NULL;
    hfi_spool_chunk *chunk = spool->count ? &spool->chunks[spool->current] : NULL;
    size_t at = chunk ? (chunk->used + alignment - 1) & ~(alignment - 1) : 0;
    if (!chunk || at > chunk->size || size > chunk->size - at) {
        int is_large = whole > CHUNK_SIZE / 4;
        if (!(chunk = add_chunk(spool, is_large ? whole : CHUNK_SIZE)))
            return NULL;
        if (!is_large)
            spool->current = spool->count - 1;
        at = 0;
    }
    memset(chunk->bytes + chunk->used, 0, at - chunk->used);
    chunk->used = at + size;
    *ret_chunk = (uint32_t)(chunk - spool->chunks);
    return chunk->bytes + at;
}

size_t
hfi_spool_size(const hfi_spool *spool) {
    size_t size = 0;
    for (size_t i = 0; i < spool->count; i++)
        size += in_units(spool->chunks[i].used);
    return size;
}

void
hfi_spool_place(hfi_spool *spool, uint64_t offset) {
    for (size_t i = 0; i < spool->count; i++) {
        hfi_spool_chunk *chunk = &spool->chunks[i];
        size_t whole = in_units(chunk->used);
        memset(chunk->bytes + chunk->used, 0, whole - chunk->used);
        chunk->used = whole;
        chunk->offset = offset;
        offset += whole;
    }
}

uint64_t
hfi_spool_offset(const hfi_spool *spool, uint32_t chunk, const void *piece) {
    const hfi_spool_chunk *of = &spool->chunks[chunk];
    return of->offset + (uint64_t)((const char *)piece - of->bytes);
}

void
hfi_spool_parts(const hfi_spool *spool, struct iovec *ret_parts) {
    for (size_t i = 0; i < spool->count; i++)
        ret_parts[i] = (struct iovec){spool->chunks[i].bytes, spool->chunks[i].used};
}

void
hfi_spool_clear(hfi_spool *spool, size_t keep) {
    size_t kept = 0;
    for (size_t i = 0; i < spool->kept; i++) {
        hfi_spool_chunk *chunk = &spool->chunks[i];
        if (chunk->size == CHUNK_SIZE && keep >= CHUNK_SIZE) {
            keep -= CHUNK_SIZE;
            spool->chunks[kept++] = *chunk;
        } else
            free(chunk->bytes);
    }
    spool->kept = kept;
    spool->count = spool->current = 0;
}

void
hfi_spool_fini(hfi_spool *spool) {
    hfi_spool_clear(spool, 0);
    free(spool->chunks);
    *spool = (hfi_spool){0};
}
