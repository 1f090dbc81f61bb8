/* region_map.c - committed regions: a buffer mapped copy-on-write.
 *
 * A buffer is a list of pieces, whole pages of extents, mapped side by side. Mapping
 * private means that reading copies nothing, and that writing touches only pages of
 * this process. The region pins the extents before it gives anything back, while the
 * snapshot's lease still keeps them: a reclaimer looks at leases first and at pins
 * second, so it sees one of the two.
 *
 * The kernel reports in one call which pages of the whole region were written. If it
 * can't, each piece is compared with what was committed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "engine/region.h"
#include "engine/snapshot.h"
#include "engine/tree.h"
#include "platform/object.h"
#include "platform/pages.h"

static hf_status
map_pieces(hf_region *region, hf_error *reterr) {
    hf_session *session = region->session;
    void *address;
    int err;
    if (region->piece_count == 1) {
        err = hfi_object_map(hfi_session_fd(session), region->pieces[0].offset,
                             region->mapped, HFI_MAP_PRIVATE, NULL, &address);
        region->address = address;
        return err ? hf_error_set_errno(reterr, err, "can't map a buffer") : HF_OK;
    }
    if ((err = hfi_object_map_nothing(region->mapped, &address)))
        return hf_error_set_errno(reterr, err, "can't find addresses for a buffer");
    region->address = address;
    size_t at = 0;
    for (uint32_t i = 0; i < region->piece_count && !err; i++) {
        const hfi_piece *piece = &region->pieces[i];
        void *there;
        err = hfi_object_map(hfi_session_fd(session), piece->offset, piece->length,
                             HFI_MAP_PRIVATE, region->address + at, &there);
        at += piece->length;
    }
    if (!err)
        return HF_OK;
    hfi_object_unmap(region->address, region->mapped);
    return hf_error_set_errno(reterr, err, "can't map a buffer");
}

static hf_status
pin_pieces(hf_region *region, hf_error *reterr) {
    hf_status status = HF_OK;
    uint32_t i = 0;
    pthread_mutex_lock(&region->session->mutex);
    for (; i < region->piece_count && !status; i++)
        status = hfi_pin(region->session, region->pieces[i].extent, reterr);
    if (status) /* the last one failed */
        for (i--; i-- > 0;)
            hfi_unpin(region->session, region->pieces[i].extent);
    pthread_mutex_unlock(&region->session->mutex);
    return status;
}

static void
unpin_pieces(hf_region *region) {
    pthread_mutex_lock(&region->session->mutex);
    for (uint32_t i = 0; i < region->piece_count; i++)
        hfi_unpin(region->session, region->pieces[i].extent);
    pthread_mutex_unlock(&region->session->mutex);
}

hf_status
hf_region_map(hf_snapshot *snapshot, const hf_entry *entry, uint32_t index,
              hf_region **ret_region, hf_error *reterr) {
    HFI_NEED(reterr, snapshot, entry && entry->internal, ret_region);
    hf_session *session = snapshot->session;
    const hfi_entry_record *record = entry->internal;
    if (index >= record->buffer_count)
        return hf_error_set(reterr, HF_E_INVALID, "no buffer %u among %u", index,
                            record->buffer_count);
    const hfi_buffer_head *head = &hfi_record_buffers(record)[index];
    hf_region *region = calloc(1, sizeof *region);
    hfi_piece *pieces = calloc((size_t)head->piece_count + 1, sizeof *pieces);
    hf_status status = HF_OK;
    if (!region || !pieces) {
        status = hf_error_set(reterr, HF_E_NOMEM, "out of memory");
        goto out;
    }
    memcpy(pieces, hfi_record_pieces(record) + head->first_piece,
           head->piece_count * sizeof *pieces);
    region->session = session;
    region->size = head->size;
    region->mapped = hfi_round_up(head->size ? head->size : 1, session->page);
    region->pieces = pieces;
    region->piece_count = head->piece_count;
    atomic_store(&region->references, 1);
    if ((status = pin_pieces(region, reterr)))
        goto out;
    if ((status = map_pieces(region, reterr))) {
        unpin_pieces(region);
        goto out;
    }
    pthread_mutex_lock(&session->mutex);
    hfi_regions_insert(session, region);
    pthread_mutex_unlock(&session->mutex);
    *ret_region = region;
    return HF_OK;
out:
    free(pieces);
    free(region);
    return status;
}

