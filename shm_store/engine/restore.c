/* restore.c - the tree of an older generation becomes that of a commit, by reference.
 *
 * Nodes and entries are immutable. So a leased generation is restored by its root
 * alone: no byte of a value is read or written. The commit must know by how much each
 * extent's count of living objects changes. So both trees are walked side by side, and
 * subtrees that they share by reference are skipped. All other objects of the current
 * tree are counted out, and all others of the older one in. An object that is at
 * different depths in the two (a node with a single remaining entry is replaced by
 * that) is counted out and in, which changes nothing.
 *
 * An extent that only the older generation reaches is RETIRED and leased. Publishing
 * makes it COMMITTED again. Its birth stays, and its death is forgotten. To a lease of
 * a generation between the two it seems to have lived all the time. That keeps it
 * longer than needed, and never frees it too early. After a crash in between, recovery
 * goes by what the current root reaches.
 *
 * Sequence numbers go on from the current generation's, so that number and generation
 * together name one content for ever (snapshot.c relies on that).
 */
#include "base/argument.h"
#include "engine/commit.h"
#include "engine/tree.h"

typedef struct tally {
    hf_commit *commit;
    int sign;
} tally;

static hf_status
count_references(void *context, const hfi_ref *ref, const hfi_entry_record *record,
                 hf_error *reterr) {
    const tally *t = context;
    hf_status status = hfi_delta_add(t->commit, ref->extent, t->sign,
                                     t->sign * (int64_t)ref->length, reterr);
    if (!status && record)
        status = hfi_record_count(t->commit, record, t->sign, reterr);
    return status;
}

static hf_status
count_below(hf_commit *commit, const hfi_ref *ref, uint32_t shift, int sign,
            hf_error *reterr) {
    tally t = {commit, sign};
    return hfi_tree_each_at(commit->session, ref, shift, count_references, &t, reterr);
}

static hf_status
count_change(hf_commit *commit, const hfi_ref *from, const hfi_ref *to, uint32_t shift,
             hf_error *reterr) {
    static const hfi_ref nothing = {0};
    const hfi_node *a, *b;
    hf_status status;
    if (from->kind == to->kind && from->offset == to->offset && from->crc == to->crc)
        return HF_OK;
    if (from->kind != HFI_KIND_NODE || to->kind != HFI_KIND_NODE ||
        shift >= HFI_LIST_SHIFT) {
        status = count_below(commit, from, shift, -1, reterr);
        return status ? status : count_below(commit, to, shift, 1, reterr);
    }
    if ((status = hfi_node_load(commit->session, from, shift, &a, reterr)) ||
        (status = hfi_node_load(commit->session, to, shift, &b, reterr)) ||
        (status =
             hfi_delta_add(commit, from->extent, -1, -(int64_t)from->length, reterr)) ||
        (status = hfi_delta_add(commit, to->extent, 1, to->length, reterr)))
        return status;
    uint32_t ia = 0, ib = 0;
    for (uint32_t bits = a->bitmap | b->bitmap; bits && !status; bits &= bits - 1) {
        uint32_t bit = bits & (0 - bits);
        const hfi_ref *x = a->bitmap & bit ? &a->children[ia++] : &nothing;
        const hfi_ref *y = b->bitmap & bit ? &b->children[ib++] : &nothing;
        status = count_change(commit, x, y, shift + 5, reterr);
    }
    return status;
}

hf_status
hf_commit_restore(hf_commit *commit, hf_snapshot *snapshot, hf_error *reterr) {
    HFI_NEED(reterr, commit, snapshot);
    if (commit->failed || commit->stats.entries_put || commit->stats.entries_removed)
        return hf_error_set(reterr, HF_E_INVALID,
                            "a generation is restored by a commit of nothing else");
    const hfi_root *root = &snapshot->root;
    hf_status status =
        count_change(commit, &commit->base->root.tree, &root->tree, 0, reterr);
    if (status) {
        commit->failed = 1;
        hf_error_prefix(reterr, "restoring generation %llu",
                        (unsigned long long)root->generation);
        return status;
    }
    commit->base_root = root->tree;
    commit->root = (hfi_child){.as.ref = &commit->base_root, .kind = HFI_CHILD_REF};
    commit->is_empty = root->tree.kind == HFI_KIND_NONE;
    commit->entry_count = root->entry_count;
    commit->piece_total = (int64_t)root->piece_total;
    return HF_OK;
}
