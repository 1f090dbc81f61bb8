/* recovery.c - correcting the extent table after its writer died.
 *
 * These are facts: the current root, and all that is reachable from it; the extents
 * that living processes have reserved or prepared; those that they lease or pin. All
 * else follows from these. So recovery walks the tree to count each extent's living
 * objects. Then it gives every record the state that follows, and rebuilds lists and
 * counters.
 *
 * A publisher that died before it stored the generation may have moved some extents on:
 * a committed one that was born later than the current generation goes back to PREPARED
 * (its preparer may publish again), a retired one that died later is alive again.
 *
 * Each step only depends on the facts, and writes states that don't change them. So
 * recovery may itself be killed at any point; the next one begins anew. If the tree
 * can't be read, nothing is freed and the error goes up.
 */
#include "engine/attach.h"

#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "engine/extent.h"
#include "engine/tree.h"

static void
add_live(hf_session *session, uint32_t index, uint64_t bytes) {
    if (index >= hfi_extent_count(session))
        return;
    session->extents[index].live++;
    session->extents[index].live_bytes += bytes;
}

static hf_status
count_live(void *context, const hfi_ref *ref, const hfi_entry_record *record,
           hf_error *reterr) {
    hf_session *session = context;
    (void)reterr;
    add_live(session, ref->extent, ref->length);
    if (!record)
        return HF_OK;
    const hfi_piece *outside = hfi_record_outside(record);
    if (outside)
        add_live(session, outside->extent, record->payload_size);
    for (uint32_t i = 0; i < record->piece_count; i++) {
        const hfi_piece *piece = &hfi_record_pieces(record)[i];
        add_live(session, piece->extent, piece->length);
    }
    return HF_OK;
}

static void
settle_extent(hfi_extent *extent, uint64_t generation) {
    uint32_t word = hfi_extent_word(extent), slot = word >> 8;
    enum hfi_extent_state state = (enum hfi_extent_state)(word & 0xff);
    if (state == HFI_UNUSED || state == HFI_FREE || state == HFI_RESERVED)
        return;
    if (extent->live) {
        state = HFI_COMMITTED;
        extent->death = 0;
        if (extent->birth == 0 || extent->birth > generation)
            extent->birth = generation;
    } else if (state == HFI_PREPARED || extent->birth > generation) {
        state = HFI_PREPARED;
        extent->birth = extent->death = 0;
    } else {
        state = HFI_RETIRED;
        if (extent->death == 0 || extent->death > generation)
            extent->death = generation;
    }
    atomic_store(&extent->state, hfi_state_word(state, slot));
}

/* ---- the table ---- */

typedef struct kept {
    uint64_t offset, size;
    uint32_t index;
} kept;

static int
by_offset(const void *a, const void *b) {
    const kept *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static hf_status
collect_kept(hf_session *session, kept *list, uint32_t *ret_count, hf_error *reterr) {
    uint32_t n = 0, total = hfi_extent_count(session);
    uint64_t end = atomic_load(&session->super->arena_end), at = HFI_ARENA_OFFSET;
    for (uint32_t i = 0; i < total; i++) {
        enum hfi_extent_state state = hfi_extent_state(&session->extents[i]);
        if (state == HFI_UNUSED || state == HFI_FREE)
            continue;
        list[n++] = (kept){session->extents[i].offset, session->extents[i].size, i};
    }
    if (n)
        qsort(list, n, sizeof *list, by_offset);
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].offset < at || list[i].offset > end || list[i].size == 0 ||
            list[i].size > end - list[i].offset || list[i].size % session->page ||
            hfi_extent_state(&session->extents[list[i].index]) >= HFI_STATE_COUNT)
            return hf_error_set(reterr, HF_E_CORRUPT, "extent %u lies about its place",
                                list[i].index);
        at = list[i].offset + list[i].size;
    }
    *ret_count = n;
    return HF_OK;
}

/* Empty lists and counters; every record that isn't kept becomes unused. */
static void
reset_lists(hf_session *session) {
    hfi_superblock *super = session->super;
    for (unsigned i = 0; i < HFI_BIN_COUNT; i++)
        super->bins[i] = HFI_NONE;
    super->unused = super->retired = super->last = HFI_NONE;
    memset(super->bytes, 0, sizeof super->bytes);
    super->hole_bytes = super->spare_bytes = super->log_bytes = super->log_live = 0;
    for (uint32_t i = hfi_extent_count(session); i-- > 0;) {
        hfi_extent *extent = &session->extents[i];
        enum hfi_extent_state state = hfi_extent_state(extent);
        extent->previous = extent->next = extent->before = extent->after = HFI_NONE;
        if (state != HFI_UNUSED && state != HFI_FREE)
            continue;
        extent->size = extent->live_bytes = 0;
        extent->live = extent->flags = 0;
        hfi_extent_enter(session, i, HFI_UNUSED, 0);
    }
}

/* Rebuild lists, neighbours, free space and counters from the records' states. */
static hf_status
rebuild_lists(hf_session *session, hf_error *reterr) {
    hfi_superblock *super = session->super;
    uint32_t n = 0;
    kept *list = malloc(((size_t)hfi_extent_count(session) + 1) * sizeof *list);
    if (!list)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory in recovery");
    hf_status status = collect_kept(session, list, &n, reterr);
    if (status)
        goto out;
    reset_lists(session);
    uint64_t at = HFI_ARENA_OFFSET, end = atomic_load(&super->arena_end);
    for (uint32_t i = 0; i <= n; i++) {
        uint64_t next = i < n ? list[i].offset : end;
        uint32_t made;
        if (next > at &&
            (status = hfi_extent_make(session, at, next - at, HFI_EXTENT_HOLE,
                                      super->last, &made, reterr)))
            goto out;
        if (i == n)
            break;
        hfi_extent *extent = &session->extents[list[i].index];
        uint32_t word = hfi_extent_word(extent);
        extent->before = super->last;
        if (super->last != HFI_NONE)
            session->extents[super->last].after = list[i].index;
        super->last = list[i].index;
        hfi_extent_enter(session, list[i].index, (enum hfi_extent_state)(word & 0xff),
                         word >> 8);
        at = extent->offset + extent->size;
    }
out:
    free(list);
    return status;
}

hf_status
hfi_recovery_run(hf_session *session, hf_error *reterr) {
    hfi_root root;
    hf_status status = hfi_root_read(session, &root, reterr);
    if (status)
        return status;
    uint32_t total = hfi_extent_count(session);
    for (uint32_t i = 0; i < total; i++) {
        session->extents[i].live = 0;
        session->extents[i].live_bytes = 0;
    }
    status = hfi_tree_each(session, &root.tree, count_live, session, reterr);
    if (status)
        return status;
    hfi_step("recovery:counted");
    for (uint32_t i = 0; i < total; i++)
        settle_extent(&session->extents[i], root.generation);
    hfi_step("recovery:settled");
    if ((status = rebuild_lists(session, reterr)))
        return status;
    hfi_step("recovery:rebuilt");
    hfi_slot_reap(session);
    hfi_extent_reclaim(session);
    return HF_OK;
}
