/* snapshot.c - one committed generation, leased and read without a lock.
 *
 * To take a lease, a reader writes the generation into its slot, then checks that it is
 * still the current one. If so, every later publisher sees the lease, and frees nothing
 * that this generation can reach. If not, the reader tries again with the new
 * generation. Snapshots of one process on one generation share a lease. Only their
 * count is under session->mutex, and no other process ever waits for it.
 */
#include "engine/snapshot.h"

#include <stdlib.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "engine/tree.h"
#include "platform/object.h"

uint32_t
hfi_snapshot_unused_lease(const hf_session *session) {
    uint32_t i = 0;
    while (i < HFI_LEASE_COUNT && session->snapshots->lease_uses[i])
        i++;
    return i;
}

static hf_status
lease_generation(hf_session *session, uint32_t *ret_lease, hfi_root *ret_root,
                 hf_error *reterr) {
    hfi_slot *slot = &session->slots[session->slot];
    hfi_superblock *super = session->super;
    uint64_t generation = atomic_load(&super->generation);
    for (uint32_t i = 0; i < HFI_LEASE_COUNT; i++)
        if (session->snapshots->lease_uses[i] &&
            atomic_load(&slot->leases[i]) == generation + 1) {
            *ret_lease = i;
            return hfi_root_read(session, ret_root, reterr);
        }
    uint32_t free_one = hfi_snapshot_unused_lease(session);
    if (free_one == HFI_LEASE_COUNT)
        return hf_error_set(reterr, HF_E_LIMIT, "this process holds %u generations",
                            HFI_LEASE_COUNT);
    for (;;) {
        generation = atomic_load(&super->generation);
        atomic_store(&slot->leases[free_one], generation + 1);
        if (atomic_load(&super->generation) == generation) {
            hf_status status = hfi_root_read(session, ret_root, reterr);
            if (!status && ret_root->generation != generation)
                continue;
            if (status)
                atomic_store(&slot->leases[free_one], 0);
            *ret_lease = free_one;
            return status;
        }
    }
}

hf_status
hfi_snapshot_create(hf_session *session, hf_snapshot **ret_snapshot, hf_error *reterr) {
    hf_status status = hfi_session_check(session, reterr);
    if (status)
        return status;
    *ret_snapshot = calloc(1, sizeof **ret_snapshot);
    if (!*ret_snapshot)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    (*ret_snapshot)->session = session;
    return HF_OK;
}

hf_status
hf_snapshot_acquire(hf_session *session, hf_snapshot **ret_snapshot, hf_error *reterr) {
    HFI_NEED(reterr, session, ret_snapshot);
    hf_snapshot *snapshot;
    hf_status status = hfi_snapshot_create(session, &snapshot, reterr);
    if (status)
        return status;
    pthread_mutex_lock(&session->mutex);
    do {
        status = lease_generation(session, &snapshot->lease, &snapshot->root, reterr);
        /* The root may have been replaced between the two reads, while the lease is
         * shared. */
    } while (!status &&
             atomic_load(&session->slots[session->slot].leases[snapshot->lease]) !=
                 snapshot->root.generation + 1);
    if (!status)
        session->snapshots->lease_uses[snapshot->lease]++;
    pthread_mutex_unlock(&session->mutex);
    if (status) {
        free(snapshot);
        return status;
    }
    *ret_snapshot = snapshot;
    return HF_OK;
}

void
hf_snapshot_release(hf_snapshot *snapshot) {
    if (!snapshot)
        return;
    hf_session *session = snapshot->session;
    pthread_mutex_lock(&session->mutex);
    if (--session->snapshots->lease_uses[snapshot->lease] == 0 && !session->inherited)
        atomic_store(&session->slots[session->slot].leases[snapshot->lease], 0);
    pthread_mutex_unlock(&session->mutex);
    free(snapshot);
}

uint64_t
hf_snapshot_generation(const hf_snapshot *snapshot) {
    if (!snapshot)
        return 0;
    return snapshot->root.generation;
}

uint64_t
hf_snapshot_entry_count(const hf_snapshot *snapshot) {
    if (!snapshot)
        return 0;
    return snapshot->root.entry_count;
}

hf_status
hf_snapshot_find(hf_snapshot *snapshot, const char *key, size_t key_size,
                 hf_entry *ret_entry, hf_error *reterr) {
    HFI_NEED(reterr, snapshot, key, ret_entry);
    const hfi_entry_record *record;
    hf_status status = HFI_STRUCT_CHECK_OUTPUT(ret_entry, hf_entry, internal, reterr);
    if (!status)
        status = hfi_tree_find(snapshot->session, &snapshot->root.tree, key, key_size,
                               NULL, &record, reterr);
    if (!status) {
        hf_entry entry;
        hfi_entry_fill(snapshot->session, record, &entry);
        hfi_struct_write(ret_entry, &entry, sizeof entry);
    }
    return status;
}

