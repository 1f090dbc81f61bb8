/* region.h - memory of the arena that is mapped in this process: pins, blocks, regions.
 *
 * A *block* is memory that only this process knows: reserved, mapped, and used, or in
 * the cache, or held by preallocate.c and prefill.c. A *region* is a block that
 * somebody asked for, or a committed buffer, mapped privately. Both are a struct
 * hf_region. A *pin* keeps an extent that this process has mapped. pin.c, aside.c,
 * block.c, region.c and region_map.c, the lowest first.
 *
 * session->mutex guards all of it but for the bits of pins in shared memory, which are
 * atomic. Callers hold it unless a function says that it takes it.
 *
 * Invariants: this process's bit of an extent is set if and only if its count of pins
 * is not 0 (but a forked child has no bits). A block is one RESERVED extent with a pin
 * (but one of hfi_block_map isn't pinned yet). cache_bytes is the sum of the cached
 * blocks, own_bytes that of the blocks in use. A region pins every extent of its
 * pieces, of what it was and of what it will be; no two regions overlap.
 */
#ifndef HFI_REGION_H
#define HFI_REGION_H

#include "engine/handle.h"
#include "platform/pages.h"
#include "tuning/tuning.h"

/* ---- pins (pin.c) ---- */

typedef struct hfi_pins {
    uint32_t *counts; /* by extent: this process's regions and blocks on it */
    size_t capacity;
} hfi_pins;

void hfi_pins_fini(hfi_pins *pins);
/* HF_E_NOMEM. */
hf_status hfi_pin(hf_session *session, uint32_t extent, hf_error *reterr) HF_CHECK;
void hfi_unpin(hf_session *session, uint32_t extent);
/* Unpin an extent that a region has lost. If it was never published and no region of
 * this process has it any more, it is given up. Takes the writer lock. */
void hfi_piece_drop(hf_session *session, uint32_t extent);

/* ---- page tables that were set aside (aside.c) ---- */

#define HFI_ASIDE_MAX 16

typedef struct hfi_aside {
    struct {
        char *address;
        size_t size;
    } items[HFI_ASIDE_MAX];
    size_t count;
} hfi_aside;

/* Empty the page tables of a shared mapping of the object that is about to be replaced.
 * It begins at `offset`. */
void hfi_tables_leave(hf_session *session, uint64_t offset, void *address, size_t size);
/* Remove all page tables that were set aside. */
void hfi_aside_drop(hf_session *session);

/* ---- blocks (block.c) ---- */

#define HFI_CACHE_BINS 64

typedef struct hfi_blocks {
    hf_region *cache[HFI_CACHE_BINS]; /* by the power of two of their size */
    uint64_t cache_bytes, cache_limit;
    uint64_t cache_used[HFI_CACHE_BINS], cache_clock; /* when each bin was of use */
    uint64_t own_bytes, own_peak; /* bytes in use, and their maximum since a flush */
    size_t taken[HFI_TAKEN_MAX];  /* bytes of new blocks that were asked for */
    size_t taken_count;
} hfi_blocks;

struct hf_region {
    hf_session *session;
    _Atomic uint32_t references;
    /* One extent, mapped shared and writable. It is made private when it was published
     * (privatize.c), or when this process forks (inherit.c). In the latter case its one
     * piece is an extent that is still RESERVED. */
    int is_own;
    /* Of an own region: bytes at its beginning that are mapped privately all the same,
     * because a mapping failed half-way (unshare.c). Until the rest is, too
     * (hfi_region_privatize), the region is neither published nor kept as a block. */
    size_t private_below;
    char *address;
    size_t size;   /* asked for */
    size_t mapped; /* whole pages */
    hfi_piece *pieces;
    uint32_t piece_count;
    hfi_piece own_piece; /* what `pieces` points to for an own region */
    /* Its pieces before it was unshared, unchanged as committed; or NULL
     * (unshare.c). */
    hfi_piece *was_pieces;
    uint32_t was_count;
    /* The pieces that the last commit wrote, not mapped yet: the whole new list. */
    hfi_piece *next_pieces;
    uint32_t next_count;
    uint64_t next_commit; /* number of that commit in this process */
    /* treap (region.c) */
    hf_region *left, *right;
    uint32_t priority;
    /* For a block in the cache, or one that was just taken from it. */
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
/* List a new block that is asked for: for hfi_session_taken. Mutex held. */
void hfi_block_note(hf_session *session, const hf_region *block);
/* Count bytes of blocks in use. Mutex held. */
void hfi_own_count(hf_session *session, size_t bytes);

/* ---- regions ---- */

typedef struct hfi_regions {
    hf_region *root; /* of a treap by address */
    size_t large;    /* how many of them have HFI_LARGE bytes */
    int compares;    /* hfi_session_compare_pages */
    int verifies;    /* changed pages are compared, too: hf_session_verify_pages */
    uint64_t pages_overlooked; /* changed, and not found by what the system reports */
} hfi_regions;

/* By address. */

void hfi_regions_insert(hf_session *session, hf_region *region);
/* The first region after `address`, or NULL: for walks. */
hf_region *hfi_regions_above(hf_session *session, const void *address);

/* Forget its pieces from before it was unshared. */
void hfi_region_drop_was(hf_region *region);
/* Forget the pieces that an abandoned commit wrote of it. */
void hfi_region_drop_next(hf_region *region);
/* Map an own region privately, over the same pages at the same addresses. 0; or an
 * errno, and the region is as it was. */
int hfi_region_privatize(hf_region *region);
/* The pages of a committed region that were written here. The caller frees the runs
 * with hfi_page_runs_fini. Takes no mutex; the caller has a reference. HF_E_NOMEM. */
hf_status hfi_region_scan(hf_region *region, hfi_page_runs *ret_runs,
                          hf_error *reterr) HF_CHECK;

/* Release `count` regions and free the list. Takes the mutex. */
void hfi_regions_release(hf_region **regions, size_t count);

#endif
