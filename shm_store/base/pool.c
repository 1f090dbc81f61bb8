/* pool.c - many small pieces of memory that are all freed at once.
 *
 * A commit of a thousand names makes a node for every third, and drops all of them at
 * its end. With one malloc and one free each, that was a fifth of its time. Here a
 * piece is the next bytes of a chunk. Larger pieces get a chunk of their own. Nothing
 * is freed before the end: a piece that is replaced within one commit stays until then.
 * Some chunks are kept for the next commit. malloc would give them back to the system,
 * and each use would cost a page fault for each page.
 *
 * Not for threads: a pool has one user.
 */
#include "pool.h"

#include <stdint.h>
#include <stdlib.h>

#define CHUNK_SIZE (64u << 10)
#define ALIGNMENT  16u

struct hfi_pool_chunk {
    hfi_pool_chunk *next;
    size_t size; /* bytes of data behind it; keeps the data aligned */
};

static hfi_pool_chunk *
take_chunk(hfi_pool *pool, size_t size) {
    hfi_pool_chunk *chunk = pool->spare;
    if (chunk && size == CHUNK_SIZE) {
        pool->spare = chunk->next;
        return chunk;
    }
    chunk = size > SIZE_MAX - sizeof *chunk ? NULL : malloc(sizeof *chunk + size);
    if (chunk)
        chunk->size = size;
    return chunk;
}

void *
hfi_pool_take(hfi_pool *pool, size_t size) {
    size_t whole = size ? (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) : ALIGNMENT;
    if (whole < size)
        return NULL;
    if (whole > pool->left) {
        int is_large = whole > CHUNK_SIZE / 4;
        hfi_pool_chunk *chunk = take_chunk(pool, is_large ? whole : CHUNK_SIZE);
        if (!chunk)
            return NULL;
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        if (is_large) /* the chunk before is still used for small pieces */
            return chunk + 1;
        pool->at = (char *)(chunk + 1);
        pool->left = CHUNK_SIZE;
    }
    void *taken = pool->at;
    pool->at += whole;
    pool->left -= whole;
    return taken;
}

void
hfi_pool_clear(hfi_pool *pool, size_t keep) {
    hfi_pool_chunk *kept = NULL, *next;
    for (int spare = 0; spare < 2; spare++)
        for (hfi_pool_chunk *c = spare ? pool->spare : pool->chunks; c; c = next) {
            next = c->next;
            if (c->size == CHUNK_SIZE && keep >= CHUNK_SIZE) {
                keep -= CHUNK_SIZE;
                c->next = kept;
                kept = c;
            } else
                free(c);
        }
    *pool = (hfi_pool){.spare = kept};
}

void
hfi_pool_fini(hfi_pool *pool) {
    hfi_pool_clear(pool, 0);
}
