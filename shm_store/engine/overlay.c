/* overlay.c - the tree of a commit in preparation.
 *
 * Changed paths are copied from the committed tree into the session's pool, where they
 * can be changed any number of times. All else stays a reference. So a commit of a
 * thousand names writes each node once. Opening a committed node or replacing a
 * committed entry counts it out of its extent (a delta of -1). At the end writer.c
 * counts in all that it writes. Entries that are put and removed within one commit are
 * never counted.
 *
 * A node with a single remaining entry is replaced by the entry. So the shape of a tree
 * depends on its keys alone (but for an empty root), and trees can be compared side by
 * side.
 */
#include <string.h>

#include "engine/commit.h"
#include "engine/tree.h"

#define NODE_FULL                                                                      \
    32 /* children of a node that isn't a list: most nodes that grow get so many */

static const hfi_ref nothing = {0};

/* ---- opening ---- */

static hf_status
count_out(hf_commit *commit, const hfi_ref *ref, const hfi_entry_record *record,
          hf_error *reterr) {
    hf_status status =
        hfi_delta_add(commit, ref->extent, -1, -(int64_t)ref->length, reterr);
    if (!status && record)
        status = hfi_record_count(commit, record, -1, reterr);
    return status;
}

static hfi_draft_node *
draft_new(hf_commit *commit, uint32_t shift, uint32_t bitmap, uint32_t count) {
    uint32_t capacity = count + 2;
    hfi_draft_node *node =
        hfi_pool_take(&commit->session->committer->drafts,
                      sizeof *node + capacity * sizeof *node->children);
    if (!node)
        return NULL;
    node->shift = shift;
    node->bitmap = bitmap;
    node->count = count;
    node->capacity = capacity;
    node->children = (hfi_child *)(void *)(node + 1);
    return node;
}

hf_status
hfi_overlay_open(hf_commit *commit, hfi_child *child, uint32_t shift,
                 hf_error *reterr) {
    if (child->kind != HFI_CHILD_REF || child->as.ref->kind == HFI_KIND_ENTRY)
        return HF_OK;
    const hfi_ref *ref = child->as.ref;
    const hfi_node *old;
    hf_status status = hfi_node_load(commit->session, ref, shift, &old, reterr);
    if (status)
        return status;
    hfi_draft_node *node = draft_new(commit, shift, old->bitmap, old->count);
    if (!node)
        return hfi_no_memory(reterr);
    for (uint32_t i = 0; i < old->count; i++)
        node->children[i] =
            (hfi_child){.as.ref = &old->children[i], .kind = HFI_CHILD_REF};
    *child = (hfi_child){.as.node = node, .kind = HFI_CHILD_NODE};
    return count_out(commit, ref, NULL, reterr);
}

static hf_status
child_record(hf_commit *commit, const hfi_child *child,
             const hfi_entry_record **ret_record, hf_error *reterr) {
    if (child->kind == HFI_CHILD_REF)
        return hfi_record_load(commit->session, child->as.ref, ret_record, reterr);
    *ret_record = child->as.record;
    return HF_OK;
}

static int
child_is_entry(const hfi_child *child) {
    return child->kind == HFI_CHILD_ENTRY ||
           (child->kind == HFI_CHILD_REF && child->as.ref->kind == HFI_KIND_ENTRY);
}

/* ---- changing ---- */

static hf_status
insert_at(hf_commit *commit, hfi_draft_node *node, uint32_t place, hfi_child child,
          hf_error *reterr) {
    if (node->count == node->capacity) {
        uint32_t capacity = node->capacity < NODE_FULL ? NODE_FULL : node->capacity * 2;
        hfi_child *children = hfi_pool_take(&commit->session->committer->drafts,
                                            capacity * sizeof *children);
        if (!children)
            return hfi_no_memory(reterr);
        memcpy(children, node->children, node->count * sizeof *children);
        node->children = children;
        node->capacity = capacity;
    }
    memmove(node->children + place + 1, node->children + place,
            (node->count - place) * sizeof *node->children);
    node->children[place] = child;
    node->count++;
    return HF_OK;
}

