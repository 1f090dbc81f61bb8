/* prefill.c - memory for free space, before it is needed.
 *
 * A process that waits may give memory to holes of the arena, for as many blocks as the
 * cells before took (preallocate.c). It takes 70 to 700 ms a GiB, so it goes step by
 * step, and can be interrupted after each step. The result is free space with pages, as
 * if it had been used before. Any process may take it, a process that needs room may
 * punch it, and an idle notebook gives it back. It doesn't depend on the process that
 * made it.
 *
 * The blocks are reserved one after the other, and held until the end, since all of
 * them must be there at once. If there are pages for a block already, it is only held.
 * A block in a hole is mapped, and gets its memory through the mapping: only so it can
 * have huge pages. If the work is interrupted, the block is cut at the end of its
 * memory.
 *
 * Memory that was never written is zero, and stays marked so: zeroed memory needn't be
 * cleared then. Without huge pages it isn't marked. There, a block that is zero would
 * mean that its pages are touched one by one, when they are used (block.c).
 *
 * If the process dies meanwhile, its reserved extents are freed as those of any dead
 * process. Those that had their memory keep it. The one that was being filled is a hole
 * with some memory.
 *
 * The memory is limited to a share of what this process may have and of what is free
 * now, by its control groups (platform/limit.c), and to the bound of free pages that
 * nobody has used for a while (reservation.c). Until a process takes it, it isn't in use
 * and raises no bound.
 *
 * Rejected: keeping the blocks reserved and mapped in the process that waits. The cell
 * would save the page tables, 2 ms for 32 MiB. But two processes wait, and each would
 * need its own, and a process that finds the arena full couldn't get them.
 */
#include "engine/idle.h"

#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "engine/extent.h"
#include "engine/region.h"
#include "engine/reservation.h"
#include "engine/slot.h"
#include "platform/limit.h"
#include "platform/object.h"
#include "platform/pages.h"
#include "tuning/tuning.h"

#define SHARE      32 /* its part of the memory: 1 / this */
#define FREE_SHARE 16 /* its part of the free memory: 1 / this */

void
hfi_session_prefill(hf_session *session, const size_t *sizes, size_t count) {
    hfi_prefill *work = session->prefill;
    uint64_t left = count ? hfi_limit_memory_bytes() / SHARE : 0;
    uint64_t spare = count ? hfi_limit_free_bytes() / FREE_SHARE : 0;
    left = spare < left ? spare : left;
    hfi_session_prefill_end(session);
    work->count = work->next = 0;
    for (size_t i = 0; i < count && work->count < HFI_TAKEN_MAX; i++) {
        size_t size = hfi_block_size(session, sizes[i]);
        if (size > left)
            continue;
        work->sizes[work->count++] = size;
        left -= size;
    }
}

static void
hold_block(hfi_prefill *work, hf_region *block) {
    block->cache_next = work->held;
    work->held = block;
}

/* Reserve the next block: it is held if there are pages for it, else opened. */
static hf_status
next_block(hf_session *session, hf_error *reterr) {
    hfi_prefill *work = session->prefill;
    size_t size = work->sizes[work->next++];
    hf_region *block;
    hf_status status = hfi_block_map(
        session, size, HFI_EXTENT_SPARE | HFI_RESERVE_RECYCLED | HFI_RESERVE_SPARE,
        &block, reterr);
    if (status == HF_OK)
        hold_block(work, block);
    if (status != HF_NOT_FOUND)
        return status;
    if (hfi_extent_excess(session, size)) {
        work->next = work->count;
        return HF_OK;
    }
    status = hfi_block_map(session, size,
                           HFI_EXTENT_SPARE | HFI_RESERVE_BARE | HFI_RESERVE_SPARE,
                           &block, reterr);
    if (status)
        return status;
    work->open = block;
    work->filled = 0;
    const hfi_piece *piece = &block->own_piece; /* so that the object reaches so far */
    int err = hfi_object_allocate(hfi_session_fd(session),
                                  piece->offset + piece->length - session->page,
                                  session->page);
    return err ? hfi_space_error(reterr, err, "shared memory is full") : HF_OK;
}