int
hf_snapshot_holds(hf_snapshot *snapshot, const hf_entry *entry, uint32_t index,
                  const void *data, size_t size) {
    if (!snapshot || !entry || !entry->internal || (!data && size))
        return 0;
    const hfi_entry_record *record = entry->internal;
    if (index >= record->buffer_count || hfi_record_buffers(record)[index].size != size)
        return 0;
    const hfi_buffer_head *head = &hfi_record_buffers(record)[index];
    const hfi_piece *pieces = hfi_record_pieces(record) + head->first_piece;
    const unsigned char *at = data;
    int same = 1;
    for (uint32_t i = 0; i < head->piece_count && size && same; i++) {
        size_t part = pieces[i].length < size ? (size_t)pieces[i].length : size;
        same = hfi_window_equals(snapshot->session, pieces[i].offset, at, part);
        at += part;
        size -= part;
    }
    return same && !size;
}

/* ---- visiting ---- */

typedef struct each_context {
    hf_session *session;
    hf_entry_visit visit;
    void *context;
} each_context;

static hf_status
each_entry(void *context, const hfi_ref *ref, const hfi_entry_record *record,
           hf_error *reterr) {
    each_context *each = context;
    (void)ref, (void)reterr;
    if (!record)
        return HF_OK;
    hf_entry entry;
    hfi_entry_fill(each->session, record, &entry);
    return each->visit(each->context, &entry) ? HF_STOP : HF_OK;
}

hf_status
hf_snapshot_each(hf_snapshot *snapshot, hf_entry_visit visit, void *context,
                 hf_error *reterr) {
    HFI_NEED(reterr, snapshot, visit);
    each_context each = {snapshot->session, visit, context};
    hf_status status = hfi_tree_each(snapshot->session, &snapshot->root.tree,
                                     each_entry, &each, reterr);
    return status == HF_STOP ? HF_OK : status;
}

/* ---- visiting in order ---- */

typedef struct record_list {
    const hfi_entry_record **records;
    size_t count, room;
} record_list;

static hf_status
list_record(void *context, const hfi_ref *ref, const hfi_entry_record *record,
            hf_error *reterr) {
    record_list *list = context;
    (void)ref;
    if (!record)
        return HF_OK;
    if (list->count == list->room) /* the root says how many there are */
        return hf_error_set(reterr, HF_E_CORRUPT, "more entries than there should be");
    list->records[list->count++] = record;
    return HF_OK;
}

/* By sequence: a byte at a time from the lowest on, into `other` and back. Sequences
 * are dense, so two bytes do for most; a comparison sort took ten times as long. */
static const hfi_entry_record **
sort_records(const hfi_entry_record **records, const hfi_entry_record **other,
             size_t count, uint64_t most) {
    for (unsigned shift = 0; shift < 64 && most >> shift; shift += 8) {
        size_t starts[256] = {0}, at = 0;
        for (size_t i = 0; i < count; i++)
            starts[records[i]->sequence >> shift & 0xff]++;
        for (size_t i = 0; i < 256; i++) {
            size_t here = starts[i];
            starts[i] = at;
            at += here;
        }
        for (size_t i = 0; i < count; i++)
            other[starts[records[i]->sequence >> shift & 0xff]++] = records[i];
        const hfi_entry_record **sorted = other;
        other = records;
        records = sorted;
    }
    return records;
}

hf_status
hf_snapshot_each_in_order(hf_snapshot *snapshot, hf_entry_visit visit, void *context,
                          hf_error *reterr) {
    HFI_NEED(reterr, snapshot, visit);
    const hfi_root *root = &snapshot->root;
    uint64_t object = hfi_session_size(snapshot->session);
    if (root->entry_count > object / sizeof(hfi_entry_record))
        return hf_error_set(reterr, HF_E_CORRUPT,
                            "the root counts more entries than there is room for");
    record_list list = {.room = (size_t)root->entry_count};
    const hfi_entry_record **both = malloc((2 * list.room + 1) * sizeof *both);
    if (!both)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    list.records = both;
    hf_status status =
        hfi_tree_each(snapshot->session, &root->tree, list_record, &list, reterr);
    if (!status) {
        const hfi_entry_record **sorted =
            sort_records(both, both + list.room, list.count, root->next_sequence);
        int stopped = 0;
        for (size_t i = 0; i < list.count && !stopped; i++) {
            hf_entry entry;
            hfi_entry_fill(snapshot->session, sorted[i], &entry);
            stopped = visit(context, &entry);
        }
    }
    free(both);
    return status;
}
