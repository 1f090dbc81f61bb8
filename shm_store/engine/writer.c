/* writer.c - preparing a commit: the draft becomes bytes of one extent.
 *
 * First all sizes are determined: the packs are flushed, their pieces get their places,
 * and each draft node is measured. Then one extent is reserved for manifest, nodes and
 * entries. The nodes are filled from children to parents, since a parent has its
 * children's checksums. One pwrite puts all of it there. Manifest and nodes come from a
 * buffer that the session keeps: to map and unmap a fresh one for each commit took
 * longer than to fill it. The entries come from the memory in which they were made
 * (base/spool.c). The manifest at the start is for a publisher, which may be another
 * process. It names the new root, and the change of each extent's count of living
 * objects.
 *
 * Only then are the extents marked PREPARED, under the lock: a crash before that leaves
 * reserved extents of a dead process, which the reaper frees.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/step.h"
#include "engine/commit.h"
#include "engine/extent.h"
#include "engine/reservation.h"
#include "engine/slot.h"
#include "engine/tree.h"

#define ALIGNMENT    64
#define SCRATCH_KEPT (1u << 20) /* a larger buffer isn't kept for the next commit */

typedef struct writer {
    hf_commit *commit;
    char *bytes;
    size_t head, used, size; /* of the manifest and its deltas; written; with nodes */
    uint64_t base;
    uint32_t extent;
    uint32_t objects;
} writer;

/* Give pieces of packs their places, count what a record refers to, add a node's
 * size. */
static hf_status
measure_child(hf_commit *commit, const hfi_child *child, size_t *size,
              hf_error *reterr) {
    hf_status status = HF_OK;
    if (child->kind == HFI_CHILD_REF)
        return HF_OK;
    if (child->kind == HFI_CHILD_NODE) {
        const hfi_draft_node *node = child->as.node;
        *size +=
            hfi_round_up(sizeof(hfi_node) + node->count * sizeof(hfi_ref), ALIGNMENT);
        for (uint32_t i = 0; i < node->count && !status; i++)
            status = measure_child(commit, &node->children[i], size, reterr);
        return status;
    }
    hfi_entry_record *record = child->as.record;
    hfi_piece *pieces = (hfi_piece *)(uintptr_t)hfi_record_pieces(record);
    for (uint32_t i = 0; i < record->piece_count; i++) {
        if (pieces[i].extent == HFI_NONE || pieces[i].extent < HFI_PACK_MARK)
            continue;
        const hfi_piece *pack = &commit->packs[pieces[i].extent & HFI_PACK_MAX];
        pieces[i].extent = pack->extent;
        pieces[i].offset += pack->offset;
    }
    return hfi_record_count(commit, record, 1, reterr);
}

/* Room for the next object, up to a multiple of ALIGNMENT. The gap is filled with
 * zeros. */
static char *
take_room(writer *w, size_t length) {
    char *here = w->bytes + w->used;
    size_t whole = hfi_round_up(length, ALIGNMENT);
    memset(here + length, 0, whole - length);
    w->used += whole;
    return here;
}

static hfi_ref
refer_to_bytes(writer *w, uint64_t offset, const void *bytes, uint32_t length,
               uint32_t kind) {
    w->objects++;
    return (hfi_ref){offset, length, hfi_crc32c(0, bytes, length), w->extent, kind};
}

static void
emit_child(writer *w, const hfi_child *child, uint64_t *live_bytes, hfi_ref *ret_ref) {
    if (child->kind == HFI_CHILD_REF) {
        *ret_ref = *child->as.ref;
    } else if (child->kind == HFI_CHILD_ENTRY) {
        const hfi_entry_record *record = child->as.record;
        uint64_t offset = hfi_spool_offset(&w->commit->session->committer->entries,
                                           child->chunk, record);
        uint32_t length = (uint32_t)hfi_record_length(record);
        *ret_ref = refer_to_bytes(w, offset, record, length, HFI_KIND_ENTRY);
        *live_bytes += length;
    } else {
        const hfi_draft_node *draft = child->as.node;
        size_t length = sizeof(hfi_node) + draft->count * sizeof(hfi_ref);
        uint64_t offset = w->base + w->used;
        hfi_node *node = (hfi_node *)(void *)take_room(w, length);
        *node = (hfi_node){HFI_NODE_MAGIC, draft->shift, draft->bitmap, draft->count};
        for (uint32_t i = 0; i < draft->count; i++)
            emit_child(w, &draft->children[i], live_bytes, &node->children[i]);
        *ret_ref = refer_to_bytes(w, offset, node, (uint32_t)length, HFI_KIND_NODE);
        *live_bytes += length;
    }
}

static void
drop_scratch(hfi_committer *own) {
    free(own->scratch);
    own->scratch = NULL;
    own->scratch_size = 0;
}

/* The buffer that is kept, grown if it is too small. */
static char *
get_scratch(hfi_committer *own, size_t size) {
    if (size > own->scratch_size) {
        drop_scratch(own);
        own->scratch = malloc(size);
        own->scratch_size = own->scratch ? size : 0;
    }
    return own->scratch;
}

