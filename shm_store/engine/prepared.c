/* prepared.c - prepared commits: published by one word, or dropped.
 *
 * Any process may publish a commit that another one prepared. The token names it, and
 * all of it is checked before anything is changed. Then, under the writer lock, each
 * extent moves to its new state and count. The root is written into the slot that the
 * current generation doesn't use. At last the generation is stored. That store is the
 * commit. A crash before it leaves the old generation (recovery.c undoes the states), a
 * crash after it the new one.
 *
 * Until then a prepared commit belongs to the process that prepared it.
 * hfi_prepared_settle finds out what happened to it. A published one is forgotten.
 * Another one is dropped if the caller wants that: extents of own regions go back to
 * their regions, all others are freed.
 */
#include "engine/prepared.h"

#include <stdlib.h>

#include "base/argument.h"
#include "base/checksum.h"
#include "base/step.h"
#include "engine/extent.h"
#include "engine/owner.h"
#include "engine/region.h"
#include "engine/slot.h"
#include "engine/tree.h"
#include "engine/wait.h"

/* ---- publishing ---- */

static hf_status
check_manifest(hf_session *session, const hf_prepared *prepared,
               const hfi_manifest **ret_manifest, hf_error *reterr) {
    const hfi_manifest *m =
        prepared->commit_extent % session->page
            ? NULL
            : hfi_window_at(session, prepared->commit_extent, sizeof *m);
    if (!m || prepared->slot >= HFI_SLOT_COUNT || m->magic != HFI_MANIFEST_MAGIC ||
        m->crc != hfi_crc32c(0, m, offsetof(hfi_manifest, crc)) ||
        m->crc != prepared->checksum || m->slot != prepared->slot ||
        m->base_generation != prepared->base_generation ||
        m->extent >= hfi_extent_count(session))
        return hf_error_set(reterr, HF_E_CORRUPT, "the token names no prepared commit");
    const hfi_extent *extent = &session->extents[m->extent];
    uint64_t size = sizeof *m + (uint64_t)m->delta_count * sizeof(hfi_delta);
    if (extent->offset != prepared->commit_extent || size > extent->size ||
        hfi_extent_word(extent) != hfi_state_word(HFI_PREPARED, m->slot))
        return hf_error_set(reterr, HF_E_CORRUPT, "the prepared commit was dropped");
    const hfi_delta *deltas = (const hfi_delta *)(m + 1);
    if (m->deltas_crc != hfi_crc32c(0, deltas, m->delta_count * sizeof(hfi_delta)))
        return hf_error_set(reterr, HF_E_CORRUPT, "the prepared commit is damaged");
    for (uint32_t i = 0; i < m->delta_count; i++) {
        int good = deltas[i].extent < hfi_extent_count(session);
        if (good) {
            const hfi_extent *e = &session->extents[deltas[i].extent];
            enum hfi_extent_state state = hfi_extent_state(e);
            good = (state == HFI_COMMITTED || state == HFI_RETIRED ||
                    hfi_extent_word(e) == hfi_state_word(HFI_PREPARED, m->slot)) &&
                   (int64_t)e->live + deltas[i].live >= 0;
        }
        if (!good)
            return hf_error_set(reterr, HF_E_CORRUPT,
                                "the prepared commit names a wrong extent");
    }
    *ret_manifest = m;
    return HF_OK;
}

static void
apply_delta(hf_session *session, const hfi_delta *delta, uint64_t generation,
            uint32_t slot) {
    hfi_extent *extent = &session->extents[delta->extent];
    enum hfi_extent_state state = hfi_extent_state(extent);
    if (state == HFI_PREPARED)
        extent->birth = generation;
    /* First into a state whose sums don't depend on the counts. Then the counts are
     * changed, and the extent goes on to its new state. */
    if (state == HFI_COMMITTED)
        hfi_extent_set(session, delta->extent, HFI_RETIRED, slot);
    extent->live += (uint32_t)delta->live;
    extent->live_bytes += (uint64_t)delta->live_bytes;
    extent->death = extent->live ? 0 : generation;
    hfi_extent_set(session, delta->extent, extent->live ? HFI_COMMITTED : HFI_RETIRED,
                   slot);
}

