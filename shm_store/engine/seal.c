/* seal.c - turning private what this process published.
 *
 * Own regions that a commit took are mapped shared and writable still. They are mapped
 * again, privately, over the same pages at the same addresses: the contents are the
 * same at every moment, so no thread can see or lose anything. Pages that a commit
 * wrote are in memory twice, as private copies and in the new extent. To map the new
 * extent in their place loses a write that comes between; so that is done only where
 * the caller says that no other thread runs. Else they stay, and the next commit writes
 * them again.
 */
#include "engine/internal.h"

static int
is_published(const hf_session *session, uint32_t extent) {
    enum hfi_extent_state state = extent < hfi_extent_count(session)
                                      ? hfi_extent_state(&session->extents[extent])
                                      : HFI_UNUSED;
    return state == HFI_COMMITTED || state == HFI_RETIRED;
}

/* A block is larger than what its user asked for; what was published is not. From here
 * on the region stands for what was published, so the rest is no part of it. */
static void
trim_to_size(hf_region *region) {
    size_t used = hfi_round_up(region->size ? region->size : 1, region->session->page);
    if (used >= region->mapped)
        return;
    hfi_object_unmap(region->address + used, region->mapped - used);
    region->mapped = used;
    region->own_piece.length = used;
}

int
hfi_region_privatize(hf_region *region) {
    void *there;
    hfi_pages_drop(region->address, region->mapped);
    int err = hfi_object_map(hfi_session_fd(region->session), region->own_piece.offset,
                             region->mapped, HFI_MAP_PRIVATE, region->address, &there);
    if (!err) {
        region->is_own = 0;
        region->session->own_bytes -= region->mapped;
        hfi_region_drop_was(region);
        trim_to_size(region);
    }
    return err;
}

static int
seal_own(hf_region *region) {
    if (!is_published(region->session, region->own_piece.extent))
        return 0;
    int err = hfi_region_privatize(region);
    hfi_step("seal:own-mapped");
    return err;
}

/* Map what the commit wrote, piece by piece where it differs from what is mapped. */
static int
seal_changed(hf_region *region) {
    hf_session *session = region->session;
    for (uint32_t i = 0; i < region->next_count; i++)
        if (!is_published(session, region->next_pieces[i].extent))
            return 0;
    size_t at = 0, old_at = 0;
    uint32_t old = 0;
    for (uint32_t i = 0; i < region->next_count; i++) {
        const hfi_piece *piece = &region->next_pieces[i];
        while (old < region->piece_count && old_at + region->pieces[old].length <= at)
            old_at += region->pieces[old++].length;
        const hfi_piece *was = old < region->piece_count ? &region->pieces[old] : NULL;
        int same = was && was->extent == piece->extent &&
                   was->offset + (at - old_at) == piece->offset &&
                   old_at + was->length >= at + piece->length;
        void *there;
        int err =
            same ? 0
                 : hfi_object_map(hfi_session_fd(session), piece->offset, piece->length,
                                  HFI_MAP_PRIVATE, region->address + at, &there);
        if (!same)
            hfi_step("seal:piece-mapped");
        if (err)
            return err; /* mapped in part: same bytes everywhere, scanned again */
        at += piece->length;
    }
    for (uint32_t i = 0; i < region->piece_count; i++)
        hfi_piece_drop(session, region->pieces[i].extent);
    if (region->pieces != &region->own_piece)
        free(region->pieces);
    region->pieces = region->next_pieces;
    region->piece_count = region->next_count;
    region->next_pieces = NULL;
    region->next_count = 0;
    region->next_commit = 0;
    return 0;
}

hf_status
hf_session_seal(hf_session *session, int threads_stopped, hf_error *reterr) {
    int err = 0;
    if (session->inherited)
        return HF_OK; /* its memory is private already */
    hfi_prepared_settle(session, 0);
    pthread_mutex_lock(&session->mutex);
    hf_region *region = hfi_regions_above(session, NULL);
    for (; region && !err; region = hfi_regions_above(session, region->address)) {
        if (region->is_own)
            err = seal_own(region);
        else if (region->next_count && threads_stopped)
            err = seal_changed(region);
    }
    pthread_mutex_unlock(&session->mutex);
    if (err)
        return hf_error_set_errno(reterr, err, "can't seal a region");
    return HF_OK;
}
