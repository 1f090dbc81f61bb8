/* preallocate.c - blocks that are ready before they are needed.
 *
 * A new block needs memory and page tables: 0.3 to 0.7 s a GiB of small pages, in the
 * middle of a computation that may be measured. A program takes freed memory again from
 * its cache (block.c). But a process that runs one cell begins without a cache, and the
 * memory of the last cell is kept for undo. So a caller that knows which sizes will be
 * needed fills the cache with such blocks in advance.
 *
 * The past shows which sizes will be needed. hfi_session_taken returns the sizes of the
 * blocks that were asked for and weren't used before by this process. If so many are
 * preallocated, the same computation finds all that it needs. A preallocated block
 * counts as taken when it is asked for, as a fresh one does, so the result stays the
 * same. Small blocks aren't worth it, and the list is bounded.
 *
 * Preallocated blocks that are known to be zero stay so until they are taken. Zeroed
 * memory then needn't be cleared.
 *
 * They are spare: for them no process gives up memory that it keeps, neither a cache
 * nor an old generation (HFI_RESERVE_SPARE). session->mutex guards the list.
 */
#include <string.h>

#include "engine/region.h"
#include "engine/reservation.h"
#include "platform/pages.h"
#include "tuning/tuning.h"

size_t
hfi_session_taken(hf_session *session, size_t ret_sizes[HFI_TAKEN_MAX]) {
    hfi_blocks *blocks = session->blocks;
    pthread_mutex_lock(&session->mutex);
    size_t count = blocks->taken_count;
    memcpy(ret_sizes, blocks->taken, count * sizeof *ret_sizes);
    blocks->taken_count = 0;
    pthread_mutex_unlock(&session->mutex);
    return count;
}

/* A block that isn't in the cache yet. */
static hf_status
make_block(hf_session *session, size_t size, hf_region **ret_block, hf_error *reterr) {
    hf_region *block;
    int is_zero;
    hf_status status =
        hfi_block_take(session, size, HFI_RESERVE_SPARE, &block, &is_zero, reterr);
    if (status)
        return status;
    if (!block->is_met)
        hfi_pages_populate(block->address, block->mapped, 1);
    block->is_met = 1;
    block->is_zero = is_zero;
    block->is_new = 1;
    *ret_block = block;
    return HF_OK;
}

hf_status
hfi_session_preallocate(hf_session *session, const size_t *sizes, size_t count,
                        uint64_t *ret_bytes, hf_error *reterr) {
    hf_region *made = NULL, *block;
    hfi_blocks *blocks = session->blocks;
    uint64_t bytes = 0;
    hf_status status = hfi_session_check(session, reterr);
    for (size_t i = 0; !status && i < count; i++) {
        status = make_block(session, hfi_block_size(session, sizes[i]), &block, reterr);
        if (status)
            break;
        bytes += block->mapped;
        block->cache_next =
            made; /* it can't be in the cache: the next call would take it */
        made = block;
    }
    pthread_mutex_lock(&session->mutex);
    while ((block = made)) {
        made = block->cache_next;
        hfi_cache_put(session, block);
    }
    if (blocks->own_bytes + blocks->cache_bytes > blocks->own_peak)
        blocks->own_peak = blocks->own_bytes + blocks->cache_bytes; /* is wanted */
    pthread_mutex_unlock(&session->mutex);
    *ret_bytes = bytes;
    return status == HF_E_NOSPACE || status == HF_E_NOMEM ? HF_OK : status;
}