/* Find the changed pages by looking at each byte. 0 or ENOMEM. */
static int
compare_region(const hf_region *region, hfi_page_runs *runs) {
    const hf_session *session = region->session;
    size_t at = 0;
    int err = 0;
    for (uint32_t i = 0; i < region->piece_count && !err; i++) {
        const hfi_piece *piece = &region->pieces[i];
        err = hfi_pages_changed(
            HFI_PAGES_COMPARE, -1, region->address + at, piece->length, session->page,
            session->window + piece->offset, at / session->page, runs);
        at += piece->length;
    }
    return err;
}

static size_t
pages_missing(const hfi_page_runs *all, const hfi_page_runs *some) {
    size_t missing = 0, at = 0;
    for (size_t i = 0; i < all->count; i++)
        for (size_t page = all->items[i].first;
             page < all->items[i].first + all->items[i].count; page++) {
            while (at < some->count &&
                   some->items[at].first + some->items[at].count <= page)
                at++;
            missing += at == some->count || some->items[at].first > page;
        }
    return missing;
}

/* Replace the pages that the system reported by those that a comparison finds. Count
 * those that it didn't report. 0 or ENOMEM. */
static int
verify_runs(const hf_region *region, hfi_page_runs *runs) {
    hfi_page_runs found = {0};
    int err = compare_region(region, &found);
    if (err) {
        hfi_page_runs_fini(&found);
        return err;
    }
    region->session->regions->pages_overlooked += pages_missing(&found, runs);
    hfi_page_runs_fini(runs);
    *runs = found;
    return 0;
}

hf_status
hfi_region_scan(hf_region *region, hfi_page_runs *ret_runs, hf_error *reterr) {
    hf_session *session = region->session;
    enum hfi_pages_way way = hfi_pages_best_way();
    hfi_page_runs runs = {0};
    int err = ENOTSUP;
    if (region->piece_count == 0)
        goto out;
    if (way != HFI_PAGES_COMPARE)
        err = hfi_pages_changed(way, hfi_session_pagemap(session), region->address,
                                region->mapped, session->page, NULL, 0, &runs);
    if (err && err != ENOMEM) {
        runs.count = runs.pages = 0;
        err = compare_region(region, &runs);
    } else if (!err && session->regions->verifies)
        err = verify_runs(region, &runs);
    if (err) {
        hfi_page_runs_fini(&runs);
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    }
out:
    *ret_runs = runs;
    return HF_OK;
}

uint64_t
hf_session_verify_pages(hf_session *session, int on) {
    if (!session)
        return 0;
    uint64_t overlooked = session->regions->pages_overlooked;
    session->regions->verifies = on;
    session->regions->pages_overlooked = 0;
    return overlooked;
}

hf_status
hf_region_changed_pages(hf_region *region, uint64_t *ret_pages, hf_error *reterr) {
    HFI_NEED(reterr, region, ret_pages);
    if (region->is_own) {
        *ret_pages = region->mapped / region->session->page;
        return HF_OK;
    }
    hfi_page_runs runs;
    hf_status status = hfi_region_scan(region, &runs, reterr);
    if (status)
        return status;
    *ret_pages = runs.pages;
    hfi_page_runs_fini(&runs);
    return HF_OK;
}

void
hf_region_populate(hf_region *region, int write) {
    if (!region)
        return;
    hfi_pages_populate(region->address, region->mapped, write);
}
