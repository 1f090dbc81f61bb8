/* tree.c - the namespace as committed: a hash trie, read in place and checked.
 *
 * Keys are hashed to 64 bits. Each node uses five of them and has up to 32 children,
 * packed by a bitmap (a hash array mapped trie, Bagwell 2001). Nodes are immutable: a
 * commit writes new ones along the paths that it changes and shares the rest, so an old
 * root stays complete. A reference has the length and the CRC-32C of its target, so the
 * root's checksum covers the whole directory. At shift 65 all bits are used. Keys that
 * still collide there are in a plain list.
 *
 * Everything is read through the read-only window, and isn't trusted until it was
 * checked: place, size, checksum, and that a record's inner sizes add up. After that,
 * pointers into the window are returned. They stay valid while a lease keeps the
 * extents.
 *
 * Rejected: a B-tree by key (order isn't needed, comparisons of long keys are); one
 * array of entries rewritten by each commit (a commit must cost what it changes).
 */
#include "engine/tree.h"

#include <string.h>

#include "base/checksum.h"
#include "engine/extent.h"

static const void *
load_ref(hf_session *session, const hfi_ref *ref, uint32_t kind, size_t least,
         hf_error *reterr) {
    const void *bytes = NULL;
    if (ref->kind == kind && ref->length >= least && ref->offset % 8 == 0)
        bytes = hfi_window_at(session, ref->offset, ref->length);
    if (!bytes) {
        hf_error_set(reterr, HF_E_CORRUPT,
                     "a reference to offset %llu, %u bytes, is not one",
                     (unsigned long long)ref->offset, ref->length);
        return NULL;
    }
    if (hfi_crc32c(0, bytes, ref->length) != ref->crc) {
        hf_error_set(reterr, HF_E_CORRUPT, "checksum of the directory at offset %llu",
                     (unsigned long long)ref->offset);
        return NULL;
    }
    return bytes;
}

hf_status
hfi_node_load(hf_session *session, const hfi_ref *ref, uint32_t shift,
              const hfi_node **ret_node, hf_error *reterr) {
    const hfi_node *node =
        load_ref(session, ref, HFI_KIND_NODE, sizeof(hfi_node), reterr);
    if (!node)
        return HF_E_CORRUPT;
    if (shift > HFI_LIST_SHIFT) /* so that no walk goes deeper than the hash's digits */
        return hf_error_set(reterr, HF_E_CORRUPT,
                            "a list at offset %llu is below another one",
                            (unsigned long long)ref->offset);
    uint32_t expected =
        shift >= HFI_LIST_SHIFT ? node->count : hfi_bit_count(node->bitmap);
    if (node->magic != HFI_NODE_MAGIC || node->shift != shift ||
        node->count != expected ||
        ref->length != sizeof *node + (uint64_t)node->count * sizeof(hfi_ref))
        return hf_error_set(reterr, HF_E_CORRUPT, "a node at offset %llu is not one",
                            (unsigned long long)ref->offset);
    *ret_node = node;
    return HF_OK;
}

hf_status
hfi_record_load(hf_session *session, const hfi_ref *ref,
                const hfi_entry_record **ret_record, hf_error *reterr) {
    const hfi_entry_record *r =
        load_ref(session, ref, HFI_KIND_ENTRY, sizeof(hfi_entry_record), reterr);
    if (!r)
        return HF_E_CORRUPT;
    int good = r->magic == HFI_RECORD_MAGIC && r->key_size >= 1 &&
               r->key_size <= HF_KEY_SIZE_MAX && hfi_record_length(r) == ref->length;
    const hfi_piece *outside = good ? hfi_record_outside(r) : NULL;
    if (outside)
        good = hfi_window_at(session, outside->offset, r->payload_size) != NULL &&
               outside->extent < hfi_extent_count(session);
    for (uint32_t i = 0; good && i < r->buffer_count; i++) {
        const hfi_buffer_head *b = &hfi_record_buffers(r)[i];
        uint64_t held = 0;
        good = b->first_piece <= r->piece_count &&
               b->piece_count <= r->piece_count - b->first_piece &&
               b->piece_count <= HF_BUFFER_EXTENTS_MAX;
        for (uint32_t k = 0; good && k < b->piece_count; k++) {
            const hfi_piece *p = &hfi_record_pieces(r)[b->first_piece + k];
            good = p->length && p->offset % session->page == 0 &&
                   p->length % session->page == 0 &&
                   p->extent < hfi_extent_count(session) &&
                   hfi_window_at(session, p->offset, p->length) != NULL;
            held += p->length;
        }
        if (good)
            good = held == hfi_round_up(b->size, session->page);
    }
    if (!good)
        return hf_error_set(reterr, HF_E_CORRUPT, "an entry at offset %llu is not one",
                            (unsigned long long)ref->offset);
    *ret_record = r;
    return HF_OK;
}

