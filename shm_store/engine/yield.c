/* yield.c - generations that are kept while there is room, and handed to other
 * processes.
 *
 * A history of the session is useful, but the memory for arrays is more important. So a
 * snapshot can be yielded: its lease gets a bit. The lease keeps the generation as any
 * other does, until a process finds the arena full and takes the lease away under the
 * writer lock, the oldest generation first (hfi_leases_take_yielded). The holder finds
 * out when it wants to read: hf_snapshot_hold clears the bit by a compare-and-swap,
 * which fails if the lease is zero by then. So freed data is never read, and no
 * process, which may be busy, has to be asked.
 *
 * A yielded lease is never shared with a snapshot that isn't yielded. If two snapshots
 * share a lease, the one that is yielded gets a lease of its own first.
 *
 * Any process can lease the current generation, since its root is in the superblock.
 * Roots of older ones are known to the processes that hold them; the holder exports the
 * root, and the other process writes a lease of its own while the first one holds it.
 * The root has a checksum, and vouches for the tree.
 *
 * Rejected: a message that asks the holder for the generation. A process in the middle
 * of an allocation can't wait for another one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "engine/extent.h"
#include "engine/slot.h"
#include "engine/snapshot.h"
#include "engine/tree.h"

_Static_assert(sizeof(hf_generation) == sizeof(hfi_root), "a root is what is exported");

static _Atomic uint64_t *
lease_of(const hf_snapshot *snapshot) {
    const hf_session *session = snapshot->session;
    return &session->slots[session->slot].leases[snapshot->lease];
}

/* Move to another lease, with this word. Mutex held. */
static void
move_to(hf_snapshot *snapshot, uint32_t lease, uint64_t word) {
    hf_session *session = snapshot->session;
    atomic_store(&session->slots[session->slot].leases[lease], word);
    session->snapshots->lease_uses[snapshot->lease]--;
    session->snapshots->lease_uses[lease]++;
    snapshot->lease = lease;
}

void
hf_snapshot_yield(hf_snapshot *snapshot) {
    if (!snapshot)
        return;
    hf_session *session = snapshot->session;
    uint64_t word = (snapshot->root.generation + 1) | HFI_LEASE_YIELDED;
    pthread_mutex_lock(&session->mutex);
    if (!snapshot->is_yielded && !session->inherited) {
        uint32_t other = hfi_snapshot_unused_lease(session);
        if (session->snapshots->lease_uses[snapshot->lease] == 1) {
            atomic_store(lease_of(snapshot), word);
            snapshot->is_yielded = 1;
        } else if (other < HFI_LEASE_COUNT) {
            move_to(snapshot, other, word);
            snapshot->is_yielded = 1;
        } /* else it stays held, which keeps too much but is no error */
    }
    pthread_mutex_unlock(&session->mutex);
}

hf_status
hf_snapshot_hold(hf_snapshot *snapshot, hf_error *reterr) {
    HFI_NEED(reterr, snapshot);
    hf_session *session = snapshot->session;
    uint64_t word = (snapshot->root.generation + 1) | HFI_LEASE_YIELDED;
    hf_status status = hfi_session_check(session, reterr);
    if (status)
        return status;
    pthread_mutex_lock(&session->mutex);
    if (snapshot->is_yielded) {
        if (atomic_compare_exchange_strong(lease_of(snapshot), &word,
                                           snapshot->root.generation + 1))
            snapshot->is_yielded = 0;
        else
            status = HF_NOT_FOUND;
    }
    pthread_mutex_unlock(&session->mutex);
    return status;
}

hf_status
hf_session_yielded_bytes(hf_session *session, uint64_t *ret_bytes, hf_error *reterr) {
    HFI_NEED(reterr, session, ret_bytes);
    hfi_leases yielded;
    uint64_t bytes = 0;
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    hfi_extent_reclaim(session); /* the others are leased or pinned */
    hfi_leases_read(session, 1, &yielded);
    uint32_t index = session->super->retired, guard = hfi_extent_count(session);
    while (index < hfi_extent_count(session) && guard--) {
        const hfi_extent *extent = &session->extents[index];
        if (hfi_leases_keep(&yielded, extent))
            bytes += extent->size;
        index = extent->next;
    }
    hfi_unlock(session);
    *ret_bytes = bytes;
    return HF_OK;
}

/* ---- handing over ---- */

void
hf_snapshot_export(const hf_snapshot *snapshot, hf_generation *ret_generation) {
    if (!snapshot || !ret_generation)
        return;
    memcpy(ret_generation, &snapshot->root, sizeof *ret_generation);
}

hf_status
hf_snapshot_import(hf_session *session, const hf_generation *generation,
                   hf_snapshot **ret_snapshot, hf_error *reterr) {
    HFI_NEED(reterr, session, generation, ret_snapshot);
    hf_snapshot *snapshot;
    hf_status status = hfi_snapshot_create(session, &snapshot, reterr);
    if (status)
        return status;
    memcpy(&snapshot->root, generation, sizeof snapshot->root);
    if (!hfi_root_is_valid(&snapshot->root, snapshot->root.generation) ||
        snapshot->root.generation > hf_session_generation(session)) {
        free(snapshot);
        return hf_error_set(reterr, HF_E_CORRUPT, "these bytes name no generation");
    }
    pthread_mutex_lock(&session->mutex);
    snapshot->lease = hfi_snapshot_unused_lease(session);
    if (snapshot->lease < HFI_LEASE_COUNT) {
        atomic_store(&session->slots[session->slot].leases[snapshot->lease],
                     snapshot->root.generation + 1);
        session->snapshots->lease_uses[snapshot->lease]++;
    } else {
        status = hf_error_set(reterr, HF_E_LIMIT, "this process holds %u generations",
                              HFI_LEASE_COUNT);
    }
    pthread_mutex_unlock(&session->mutex);
    if (status) {
        free(snapshot);
        return status;
    }
    *ret_snapshot = snapshot;
    return HF_OK;
}
