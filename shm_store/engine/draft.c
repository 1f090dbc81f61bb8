/* draft.c - what a commit in the making has written, and what it will change.
 *
 * Bytes are written once, to their final place: large ones to an extent of their own,
 * by pwrite (no page faults here); small buffers page by page to packs that share an
 * extent. A piece of a pack has no place before the pack is written; until then it
 * names the pack by number (HFI_PACK_MARK).
 *
 * Publishing a commit changes how many objects of each extent are alive. The changes
 * are summed here by extent (deltas), as objects come and go.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/commit.h"
#include "engine/reservation.h"
#include "engine/tree.h"

#define PACK_SIZE (4u << 20) /* a pack is written when it is full */

void
hfi_committer_fini(hfi_committer *committer) {
    hfi_pool_fini(&committer->drafts);
    hfi_spool_fini(&committer->entries);
    free(committer->scratch);
}

hf_status
hfi_no_memory(hf_error *reterr) {
    return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
}

hf_status
hfi_list32_add(hfi_list32 *list, uint32_t value, hf_error *reterr) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 16;
        uint32_t *items = realloc(list->items, capacity * sizeof *items);
        if (!items)
            return hfi_no_memory(reterr);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = value;
    return HF_OK;
}

/* ---- deltas ---- */

static hfi_delta *
delta_slot(hfi_delta_map *map, uint32_t extent) {
    size_t i = (extent * 2654435761u) & (map->capacity - 1);
    while (map->items[i].extent != HFI_NONE && map->items[i].extent != extent)
        i = (i + 1) & (map->capacity - 1);
    return &map->items[i];
}

static hf_status
delta_grow(hfi_delta_map *map, hf_error *reterr) {
    hfi_delta_map bigger = {NULL, map->count, map->capacity ? map->capacity * 2 : 32};
    bigger.items = malloc(bigger.capacity * sizeof *bigger.items);
    if (!bigger.items)
        return hfi_no_memory(reterr);
    for (size_t i = 0; i < bigger.capacity; i++)
        bigger.items[i] = (hfi_delta){HFI_NONE, 0, 0};
    for (size_t i = 0; i < map->capacity; i++)
        if (map->items[i].extent != HFI_NONE)
            *delta_slot(&bigger, map->items[i].extent) = map->items[i];
    free(map->items);
    *map = bigger;
    return HF_OK;
}

hf_status
hfi_delta_add(hf_commit *commit, uint32_t extent, int32_t live, int64_t bytes,
              hf_error *reterr) {
    hfi_delta_map *map = &commit->deltas;
    hf_status status;
    if ((map->count + 1) * 2 > map->capacity && (status = delta_grow(map, reterr)))
        return status;
    hfi_delta *delta = delta_slot(map, extent);
    if (delta->extent == HFI_NONE) {
        delta->extent = extent;
        map->count++;
    }
    delta->live += live;
    delta->live_bytes += bytes;
    return HF_OK;
}

hf_status
hfi_record_count(hf_commit *commit, const hfi_entry_record *record, int sign,
                 hf_error *reterr) {
    hf_status status = HF_OK;
    const hfi_piece *outside = hfi_record_outside(record);
    if (outside)
        status = hfi_delta_add(commit, outside->extent, sign,
                               sign * (int64_t)record->payload_size, reterr);
    for (uint32_t i = 0; i < record->piece_count && !status; i++) {
        const hfi_piece *piece = &hfi_record_pieces(record)[i];
        status = hfi_delta_add(commit, piece->extent, sign,
                               sign * (int64_t)piece->length, reterr);
    }
    return status;
}

/* ---- bytes ---- */

static hf_status
write_parts(hf_commit *commit, const struct iovec *parts, size_t count, size_t size,
            uint32_t *ret_extent, hf_digest *ret_digest, hf_error *reterr) {
    uint32_t extent;
    hf_status status = hfi_extent_store(commit->session, 0, parts, count, size, &extent,
                                        ret_digest, reterr);
    if (status)
        return status;
    if ((status = hfi_list32_add(&commit->written, extent, reterr))) {
        hfi_extent_give_back(commit->session, extent);
        return status;
    }
    *ret_extent = extent;
    return HF_OK;
}

hf_status
hfi_commit_write_parts(hf_commit *commit, const struct iovec *parts, size_t count,
                       size_t size, uint32_t *ret_extent, hf_error *reterr) {
    return write_parts(commit, parts, count, size, ret_extent, NULL, reterr);
}

hf_status
hfi_commit_write_extent(hf_commit *commit, const void *data, size_t size,
                        uint32_t *ret_extent, hf_digest *ret_digest, hf_error *reterr) {
    const struct iovec part = {(void *)(uintptr_t)data, size};
    return write_parts(commit, &part, 1, size, ret_extent, ret_digest, reterr);
}

hf_status
hfi_pack_flush(hf_commit *commit, hf_error *reterr) {
    if (commit->pack_used == 0)
        return HF_OK;
    hfi_piece *packs =
        realloc(commit->packs, (commit->pack_count + 1) * sizeof *commit->packs);
    if (!packs)
        return hfi_no_memory(reterr);
    commit->packs = packs;
    uint32_t extent;
    hf_status status = hfi_commit_write_extent(commit, commit->pack, commit->pack_used,
                                               &extent, NULL, reterr);
    if (status)
        return status;
    hfi_extent *record = &commit->session->extents[extent];
    record->flags |= HFI_EXTENT_LOG;
    packs[commit->pack_count++] =
        (hfi_piece){record->offset, commit->pack_used, extent, 0};
    commit->pack_used = 0;
    return HF_OK;
}

hf_status
hfi_pack_add(hf_commit *commit, const void *data, size_t size, hfi_piece *ret_piece,
             hf_error *reterr) {
    size_t whole = hfi_round_up(size, commit->session->page);
    hf_status status;
    if (commit->pack_used + whole > PACK_SIZE &&
        (status = hfi_pack_flush(commit, reterr)))
        return status;
    if (commit->pack_used + whole > commit->pack_capacity) {
        size_t capacity = commit->pack_capacity ? commit->pack_capacity * 2 : 64u << 10;
        while (capacity < commit->pack_used + whole)
            capacity *= 2;
        char *pack = realloc(commit->pack, capacity);
        if (!pack)
            return hfi_no_memory(reterr);
        commit->pack = pack;
        commit->pack_capacity = capacity;
    }
    char *at = commit->pack + commit->pack_used;
    memcpy(at, data, size);
    memset(at + size, 0, whole - size);
    *ret_piece = (hfi_piece){commit->pack_used, whole,
                             HFI_PACK_MARK | (uint32_t)commit->pack_count, 0};
    commit->pack_used += whole;
    return HF_OK;
}
