/* compact.c - rewriting the living objects of mostly dead commit extents.
 *
 * Nodes, entries and small buffers of one commit share an extent, which stays until the
 * last of them is replaced. One long-lived name in each of a thousand commits would
 * keep a thousand extents. So when the dead part of such extents is larger than the
 * living one (and than 4 MiB), the next commit walks the tree. It opens all objects in
 * extents that are less than half alive. These are written anew with the commit, and
 * the old extents retire. So the commits that made the garbage pay for the walk.
 *
 * An entry that is moved keeps its generation and sequence: it hasn't changed.
 */
#include <string.h>

#include "engine/commit.h"
#include "engine/extent.h"
#include "engine/tree.h"

#define GARBAGE_MIN (4ull << 20)

static int
is_sparse(const hf_session *session, uint32_t index) {
    if (index >= hfi_extent_count(session))
        return 0;
    const hfi_extent *extent = &session->extents[index];
    return (extent->flags & HFI_EXTENT_LOG) && extent->live_bytes < extent->size / 2;
}

/* Copy the record into the draft, with its packed buffers. */
static hf_status
move_entry(hf_commit *commit, hfi_child *child, hf_error *reterr) {
    hf_session *session = commit->session;
    hfi_ref ref = *child->as.ref;
    const hfi_entry_record *old;
    hf_status status = hfi_record_load(session, &ref, &old, reterr);
    if (status)
        return status;
    int move = is_sparse(session, ref.extent);
    for (uint32_t i = 0; i < old->piece_count && !move; i++)
        move = is_sparse(session, hfi_record_pieces(old)[i].extent);
    if (!move)
        return HF_OK;
    uint32_t chunk;
    hfi_entry_record *moved =
        hfi_spool_take(&session->committer->entries, ref.length,
                       hfi_record_alignment(old->payload_size), &chunk);
    if (!moved)
        return hfi_no_memory(reterr);
    memcpy(moved, old, ref.length);
    hfi_piece *pieces = (hfi_piece *)(uintptr_t)hfi_record_pieces(moved);
    for (uint32_t i = 0; i < moved->piece_count && !status; i++)
        if (is_sparse(session, pieces[i].extent)) {
            status = hfi_pack_add(commit, session->window + pieces[i].offset,
                                  pieces[i].length, &pieces[i], reterr);
            commit->stats.bytes_copied += pieces[i].length;
        }
    if (!status)
        status = hfi_delta_add(commit, ref.extent, -1, -(int64_t)ref.length, reterr);
    if (!status)
        status = hfi_record_count(commit, old, -1, reterr);
    if (status)
        return status;
    *child = (hfi_child){.as.record = moved, .kind = HFI_CHILD_ENTRY, .chunk = chunk};
    return HF_OK;
}

/* 1 if something at or below a committed child is to be moved. */
static hf_status
needs_move(hf_commit *commit, const hfi_ref *ref, uint32_t shift, int *ret_needed,
           hf_error *reterr) {
    hf_session *session = commit->session;
    hf_status status;
    *ret_needed = is_sparse(session, ref->extent);
    if (*ret_needed)
        return HF_OK;
    if (ref->kind == HFI_KIND_ENTRY) {
        const hfi_entry_record *r;
        if ((status = hfi_record_load(session, ref, &r, reterr)))
            return status;
        for (uint32_t i = 0; i < r->piece_count && !*ret_needed; i++)
            *ret_needed = is_sparse(session, hfi_record_pieces(r)[i].extent);
        return HF_OK;
    }
    const hfi_node *node;
    if ((status = hfi_node_load(session, ref, shift, &node, reterr)))
        return status;
    for (uint32_t i = 0; i < node->count && !*ret_needed && !status; i++)
        status = needs_move(commit, &node->children[i], shift + 5, ret_needed, reterr);
    return status;
}

static hf_status
visit_child(hf_commit *commit, hfi_child *child, uint32_t shift, hf_error *reterr) {
    hf_status status = HF_OK;
    if (child->kind == HFI_CHILD_ENTRY)
        return HF_OK;
    if (child->kind == HFI_CHILD_REF) {
        int needed;
        status = needs_move(commit, child->as.ref, shift, &needed, reterr);
        if (status || !needed)
            return status;
        if (child->as.ref->kind == HFI_KIND_ENTRY)
            return move_entry(commit, child, reterr);
        if ((status = hfi_overlay_open(commit, child, shift, reterr)))
            return status;
    }
    hfi_draft_node *node = child->as.node;
    for (uint32_t i = 0; i < node->count && !status; i++)
        status = visit_child(commit, &node->children[i], shift + 5, reterr);
    return status;
}

hf_status
hfi_compact(hf_commit *commit, hf_error *reterr) {
    const hfi_superblock *super = commit->session->super;
    uint64_t live = super->log_live, all = super->log_bytes;
    if (commit->is_empty || all < live || all - live < GARBAGE_MIN || all - live < live)
        return HF_OK;
    return visit_child(commit, &commit->root, 0, reterr);
}
