/* commit.c - a commit from its beginning to its end: what is put into it, and how it is
 * prepared or dropped.
 *
 * Bytes are written once, to their final place: a payload of up to 64 KiB into its
 * entry, a larger one or a buffer from 256 KiB on into an extent of its own, small
 * buffers page by page into packs that share an extent (draft.c). An own region is
 * published by reference. Of a committed region, the pages that weren't written are
 * (commit_region.c).
 *
 * Nothing of this is visible, or survives this process, before it is published. A
 * commit ends by being prepared (writer.c), after which it belongs to the session and
 * any process may publish it (prepared.c), or by being aborted.
 */
#include "engine/commit.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "engine/prepared.h"
#include "engine/region.h"
#include "engine/slot.h"
#include "engine/tree.h"

#define PACK_LIMIT  (256u << 10) /* larger buffers get their own extent */
#define DRAFTS_KEPT (1u << 20)   /* bytes of each kind, kept for the next commit */

hf_status
hf_commit_begin(hf_session *session, hf_commit **ret_commit, hf_error *reterr) {
    HFI_NEED(reterr, session, ret_commit);
    static _Atomic uint64_t numbers = 1;
    hf_status status = hfi_session_check_writable(session, reterr);
    if (status)
        return status;
    if (session->prepared->committing)
        return hf_error_set(reterr, HF_BUSY, "this process is committing already");
    hfi_prepared_settle(session, 1);
    hf_commit *commit = calloc(1, sizeof *commit);
    if (!commit)
        return hfi_no_memory(reterr);
    status = hf_snapshot_acquire(session, &commit->base, reterr);
    if (status) {
        free(commit);
        return status;
    }
    const hfi_root *root = &commit->base->root;
    commit->session = session;
    commit->number = atomic_fetch_add(&numbers, 1);
    commit->base_root = root->tree;
    commit->root = (hfi_child){.as.ref = &commit->base_root, .kind = HFI_CHILD_REF};
    commit->is_empty = root->tree.kind == HFI_KIND_NONE;
    commit->entry_count = root->entry_count;
    commit->next_sequence = root->next_sequence;
    commit->piece_total = (int64_t)root->piece_total;
    session->prepared->committing = 1;
    *ret_commit = commit;
    return HF_OK;
}

/* ---- bytes ---- */

/* `size` bytes as one piece. The last page's tail is what the arena held: never
 * shown. */
static hf_status
copy_bytes(hf_commit *commit, const void *data, size_t size, hfi_piece *ret_piece,
           hf_digest *ret_digest, hf_error *reterr) {
    commit->stats.bytes_copied += size;
    if (size < PACK_LIMIT) {
        if (ret_digest) {
            *ret_digest = (hf_digest){{0, 0}};
            hf_digest_add(ret_digest, data, size);
        }
        return hfi_pack_add(commit, data, size, ret_piece, reterr);
    }
    uint32_t extent;
    hf_status status =
        hfi_commit_write_extent(commit, data, size, &extent, ret_digest, reterr);
    if (status)
        return status;
    *ret_piece = (hfi_piece){commit->session->extents[extent].offset,
                             hfi_round_up(size, commit->session->page), extent, 0};
    return HF_OK;
}

/* ---- entries ---- */

/* Element `i` of an array whose elements are as large as its caller compiled them. */
static hf_status
read_buffer(const hf_value *value, uint32_t i, hf_buffer *ret_buffer,
            hf_error *reterr) {
    size_t stride = value->buffers->struct_size;
    const void *theirs = (const char *)value->buffers + i * stride;
    hf_status status = HFI_STRUCT_READ(ret_buffer, theirs, hf_buffer, region, reterr);
    if (!status && *(const size_t *)theirs != stride)
        status = hf_error_set(reterr, HF_E_INVALID, "buffers differ in struct_size");
    if (!status && ret_buffer->size && !ret_buffer->data && !ret_buffer->region)
        status = hf_error_set(reterr, HF_E_INVALID, "data is NULL in buffer %u",
                              (unsigned)i);
    return status;
}

