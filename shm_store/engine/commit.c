/* commit.c - what a commit takes in: keys, their bytes and their buffers.
 *
 * Bytes go where they will stay, once: a payload of up to 64 KiB into its entry; a
 * larger one, or a buffer from 256 KiB, into an extent of its own, by pwrite (no page
 * faults here); small buffers page by page into packs that share an extent. An own
 * region is published by reference. Of a committed region only the changed pages are
 * copied, all into one new extent, and the buffer becomes the list of old and new
 * pieces side by side.
 *
 * Where more than half of a buffer changed, or its list would grow past its bound, it
 * is copied whole: so dead pages in old extents never outweigh the living ones, and
 * mappings stay countable. The bound is 256 pieces, and 16 once all entries together
 * have more than 4096, because a process has only some 65,000 mappings, most of them
 * for others.
 *
 * Nothing of this is visible, or survives this process, before it is published.
 */
#include "engine/commit.h"

#define PACK_SIZE   (4u << 20)   /* a pack is written when it is full */
#define PACK_LIMIT  (256u << 10) /* larger buffers get their own extent */
#define PIECES_MANY 4096
#define PIECES_FEW  16
#define META_MAX    (64u << 10)

hf_status
hf_commit_begin(hf_session *session, hf_commit **ret_commit, hf_error *reterr) {
    static _Atomic uint64_t numbers = 1;
    if (session->committing)
        return hf_error_set(reterr, HF_BUSY, "this process is committing already");
    hfi_prepared_settle(session, 1);
    hf_commit *commit = calloc(1, sizeof *commit);
    if (!commit)
        return hfi_no_memory(reterr);
    hf_status status = hf_snapshot_acquire(session, &commit->base, reterr);
    if (status) {
        free(commit);
        return status;
    }
    const hfi_root *root = &commit->base->root;
    commit->session = session;
    commit->number = atomic_fetch_add(&numbers, 1);
    commit->root.kind = HFI_CHILD_REF;
    commit->root.as.ref = root->tree;
    commit->is_empty = root->tree.kind == HFI_KIND_NONE;
    commit->entry_count = root->entry_count;
    commit->next_sequence = root->next_sequence;
    commit->piece_total = (int64_t)root->piece_total;
    session->committing = 1;
    *ret_commit = commit;
    return HF_OK;
}

/* ---- bytes
 * ------------------------------------------------------------------------------ */

hf_status
hfi_commit_write_extent(hf_commit *commit, const void *data, size_t size,
                        uint32_t *ret_extent, hf_error *reterr) {
    uint32_t extent;
    hf_status status = hfi_extent_reserve(commit->session, size, 0, &extent, reterr);
    if (status)
        return status;
    if ((status = hfi_list32_add(&commit->written, extent, reterr)))
        return status;
    hfi_extent *record = &commit->session->extents[extent];
    record->flags &= ~(uint32_t)HFI_EXTENT_ZERO;
    int err = hfi_object_write(commit->session->fd, data, size, record->offset);
    if (err)
        return hfi_space_error(reterr, err, "can't write to the arena");
    *ret_extent = extent;
    return HF_OK;
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
                                               &extent, reterr);
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

/* `size` bytes as one piece. The last page's tail is what the arena held: never shown.
 */
static hf_status
copy_bytes(hf_commit *commit, const void *data, size_t size, hfi_piece *ret_piece,
           hf_error *reterr) {
    commit->stats.bytes_copied += size;
    if (size < PACK_LIMIT)
        return hfi_pack_add(commit, data, size, ret_piece, reterr);
    uint32_t extent;
    hf_status status = hfi_commit_write_extent(commit, data, size, &extent, reterr);
    if (status)
        return status;
    *ret_piece = (hfi_piece){commit->session->extents[extent].offset,
                             hfi_round_up(size, commit->session->page), extent, 0};
    return HF_OK;
}

/* ---- regions
 * ---------------------------------------------------------------------------- */

typedef struct piece_list {
    hfi_piece items[HF_BUFFER_EXTENTS_MAX + 1];
    uint32_t count;
    int overflow;
} piece_list;

