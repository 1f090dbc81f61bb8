/* snapshot.h - one committed generation, leased and read without a lock.
 *
 * session->mutex guards the counts of leases and `is_yielded`; the leases themselves
 * are atomic words in the process's slot (slot.h).
 *
 * Invariant: a lease of this process is 0 if and only if its count is 0, but for one
 * that was yielded and then taken away; a yielded lease has one snapshot.
 */
#ifndef HFI_SNAPSHOT_H
#define HFI_SNAPSHOT_H

#include "engine/handle.h"

typedef struct hfi_snapshots {
    uint32_t lease_uses[HFI_LEASE_COUNT]; /* snapshots on each lease */
} hfi_snapshots;

struct hf_snapshot {
    hf_session *session;
    uint32_t lease;
    int is_yielded; /* session->mutex */
    hfi_root root;
};

/* An empty one of this process's session, without root and lease; the caller frees it
 * or completes it. HF_E_GONE, HF_E_NOMEM. */
hf_status hfi_snapshot_create(hf_session *session, hf_snapshot **ret_snapshot,
                              hf_error *reterr) HF_CHECK;
/* A lease of this process that no snapshot is on; HFI_LEASE_COUNT if all are taken.
 * Mutex held. */
uint32_t hfi_snapshot_unused_lease(const hf_session *session);

#endif
