/* block.h - memory of the arena that only this process knows: reserved, mapped, cached.
 *
 * A block is a struct hf_region that is not among the regions (region.h): new, in the
 * cache, or held by stock.c and provision.c. session->mutex guards the cache and the
 * sums; functions say whether they want it held or take it.
 *
 * Invariant: cache_bytes is the sum of the cached blocks, own_bytes that of the blocks
 * in use. Each block is one RESERVED extent, which a pin of this process keeps (but one
 * of hfi_block_map isn't pinned yet). */
#ifndef HFI_BLOCK_H
#define HFI_BLOCK_H

#include "engine/handle.h"

#define HFI_CACHE_BINS 64

typedef struct hfi_blocks {
    hf_region *cache[HFI_CACHE_BINS]; /* by the power of two of their size */
    uint64_t cache_bytes, cache_limit;
    uint64_t cache_used[HFI_CACHE_BINS], cache_clock; /* when each bin was of use */
    uint64_t own_bytes, own_peak; /* in use, and the most of that since a flush */
    size_t taken[HF_TAKEN_MAX];   /* bytes of new blocks that were asked for */
    size_t taken_count;
} hfi_blocks;

struct hf_region {
    hf_session *session;
    _Atomic uint32_t references;
    /* One extent, mapped shared and writable, until it is made private: because it was
     * published (seal.c), or because this process forks (inherit.c). In the latter case
     * its one piece is an extent that is still RESERVED. */
    int is_own;
    /* Of an own region: bytes at its beginning that are mapped privately all the same,
     * because a mapping failed half-way (unseal.c). Until the rest is, too
     * (hfi_region_privatize), the region is neither published nor kept as a block. */
    size_t private_below;
    char *address;
    size_t size;   /* asked for */
    size_t mapped; /* whole pages */
    hfi_piece *pieces;
    uint32_t piece_count;
    hfi_piece own_piece; /* what `pieces` points to for an own region */
    /* What it was before it was unsealed, unchanged as committed; or NULL (unseal.c). */
    hfi_piece *was_pieces;
    uint32_t was_count;
    /* What the last commit wrote of it, not mapped yet: the whole new list. */
    hfi_piece *next_pieces;
    uint32_t next_count;
    uint64_t next_commit; /* number of that commit in this process */
    /* treap (region.c) */
    hf_region *left, *right;
    uint32_t priority;
    /* Of a block in the cache, or just taken. */
    hf_region *cache_next;
    int is_new;  /* not asked for yet, or for the first time */
    int is_zero; /* and nobody has written to it */
    int is_met;  /* its page tables are filled */
};

void hfi_blocks_init(hfi_blocks *blocks); /* of zeros */
/* The size of a block for `size` bytes: blocks of one size fit each other. */
size_t hfi_block_size(const hf_session *session, size_t size);
/* A block of at least `mapped` bytes: of the cache, or reserved (`how`: HFI_RESERVE_*),
 * mapped and pinned. `ret_zero`: its pages are known to be zero. Takes the mutex.
 * HF_E_NOMEM if addresses are short, and what hfi_extent_reserve returns. */
hf_status hfi_block_take(hf_session *session, size_t mapped, uint32_t how,
                         hf_region **ret_block, int *ret_zero,
                         hf_error *reterr) HF_CHECK;
/* A new one that isn't pinned yet: mapped, and of a hole if it is reserved bare. Takes
 * no mutex. Statuses as above. */
hf_status hfi_block_map(hf_session *session, size_t mapped, uint32_t how,
                        hf_region **ret_block, hf_error *reterr) HF_CHECK;
/* Unmap, unpin and free its extent. Mutex held. */
void hfi_block_free(hf_region *block);
/* Keep it for the next caller; it is freed if the cache is full. Mutex held. */
void hfi_cache_put(hf_session *session, hf_region *block);
/* Give all cached blocks back. Takes the mutex. */
void hfi_cache_flush(hf_session *session);
/* In a forked child that goes on as its parent's heir: unmap blocks that are the
 * parent's, without a word to shared memory: a list by cache_next, or the cache. Mutex
 * held. */
void hfi_blocks_forget(hf_session *session, hf_region *blocks);
void hfi_cache_forget(hf_session *session);
/* List a new block that is asked for: for hf_session_taken. Mutex held. */
void hfi_block_note(hf_session *session, const hf_region *block);
/* Count bytes of blocks in use. Mutex held. */
static inline void
hfi_own_count(hf_session *session, size_t bytes) {
    hfi_blocks *blocks = session->blocks;
    blocks->own_bytes += bytes;
    if (blocks->own_bytes > blocks->own_peak)
        blocks->own_peak = blocks->own_bytes;
}

#endif