hf_status
hf_session_publish(hf_session *session, const hf_prepared *prepared,
                   uint64_t *ret_generation, hf_error *reterr) {
    HFI_NEED(reterr, session, prepared);
    hfi_superblock *super = session->super;
    hf_status status = hfi_session_check(session, reterr);
    if (status || (status = hfi_lock(session, reterr)))
        return status;
    uint64_t generation = atomic_load(&super->generation);
    const hfi_manifest *m = NULL;
    if ((status = hfi_owner_check(session, reterr)))
        goto out;
    if (generation != prepared->base_generation) {
        status = hf_error_set(reterr, HF_CONFLICT,
                              "generation %llu is current, the commit began with %llu",
                              (unsigned long long)generation,
                              (unsigned long long)prepared->base_generation);
        goto out;
    }
    if ((status = check_manifest(session, prepared, &m, reterr)))
        goto out;
    hfi_step("publish:begin");
    generation++;
    const hfi_delta *deltas = (const hfi_delta *)(m + 1);
    for (uint32_t i = 0; i < m->delta_count; i++) {
        apply_delta(session, &deltas[i], generation, m->slot);
        hfi_step("publish:extent-moved");
    }
    hfi_root root = {.generation = generation,
                     .entry_count = m->entry_count,
                     .next_sequence = m->next_sequence,
                     .piece_total = m->piece_total,
                     .tree = m->root};
    hfi_root_privatize(&root);
    super->roots[generation % 2] = root;
    hfi_step("publish:root-written");
    hfi_wait_announce(session);
    hfi_step("publish:announced");
    atomic_store(&super->generation, generation);
    hfi_step("publish:generation-stored");
    hfi_extent_reclaim(session);
    hfi_step("publish:reclaimed");
    if (ret_generation)
        *ret_generation = generation;
out:
    hfi_unlock(session);
    return status;
}

/* ---- what was prepared ---- */

/* Undo one extent that this process reserved or prepared. Lock held. */
void
hfi_prepared_drop_extent(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    uint64_t mine = 1ull << (session->slot % 64);
    if (!hfi_extent_is_mine(session, index, HFI_PREPARED) &&
        !hfi_extent_is_mine(session, index, HFI_RESERVED))
        return;
    if ((extent->flags & HFI_EXTENT_REGION) &&
        (atomic_load(&extent->pins[session->slot / 64]) & mine)) {
        if (hfi_extent_is_mine(session, index, HFI_PREPARED))
            hfi_extent_set(session, index, HFI_RESERVED, session->slot);
    } else
        hfi_extent_give_up(session, index);
}

void
hfi_prepared_settle(hf_session *session, int drop) {
    hfi_prepared_state *p = session->prepared;
    hf_error ignored;
    size_t waiting = 0;
    for (size_t i = 0; i < p->extent_count; i++)
        waiting += (size_t)hfi_extent_is_mine(session, p->extents[i], HFI_PREPARED);
    if (waiting && !drop)
        return;
    /* The mutex, so that no region of ours is released between the looks at its pin and
     * at the state. */
    pthread_mutex_lock(&session->mutex);
    if (waiting && !hfi_lock(session, &ignored)) {
        /* It may have been published just now. Then all of it was, and the states show
         * that. */
        if (hfi_extent_is_mine(session, p->extents[p->extent_count - 1],
                               HFI_PREPARED) ||
            hfi_extent_is_mine(session, p->extents[0], HFI_PREPARED)) {
            for (size_t i = 0; i < p->region_count; i++)
                hfi_region_drop_next(p->regions[i]);
            for (size_t i = 0; i < p->extent_count; i++)
                if (hfi_extent_is_mine(session, p->extents[i], HFI_PREPARED))
                    hfi_prepared_drop_extent(session, p->extents[i]);
        }
        hfi_unlock(session);
    }
    pthread_mutex_unlock(&session->mutex);
    free(p->extents);
    hfi_regions_release(p->regions, p->region_count);
    *p = (hfi_prepared_state){.committing = p->committing};
}

hf_status
hfi_prepared_finish(hf_session *session, hf_error *reterr) {
    hfi_prepared_settle(session, 0);
    if (session->prepared->committing || session->prepared->extent_count)
        return hf_error_set(reterr, HF_BUSY,
                            "a commit of this process isn't published yet");
    return HF_OK;
}
