/* recovery.c - making the extent table true again after its writer died.
 *
 * What is true: the current root, and everything reachable from it; what living
 * processes reserved or prepared; what they lease or pin. All else follows from that.
 * So recovery walks the tree to count each extent's living objects, then gives every
 * record the state that these facts imply, and rebuilds lists and counters.
 *
 * A publisher that died before it stored the generation may have moved some extents on:
 * a committed one that was born later than the current generation goes back to PREPARED
 * (its preparer may publish again), a retired one that died later is alive again.
 *
 * Each step only depends on the facts, and writes states that don't change them. So
 * recovery may itself be killed at any point; the next one begins anew. Where the tree
 * can't be read, nothing is freed and the error goes up.
 */
#include "engine/internal.h"

static void
add_live(hf_session *session, uint32_t index, uint64_t bytes) {
    if (index >= hfi_extent_count(session))
        return;
    session->extents[index].live++;
    session->extents[index].live_bytes += bytes;
}

static hf_status
count_live(void *context, const hfi_ref *ref, const hfi_record *record,
           hf_error *reterr) {
    hf_session *session = context;
    (void)reterr;
    add_live(session, ref->extent, ref->length);
    if (!record)
        return HF_OK;
    if (record->payload_extent != HFI_NONE)
        add_live(session, record->payload_extent, record->payload_size);
    for (uint32_t i = 0; i < record->piece_count; i++) {
        const hfi_piece *piece = &hfi_record_pieces(record)[i];
        add_live(session, piece->extent, piece->length);
    }
    return HF_OK;
}

static void
settle(hfi_extent *extent, uint64_t generation) {
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
        settle(&session->extents[i], root.generation);
    hfi_step("recovery:settled");
    if ((status = hfi_extent_rebuild(session, reterr)))
        return status;
    hfi_step("recovery:rebuilt");
    hfi_slot_reap(session);
    hfi_extent_reclaim(session);
    return HF_OK;
}
