/* block.c - memory of the arena that only this process knows, and its cache.
 *
 * Reserving and releasing is an allocator's hot path. A released block of this process
 * goes to a cache, still reserved and mapped with its pages, and the next request of
 * about its size takes it without a system call or a page fault. If none comes within a
 * second, the memory is given back (unused.c). The cache is bounded
 * (an eighth of the memory that this process may have, at most 1 GiB), and given back
 * when the arena is full, when addresses are short, when it is trimmed, and at close.
 * What is in the cache is no use of the program's. So before its use is measured,
 * cached blocks leave the page tables (hfi_session_leave_cache).
 * Blocks of many sizes don't fit each other, so there is a second bound: before a new
 * block is made, cached ones go until those in use, those in the cache and the new one
 * are no more than the most that was in use at once since a trim, a quarter of it, and
 * 32 MiB. A block of recycled pages that isn't in the cache gets its page tables filled
 * at once (platform/populate.c), an eighth of what a first write to each page would
 * cost, which is 500 ms a GiB in the middle of somebody's computation. Sizes are
 * rounded up to sixteen steps per power of two, so that blocks fit each other; at most
 * 6 % is lost.
 *
 * Zeroed memory is recycled too, and cleared: with its page tables that takes 130 ms a
 * GiB, and 30 from the cache. Fresh pages are zero from the start, but cost 260 to
 * allocate and 370 more when they are touched (bench/store_commit.c); so lazily zero
 * pages aren't kept for it, nor are holes punched to get some.
 */
#include "engine/region.h"

#include <errno.h>
#include <stdlib.h>

#include "base/step.h"
#include "engine/extent.h"
#include "engine/reservation.h"
#include "engine/slot.h"
#include "platform/limit.h"
#include "platform/object.h"
#include "platform/pages.h"

#define CACHE_SHARE 8 /* the cache's part of the memory: 1 / this */
#define CACHE_MAX   (1ull << 30)
#define KEPT_MIN    (32ull << 20)
#define WORTH       ((size_t)1 << 20) /* a smaller block isn't listed as taken */

void
hfi_blocks_init(hfi_blocks *blocks) {
    uint64_t share = hfi_limit_memory_bytes() / CACHE_SHARE;
    blocks->cache_limit = share < CACHE_MAX ? share : CACHE_MAX;
}

size_t
hfi_block_size(const hf_session *session, size_t size) {
    size_t step = session->page;
    while (size / step > 32)
        step *= 2;
    return (size_t)hfi_round_up(size ? size : 1, step);
}

static unsigned
cache_bin(size_t mapped) {
    return 63u - (unsigned)__builtin_clzll((unsigned long long)mapped);
}

static hfi_extent *
extent_of(const hf_region *block) {
    return &block->session->extents[block->own_piece.extent];
}

static hf_region *
cache_take(hfi_blocks *blocks, size_t mapped) {
    hf_region **link = &blocks->cache[cache_bin(mapped)];
    for (; *link; link = &(*link)->cache_next) {
        hf_region *region = *link;
        if (region->mapped < mapped || region->mapped - mapped > mapped / 8)
            continue;
        *link = region->cache_next;
        blocks->cache_bytes -= region->mapped;
        if (!hfi_extent_claim(extent_of(region))) {
            hfi_block_free(region);
            return NULL; /* the others of this size were kept as long */
        }
        blocks->cache_used[cache_bin(mapped)] = ++blocks->cache_clock;
        return region;
    }
    return NULL;
}

/* A block of the size that hasn't been used for the longest time. */
static void
drop_oldest(hfi_blocks *blocks) {
    unsigned oldest = HFI_CACHE_BINS;
    for (unsigned i = 0; i < HFI_CACHE_BINS; i++)
        if (blocks->cache[i] && (oldest == HFI_CACHE_BINS ||
                                 blocks->cache_used[i] < blocks->cache_used[oldest]))
            oldest = i;
    hf_region *block = blocks->cache[oldest];
    blocks->cache[oldest] = block->cache_next;
    blocks->cache_bytes -= block->mapped;
    hfi_block_free(block);
}

void
hfi_cache_put(hf_session *session, hf_region *block) {
    hfi_blocks *blocks = session->blocks;
    blocks->own_bytes -= block->mapped;
    if (block->mapped > blocks->cache_limit) {
        hfi_block_free(block);
        return;
    }
    while (blocks->cache_bytes + block->mapped > blocks->cache_limit)
        drop_oldest(blocks);
    unsigned bin = cache_bin(block->mapped);
    block->cache_next = blocks->cache[bin];
    blocks->cache[bin] = block;
    blocks->cache_bytes += block->mapped;
    blocks->cache_used[bin] = ++blocks->cache_clock;
    hfi_extent_let_idle(extent_of(block));
}