void
hfi_entry_fill(hf_session *session, const hfi_entry_record *record,
               hf_entry *ret_entry) {
    const char *base = (const char *)record;
    memset(ret_entry, 0, sizeof *ret_entry);
    ret_entry->struct_size = sizeof *ret_entry;
    ret_entry->key = hfi_record_key(record);
    ret_entry->key_size = record->key_size;
    ret_entry->codec = record->codec;
    ret_entry->flags = record->flags;
    ret_entry->sequence = record->sequence;
    ret_entry->generation = record->generation;
    ret_entry->meta = base + hfi_record_meta_offset(record);
    ret_entry->meta_size = record->meta_size;
    ret_entry->payload_size = record->payload_size;
    const hfi_piece *outside = hfi_record_outside(record);
    if (record->payload_size)
        ret_entry->payload =
            outside ? (const void *)(session->window + outside->offset)
                    : (const void *)(base + hfi_record_payload_offset(record));
    ret_entry->buffer_count = record->buffer_count;
    for (uint32_t i = 0; i < record->buffer_count; i++)
        ret_entry->buffer_bytes += hfi_record_buffers(record)[i].size;
    ret_entry->internal = record;
}

uint64_t
hfi_key_hash(const char *key, size_t size) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, then the finalizer of MurmurHash3 */
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

hf_status
hfi_tree_find(hf_session *session, const hfi_ref *root, const char *key,
              size_t key_size, hfi_ref *ret_ref, const hfi_entry_record **ret_record,
              hf_error *reterr) {
    uint64_t hash = hfi_key_hash(key, key_size);
    hfi_ref ref = *root;
    hf_status status;
    for (uint32_t shift = 0; ref.kind == HFI_KIND_NODE; shift += 5) {
        const hfi_node *node = NULL;
        if ((status = hfi_node_load(session, &ref, shift, &node, reterr)))
            return status;
        if (shift >= HFI_LIST_SHIFT) {
            for (uint32_t i = 0; i < node->count; i++) {
                const hfi_entry_record *r;
                status = hfi_record_load(session, &node->children[i], &r, reterr);
                if (status)
                    return status;
                if (r->key_size != key_size || memcmp(hfi_record_key(r), key, key_size))
                    continue;
                if (ret_ref)
                    *ret_ref = node->children[i];
                *ret_record = r;
                return HF_OK;
            }
            return HF_NOT_FOUND;
        }
        uint32_t bit = 1u << hfi_hash_digit(hash, shift);
        if (!(node->bitmap & bit))
            return HF_NOT_FOUND;
        ref = node->children[hfi_bit_count(node->bitmap & (bit - 1))];
    }
    if (ref.kind == HFI_KIND_NONE)
        return HF_NOT_FOUND;
    const hfi_entry_record *r;
    if ((status = hfi_record_load(session, &ref, &r, reterr)))
        return status;
    if (r->key_size != key_size || memcmp(hfi_record_key(r), key, key_size))
        return HF_NOT_FOUND;
    if (ret_ref)
        *ret_ref = ref;
    *ret_record = r;
    return HF_OK;
}

static hf_status
walk_subtree(hf_session *session, const hfi_ref *ref, uint32_t shift,
             hfi_tree_visit visit, void *context, hf_error *reterr) {
    hf_status status;
    if (ref->kind == HFI_KIND_ENTRY) {
        const hfi_entry_record *record;
        if ((status = hfi_record_load(session, ref, &record, reterr)))
            return status;
        return visit(context, ref, record, reterr);
    }
    const hfi_node *node;
    if ((status = hfi_node_load(session, ref, shift, &node, reterr)))
        return status;
    if ((status = visit(context, ref, NULL, reterr)))
        return status;
    for (uint32_t i = 0; i < node->count && !status; i++)
        status = walk_subtree(session, &node->children[i], shift + 5, visit, context,
                              reterr);
    return status;
}

hf_status
hfi_tree_each(hf_session *session, const hfi_ref *root, hfi_tree_visit visit,
              void *context, hf_error *reterr) {
    return hfi_tree_each_at(session, root, 0, visit, context, reterr);
}

hf_status
hfi_tree_each_at(hf_session *session, const hfi_ref *ref, uint32_t shift,
                 hfi_tree_visit visit, void *context, hf_error *reterr) {
    if (ref->kind == HFI_KIND_NONE)
        return HF_OK;
    return walk_subtree(session, ref, shift, visit, context, reterr);
}

/* ---- roots ---- */

void
hfi_root_privatize(hfi_root *root) {
    root->reserved = 0;
    root->crc = hfi_crc32c(0, root, offsetof(hfi_root, crc));
}

int
hfi_root_is_valid(const hfi_root *root, uint64_t generation) {
    return root->generation == generation &&
           root->crc == hfi_crc32c(0, root, offsetof(hfi_root, crc));
}

hf_status
hfi_root_read(hf_session *session, hfi_root *ret_root, hf_error *reterr) {
    hfi_superblock *super = session->super;
    for (;;) {
        uint64_t generation = atomic_load(&super->generation);
        hfi_root root = super->roots[generation % 2];
        atomic_thread_fence(memory_order_acquire);
        if (hfi_root_is_valid(&root, generation)) {
            *ret_root = root;
            return HF_OK;
        }
        if (atomic_load(&super->generation) == generation)
            return hf_error_set(reterr, HF_E_CORRUPT, "the root of generation %llu",
                                (unsigned long long)generation);
    }
}
