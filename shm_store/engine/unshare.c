/* unshare.c - a private mapping of committed data becomes this process's own memory.
 *
 * The first write to each page of a private mapping is a fault and a copy of 4 KiB. If
 * all of a GiB is written, that takes 0.7 to 3.7 s, in the middle of a measurement. If
 * it is known beforehand that a buffer will be written, it is copied in bulk instead.
 * From then on the region is an own one, as if it had been born here: writes cost
 * nothing, and the next commit takes it by reference. Otherwise that commit would copy
 * every changed page a second time.
 *
 * If the arena has recycled pages, a block of them is mapped elsewhere, with its page
 * tables filled. When it has the contents, it is moved to the region's addresses. Pages
 * that this process didn't write are read from the object, directly into the block:
 * their own page tables may not be filled, and needn't be. Pages that it wrote exist in
 * this process only, and are copied from its memory. If there are only fresh pages,
 * writing is cheaper than mapping and filling. Then the region is written to a bare
 * extent, which is mapped in its place. In both cases the copy is made where no thread
 * sees it, so after a failure the region is as it was.
 *
 * A region may be unshared and then not written, since the code took another way. It
 * would be published as a change. So the region keeps its old pieces, and
 * hf_region_reshare compares. It starts with some pages from all over, so that in most
 * cases the first of them shows that a buffer was written.
 *
 * No page may be written between the copy and the move. No lock can prevent that, so
 * the caller guarantees it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/step.h"
#include "engine/prepared.h"
#include "engine/region.h"
#include "engine/reservation.h"
#include "platform/bulk.h"
#include "platform/object.h"
#include "platform/pages.h"
#include "tuning/tuning.h"

/* Bytes [from, to) of the region as they were committed. */
static int
read_committed(const hf_region *region, size_t from, size_t to, char *ret_bytes) {
    size_t at = 0;
    int err = 0;
    for (uint32_t i = 0; i < region->piece_count && at < to && !err; i++) {
        const hfi_piece *piece = &region->pieces[i];
        size_t begin = at > from ? at : from, end = at + piece->length;
        if (end > to)
            end = to;
        if (begin < end)
            err = hfi_bulk_read(hfi_session_fd(region->session),
                                ret_bytes + (begin - from), end - begin,
                                piece->offset + (begin - at));
        at += piece->length;
    }
    return err;
}

static hf_status
copy_committed(hf_region *region, char *block, hf_error *reterr) {
    hfi_page_runs runs = {0}; /* an own region that was published has all its pages */
    hf_status status = HF_OK;
    if (!region->is_own && (status = hfi_region_scan(region, &runs, reterr)))
        return status;
    size_t page = region->session->page, at = 0;
    int err = 0;
    for (size_t i = 0; i < runs.count && !err; i++) {
        size_t first = runs.items[i].first * page, size = runs.items[i].count * page;
        err = read_committed(region, at, first, block + at);
        memcpy(block + first, region->address + first, size);
        at = first + size;
    }
    if (!err) /* the object may end with the last byte */
        err = read_committed(region, at, region->size, block + at);
    hfi_page_runs_fini(&runs);
    return err ? hf_error_set_errno(reterr, err, "can't read committed pages") : HF_OK;
}

/* The piece's extent is pinned and mapped there. It belongs to the region now. The old
 * pieces are kept, with their pins, for hf_region_reshare. Mutex held. */
static void
become_own(hf_region *region, const hfi_piece *piece) {
    hfi_region_drop_next(region);
    hfi_region_drop_was(region);
    if (region->pieces != &region->own_piece) {
        region->was_pieces = region->pieces;
        region->was_count = region->piece_count;
    } else if ((region->was_pieces = malloc(sizeof *region->was_pieces))) {
        *region->was_pieces = region->own_piece;
        region->was_count = 1;
    } else
        hfi_piece_drop(region->session, region->own_piece.extent);
    region->own_piece = *piece;
    region->own_piece.length = region->mapped;
    region->pieces = &region->own_piece;
    region->piece_count = 1;
    region->is_own = 1;
}

static hf_status
replace_by_block(hf_region *region, hf_region *block, hf_error *reterr) {
    hf_session *session = region->session;
    hf_status status = copy_committed(region, block->address, reterr);
    hfi_step("unshare:filled");
    pthread_mutex_lock(&session->mutex);
    if (!status) {
        /* A block of the cache may be somewhat larger. */
        if (block->mapped > region->mapped)
            hfi_object_unmap(block->address + region->mapped,
                             block->mapped - region->mapped);
        session->blocks->own_bytes -= block->mapped - region->mapped;
        block->mapped = region->mapped;
        int err = hfi_object_move(hfi_session_fd(session), block->own_piece.offset,
                                  block->address, block->mapped, region->address);
        if (err)
            status = hf_error_set_errno(reterr, err, "can't move %zu bytes into place",
                                        block->mapped);
    }
    if (status) {
        session->blocks->own_bytes -= block->mapped;
        hfi_block_free(block);
    } else {
        become_own(region, &block->own_piece);
        free(block);
    }
    pthread_mutex_unlock(&session->mutex);
    return status;
}