/* The record takes the place of `child`, an entry with the same key. */
static hf_status
replace_entry(hf_commit *commit, hfi_child *child, hfi_child fresh, hf_error *reterr) {
    const hfi_entry_record *old;
    hf_status status = child_record(commit, child, &old, reterr);
    if (status)
        return status;
    fresh.as.record->sequence = old->sequence;
    commit->piece_total += (int64_t)fresh.as.record->piece_count - old->piece_count;
    if (child->kind == HFI_CHILD_REF)
        status = count_out(commit, child->as.ref, old, reterr);
    *child = fresh;
    return status;
}

/* Another key's entry is in the place: put a node there that holds it. */
static hf_status
push_down(hf_commit *commit, hfi_child *child, uint64_t hash, uint32_t shift,
          hf_error *reterr) {
    uint32_t bit = shift >= HFI_LIST_SHIFT ? 0 : 1u << hfi_hash_digit(hash, shift);
    hfi_draft_node *node = draft_new(commit, shift, bit, 1);
    if (!node)
        return hfi_no_memory(reterr);
    node->children[0] = *child;
    *child = (hfi_child){.as.node = node, .kind = HFI_CHILD_NODE};
    return HF_OK;
}

static uint64_t
hash_of_record(const hfi_entry_record *record) {
    return hfi_key_hash(hfi_record_key(record), record->key_size);
}

/* Find where a key belongs: its entry, or the node that would hold it. */
static hf_status
put_into(hf_commit *commit, hfi_child *child, uint32_t shift, hfi_child fresh,
         uint64_t hash, hf_error *reterr) {
    const hfi_entry_record *record = fresh.as.record, *old;
    hf_status status;
    if (child_is_entry(child)) {
        if ((status = child_record(commit, child, &old, reterr)))
            return status;
        if (hfi_record_same_key(old, record))
            return replace_entry(commit, child, fresh, reterr);
        if ((status = push_down(commit, child, hash_of_record(old), shift, reterr)))
            return status;
    }
    if ((status = hfi_overlay_open(commit, child, shift, reterr)))
        return status;
    hfi_draft_node *node = child->as.node;
    uint32_t place = node->count;
    if (shift >= HFI_LIST_SHIFT) {
        for (uint32_t i = 0; i < node->count; i++) {
            if ((status = child_record(commit, &node->children[i], &old, reterr)))
                return status;
            if (hfi_record_same_key(old, record))
                return replace_entry(commit, &node->children[i], fresh, reterr);
        }
    } else {
        uint32_t bit = 1u << hfi_hash_digit(hash, shift);
        place = hfi_bit_count(node->bitmap & (bit - 1));
        if (node->bitmap & bit)
            return put_into(commit, &node->children[place], shift + 5, fresh, hash,
                            reterr);
        node->bitmap |= bit;
    }
    if ((status = insert_at(commit, node, place, fresh, reterr)))
        return status;
    fresh.as.record->sequence = commit->next_sequence++;
    commit->entry_count++;
    commit->piece_total += record->piece_count;
    return HF_OK;
}

hf_status
hfi_overlay_put(hf_commit *commit, hfi_entry_record *record, uint32_t chunk,
                hf_error *reterr) {
    hfi_child fresh = {.as.record = record, .kind = HFI_CHILD_ENTRY, .chunk = chunk};
    if (!commit->is_empty)
        return put_into(commit, &commit->root, 0, fresh, hash_of_record(record),
                        reterr);
    commit->root = fresh;
    commit->is_empty = 0;
    record->sequence = commit->next_sequence++;
    commit->entry_count = 1;
    commit->piece_total = record->piece_count;
    return HF_OK;
}