/* Get memory for so many more bytes of the open block. */
static hf_status
fill_block(hf_session *session, size_t bytes, hf_error *reterr) {
    hfi_prefill *work = session->prefill;
    hf_region *block = work->open;
    hfi_extent *extent = &session->extents[block->own_piece.extent];
    size_t huge = (size_t)session->super->huge_page;
    char *at = block->address + work->filled;
    int err = huge ? hfi_pages_allocate(at, bytes, huge)
                   : hfi_object_allocate(hfi_session_fd(session),
                                         extent->offset + work->filled, bytes);
    if (err)
        return hfi_space_error(reterr, err, "shared memory is full");
    if (!huge)
        hfi_pages_populate(at, bytes,
                           1); /* it is cleared now, and not when it is used */
    work->filled += bytes;
    hfi_step("prefill:filled");
    if (work->filled == block->mapped) {
        extent->flags &= ~(uint32_t)HFI_EXTENT_HOLE;
        work->open = NULL;
        hold_block(work, block);
    }
    return HF_OK;
}

hf_status
hfi_session_prefill_some(hf_session *session, size_t bytes, int *ret_more,
                         hf_error *reterr) {
    hfi_prefill *work = session->prefill;
    hf_status status = hfi_session_check(session, reterr);
    while (!status && bytes && (work->open || work->next < work->count)) {
        if (!work->open) {
            status = next_block(session, reterr);
            continue;
        }
        size_t left = work->open->mapped - work->filled;
        size_t part = left < bytes ? left : (size_t)hfi_round_up(bytes, session->page);
        status = fill_block(session, part, reterr);
        bytes -= part < bytes ? part : bytes;
    }
    if (status)
        work->next = work->count; /* no more of it */
    *ret_more = !status && (work->open || work->next < work->count);
    return status == HF_E_NOSPACE || status == HF_E_NOMEM ? HF_OK : status;
}

/* Make the part of the open block that has memory a block of its own. Lock held. */
static hf_status
cut_block(hf_session *session, hf_error *reterr) {
    hfi_prefill *work = session->prefill;
    uint32_t index = work->open->own_piece.extent, rest;
    hfi_extent *extent = &session->extents[index];
    uint64_t size = extent->size, flags = extent->flags & HFI_EXTENT_ZERO;
    hfi_extent_leave(session, index);
    extent->size = work->filled;
    hfi_extent_enter(session, index, HFI_RESERVED, session->slot);
    hfi_step("prefill:cut");
    hf_status status =
        hfi_extent_make(session, extent->offset + work->filled, size - work->filled,
                        HFI_EXTENT_HOLE | (uint32_t)flags, index, &rest, reterr);
    if (status) {
        hfi_extent_leave(session, index);
        extent->size = size;
        hfi_extent_enter(session, index, HFI_RESERVED, session->slot);
        return status;
    }
    hfi_extent_join(session, rest);
    extent->flags &= ~(uint32_t)HFI_EXTENT_HOLE;
    return HF_OK;
}

/* Free an extent of ours. If it is marked zero, it still is. Lock held. */
static void
free_unwritten(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    uint32_t before = extent->before, keep = HFI_EXTENT_HOLE;
    if (session->super->huge_page || (extent->flags & HFI_EXTENT_HOLE))
        keep |= HFI_EXTENT_ZERO;
    hfi_extent_leave(session, index);
    extent->flags &= keep;
    hfi_extent_enter(session, index, HFI_FREE, 0);
    hfi_step("prefill:freed");
    hfi_extent_join(session, index);
    hfi_extent_join(session, before);
}

void
hfi_session_prefill_end(hf_session *session) {
    hfi_prefill *work = session->prefill;
    hf_region *open = work->open;
    hf_error ignored;
    if (open) {
        const hfi_piece *piece = &open->own_piece;
        hfi_object_punch(hfi_session_fd(session), piece->offset + work->filled,
                         piece->length - work->filled);
        hold_block(work, open);
    }
    if (!work->held || session->inherited || hfi_lock(session, &ignored))
        return;
    if (open && work->filled)
        (void)cut_block(session, &ignored); /* else it is a hole with some memory */
    work->open = NULL;
    hf_region *block;
    while ((block = work->held)) {
        work->held = block->cache_next;
        hfi_object_unmap(block->address, block->mapped);
        free_unwritten(session, block->own_piece.extent);
        free(block);
    }
    hfi_unlock(session);
}

void
hfi_prefill_forget(hf_session *session) {
    hfi_prefill *work = session->prefill;
    hfi_blocks_forget(session, work->held);
    hfi_blocks_forget(session, work->open);
    memset(work, 0, sizeof *work);
}
