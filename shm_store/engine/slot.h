/* slot.h - the processes that are attached, the generations that they lease, and the
 * writer lock.
 *
 * A slot belongs to its process while `owner` is not 0. Its process alone writes its
 * leases, without a lock; hfi_leases_take_yielded is the exception, by a
 * compare-and-swap. attach.h claims and clears slots.
 *
 * Invariant: while a slot's number stands in an extent or in the lock, no other process
 * can claim the slot.
 */
#ifndef HFI_SLOT_H
#define HFI_SLOT_H

#include "engine/handle.h"
#include "platform/process.h"

/* ---- processes: any thread, no lock ---- */

/* A free slot, in the name of `self`; HFI_NONE if there is none. */
uint32_t hfi_slot_take(hf_session *session, const hfi_process *self);
/* Name `to` as the slot's owner, if `from` is the owner. Returns whether `to` is the
 * owner then. */
int hfi_slot_pass(hf_session *session, uint32_t slot, uint64_t from, uint64_t to);
int hfi_slot_alive(const hf_session *session, uint32_t slot);
/* Whether it may be alive, and keeps the session if that has no owner any more. */
int hfi_slot_keeps(const hf_session *session, uint32_t slot);
/* Its process: all 0 if it has none. */
hfi_process hfi_slot_process(const hf_session *session, uint32_t slot);

/* ---- the writer lock ---- */

/* The word that a process writes into the lock. */
uint64_t hfi_lock_word(uint32_t slot, const hfi_process *self);
/* Whether the process that the word names is dead: 1, or 0; -1 if that is unknown (a
 * process of another pid namespace). `context`: the session. */
int hfi_lock_holder_is_dead(void *context, uint64_t holder);
/* Take the writer lock, from this process's threads and from all processes. If the last
 * holder died, the session is recovered first (session->recover). HF_E_GONE in a forked
 * child; HF_E_ACCESS if it is unknown whether the holder lives (platform/lock.h); else
 * the statuses of recovery. After an error the lock isn't held. */
hf_status hfi_lock(hf_session *session, hf_error *reterr) HF_CHECK;
void hfi_unlock(hf_session *session);

/* ---- leases ---- */

/* The generations that are leased, read once for many extents. A lease that comes later
 * is of the current generation, which reaches nothing that is retired. */
#define HFI_LEASES_LISTED 256
typedef struct hfi_leases {
    uint64_t generations[HFI_LEASES_LISTED];
    size_t count;
    int is_whole; /* else there are more, and each retired extent counts as leased */
} hfi_leases;
void hfi_leases_read(const hf_session *session, int only_yielded,
                     hfi_leases *ret_leases);
/* Whether one of them reaches the extent. */
int hfi_leases_keep(const hfi_leases *leases, const hfi_extent *extent);
/* Take the oldest yielded lease away. 0 if there is none. Lock held. */
int hfi_leases_take_yielded(hf_session *session);

#endif
