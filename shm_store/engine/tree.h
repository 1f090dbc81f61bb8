/* tree.h - the namespace as committed: roots, nodes and entries, checked as they are
 * read.
 *
 * No lock: what is committed never changes. The caller keeps it from being freed by a
 * lease, or by the writer lock.
 *
 * Invariant: what a function here returns was checked: place, size, checksum, and that
 * an entry's inner sizes add up. HF_E_CORRUPT if they lie.
 */
#ifndef HFI_TREE_H
#define HFI_TREE_H

#include "engine/handle.h"

#include <string.h>

/* ---- roots ---- */

void hfi_root_privatize(hfi_root *root);
int hfi_root_is_valid(const hfi_root *root, uint64_t generation);
/* The current one. HF_E_CORRUPT. */
hf_status hfi_root_read(hf_session *session, hfi_root *ret_root,
                        hf_error *reterr) HF_CHECK;

/* ---- hashes ---- */

uint64_t hfi_key_hash(const char *key, size_t size);
/* Bits that are set. The compiler's builtin is a call into a table if the processor
 * isn't known to count bits by itself. */
static inline uint32_t
hfi_bit_count(uint32_t x) {
    x -= (x >> 1) & 0x55555555u;
    x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
    return (((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24;
}
static inline uint32_t
hfi_hash_digit(uint64_t hash, uint32_t shift) {
    return (uint32_t)(hash >> shift) & 31;
}

/* ---- the parts of an entry: of one that was checked, or is being made ---- */

static inline const hfi_buffer_head *
hfi_record_buffers(const hfi_entry_record *record) {
    return (const hfi_buffer_head *)(record + 1);
}
static inline const hfi_piece *
hfi_record_pieces(const hfi_entry_record *record) {
    return (const hfi_piece *)(hfi_record_buffers(record) + record->buffer_count);
}
/* The place of a payload that is too large for the record, else NULL. */
static inline const hfi_piece *
hfi_record_outside(const hfi_entry_record *record) {
    return record->payload_size > HFI_INLINE_MAX
               ? hfi_record_pieces(record) + record->piece_count
               : NULL;
}
static inline uint64_t
hfi_record_key_offset(const hfi_entry_record *record) {
    uint64_t pieces =
        (uint64_t)record->piece_count + (record->payload_size > HFI_INLINE_MAX);
    return sizeof *record + record->buffer_count * (uint64_t)sizeof(hfi_buffer_head) +
           pieces * sizeof(hfi_piece);
}
static inline const char *
hfi_record_key(const hfi_entry_record *record) {
    return (const char *)record + hfi_record_key_offset(record);
}
static inline int
hfi_record_same_key(const hfi_entry_record *one, const hfi_entry_record *other) {
    return one->key_size == other->key_size &&
           memcmp(hfi_record_key(one), hfi_record_key(other), one->key_size) == 0;
}
static inline uint64_t
hfi_record_meta_offset(const hfi_entry_record *record) {
    return hfi_record_key_offset(record) + record->key_size + 1;
}
/* The alignment at which a record begins, so that its payload is aligned. */
static inline uint64_t
hfi_record_alignment(uint64_t payload_size) {
    return payload_size < 64 || payload_size > HFI_INLINE_MAX ? 8 : 64;
}
/* Of a payload inside. */
static inline uint64_t
hfi_record_payload_offset(const hfi_entry_record *record) {
    return hfi_round_up(hfi_record_meta_offset(record) + record->meta_size,
                        hfi_record_alignment(record->payload_size));
}
/* Of all its bytes. */
static inline uint64_t
hfi_record_length(const hfi_entry_record *record) {
    if (!record->payload_size || record->payload_size > HFI_INLINE_MAX)
        return hfi_record_meta_offset(record) + record->meta_size;
    return hfi_record_payload_offset(record) + record->payload_size;
}
/* Fill in the record's public form. The pointers lead into the window. */
void hfi_entry_fill(hf_session *session, const hfi_entry_record *record,
                    hf_entry *ret_entry);

/* ---- reading; all return HF_E_CORRUPT for damaged bytes ---- */

/* The node or entry of a reference, checked. HF_E_CORRUPT. */
hf_status hfi_node_load(hf_session *session, const hfi_ref *ref, uint32_t shift,
                        const hfi_node **ret_node, hf_error *reterr) HF_CHECK;
hf_status hfi_record_load(hf_session *session, const hfi_ref *ref,
                          const hfi_entry_record **ret_record,
                          hf_error *reterr) HF_CHECK;
/* Visit every ref of a tree, nodes before their children. `record` is NULL for nodes. A
 * status that isn't HF_OK ends the walk and is returned. */
typedef hf_status (*hfi_tree_visit)(void *context, const hfi_ref *ref,
                                    const hfi_entry_record *record, hf_error *reterr);
hf_status hfi_tree_each(hf_session *session, const hfi_ref *root, hfi_tree_visit visit,
                        void *context, hf_error *reterr) HF_CHECK;
/* The same for the subtree of `ref`, a node of `shift` or an entry. */
hf_status hfi_tree_each_at(hf_session *session, const hfi_ref *ref, uint32_t shift,
                           hfi_tree_visit visit, void *context,
                           hf_error *reterr) HF_CHECK;
/* HF_NOT_FOUND if no entry has the key. `ret_ref` may be NULL. */
hf_status hfi_tree_find(hf_session *session, const hfi_ref *root, const char *key,
                        size_t key_size, hfi_ref *ret_ref,
                        const hfi_entry_record **ret_record, hf_error *reterr) HF_CHECK;

#endif