static hf_status
list_extents(hf_commit *commit, hf_error *reterr) {
    hf_status status = HF_OK;
    for (size_t i = 0; i < commit->written.count && !status; i++)
        status = hfi_delta_add(commit, commit->written.items[i], 0, 0, reterr);
    for (size_t i = 0; i < commit->shared.count && !status; i++)
        status = hfi_delta_add(commit, commit->shared.items[i], 0, 0, reterr);
    return status;
}

/* Fill in the directory for its place in `w->extent`. It may be done again for another
 * extent. */
static void
fill_directory(writer *w, hfi_manifest *manifest) {
    hf_commit *commit = w->commit;
    hf_session *session = commit->session;
    w->base = session->extents[w->extent].offset;
    w->used = w->head;
    w->objects = 0;
    hfi_spool_place(&session->committer->entries, w->base + w->size);
    uint64_t live_bytes = 0;
    memset(manifest, 0, sizeof *manifest);
    manifest->magic = HFI_MANIFEST_MAGIC;
    manifest->slot = session->slot;
    manifest->base_generation = commit->base->root.generation;
    manifest->entry_count = commit->entry_count;
    manifest->next_sequence = commit->next_sequence;
    manifest->piece_total = (uint64_t)commit->piece_total;
    manifest->extent = w->extent;
    if (!commit->is_empty)
        emit_child(w, &commit->root, &live_bytes, &manifest->root);
    hfi_delta *deltas = (hfi_delta *)(void *)(w->bytes + sizeof *manifest);
    memset(deltas, 0, w->head - sizeof *manifest);
    for (size_t i = 0; i < commit->deltas.capacity; i++)
        if (commit->deltas.items[i].extent != HFI_NONE)
            deltas[manifest->delta_count++] = commit->deltas.items[i];
    deltas[manifest->delta_count++] =
        (hfi_delta){w->extent, (int32_t)w->objects, (int64_t)live_bytes};
    manifest->deltas_crc =
        hfi_crc32c(0, deltas, manifest->delta_count * sizeof(hfi_delta));
    manifest->crc = hfi_crc32c(0, manifest, offsetof(hfi_manifest, crc));
    memcpy(w->bytes, manifest, sizeof *manifest);
    commit->stats.bytes_directory =
        w->used + hfi_spool_size(&session->committer->entries);
    assert(w->used == w->size);
}

static hf_status
mark_prepared(hf_commit *commit, hf_error *reterr) {
    hf_session *session = commit->session;
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    const hfi_list32 *lists[] = {&commit->written, &commit->shared};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count; i++)
            if (hfi_extent_is_mine(session, lists[k]->items[i], HFI_RESERVED)) {
                hfi_extent_set(session, lists[k]->items[i], HFI_PREPARED,
                               session->slot);
                hfi_step("prepare:extent-marked");
            }
    hfi_unlock(session);
    return HF_OK;
}

static hf_status
write_directory(writer *w, hfi_manifest *manifest, hf_error *reterr) {
    hf_session *session = w->commit->session;
    hfi_committer *own = session->committer;
    size_t whole = w->size + hfi_spool_size(&own->entries);
    struct iovec *parts =
        hfi_pool_take(&own->drafts, (own->entries.count + 1) * sizeof *parts);
    if (!parts || !(w->bytes = get_scratch(own, w->size)))
        return hfi_no_memory(reterr);
    hf_status status;
    for (int attempt = 0;; attempt++) {
        status = hfi_extent_reserve(session, whole, HFI_EXTENT_LOG | HFI_RESERVE_BARE,
                                    &w->extent, reterr);
        if (status)
            break;
        hfi_step("prepare:reserved");
        fill_directory(w, manifest);
        parts[0] = (struct iovec){w->bytes, w->size};
        hfi_spool_parts(&own->entries, parts + 1);
        status = hfi_extent_write(session, w->extent, parts, own->entries.count + 1,
                                  NULL, reterr);
        if (status != HF_E_NOSPACE || !hfi_extent_give_way(session, attempt))
            break;
    }
    if (own->scratch_size > SCRATCH_KEPT)
        drop_scratch(own);
    if (!status && (status = hfi_list32_add(&w->commit->written, w->extent, reterr)))
        hfi_extent_give_back(session, w->extent);
    return status;
}

hf_status
hfi_writer_run(hf_commit *commit, hf_prepared *ret_prepared, hf_error *reterr) {
    hf_session *session = commit->session;
    size_t size = 0;
    hf_status status = hfi_pack_flush(commit, reterr);
    if (!status)
        status = measure_child(commit, &commit->root, &size, reterr);
    if (!status)
        status = list_extents(commit, reterr);
    if (status)
        return status;
    size_t head = hfi_round_up(sizeof(hfi_manifest) +
                                   (commit->deltas.count + 1) * sizeof(hfi_delta),
                               ALIGNMENT);
    writer w = {.commit = commit, .head = head, .size = head + size};
    hfi_manifest manifest;
    if ((status = write_directory(&w, &manifest, reterr)))
        return status;
    hfi_step("prepare:written");
    if ((status = mark_prepared(commit, reterr)))
        return status;
    hfi_step("prepare:marked");
    *ret_prepared =
        (hf_prepared){manifest.base_generation, w.base, session->slot, manifest.crc};
    return HF_OK;
}
