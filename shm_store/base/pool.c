/* pool.c - many small pieces of memory that all go at once.
 *
 * A commit of a thousand names makes a record and part of a node for each, and throws
 * all of them away when it is done. Taken from malloc one by one and freed one by one,
 * that was a fifth of its time. Here a piece is the next bytes of a chunk; larger
 * pieces get a chunk of their own. Nothing is given back before the end: what is
 * replaced within one commit stays until then.
 *
 * Not for threads: a pool has one user.
 */
#include "pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE (64u << 10)
#define ALIGNMENT  16u

struct hfi_pool_chunk {
    hfi_pool_chunk *next;
    size_t size; /* keeps what follows aligned */
};

void *
hfi_pool_take(hfi_pool *pool, size_t size) {
    size_t whole = size ? (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) : ALIGNMENT;
    if (whole < size)
        return NULL;
    if (whole > pool->left) {
        int is_large = whole > CHUNK_SIZE / 4;
        size_t room = is_large ? whole : CHUNK_SIZE;
        hfi_pool_chunk *chunk =
            room > SIZE_MAX - sizeof *chunk ? NULL : malloc(sizeof *chunk + room);
        if (!chunk)
            return NULL;
        *chunk = (hfi_pool_chunk){pool->chunks, room};
        pool->chunks = chunk;
        if (is_large) /* the chunk before goes on being used */
            return memset(chunk + 1, 0, whole);
        pool->at = (char *)(chunk + 1);
        pool->left = room;
    }
    void *taken = pool->at;
    pool->at += whole;
    pool->left -= whole;
    return memset(taken, 0, whole);
}

void
hfi_pool_fini(hfi_pool *pool) {
    while (pool->chunks) {
        hfi_pool_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        free(chunk);
    }
    memset(pool, 0, sizeof *pool);
}
