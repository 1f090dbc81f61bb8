/* slot.c - the processes that are attached, alive or dead; their leases; the writer
 * lock.
 *
 * A process owns one slot. The slot's number is in the states of its extents, in their
 * pin masks, and in the writer lock. attach.c claims and clears slots.
 *
 * Leases are written by their process alone, without a lock. A reader stores the
 * generation, then checks that it is still current. A publisher stores the generation,
 * then looks at the leases. Both are sequentially consistent, so one of the two sees
 * the other: either the reader tries again, or the publisher keeps the reader's data.
 *
 * The lock word names its holder by slot, pid and some bits of the start time. Without
 * the start time, a holder that died without a slot would seem to live as soon as
 * another process got its pid. If the start time can't be read, then or now, the pid
 * decides.
 *
 * If the lock is taken over from a dead process, the session is marked dirty until
 * recovery has ended. So a death in the middle of recovery starts it again.
 */
#include "engine/slot.h"

#include "base/step.h"
#include "platform/lock.h"

static hfi_process
slot_process(const hfi_slot *slot, uint64_t owner) {
    hfi_process process = {owner, atomic_load(&slot->start_time), slot->boot};
    return process;
}

hfi_process
hfi_slot_process(const hf_session *session, uint32_t slot) {
    if (slot >= HFI_SLOT_COUNT)
        return (hfi_process){0, 0, 0};
    return slot_process(&session->slots[slot],
                        atomic_load(&session->slots[slot].owner));
}

int
hfi_slot_alive(const hf_session *session, uint32_t slot) {
    hfi_process process = hfi_slot_process(session, slot);
    return process.owner && hfi_process_alive(&process) != 0;
}

uint64_t
hfi_lock_word(uint32_t slot, const hfi_process *self) {
    uint64_t start = self->start_time ? 1 + self->start_time % 0xffff : 0;
    return ((slot + 1) & 0xffff) | start << 16 | (self->owner & UINT32_MAX) << 32;
}

int
hfi_lock_holder_is_dead(void *context, uint64_t holder) {
    hf_session *session = context;
    uint32_t slot = (uint32_t)(holder & 0xffff) - 1;
    if (slot == UINT32_MAX)
        return 1; /* no process writes such a word */
    if (slot < HFI_SLOT_COUNT) {
        uint64_t owner = atomic_load(&session->slots[slot].owner);
        hfi_process process = slot_process(&session->slots[slot], owner);
        int alive = hfi_process_alive(&process);
        if (owner && (uint32_t)owner == holder >> 32)
            return alive < 0 ? -1 : !alive;
    }
    /* It has no slot any more, or never had one: it is leaving, or all slots were
     * taken. Another process may have its pid by now. */
    hfi_process process = hfi_process_of(holder >> 32);
    uint64_t began = holder >> 16 & 0xffff;
    return hfi_process_alive(&process) == 0 ||
           (began && process.start_time && hfi_lock_word(slot, &process) != holder);
}

hf_status
hfi_lock(hf_session *session, hf_error *reterr) {
    hfi_superblock *super = session->super;
    if (session->inherited)
        return hfi_session_check(session, reterr);
    pthread_mutex_lock(&session->writer_mutex);
    int taken = hfi_lock_acquire(&super->lock, session->lock_word,
                                 hfi_lock_holder_is_dead, session);
    if (taken < 0) {
        pthread_mutex_unlock(&session->writer_mutex);
        return hf_error_set(reterr, HF_E_ACCESS,
                            "the session's writer lock is held by a process that can't "
                            "be seen from here (another pid namespace), or is damaged");
    }
    if (taken > 0)
        atomic_store(&super->dirty, 1);
    if (!atomic_load(&super->dirty))
        return HF_OK;
    hf_status status = session->recover(session, reterr);
    if (status) {
        hf_error_prefix(reterr, "recovering after a process died");
        hfi_unlock(session);
        return status;
    }
    atomic_store(&super->dirty, 0);
    return HF_OK;
}

void
hfi_unlock(hf_session *session) {
    hfi_lock_release(&session->super->lock);
    pthread_mutex_unlock(&session->writer_mutex);
}

uint32_t
hfi_slot_take(hf_session *session, const hfi_process *self) {
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++) {
        hfi_slot *slot = &session->slots[i];
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong(&slot->owner, &nobody, self->owner))
            continue;
        slot->boot = self->boot;
        atomic_store(&slot->readonly, 0);
        slot->attached_unix_ns = hfi_process_unix_ns();
        atomic_store(&slot->start_time, self->start_time);
        return i;
    }
    return HFI_NONE;
}

int
hfi_slot_keeps(const hf_session *session, uint32_t slot) {
    return !atomic_load(&session->slots[slot].readonly) &&
           hfi_slot_alive(session, slot) != 0;
}

int
hfi_slot_pass(hf_session *session, uint32_t slot, uint64_t from, uint64_t to) {
    uint64_t owner = from;
    return atomic_compare_exchange_strong(&session->slots[slot].owner, &owner, to) ||
           owner == to;
}

void
hfi_leases_read(const hf_session *session, int only_yielded, hfi_leases *ret_leases) {
    ret_leases->count = 0;
    ret_leases->is_whole = 1;
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++) {
        const hfi_slot *slot = &session->slots[i];
        if (!atomic_load(&slot->owner))
            continue;
        for (unsigned k = 0; k < HFI_LEASE_COUNT; k++) {
            uint64_t lease = atomic_load(&slot->leases[k]);
            if (!lease || (only_yielded && !(lease & HFI_LEASE_YIELDED)))
                continue;
            if (ret_leases->count == HFI_LEASES_LISTED) {
                ret_leases->is_whole = 0;
                return;
            }
            ret_leases->generations[ret_leases->count++] =
                (lease & ~HFI_LEASE_YIELDED) - 1;
        }
    }
}

int
hfi_leases_keep(const hfi_leases *leases, const hfi_extent *extent) {
    for (size_t i = 0; i < leases->count; i++)
        if (leases->generations[i] >= extent->birth &&
            leases->generations[i] < extent->death)
            return 1;
    return !leases->is_whole;
}

int
hfi_leases_take_yielded(hf_session *session) {
    for (;;) {
        _Atomic uint64_t *oldest = NULL;
        uint64_t least = UINT64_MAX;
        for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++)
            for (unsigned k = 0; k < HFI_LEASE_COUNT; k++) {
                uint64_t lease = atomic_load(&session->slots[i].leases[k]);
                if ((lease & HFI_LEASE_YIELDED) && lease < least) {
                    least = lease;
                    oldest = &session->slots[i].leases[k];
                }
            }
        if (!oldest)
            return 0;
        hfi_step("yield:take");
        if (atomic_compare_exchange_strong(oldest, &least, 0))
            return 1;
    }
}