/* Before a new block of so many bytes. Mutex held. */
static void
bound_cache(hfi_blocks *blocks, size_t mapped) {
    uint64_t used = blocks->own_bytes + mapped;
    uint64_t peak = used > blocks->own_peak ? used : blocks->own_peak;
    while (blocks->cache_bytes &&
           used + blocks->cache_bytes > peak + peak / 4 + KEPT_MIN)
        drop_oldest(blocks);
}

hf_status
hfi_block_map(hf_session *session, size_t mapped, uint32_t how, hf_region **ret_region,
              hf_error *reterr) {
    uint32_t extent;
    hf_status status =
        hfi_extent_reserve(session, mapped, HFI_EXTENT_REGION | how, &extent, reterr);
    if (status)
        return status;
    hfi_extent *record = &session->extents[extent];
    hf_region *region = calloc(1, sizeof *region);
    void *address = NULL;
    int err = 0;
    if (region)
        err = hfi_object_map(hfi_session_fd(session), record->offset, mapped,
                             HFI_MAP_SHARED, NULL, &address);
    if (!region || err) {
        hfi_extent_give_back(session, extent);
        free(region);
        if (err && err != ENOMEM)
            return hf_error_set_errno(reterr, err, "can't map %zu bytes", mapped);
        return hf_error_set_at(reterr, HF_E_NOMEM, err, __func__, "can't map %zu bytes",
                               mapped);
    }
    region->session = session;
    region->address = address;
    region->mapped = mapped;
    region->is_new = 1;
    region->own_piece = (hfi_piece){record->offset, mapped, extent, 0};
    *ret_region = region;
    return HF_OK;
}

/* A hole that is mapped gets its memory through the mapping, since only that may ask
 * for huge pages. Its end is allocated first, so that the object reaches that far. */
static int
allocate_huge(hf_region *block) {
    hf_session *session = block->session;
    hfi_extent *extent = &session->extents[block->own_piece.extent];
    if (!(extent->flags & HFI_EXTENT_HOLE))
        return 0;
    block->is_met = 1;
    int err = hfi_object_allocate(hfi_session_fd(session),
                                  extent->offset + extent->size - session->page,
                                  session->page);
    if (!err)
        err = hfi_pages_allocate(block->address, block->mapped,
                                 (size_t)session->super->huge_page);
    if (!err)
        extent->flags &= ~(uint32_t)HFI_EXTENT_HOLE;
    hfi_step("reserve:populated");
    return err;
}

static hf_status
new_block(hf_session *session, size_t mapped, uint32_t how, hf_region **ret_region,
          hf_error *reterr) {
    uint64_t huge = session->super->huge_page;
    if (!huge || mapped < huge)
        return hfi_block_map(session, mapped, how, ret_region, reterr);
    hf_status status =
        hfi_block_map(session, mapped, how | HFI_RESERVE_BARE, ret_region, reterr);
    if (status || allocate_huge(*ret_region) == 0)
        return status;
    hf_region *block = *ret_region; /* then page by page, with any room that there is */
    hfi_object_unmap(block->address, block->mapped);
    hfi_extent_give_back(session, block->own_piece.extent);
    free(block);
    return hfi_block_map(session, mapped, how, ret_region, reterr);
}

void
hfi_block_free(hf_region *region) {
    hf_session *session = region->session;
    hf_error ignored;
    uint32_t extent = region->own_piece.extent;
    hfi_object_unmap(region->address, region->mapped);
    hfi_unpin(session, extent);
    if (!hfi_lock(session, &ignored)) {
        if (hfi_extent_is_mine(session, extent, HFI_RESERVED)) {
            const hfi_extent *record = extent_of(region);
            if (record->flags & HFI_EXTENT_HOLE) /* emptied, perhaps in part */
                hfi_object_punch(hfi_session_fd(session), record->offset, record->size);
            hfi_extent_free(session, extent);
        }
        hfi_unlock(session);
    }
    free(region);
}

void
hfi_cache_flush(hf_session *session) {
    hfi_blocks *blocks = session->blocks;
    pthread_mutex_lock(&session->mutex);
    for (unsigned i = 0; i < HFI_CACHE_BINS; i++)
        while (blocks->cache[i]) {
            hf_region *region = blocks->cache[i];
            blocks->cache[i] = region->cache_next;
            hfi_block_free(region);
        }
    blocks->cache_bytes = 0;
    blocks->own_peak = blocks->own_bytes;
    hfi_aside_drop(session);
    pthread_mutex_unlock(&session->mutex);
}