static hf_status
make_pieces(hf_commit *commit, const hf_value *value, hfi_buffer_head *heads,
            hfi_piece **ret_pieces, uint32_t *ret_count, hf_error *reterr) {
    hfi_piece *pieces = NULL;
    uint32_t count = 0, capacity = 0;
    hf_status status = HF_OK;
    for (uint32_t i = 0; i < value->buffer_count && !status; i++) {
        hf_buffer buffer;
        hfi_piece_list list;
        list.count = 0;
        list.overflow = 0;
        status = read_buffer(value, i, &buffer, reterr);
        if (!status && buffer.region)
            status = hfi_commit_put_region(commit, buffer.region, &list, reterr);
        else if (!status && buffer.size)
            status =
                copy_bytes(commit, buffer.data, buffer.size, &list.items[0],
                           value->ret_digests ? &value->ret_digests[i] : NULL, reterr);
        if (status)
            break;
        if (!buffer.region)
            list.count = buffer.size != 0;
        if (count + list.count > capacity) {
            capacity = (count + list.count) * 2;
            hfi_piece *more = realloc(pieces, capacity * sizeof *pieces);
            if (!more) {
                status = hfi_no_memory(reterr);
                break;
            }
            pieces = more;
        }
        heads[i] = (hfi_buffer_head){buffer.region ? buffer.region->size : buffer.size,
                                     count, list.count};
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

/* Write all that is behind the head. The memory isn't clear, so the gaps are cleared.
 * */
static void
fill_entry(hfi_entry_record *record, const hf_value *value,
           const hfi_buffer_head *heads, const hfi_piece *pieces, uint64_t length) {
    char *bytes = (char *)record, *at = bytes + sizeof *record;
    if (value->buffer_count) {
        memcpy(at, heads, value->buffer_count * sizeof *heads);
        at = bytes + hfi_record_key_offset(record);
        if (pieces)
            memcpy((char *)(uintptr_t)hfi_record_pieces(record), pieces,
                   record->piece_count * sizeof *pieces);
    } else if (hfi_record_outside(record))
        at += sizeof(hfi_piece);
    memcpy(at, value->key, value->key_size);
    at += value->key_size;
    *at++ = 0;
    if (value->meta_size)
        memcpy(at, value->meta, value->meta_size);
    at += value->meta_size;
    char *end = bytes + length;
    if (at == end)
        return;
    memset(at, 0, (size_t)(end - at) - value->payload_size);
    memcpy(end - value->payload_size, value->payload, value->payload_size);
}

/* `payload`: its place, if it is too large for the record. NULL without memory. */
static hfi_entry_record *
make_entry(hf_commit *commit, const hf_value *value, const hfi_buffer_head *heads,
           const hfi_piece *pieces, uint32_t piece_count, const hfi_piece *payload,
           uint32_t *ret_chunk) {
    hfi_entry_record head = {.magic = HFI_RECORD_MAGIC,
                             .key_size = (uint16_t)value->key_size,
                             .codec = (uint16_t)value->codec,
                             .generation = commit->base->root.generation + 1,
                             .flags = value->flags,
                             .meta_size = (uint32_t)value->meta_size,
                             .buffer_count = value->buffer_count,
                             .piece_count = piece_count,
                             .payload_size = value->payload_size};
    uint64_t length = hfi_record_length(&head);
    hfi_entry_record *record =
        hfi_spool_take(&commit->session->committer->entries, length,
                       hfi_record_alignment(value->payload_size), ret_chunk);
    if (!record)
        return NULL;
    *record = head;
    fill_entry(record, value, heads, pieces, length);
    const hfi_piece *outside = hfi_record_outside(record);
    if (outside)
        *(hfi_piece *)(uintptr_t)outside = *payload;
    return record;
}

static hf_status
store_value(hf_commit *commit, const hf_value *value, hf_error *reterr) {
    hfi_piece *pieces = NULL, payload = {0};
    hfi_buffer_head *heads = NULL;
    uint32_t piece_count = 0, chunk;
    hf_status status = HF_OK;
    if (value->buffer_count) {
        heads = hfi_pool_take(&commit->session->committer->drafts,
                              value->buffer_count * sizeof *heads);
        if (!heads)
            return hfi_no_memory(reterr);
        status = make_pieces(commit, value, heads, &pieces, &piece_count, reterr);
        if (status)
            return status;
    }
    if (value->payload_size > HFI_INLINE_MAX) {
        status = hfi_commit_write_extent(commit, value->payload, value->payload_size,
                                         &payload.extent, NULL, reterr);
        if (status)
            goto out;
        payload.offset = commit->session->extents[payload.extent].offset;
        payload.length = value->payload_size;
    }
    hfi_entry_record *record =
        make_entry(commit, value, heads, pieces, piece_count, &payload, &chunk);
    status =
        record ? hfi_overlay_put(commit, record, chunk, reterr) : hfi_no_memory(reterr);
    if (status)
        goto out;
    commit->stats.bytes_copied += value->payload_size;
    commit->stats.entries_put++;
out:
    free(pieces);
    return status;
}

hf_status
hf_commit_put(hf_commit *commit, const hf_value *value, hf_error *reterr) {
    HFI_NEED(reterr, commit, value);
    hf_value own;
    if (commit->failed)
        return hf_error_set(reterr, HF_E_INVALID, "this commit has failed: abort it");
    hf_status status = HFI_STRUCT_READ(&own, value, hf_value, ret_digests, reterr);
    if (status)
        return status;
    HFI_NEED(reterr, own.key, own.meta || !own.meta_size,
             own.payload || !own.payload_size, own.buffers || !own.buffer_count);
    if (own.key_size < 1 || own.key_size > HF_KEY_SIZE_MAX ||
        own.meta_size > HF_META_SIZE_MAX || own.buffer_count > 1u << 20 ||
        own.codec > UINT16_MAX)
        return hf_error_set(reterr, HF_E_INVALID,
                            "key, codec, meta or buffers are out of range");
    status = store_value(commit, &own, reterr);
    if (status) {
        commit->failed = 1;
        hf_error_prefix(reterr, "putting %.*s", (int)own.key_size, own.key);
    }
    return status;
}

hf_status
hf_commit_remove(hf_commit *commit, const char *key, size_t key_size,
                 hf_error *reterr) {
    HFI_NEED(reterr, commit, key);
    hf_status status = hfi_overlay_remove(commit, key, key_size, reterr);
    if (status == HF_OK)
        commit->stats.entries_removed++;
    if (status < 0)
        commit->failed = 1;
    return status;
}

hf_status
hf_commit_get_stats(const hf_commit *commit, hf_commit_stats *ret_stats,
                    hf_error *reterr) {
    HFI_NEED(reterr, commit, ret_stats);
    hf_status status =
        HFI_STRUCT_CHECK_OUTPUT(ret_stats, hf_commit_stats, entries_removed, reterr);
    if (!status)
        hfi_struct_write(ret_stats, &commit->stats, sizeof commit->stats);
    return status;
}

/* ---- its ends ---- */

static void
commit_free(hf_commit *commit) {
    hfi_pool_clear(&commit->session->committer->drafts, DRAFTS_KEPT);
    hfi_spool_clear(&commit->session->committer->entries, DRAFTS_KEPT);
    free(commit->deltas.items);
    free(commit->written.items);
    free(commit->shared.items);
    free(commit->pack);
    free(commit->packs);
    hf_snapshot_release(commit->base);
    commit->session->prepared->committing = 0;
    free(commit);
}

void
hf_commit_abort(hf_commit *commit) {
    if (!commit)
        return;
    hf_session *session = commit->session;
    hf_error ignored;
    pthread_mutex_lock(&session->mutex);
    for (size_t i = 0; i < commit->region_count; i++)
        if (commit->regions[i]->next_commit == commit->number)
            hfi_region_drop_next(commit->regions[i]);
    if (!hfi_lock(session, &ignored)) {
        for (size_t i = 0; i < commit->written.count; i++)
            hfi_prepared_drop_extent(session, commit->written.items[i]);
        for (size_t i = 0; i < commit->shared.count; i++)
            hfi_prepared_drop_extent(session, commit->shared.items[i]);
        hfi_unlock(session);
    }
    pthread_mutex_unlock(&session->mutex);
    hfi_regions_release(commit->regions, commit->region_count);
    commit_free(commit);
}

/* Prepare. What was written and held then belongs to the session. The caller frees the
 * rest of the commit. */
static hf_status
prepare_commit(hf_commit *commit, hf_prepared *ret_prepared, hf_error *reterr) {
    hf_session *session = commit->session;
    hfi_prepared_state *p = session->prepared;
    if (commit->failed)
        return hf_error_set(reterr, HF_E_INVALID, "this commit has failed: abort it");
    hf_status status = hfi_compact(commit, reterr);
    if (!status) {
        size_t most =
            commit->written.count + commit->shared.count + commit->pack_count + 8;
        p->extents = malloc(most * sizeof *p->extents);
        if (!p->extents)
            status = hfi_no_memory(reterr);
    }
    hf_prepared token;
    if (!status)
        status = hfi_writer_run(commit, &token, reterr);
    if (status) {
        free(p->extents);
        p->extents = NULL;
        return status;
    }
    for (size_t i = 0; i < commit->written.count; i++)
        p->extents[p->extent_count++] = commit->written.items[i];
    for (size_t i = 0; i < commit->shared.count; i++)
        p->extents[p->extent_count++] = commit->shared.items[i];
    p->regions = commit->regions;
    p->region_count = commit->region_count;
    commit->regions = NULL;
    commit->region_count = commit->written.count = commit->shared.count = 0;
    *ret_prepared = token;
    return HF_OK;
}

hf_status
hf_commit_prepare_consume(hf_commit *commit, hf_prepared *ret_prepared,
                          hf_error *reterr) {
    if (!ret_prepared)
        hf_commit_abort(commit);
    HFI_NEED(reterr, commit, ret_prepared);
    hf_status status = prepare_commit(commit, ret_prepared, reterr);
    if (status)
        hf_commit_abort(commit);
    else
        commit_free(commit);
    return status;
}

hf_status
hf_commit_publish_consume(hf_commit *commit, uint64_t *ret_generation,
                          hf_error *reterr) {
    HFI_NEED(reterr, commit);
    hf_session *session = commit->session;
    hf_prepared prepared;
    /* This frees the commit, with its base, so what it replaces can be freed now. */
    hf_status status = hf_commit_prepare_consume(commit, &prepared, reterr);
    if (status)
        return status;
    status = hf_session_publish(session, &prepared, ret_generation, reterr);
    hfi_prepared_settle(session, status != HF_OK);
    return status;
}
