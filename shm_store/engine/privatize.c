/* privatize.c - turning published memory of this process private.
 *
 * Own regions that a commit took are still mapped shared and writable. They are mapped
 * again, privately, over the same pages at the same addresses. The contents are the
 * same at every moment, so no thread can see or lose anything. Pages that a commit
 * wrote are in memory twice: as private copies, and in the new extent. To map the new
 * extent in place of the copies loses each write that was made since the commit copied
 * them: by a thread that runs now, or by a thread, a task or a signal handler that ran
 * in the meantime. So it is done only if the caller says that no other thread runs, and
 * only if the copies still have the bytes that the commit wrote. Otherwise the region
 * stays as it is, and the next commit writes its changed pages again.
 *
 * A write between the comparison and the mapping couldn't be seen here. So the caller
 * must know all threads, not only the interpreter's: a thread of C code that fills an
 * array may write at any time. The worker counts all threads of the process. It allows
 * only those of pools of known libraries, which write while a call waits for them
 * (worker/native_threads.py, are_pools). Rejected: comparing after the mapping, since
 * the old pages are gone by then; holding them in a pipe by vmsplice(), since for a
 * moment a thread would read an older value than it wrote.
 *
 * A mapping may fail. Then the region has either its old mappings or its new ones. Each
 * function below says why no byte differs. The other regions are privatized all the
 * same, and the next call tries the failed one again.
 */
#include <stdlib.h>

#include "base/argument.h"
#include "base/step.h"
#include "engine/extent.h"
#include "engine/prepared.h"
#include "engine/region.h"
#include "platform/object.h"

static int
is_published(const hf_session *session, uint32_t extent) {
    enum hfi_extent_state state = extent < hfi_extent_count(session)
                                      ? hfi_extent_state(&session->extents[extent])
                                      : HFI_UNUSED;
    return state == HFI_COMMITTED || state == HFI_RETIRED;
}

static int
privatize_own(hf_region *region) {
    if (!is_published(region->session, region->own_piece.extent))
        return 0;
    int err = hfi_region_privatize(region);
    hfi_step("privatize:own-mapped");
    return err;
}

/* Walks the new list of pieces beside the old one. */
typedef struct piece_walk {
    const hf_region *region;
    size_t at, old_at; /* offset of the piece in the region, and of the old one */
    uint32_t index, old;
} piece_walk;

/* The next piece that isn't mapped at its place already, or NULL. `ret_at`: its place
 * in the region. */
static const hfi_piece *
next_new(piece_walk *walk, size_t *ret_at) {
    const hf_region *region = walk->region;
    while (walk->index < region->next_count) {
        const hfi_piece *piece = &region->next_pieces[walk->index++];
        size_t at = walk->at;
        while (walk->old < region->piece_count &&
               walk->old_at + region->pieces[walk->old].length <= at)
            walk->old_at += region->pieces[walk->old++].length;
        const hfi_piece *was =
            walk->old < region->piece_count ? &region->pieces[walk->old] : NULL;
        walk->at += piece->length;
        if (was && was->extent == piece->extent &&
            was->offset + (at - walk->old_at) == piece->offset &&
            walk->old_at + was->length >= at + piece->length)
            continue;
        *ret_at = at;
        return piece;
    }
    return NULL;
}

/* Whether the region's memory has the bytes that the commit wrote. */
static int
is_as_committed(const hf_region *region) {
    piece_walk walk = {.region = region};
    const hfi_piece *piece;
    size_t at;
    int same = 1;
    while (same && (piece = next_new(&walk, &at)))
        same = hfi_window_equals(region->session, piece->offset, region->address + at,
                                 piece->length);
    return same;
}

/* From here on the region stands for what the commit wrote. */
static void
take_next(hf_region *region) {
    for (uint32_t i = 0; i < region->piece_count; i++)
        hfi_piece_drop(region->session, region->pieces[i].extent);
    if (region->pieces != &region->own_piece)
        free(region->pieces);
    region->pieces = region->next_pieces;
    region->piece_count = region->next_count;
    region->next_pieces = NULL;
    region->next_count = 0;
    region->next_commit = 0;
}

/* Map what the commit wrote, piece by piece if it differs from what is mapped. If a
 * mapping fails after others were made, the region is what the commit wrote, too: its
 * remaining pages are either mapped from the same place in both lists, or private
 * copies with the same bytes, which the next commit finds and writes again. (A commit
 * that wrote unchanged pages as well wrote a single piece.) */
static int
privatize_changed(hf_region *region) {
    hf_session *session = region->session;
    for (uint32_t i = 0; i < region->next_count; i++)
        if (!is_published(session, region->next_pieces[i].extent))
            return 0;
    if (!is_as_committed(region)) {
        hfi_region_drop_next(region);
        return 0;
    }
    piece_walk walk = {.region = region};
    const hfi_piece *piece;
    size_t at;
    int err = 0, mapped = 0;
    while (!err && (piece = next_new(&walk, &at))) {
        void *there;
        err = hfi_object_map(hfi_session_fd(session), piece->offset, piece->length,
                             HFI_MAP_PRIVATE, region->address + at, &there);
        mapped += !err;
        hfi_step("privatize:piece-mapped");
    }
    if (!err || mapped)
        take_next(region);
    return err;
}

hf_status
hf_session_privatize(hf_session *session, int threads_stopped, hf_error *reterr) {
    HFI_NEED(reterr, session);
    int err = 0, failed;
    if (session->inherited)
        return HF_OK; /* its memory is private already */
    hfi_prepared_settle(session, 0);
    pthread_mutex_lock(&session->mutex);
    hf_region *region = hfi_regions_above(session, NULL);
    for (; region; region = hfi_regions_above(session, region->address)) {
        failed = 0;
        if (region->is_own)
            failed = privatize_own(region);
        else if (region->next_count && threads_stopped)
            failed = privatize_changed(region);
        err = err ? err : failed;
    }
    pthread_mutex_unlock(&session->mutex);
    if (err)
        return hf_error_set_errno(reterr, err, "can't privatize a region");
    return HF_OK;
}