static hf_status
replace_by_fresh(hf_region *region, hf_error *reterr) {
    hf_session *session = region->session;
    const struct iovec all = {region->address, region->mapped};
    uint32_t extent;
    void *there;
    hf_status status = hfi_extent_store(session, HFI_EXTENT_REGION, &all, 1,
                                        region->mapped, &extent, NULL, reterr);
    if (status)
        return status;
    hfi_piece piece = {session->extents[extent].offset, region->mapped, extent, 0};
    pthread_mutex_lock(&session->mutex);
    status = hfi_pin(session, extent, reterr);
    if (!status) {
        int err = hfi_object_map(hfi_session_fd(session), piece.offset, piece.length,
                                 HFI_MAP_SHARED, region->address, &there);
        if (err) {
            hfi_unpin(session, extent);
            status = hf_error_set_errno(reterr, err, "can't map %zu bytes into place",
                                        region->mapped);
        } else {
            become_own(region, &piece);
            hfi_own_count(session, region->mapped);
        }
    }
    pthread_mutex_unlock(&session->mutex);
    if (status)
        hfi_extent_give_back(session, extent);
    else
        hfi_pages_populate(region->address, region->mapped, 0);
    return status;
}

static hf_status
make_own(hf_region *region, int may_be_fresh, hf_error *reterr) {
    hf_session *session = region->session;
    hf_status status = hfi_session_check(session, reterr);
    if (status || region->piece_count == 0)
        return status;
    if ((status = hfi_prepared_finish(session, reterr)))
        return status;
    if (hf_region_is_own(region))
        return HF_OK;
    hf_region *block;
    int is_zero;
    status = hfi_block_take(session, region->mapped, HFI_RESERVE_RECYCLED, &block,
                            &is_zero, reterr);
    if (status == HF_NOT_FOUND && may_be_fresh)
        status = replace_by_fresh(region, reterr);
    else if (!status)
        status = replace_by_block(region, block, reterr);
    hfi_step("unshare:done");
    return status;
}

hf_status
hf_region_unshare(hf_region *region, hf_error *reterr) {
    HFI_NEED(reterr, region);
    return make_own(region, 1, reterr);
}

hf_status
hfi_region_unshare_recycled(hf_region *region, hf_error *reterr) {
    return make_own(region, 0, reterr);
}

/* ---- and back ---- */

#define SAMPLES 64
#define CHUNK   (1u << 18) /* bytes read at a time */

/* Whether bytes [at, at + size) are unchanged. A failure counts as a change. */
static int
is_as_it_was(const hf_region *was, size_t at, size_t size, char *chunk) {
    return read_committed(was, at, at + size, chunk) == 0 &&
           memcmp(chunk, was->address + at, size) == 0;
}

static int
is_unwritten(const hf_region *region) {
    hf_region was = {.session = region->session,
                     .address = region->address,
                     .pieces = region->was_pieces,
                     .piece_count = region->was_count};
    char *chunk = malloc(CHUNK);
    size_t page = region->session->page, size = region->size, at;
    int same = chunk != NULL;
    for (size_t i = 0; same && i < SAMPLES; i++) {
        at = i * ((size - 1) / page) / (SAMPLES - 1) * page;
        same = is_as_it_was(&was, at, size - at < page ? size - at : page, chunk);
    }
    for (at = 0; same && at < size; at += CHUNK)
        same = is_as_it_was(&was, at, size - at < CHUNK ? size - at : CHUNK, chunk);
    free(chunk);
    return same;
}

/* Map the region as it was. 0 or an errno. If a mapping fails after others were made,
 * all bytes are the same, but the first ones are private: a write to them doesn't reach
 * the region's own extent. So the rest is made private, too. The region is then a
 * private mapping of that extent, as after a fork, and its old pieces stay pinned. If
 * that fails as well, the next commit tries it again. */
static int
map_as_it_was(hf_region *region) {
    hf_session *session = region->session;
    size_t at = 0;
    for (uint32_t i = 0; i < region->was_count; i++) {
        void *there;
        const hfi_piece *piece = &region->was_pieces[i];
        int err = hfi_object_map(hfi_session_fd(session), piece->offset, piece->length,
                                 HFI_MAP_PRIVATE, region->address + at, &there);
        if (err) {
            region->private_below = at;
            if (at)
                (void)hfi_region_privatize(region);
            return err;
        }
        at += piece->length;
    }
    return 0;
}

hf_status
hf_region_reshare(hf_region *region, hf_error *reterr) {
    HFI_NEED(reterr, region);
    hf_session *session = region->session;
    if (!hf_region_is_own(region) || !region->was_count || region->private_below ||
        !is_unwritten(region))
        return HF_BUSY;
    uint32_t extent = region->own_piece.extent;
    pthread_mutex_lock(&session->mutex);
    int err = map_as_it_was(region);
    if (!err) {
        hfi_unpin(session, extent);
        region->pieces = region->was_pieces;
        region->piece_count = region->was_count;
        region->was_pieces = NULL;
        region->was_count = 0;
        region->is_own = 0;
        session->blocks->own_bytes -= region->mapped;
    }
    pthread_mutex_unlock(&session->mutex);
    hfi_step("reshare:mapped");
    if (err)
        return hf_error_set_errno(reterr, err, "can't map a region as it was");
    hfi_extent_give_back(session, extent);
    return HF_OK;
}
