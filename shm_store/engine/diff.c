/* diff.c - what differs between two generations.
 *
 * Both trees are walked side by side, and subtrees that they share by reference are
 * skipped. So the cost grows with the differences, not with the trees. Compaction
 * rewrites an entry without changing it: such a pair has the same generation and
 * sequence, and is skipped, too. Two subtrees of different depth are compared entry by
 * entry: a node with a single entry is replaced by that.
 */
#include <string.h>

#include "base/argument.h"
#include "engine/snapshot.h"
#include "engine/tree.h"

typedef struct diff {
    hf_session *session;
    hf_diff_visit visit;
    void *context;
    const hfi_entry_record
        *pivot; /* the one entry that is compared with a whole subtree */
    int pivot_is_before, pivot_met;
    hf_error *reterr;
} diff;

static hf_status
report_change(diff *d, const hfi_entry_record *before, const hfi_entry_record *after) {
    if (before && after && before->generation == after->generation &&
        before->sequence == after->sequence)
        return HF_OK;
    hf_entry a, b;
    if (before)
        hfi_entry_fill(d->session, before, &a);
    if (after)
        hfi_entry_fill(d->session, after, &b);
    return d->visit(d->context, before ? &a : NULL, after ? &b : NULL) ? HF_STOP
                                                                       : HF_OK;
}

static hf_status
against_pivot(void *context, const hfi_ref *ref, const hfi_entry_record *record,
              hf_error *reterr) {
    diff *d = context;
    (void)ref, (void)reterr;
    if (!record)
        return HF_OK;
    const hfi_entry_record *pivot = NULL;
    if (d->pivot && hfi_record_same_key(d->pivot, record)) {
        pivot = d->pivot;
        d->pivot_met = 1;
    }
    return d->pivot_is_before ? report_change(d, pivot, record)
                              : report_change(d, record, pivot);
}

/* One entry (or nothing, where `pivot` is NULL) against all entries below `ref`. */
static hf_status
diff_pivot(diff *d, const hfi_entry_record *pivot, int pivot_is_before,
           const hfi_ref *ref, uint32_t shift) {
    d->pivot = pivot;
    d->pivot_is_before = pivot_is_before;
    d->pivot_met = 0;
    hf_status status =
        hfi_tree_each_at(d->session, ref, shift, against_pivot, d, d->reterr);
    if (status || !pivot || d->pivot_met)
        return status;
    return pivot_is_before ? report_change(d, pivot, NULL)
                           : report_change(d, NULL, pivot);
}

static hf_status diff_refs(diff *d, const hfi_ref *a, const hfi_ref *b, uint32_t shift);

/* Equal hashes: plain lists, compared by key. */
static hf_status
diff_lists(diff *d, const hfi_node *a, const hfi_node *b) {
    hf_status status = HF_OK;
    for (int turn = 0; turn < 2; turn++) {
        const hfi_node *from = turn ? b : a, *to = turn ? a : b;
        for (uint32_t i = 0; i < from->count && !status; i++) {
            const hfi_entry_record *x, *y, *met = NULL;
            if ((status =
                     hfi_record_load(d->session, &from->children[i], &x, d->reterr)))
                return status;
            for (uint32_t k = 0; k < to->count && !met; k++) {
                status = hfi_record_load(d->session, &to->children[k], &y, d->reterr);
                if (status)
                    return status;
                if (hfi_record_same_key(x, y))
                    met = y;
            }
            if (turn == 0)
                status = report_change(d, x, met);
            else if (!met)
                status = report_change(d, NULL, x);
        }
    }
    return status;
}

static hf_status
diff_nodes(diff *d, const hfi_node *a, const hfi_node *b, uint32_t shift) {
    static const hfi_ref nothing = {0};
    if (shift >= HFI_LIST_SHIFT)
        return diff_lists(d, a, b);
    hf_status status = HF_OK;
    uint32_t ia = 0, ib = 0;
    for (uint32_t bits = a->bitmap | b->bitmap; bits && !status; bits &= bits - 1) {
        uint32_t bit = bits & (0 - bits);
        const hfi_ref *x = a->bitmap & bit ? &a->children[ia++] : &nothing;
        const hfi_ref *y = b->bitmap & bit ? &b->children[ib++] : &nothing;
        status = diff_refs(d, x, y, shift + 5);
    }
    return status;
}

static hf_status
diff_refs(diff *d, const hfi_ref *a, const hfi_ref *b, uint32_t shift) {
    hf_status status;
    if (a->offset == b->offset && a->kind == b->kind && a->crc == b->crc)
        return HF_OK;
    if (a->kind == HFI_KIND_NODE && b->kind == HFI_KIND_NODE) {
        const hfi_node *x, *y;
        if ((status = hfi_node_load(d->session, a, shift, &x, d->reterr)))
            return status;
        if ((status = hfi_node_load(d->session, b, shift, &y, d->reterr)))
            return status;
        return diff_nodes(d, x, y, shift);
    }
    int a_is_one = a->kind != HFI_KIND_NODE;
    const hfi_ref *one = a_is_one ? a : b, *many = a_is_one ? b : a;
    const hfi_entry_record *pivot = NULL;
    if (one->kind == HFI_KIND_ENTRY &&
        (status = hfi_record_load(d->session, one, &pivot, d->reterr)))
        return status;
    if (many->kind != HFI_KIND_NONE)
        return diff_pivot(d, pivot, a_is_one, many, shift);
    return !pivot     ? HF_OK
           : a_is_one ? report_change(d, pivot, NULL)
                      : report_change(d, NULL, pivot);
}

hf_status
hf_snapshot_diff(hf_snapshot *before, hf_snapshot *after, hf_diff_visit visit,
                 void *context, hf_error *reterr) {
    HFI_NEED(reterr, after, visit);
    static const hfi_ref nothing = {0};
    diff d = {.session = after->session,
              .visit = visit,
              .context = context,
              .reterr = reterr};
    hf_status status =
        diff_refs(&d, before ? &before->root.tree : &nothing, &after->root.tree, 0);
    return status == HF_STOP ? HF_OK : status;
}
