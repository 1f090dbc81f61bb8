/* commit_region.c - a region as a buffer of a value: which pages are shared, which are
 * copied.
 *
 * An own region is published by reference. Of a committed one only the changed pages
 * are copied, all into one new extent, and the buffer becomes the list of old and new
 * pieces side by side.
 *
 * A page isn't copied if it was written with the bytes that it already had. An example
 * is pandas: to set one element of a column, it writes the whole column back onto
 * itself. To compare pages that did change costs time for nothing, so some of them are
 * compared first. All this is done only if the process wants it
 * (hfi_session_compare_pages).
 *
 * If more than half of a buffer changed, or its list would get too long, it is copied
 * whole. So the dead pages in old extents are never more than the living ones, and
 * there aren't too many mappings: a process can have only some 65,000, most of them for
 * other things. The list has at most 256 pieces, and at most 16 once all entries
 * together have more than 4096.
 *
 * The commit holds each region, and with it the pins on what it refers to, until it is
 * settled. The region notes its future pieces for hf_session_privatize.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/commit.h"
#include "engine/extent.h"
#include "engine/region.h"

#define PIECES_MANY 4096
#define PIECES_FEW  16
#define SAMPLES     8

static void
append_piece(hfi_piece_list *list, hfi_piece piece) {
    if (piece.length == 0)
        return;
    hfi_piece *last = list->count ? &list->items[list->count - 1] : NULL;
    if (last && last->extent == piece.extent &&
        last->offset + last->length == piece.offset)
        last->length += piece.length;
    else if (list->count == HF_BUFFER_EXTENTS_MAX)
        list->overflow = 1;
    else
        list->items[list->count++] = piece;
}

/* Append bytes [from, to) of a region as they were mapped. */
static void
append_old(hfi_piece_list *list, const hf_region *region, size_t from, size_t to) {
    size_t at = 0;
    for (uint32_t i = 0; i < region->piece_count && at < to; i++) {
        const hfi_piece *piece = &region->pieces[i];
        size_t begin = at > from ? at : from, end = at + piece->length;
        if (end > to)
            end = to;
        if (begin < end)
            append_piece(list, (hfi_piece){piece->offset + (begin - at), end - begin,
                                           piece->extent, 0});
        at += piece->length;
    }
}

static void
mix_pieces(hfi_piece_list *list, const hf_region *region, const hfi_page_runs *runs,
           uint64_t new_offset, uint32_t new_extent) {
    size_t page = region->session->page, at = 0;
    for (size_t i = 0; i < runs->count && !list->overflow; i++) {
        size_t first = runs->items[i].first * page,
               length = runs->items[i].count * page;
        append_old(list, region, at, first);
        append_piece(list, (hfi_piece){new_offset, length, new_extent, 0});
        new_offset += length;
        at = first + length;
    }
    append_old(list, region, at, region->mapped);
}

static uint32_t
piece_limit(const hf_commit *commit) {
    return commit->piece_total > PIECES_MANY ? PIECES_FEW : HF_BUFFER_EXTENTS_MAX;
}

/* Write the changed pages to one new extent. */
static hf_status
write_page_runs(hf_commit *commit, const hf_region *region, const hfi_page_runs *runs,
                uint32_t *ret_extent, hf_error *reterr) {
    size_t page = commit->session->page;
    struct iovec *parts = malloc(runs->count * sizeof *parts);
    if (!parts)
        return hfi_no_memory(reterr);
    for (size_t i = 0; i < runs->count; i++)
        parts[i] = (struct iovec){region->address + runs->items[i].first * page,
                                  runs->items[i].count * page};
    hf_status status = hfi_commit_write_parts(commit, parts, runs->count,
                                              runs->pages * page, ret_extent, reterr);
    free(parts);
    if (!status)
        commit->stats.bytes_copied += runs->pages * page;
    return status;
}

/* Keep the region (and so its pins) until the commit is settled. */
static hf_status
hold_region(hf_commit *commit, hf_region *region, hf_error *reterr) {
    if (commit->region_count == commit->region_capacity) {
        size_t capacity = commit->region_capacity ? commit->region_capacity * 2 : 16;
        hf_region **regions = realloc(commit->regions, capacity * sizeof(hf_region *));
        if (!regions)
            return hfi_no_memory(reterr);
        commit->regions = regions;
        commit->region_capacity = capacity;
    }
    commit->regions[commit->region_count++] = hf_region_acquire(region);
    return HF_OK;
}

/* Note in the region its pieces after the publication, for hf_session_privatize. */
static hf_status
note_next(hf_commit *commit, hf_region *region, const hfi_piece_list *list,
          hf_error *reterr) {
    hf_session *session = commit->session;
    hfi_piece *pieces = malloc((list->count + 1u) * sizeof *pieces);
    if (!pieces)
        return hfi_no_memory(reterr);
    memcpy(pieces, list->items, list->count * sizeof *pieces);
    hf_status status = HF_OK;
    pthread_mutex_lock(&session->mutex);
    hfi_region_drop_next(region);
    uint32_t i = 0;
    for (; i < list->count && !status; i++)
        status = hfi_pin(session, pieces[i].extent, reterr);
    region->next_pieces = pieces;
    region->next_count = status ? i - 1 : i;
    region->next_commit = commit->number;
    if (status)
        hfi_region_drop_next(region);
    pthread_mutex_unlock(&session->mutex);
    return status;
}

/* Whether a page has the bytes that were committed there. */
static int
is_as_before(const hf_region *region, size_t number) {
    size_t page = region->session->page, at = number * page;
    uint32_t i = 0;
    while (i < region->piece_count && at >= region->pieces[i].length)
        at -= region->pieces[i++].length;
    const void *before =
        i < region->piece_count
            ? hfi_window_at(region->session, region->pieces[i].offset + at, page)
            : NULL;
    return before && memcmp(before, region->address + number * page, page) == 0;
}