static void
append(piece_list *list, hfi_piece piece) {
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
append_old(piece_list *list, const hf_region *region, size_t from, size_t to) {
    size_t at = 0;
    for (uint32_t i = 0; i < region->piece_count && at < to; i++) {
        const hfi_piece *piece = &region->pieces[i];
        size_t begin = at > from ? at : from, end = at + piece->length;
        if (end > to)
            end = to;
        if (begin < end)
            append(list, (hfi_piece){piece->offset + (begin - at), end - begin,
                                     piece->extent, 0});
        at += piece->length;
    }
}

static void
mix(piece_list *list, const hf_region *region, const hfi_runs *runs,
    uint64_t new_offset, uint32_t new_extent) {
    size_t page = region->session->page, at = 0;
    for (size_t i = 0; i < runs->count && !list->overflow; i++) {
        size_t first = runs->items[i].first * page,
               length = runs->items[i].count * page;
        append_old(list, region, at, first);
        append(list, (hfi_piece){new_offset, length, new_extent, 0});
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
write_runs(hf_commit *commit, const hf_region *region, const hfi_runs *runs,
           uint32_t *ret_extent, hf_error *reterr) {
    hf_session *session = commit->session;
    size_t page = session->page;
    uint32_t extent;
    hf_status status =
        hfi_extent_reserve(session, runs->pages * page, 0, &extent, reterr);
    if (status)
        return status;
    if ((status = hfi_list32_add(&commit->written, extent, reterr)))
        return status;
    session->extents[extent].flags &= ~(uint32_t)HFI_EXTENT_ZERO;
    uint64_t offset = session->extents[extent].offset;
    for (size_t i = 0; i < runs->count; i++) {
        size_t length = runs->items[i].count * page;
        int err = hfi_object_write(
            session->fd, region->address + runs->items[i].first * page, length, offset);
        if (err)
            return hfi_space_error(reterr, err, "can't write changed pages");
        offset += length;
    }
    commit->stats.bytes_copied += runs->pages * page;
    *ret_extent = extent;
    return HF_OK;
}

/* Keep the region (and so its pins) until the commit is settled. */
static hf_status
hold(hf_commit *commit, hf_region *region, hf_error *reterr) {
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

/* Remember in the region what it will be once published, for hf_session_seal. */
static hf_status
note_next(hf_commit *commit, hf_region *region, const piece_list *list,
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

static hf_status
changed_region(hf_commit *commit, hf_region *region, const hfi_runs *runs,
               piece_list *list, hf_error *reterr) {
    hf_session *session = commit->session;
    uint32_t extent;
    hf_status status;
    commit->stats.pages_changed += runs->pages;
    int whole = runs->pages * session->page * 2 > region->mapped;
    if (!whole) { /* the shape first: the extent's place doesn't change the count */
        mix(list, region, runs, 0, HFI_NONE);
        whole = list->overflow || list->count > piece_limit(commit);
        memset(list, 0, sizeof *list);
    }
    if (!whole) {
        if ((status = write_runs(commit, region, runs, &extent, reterr)))
            return status;
        mix(list, region, runs, session->extents[extent].offset, extent);
        commit->stats.bytes_shared += region->mapped - runs->pages * session->page;
    } else {
        status = hfi_commit_write_extent(commit, region->address, region->mapped,
                                         &extent, reterr);
        if (status)
            return status;
        append(list,
               (hfi_piece){session->extents[extent].offset, region->mapped, extent, 0});
        commit->stats.bytes_copied += region->mapped;
    }
    return note_next(commit, region, list, reterr);
}

static hf_status
put_region(hf_commit *commit, hf_region *region, piece_list *list, hf_error *reterr) {
    hf_session *session = commit->session;
    hf_status status = hold(commit, region, reterr);
    if (status || region->size == 0)
        return status;
    if (region->is_own) {
        uint32_t extent = region->own_piece.extent;
        if (hfi_extent_is_mine(session, extent, HFI_RESERVED) &&
            (status = hfi_list32_add(&commit->shared, extent, reterr)))
            return status;
        append(list, (hfi_piece){region->own_piece.offset,
                                 hfi_round_up(region->size, session->page), extent, 0});
        commit->stats.bytes_shared += region->size;
        return HF_OK;
    }
    if (region->next_commit == commit->number) { /* put before, under another key */
        for (uint32_t i = 0; i < region->next_count; i++)
            append(list, region->next_pieces[i]);
        commit->stats.bytes_shared += region->size;
        return HF_OK;
    }
    hfi_runs runs;
    if ((status = hfi_region_scan(region, &runs, reterr)))
        return status;
    if (runs.count)
        status = changed_region(commit, region, &runs, list, reterr);
    else {
        append_old(list, region, 0, region->mapped);
        commit->stats.bytes_shared += region->size;
    }
    hfi_runs_fini(&runs);
    return status;
}

/* ---- entries
 * ------------------------------------------------------------------------------ */

static hf_status
make_pieces(hf_commit *commit, const hf_value *value, hfi_buffer_head *heads,
            hfi_piece **ret_pieces, uint32_t *ret_count, hf_error *reterr) {
    hfi_piece *pieces = NULL;
    uint32_t count = 0, capacity = 0;
    hf_status status = HF_OK;
    for (uint32_t i = 0; i < value->buffer_count && !status; i++) {
        const hf_buffer *buffer = &value->buffers[i];
        piece_list list;
        list.count = 0;
        list.overflow = 0;
        if (buffer->region)
            status = put_region(commit, buffer->region, &list, reterr);
        else if (buffer->size)
            status =
                copy_bytes(commit, buffer->data, buffer->size, &list.items[0], reterr);
        if (status)
            break;
        if (!buffer->region)
            list.count = buffer->size != 0;
        if (count + list.count > capacity) {
            capacity = (count + list.count) * 2;
            hfi_piece *more = realloc(pieces, capacity * sizeof *pieces);
            if (!more) {
                status = hfi_no_memory(reterr);
                break;
            }
            pieces = more;
        }
        heads[i] = (hfi_buffer_head){
            buffer->region ? buffer->region->size : buffer->size, count, list.count};
        if (list.count)
            memcpy(pieces + count, list.items, list.count * sizeof *pieces);
        count += list.count;
    }
    if (status) {
        free(pieces);
        return status;
    }
    *ret_pieces = pieces;
    *ret_count = count;
    return HF_OK;
}

static hfi_record *
make_record(const hf_commit *commit, const hf_value *value,
            const hfi_buffer_head *heads, const hfi_piece *pieces, uint32_t piece_count,
            uint32_t *ret_length) {
    hfi_record head = {.magic = HFI_RECORD_MAGIC,
                       .key_size = (uint32_t)value->key_size,
                       .hash = hfi_key_hash(value->key, value->key_size),
                       .generation = commit->base->root.generation + 1,
                       .codec = value->codec,
                       .flags = value->flags,
                       .meta_size = (uint32_t)value->meta_size,
                       .buffer_count = value->buffer_count,
                       .piece_count = piece_count,
                       .payload_extent = HFI_NONE,
                       .payload_size = value->payload_size};
    for (uint32_t i = 0; i < value->buffer_count; i++)
        head.buffer_bytes += heads[i].size;
    uint64_t meta = hfi_record_meta_offset(&head), length = meta + value->meta_size;
    int is_inside = value->payload_size && value->payload_size <= HFI_INLINE_MAX;
    if (is_inside) {
        head.payload_offset = hfi_round_up(length, 64);
        length = head.payload_offset + value->payload_size;
    }
    char *bytes = calloc(1, length);
    if (!bytes)
        return NULL;
    hfi_record *record = (hfi_record *)(void *)bytes;
    *record = head;
    if (value->buffer_count)
        memcpy(bytes + sizeof head, heads, value->buffer_count * sizeof *heads);
    if (piece_count)
        memcpy((char *)(uintptr_t)hfi_record_pieces(record), pieces,
               piece_count * sizeof *pieces);
    memcpy((char *)(uintptr_t)hfi_record_key(record), value->key, value->key_size);
    if (value->meta_size)
        memcpy(bytes + meta, value->meta, value->meta_size);
    if (is_inside)
        memcpy(bytes + head.payload_offset, value->payload, value->payload_size);
    *ret_length = (uint32_t)length;
    return record;
}

static hf_status
put(hf_commit *commit, const hf_value *value, hf_error *reterr) {
    hfi_piece *pieces = NULL;
    uint32_t piece_count = 0, length, payload_extent = HFI_NONE;
    hf_status status = HF_OK;
    hfi_buffer_head *heads = calloc((size_t)value->buffer_count + 1, sizeof *heads);
    if (!heads)
        return hfi_no_memory(reterr);
    if ((status = make_pieces(commit, value, heads, &pieces, &piece_count, reterr)))
        goto out;
    if (value->payload_size > HFI_INLINE_MAX &&
        (status = hfi_commit_write_extent(commit, value->payload, value->payload_size,
                                          &payload_extent, reterr)))
        goto out;
    hfi_record *record =
        make_record(commit, value, heads, pieces, piece_count, &length);
    if (!record) {
        status = hfi_no_memory(reterr);
        goto out;
    }
    if (payload_extent != HFI_NONE) {
        record->payload_extent = payload_extent;
        record->payload_offset = commit->session->extents[payload_extent].offset;
    }
    if ((status = hfi_overlay_put_consume(commit, record, length, reterr)))
        goto out;
    commit->stats.bytes_copied += value->payload_size;
    commit->stats.entries_put++;
out:
    free(pieces);
    free(heads);
    return status;
}

hf_status
hf_commit_put(hf_commit *commit, const hf_value *value, hf_error *reterr) {
    if (commit->failed)
        return hf_error_set(reterr, HF_E_INVALID, "this commit has failed: abort it");
    if (value->key_size < 1 || value->key_size > HF_KEY_SIZE_MAX ||
        value->meta_size > META_MAX || value->buffer_count > 1u << 20)
        return hf_error_set(reterr, HF_E_INVALID,
                            "key, meta or buffers are out of range");
    hf_status status = put(commit, value, reterr);
    if (status) {
        commit->failed = 1;
        hf_error_prefix(reterr, "putting %.*s", (int)value->key_size, value->key);
    }
    return status;
}

hf_status
hf_commit_remove(hf_commit *commit, const char *key, size_t key_size,
                 hf_error *reterr) {
    hf_status status = hfi_overlay_remove(commit, key, key_size, reterr);
    if (status == HF_OK)
        commit->stats.entries_removed++;
    if (status < 0)
        commit->failed = 1;
    return status;
}

void
hf_commit_get_stats(const hf_commit *commit, hf_commit_stats *ret_stats) {
    *ret_stats = commit->stats;
}
