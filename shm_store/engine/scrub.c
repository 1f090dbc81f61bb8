/* scrub.c - checksums of data that is too large to be checksummed in a commit.
 *
 * The directory has its checksums from the start. Payloads and buffers don't: 77 ms for
 * each gigabyte would be most of a commit's cost, while an idle process has time.
 * Committed extents are never written. So their checksum can be computed at any later
 * time, extent by extent, and stays true for as long as they live. It stands in the
 * extent's record.
 *
 * A snapshot is held during each step, so the data can't be freed meanwhile. If a step
 * ends in the middle of a large extent, the extent's number and birth are noted: an
 * extent that was freed and committed again has another birth. Numbers, places and
 * flags are read under the writer lock, bytes without it.
 *
 * This finds memory that changed after the checksum was computed: by a wild write
 * through another mapping, or by a publisher that has neither privatized nor left. It
 * doesn't see earlier changes.
 */
#include "engine/idle.h"

#include <stdlib.h>

#include "base/argument.h"
#include "base/checksum.h"
#include "base/step.h"
#include "engine/extent.h"
#include "engine/slot.h"
#include "engine/snapshot.h"
#include "engine/tree.h"

#define STRETCH (4u << 20) /* bytes between two looks at the budget */

/* Find where to go on: the extent that was begun, or the next one without a checksum.
 * Place and size are copied to `ret_extent`. Lock held. */
static int
choose_extent(hf_session *session, uint64_t generation, hfi_extent *ret_extent) {
    uint32_t total = hfi_extent_count(session);
    for (uint32_t i = 0; i < total; i++) {
        uint32_t index = (session->scrub->extent + i) % total;
        const hfi_extent *extent = &session->extents[index];
        if (hfi_extent_state(extent) != HFI_COMMITTED ||
            (extent->flags & HFI_EXTENT_SUMMED) ||
            extent->birth > generation) /* published just now: not leased by us */
            continue;
        if (index != session->scrub->extent || extent->birth != session->scrub->birth) {
            session->scrub->extent = index;
            session->scrub->birth = extent->birth;
            session->scrub->done = 0;
        }
        if (session->scrub->done == 0)
            session->scrub->crc = 0;
        ret_extent->offset = extent->offset;
        ret_extent->size = extent->size;
        return 1;
    }
    return 0;
}

static hf_status
scrub_one(hf_session *session, const hfi_extent *extent, uint64_t *left,
          hf_error *reterr) {
    while (session->scrub->done < extent->size && *left) {
        uint64_t size = extent->size - session->scrub->done;
        size = size < STRETCH ? size : STRETCH;
        size = size < *left ? size : *left;
        const void *bytes =
            hfi_window_at(session, extent->offset + session->scrub->done, size);
        if (!bytes)
            return hf_error_set(reterr, HF_E_CORRUPT, "extent %u lies about its place",
                                session->scrub->extent);
        session->scrub->crc = hfi_crc32c(session->scrub->crc, bytes, size);
        session->scrub->done += size;
        *left -= size;
    }
    if (session->scrub->done < extent->size)
        return HF_OK;
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    hfi_extent *record = &session->extents[session->scrub->extent];
    if (record->birth == session->scrub->birth && record->size == extent->size &&
        hfi_extent_state(record) == HFI_COMMITTED) {
        record->crc = session->scrub->crc;
        hfi_step("scrub:crc-written");
        record->flags |= HFI_EXTENT_SUMMED;
    }
    session->scrub->done = 0;
    hfi_unlock(session);
    return HF_OK;
}

hf_status
hf_session_scrub(hf_session *session, uint64_t budget_bytes, uint64_t *ret_bytes,
                 hf_error *reterr) {
    HFI_NEED(reterr, session);
    hf_snapshot *snapshot;
    uint64_t left = budget_bytes;
    hf_status status = hfi_session_check_writable(session, reterr);
    if (status || (status = hf_snapshot_acquire(session, &snapshot, reterr)))
        return status;
    while (left && !status) {
        hfi_extent extent;
        if ((status = hfi_lock(session, reterr)))
            break;
        int found = choose_extent(session, snapshot->root.generation, &extent);
        hfi_unlock(session);
        if (!found)
            break;
        status = scrub_one(session, &extent, &left, reterr);
    }
    hf_snapshot_release(snapshot);
    if (!status && ret_bytes)
        *ret_bytes = budget_bytes - left;
    return status;
}

/* ---- verifying ---- */

typedef struct verification {
    hf_session *session;
    unsigned char *checked; /* by extent */
    uint32_t extent_count;
} verification;

static hf_status
verify_extent(verification *v, uint32_t index, const hfi_entry_record *record,
              hf_error *reterr) {
    hf_session *session = v->session;
    if (index >= v->extent_count || v->checked[index])
        return HF_OK;
    v->checked[index] = 1;
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    const hfi_extent *extent = &session->extents[index];
    uint64_t offset = extent->offset, size = extent->size;
    uint32_t crc = extent->crc;
    int summed = (extent->flags & HFI_EXTENT_SUMMED) != 0;
    hfi_unlock(session);
    if (!summed)
        return HF_OK;
    const void *bytes = hfi_window_at(session, offset, size);
    if (bytes && hfi_crc32c(0, bytes, size) == crc)
        return HF_OK;
    return hf_error_set(reterr, HF_E_CORRUPT, "checksum of the data of %.*s",
                        (int)record->key_size, hfi_record_key(record));
}

/* Nodes and entries were checked when they were loaded. What they refer to is checked
 * here. */
static hf_status
verify_one(void *context, const hfi_ref *ref, const hfi_entry_record *record,
           hf_error *reterr) {
    hf_status status = HF_OK;
    (void)ref;
    if (!record)
        return HF_OK;
    const hfi_piece *outside = hfi_record_outside(record);
    if (outside)
        status = verify_extent(context, outside->extent, record, reterr);
    for (uint32_t i = 0; i < record->piece_count && !status; i++)
        status =
            verify_extent(context, hfi_record_pieces(record)[i].extent, record, reterr);
    return status;
}

hf_status
hf_session_verify(hf_session *session, hf_error *reterr) {
    HFI_NEED(reterr, session);
    hf_snapshot *snapshot;
    hf_status status = hf_snapshot_acquire(session, &snapshot, reterr);
    if (status)
        return status;
    verification v = {session, NULL, hfi_extent_count(session)};
    if (!(v.checked = calloc(v.extent_count + 1u, 1)))
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    else
        status = hfi_tree_each(session, &snapshot->root.tree, verify_one, &v, reterr);
    free(v.checked);
    hf_snapshot_release(snapshot);
    return status;
}