/* Forget a cached block if its memory is gone. */
static int
drop_if_emptied(hfi_blocks *blocks, hf_region **link) {
    hf_region *block = *link;
    if (atomic_load(&extent_of(block)->idle) != HFI_IDLE_EMPTIED)
        return 0;
    *link = block->cache_next;
    blocks->cache_bytes -= block->mapped;
    hfi_block_free(block);
    return 1;
}

uint64_t
hfi_session_leave_cache(hf_session *session) {
    hfi_blocks *blocks = session->blocks;
    uint64_t ready = 0;
    pthread_mutex_lock(&session->mutex);
    for (unsigned i = 0; i < HFI_CACHE_BINS; i++)
        for (hf_region **link = &blocks->cache[i]; *link;) {
            hf_region *block = *link;
            if (drop_if_emptied(blocks, link))
                continue;
            link = &block->cache_next;
            if (block->is_new) {
                ready += block->mapped;
                continue;
            }
            hfi_pages_drop(block->address, block->mapped);
            block->is_met = 0;
        }
    pthread_mutex_unlock(&session->mutex);
    return ready;
}

/* Its memory was allocated page by page, just now. The system clears such pages when
 * they are first used, which may be never. The pages of a large zeroed block were used
 * already, or it was preallocated. */
static int
is_lazy(const hf_session *session, size_t mapped, int is_zero) {
    uint64_t huge = session->super->huge_page;
    return is_zero && (!huge || mapped < huge);
}

hf_status
hfi_block_take(hf_session *session, size_t mapped, uint32_t how, hf_region **ret_block,
               int *ret_zero, hf_error *reterr) {
    pthread_mutex_lock(&session->mutex);
    hf_region *block = cache_take(session->blocks, mapped);
    int is_cached = block != NULL;
    if (is_cached)
        hfi_own_count(session, block->mapped);
    else if (!(how & HFI_RESERVE_SPARE))
        bound_cache(session->blocks, mapped);
    pthread_mutex_unlock(&session->mutex);
    *ret_zero = is_cached && block->is_zero;
    if (!is_cached) {
        hf_status status = new_block(session, mapped, how, &block, reterr);
        if (status == HF_E_NOMEM) { /* addresses: cached blocks have some */
            hfi_cache_flush(session);
            status = new_block(session, mapped, how, &block, reterr);
        }
        if (status)
            return status;
        hfi_extent *extent = &session->extents[block->own_piece.extent];
        *ret_zero = (extent->flags & HFI_EXTENT_ZERO) != 0;
        extent->flags &= ~(uint32_t)HFI_EXTENT_ZERO;
        pthread_mutex_lock(&session->mutex);
        status = hfi_pin(session, block->own_piece.extent, reterr);
        if (status)
            hfi_block_free(block);
        else
            hfi_own_count(session, block->mapped);
        pthread_mutex_unlock(&session->mutex);
        if (status)
            return status;
    }
    if (!block->is_met && !is_lazy(session, mapped, *ret_zero)) {
        hfi_pages_populate(block->address, block->mapped, 0);
        block->is_met = 1;
    }
    block->is_zero = 0;
    *ret_block = block;
    return HF_OK;
}

void
hfi_block_note(hf_session *session, const hf_region *block) {
    hfi_blocks *blocks = session->blocks;
    if (block->mapped >= WORTH && blocks->taken_count < HFI_TAKEN_MAX)
        blocks->taken[blocks->taken_count++] = block->mapped;
}

void
hfi_own_count(hf_session *session, size_t bytes) {
    hfi_blocks *blocks = session->blocks;
    blocks->own_bytes += bytes;
    if (blocks->own_bytes > blocks->own_peak)
        blocks->own_peak = blocks->own_bytes;
}

/* ---- in a forked child ---- */

void
hfi_blocks_forget(hf_session *session, hf_region *blocks) {
    while (blocks) {
        hf_region *next = blocks->cache_next;
        hfi_object_unmap(blocks->address, blocks->mapped);
        hfi_unpin(session, blocks->own_piece.extent);
        free(blocks);
        blocks = next;
    }
}

void
hfi_cache_forget(hf_session *session) {
    hfi_blocks *blocks = session->blocks;
    for (unsigned i = 0; i < HFI_CACHE_BINS; i++) {
        hfi_blocks_forget(session, blocks->cache[i]);
        blocks->cache[i] = NULL;
    }
    blocks->cache_bytes = 0;
}