static hf_status
take_out(hf_commit *commit, hfi_child *child, hf_error *reterr) {
    const hfi_entry_record *old;
    hf_status status = child_record(commit, child, &old, reterr);
    if (status)
        return status;
    commit->piece_total -= old->piece_count;
    commit->entry_count--;
    if (child->kind == HFI_CHILD_REF)
        return count_out(commit, child->as.ref, old, reterr);
    return HF_OK;
}

/* `child` is a draft node on the path; on return it may be an entry, or empty. */
static hf_status
remove_from(hf_commit *commit, hfi_child *child, uint32_t shift, uint64_t hash,
            const char *key, size_t key_size, int *ret_empty, hf_error *reterr) {
    hf_status status;
    *ret_empty = 0;
    if (child_is_entry(child)) {
        *ret_empty = 1;
        return take_out(commit, child, reterr);
    }
    if ((status = hfi_overlay_open(commit, child, shift, reterr)))
        return status;
    hfi_draft_node *node = child->as.node;
    uint32_t place = 0, bit = 0;
    if (shift >= HFI_LIST_SHIFT) {
        const hfi_entry_record *r;
        for (; place < node->count; place++) {
            if ((status = child_record(commit, &node->children[place], &r, reterr)))
                return status;
            if (r->key_size == key_size && !memcmp(hfi_record_key(r), key, key_size))
                break;
        }
    } else {
        bit = 1u << hfi_hash_digit(hash, shift);
        place = hfi_bit_count(node->bitmap & (bit - 1));
    }
    int empty;
    status = remove_from(commit, &node->children[place], shift + 5, hash, key, key_size,
                         &empty, reterr);
    if (status)
        return status;
    if (empty) {
        node->count--;
        node->bitmap &= ~bit;
        memmove(node->children + place, node->children + place + 1,
                (node->count - place) * sizeof *node->children);
    }
    if (node->count == 0 || (node->count == 1 && child_is_entry(&node->children[0]))) {
        *ret_empty = node->count == 0;
        if (node->count)
            *child = node->children[0];
        else
            *child = (hfi_child){.as.ref = &nothing, .kind = HFI_CHILD_REF};
    }
    return HF_OK;
}

/* Whether the key is there, in the overlay. */
static hf_status
look_up_key(hf_commit *commit, const hfi_child *child, uint32_t shift, const char *key,
            size_t key_size, hf_error *reterr) {
    uint64_t hash = hfi_key_hash(key, key_size);
    const hfi_entry_record *r;
    hf_status status;
    while (child->kind == HFI_CHILD_NODE && shift < HFI_LIST_SHIFT) {
        uint32_t bit = 1u << hfi_hash_digit(hash, shift),
                 bitmap = child->as.node->bitmap;
        if (!(bitmap & bit))
            return HF_NOT_FOUND;
        child = &child->as.node->children[hfi_bit_count(bitmap & (bit - 1))];
        shift += 5;
    }
    uint32_t n = child->kind == HFI_CHILD_NODE ? child->as.node->count : 1;
    const hfi_child *list =
        child->kind == HFI_CHILD_NODE ? child->as.node->children : child;
    if (child->kind == HFI_CHILD_REF && child->as.ref->kind == HFI_KIND_NODE)
        /* Committed data from here on, so what the base knows of the key holds. */
        return hfi_tree_find(commit->session, &commit->base->root.tree, key, key_size,
                             NULL, &r, reterr);
    for (uint32_t i = 0; i < n; i++) {
        if ((status = child_record(commit, &list[i], &r, reterr)))
            return status;
        if (r->key_size == key_size && !memcmp(hfi_record_key(r), key, key_size))
            return HF_OK;
    }
    return HF_NOT_FOUND;
}

hf_status
hfi_overlay_remove(hf_commit *commit, const char *key, size_t key_size,
                   hf_error *reterr) {
    if (commit->is_empty)
        return HF_NOT_FOUND;
    hf_status status = look_up_key(commit, &commit->root, 0, key, key_size, reterr);
    if (status)
        return status;
    return remove_from(commit, &commit->root, 0, hfi_key_hash(key, key_size), key,
                       key_size, &commit->is_empty, reterr);
}