/* Whether at least half of some pages, taken from all over, have the committed bytes.
 * */
static int
seems_as_before(const hf_region *region, const hfi_page_runs *runs) {
    size_t step = runs->pages / SAMPLES + 1, next = 0, seen = 0;
    int looked = 0, same = 0;
    for (size_t i = 0; i < runs->count; seen += runs->items[i++].count)
        for (; next < seen + runs->items[i].count; next += step, looked++)
            same += is_as_before(region, runs->items[i].first + (next - seen));
    return same * 2 >= looked;
}

/* Leave out the pages that have the committed bytes. */
static hf_status
drop_unchanged(const hf_region *region, hfi_page_runs *runs, hf_error *reterr) {
    hfi_page_runs kept = {0};
    int err = 0;
    if (!region->session->regions->compares || !runs->count ||
        !seems_as_before(region, runs))
        return HF_OK;
    for (size_t i = 0; i < runs->count && !err; i++)
        for (size_t k = 0; k < runs->items[i].count && !err; k++)
            if (!is_as_before(region, runs->items[i].first + k))
                err = hfi_page_runs_add(&kept, runs->items[i].first + k, 1);
    if (err) {
        hfi_page_runs_fini(&kept);
        return hfi_no_memory(reterr);
    }
    hfi_page_runs_fini(runs);
    *runs = kept;
    return HF_OK;
}

void
hfi_session_compare_pages(hf_session *session) {
    session->regions->compares = 1;
}

static hf_status
changed_region(hf_commit *commit, hf_region *region, const hfi_page_runs *runs,
               hfi_piece_list *list, hf_error *reterr) {
    hf_session *session = commit->session;
    uint32_t extent;
    hf_status status;
    int whole = runs->pages * session->page * 2 > region->mapped;
    if (!whole) { /* without an extent first: its place doesn't change the count */
        mix_pieces(list, region, runs, 0, HFI_NONE);
        whole = list->overflow || list->count > piece_limit(commit);
        memset(list, 0, sizeof *list);
    }
    if (!whole) {
        if ((status = write_page_runs(commit, region, runs, &extent, reterr)))
            return status;
        mix_pieces(list, region, runs, session->extents[extent].offset, extent);
        commit->stats.bytes_shared += region->mapped - runs->pages * session->page;
    } else {
        status = hfi_commit_write_extent(commit, region->address, region->mapped,
                                         &extent, NULL, reterr);
        if (status)
            return status;
        append_piece(list, (hfi_piece){session->extents[extent].offset, region->mapped,
                                       extent, 0});
        commit->stats.bytes_copied += region->mapped;
    }
    return note_next(commit, region, list, reterr);
}

/* The extents that the buffer refers to and that nobody has published yet: the memory
 * of a region that became private because this process forked. */
static hf_status
share_reserved(hf_commit *commit, const hf_region *region, const hfi_piece_list *list,
               hf_error *reterr) {
    hf_status status = HF_OK;
    for (uint32_t i = 0; i < region->piece_count && !status; i++) {
        uint32_t extent = region->pieces[i].extent;
        int is_named = 0;
        for (uint32_t k = 0; k < list->count && !is_named; k++)
            is_named = list->items[k].extent == extent;
        if (is_named && hfi_extent_is_mine(commit->session, extent, HFI_RESERVED))
            status = hfi_list32_add(&commit->shared, extent, reterr);
    }
    return status;
}

/* A part of it is mapped privately already, so its extent doesn't have all its bytes.
 * */
static hf_status
finish_private(hf_region *region, hf_error *reterr) {
    pthread_mutex_lock(&region->session->mutex);
    int err = hfi_region_privatize(region);
    pthread_mutex_unlock(&region->session->mutex);
    return err ? hf_error_set_errno(reterr, err, "can't make a region private") : HF_OK;
}

hf_status
hfi_commit_put_region(hf_commit *commit, hf_region *region, hfi_piece_list *list,
                      hf_error *reterr) {
    hf_session *session = commit->session;
    hf_status status = hold_region(commit, region, reterr);
    if (status || region->size == 0)
        return status;
    if (region->private_below && (status = finish_private(region, reterr)))
        return status;
    if (region->is_own) {
        uint32_t extent = region->own_piece.extent;
        if (hfi_extent_is_mine(session, extent, HFI_RESERVED) &&
            (status = hfi_list32_add(&commit->shared, extent, reterr)))
            return status;
        append_piece(list,
                     (hfi_piece){region->own_piece.offset,
                                 hfi_round_up(region->size, session->page), extent, 0});
        commit->stats.bytes_shared += region->size;
        return HF_OK;
    }
    if (region->next_commit == commit->number) { /* already put under another key */
        for (uint32_t i = 0; i < region->next_count; i++)
            append_piece(list, region->next_pieces[i]);
        commit->stats.bytes_shared += region->size;
        return HF_OK;
    }
    hfi_page_runs runs;
    if ((status = hfi_region_scan(region, &runs, reterr)))
        return status;
    commit->stats.pages_changed += runs.pages;
    status = drop_unchanged(region, &runs, reterr);
    if (!status && runs.count)
        status = changed_region(commit, region, &runs, list, reterr);
    else if (!status) {
        append_old(list, region, 0, region->mapped);
        commit->stats.bytes_shared += region->size;
    }
    hfi_page_runs_fini(&runs);
    return status ? status : share_reserved(commit, region, list, reterr);
}
