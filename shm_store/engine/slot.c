/* slot.c - the processes that are attached, the writer lock, and who is dead.
 *
 * A process owns one slot; its number stands in the states of the extents that it has,
 * in their pin masks, and in the writer lock. A slot is claimed by a compare-and-swap
 * of its owner word, and cleared only under the writer lock, after everything that
 * names it was dropped. So a slot number never means two processes at once.
 *
 * Leases are written by their process alone, without a lock: a reader stores the
 * generation, then checks that it is still current. A publisher stores the generation,
 * then looks at the leases. Both in sequentially consistent order, so one of the two
 * sees the other: either the reader tries again, or the publisher keeps what it reads.
 *
 * The lock word names its holder by slot, pid and some bits of the start time: one that
 * dies while it has no slot would else be alive again as soon as its pid is somebody's.
 * Where the start time couldn't be read, then or now, the pid decides.
 *
 * Taking the lock over from a dead process marks the session dirty until recovery has
 * run to its end, so that a death in the middle of recovery starts it again.
 */
#include "engine/internal.h"

#define NO_SLOT 0xfffeu /* in the lock word of one that has none */

static hfi_process
identity(const hfi_slot *slot, uint64_t owner) {
    hfi_process process = {owner, atomic_load(&slot->start_time), slot->boot};
    return process;
}

int
hfi_slot_alive(const hf_session *session, uint32_t slot) {
    if (slot >= HFI_SLOT_COUNT)
        return 0;
    uint64_t owner = atomic_load(&session->slots[slot].owner);
    if (!owner)
        return 0;
    hfi_process process = identity(&session->slots[slot], owner);
    return hfi_process_alive(&process) != 0;
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
        return 1; /* nobody writes such a word */
    if (slot < HFI_SLOT_COUNT) {
        uint64_t owner = atomic_load(&session->slots[slot].owner);
        if (owner && (uint32_t)owner == holder >> 32)
            return !hfi_slot_alive(session, slot);
    }
    /* Its slot is gone, or it never had one: it is just leaving, or all were taken. Its
     * pid may be another's by now. */
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
    if (hfi_lock_acquire(&super->lock, session->lock_word, hfi_lock_holder_is_dead,
                         session))
        atomic_store(&super->dirty, 1);
    if (!atomic_load(&super->dirty))
        return HF_OK;
    hf_status status = hfi_recovery_run(session, reterr);
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

/* A free slot, in the name of `self`; HFI_NONE where there is none. */
static uint32_t
take_free(hf_session *session, const hfi_process *self) {
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++) {
        hfi_slot *slot = &session->slots[i];
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong(&slot->owner, &nobody, self->owner))
            continue;
        slot->boot = self->boot;
        slot->attached_unix_ns = hfi_process_unix_ns();
        atomic_store(&slot->start_time, self->start_time);
        return i;
    }
    return HFI_NONE;
}

hf_status
hfi_slot_claim_heir(hf_session *session, hf_error *reterr) {
    hfi_process self = hfi_process_self();
    hf_error ignored;
    session->heir = take_free(session, &self);
    if (session->heir == HFI_NONE && !hfi_lock(session, &ignored)) {
        hfi_slot_reap(session); /* the dead may be among them */
        hfi_unlock(session);
        session->heir = take_free(session, &self);
    }
    if (session->heir == HFI_NONE)
        return hf_error_set(reterr, HF_E_LIMIT, "%u processes are attached already",
                            HFI_SLOT_COUNT);
    return HF_OK;
}

/* With a start time of 0 a slot is its pid's, whenever that began: so nobody who looks
 * meanwhile sees one process's pid with another's start. */
void
hfi_slot_assign(hf_session *session, uint32_t slot, uint64_t pid) {
    hfi_slot *at = &session->slots[slot];
    hfi_process process = hfi_process_of(pid);
    atomic_store(&at->start_time, 0);
    atomic_store(&at->owner, process.owner);
    atomic_store(&at->start_time, process.start_time);
}

hf_status
hfi_slot_claim(hf_session *session, hf_error *reterr) {
    hfi_process self = hfi_process_self();
    for (int attempt = 0; attempt < 2; attempt++) {
        uint32_t i = take_free(session, &self);
        if (i != HFI_NONE) {
            session->slot = i;
            session->lock_word = hfi_lock_word(i, &self);
            return HF_OK;
        }
        /* Full: the dead may be among them. Recovery doesn't need a slot of its own,
         * and the lock word needs only to name somebody alive. */
        uint32_t dead = 0;
        for (uint32_t k = 0; k < HFI_SLOT_COUNT && !dead; k++)
            if (!hfi_slot_alive(session, k))
                dead = k + 1;
        if (!dead)
            break;
        hf_error ignored;
        session->lock_word = hfi_lock_word(NO_SLOT, &self);
        if (hfi_lock(session, &ignored))
            break;
        hfi_slot_reap(session);
        hfi_unlock(session);
    }
    return hf_error_set(reterr, HF_E_LIMIT, "%u processes are attached already",
                        HFI_SLOT_COUNT);
}

void
hfi_slot_clear(hf_session *session, uint32_t slot) {
    uint64_t bit = 1ull << (slot % 64),
             owner = atomic_load(&session->slots[slot].owner);
    for (uint32_t i = 0, n = hfi_extent_count(session); i < n; i++) {
        hfi_extent *extent = &session->extents[i];
        if (atomic_load_explicit(&extent->pins[slot / 64], memory_order_relaxed) & bit)
            atomic_fetch_and(&extent->pins[slot / 64], ~bit);
        uint32_t word = hfi_extent_word(extent);
        if (word == hfi_state_word(HFI_RESERVED, slot) ||
            word == hfi_state_word(HFI_PREPARED, slot))
            hfi_extent_give_up(session, i);
    }
    hfi_step("slot:extents-freed");
    for (unsigned i = 0; i < HFI_LEASE_COUNT; i++)
        atomic_store(&session->slots[slot].leases[i], 0);
    atomic_store(&session->slots[slot].start_time, 0);
    atomic_compare_exchange_strong(&session->slots[slot].owner, &owner, 0);
}

uint32_t
hfi_slot_reap(hf_session *session) {
    uint32_t reaped = 0;
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++) {
        if (!atomic_load(&session->slots[i].owner) || hfi_slot_alive(session, i))
            continue;
        hfi_slot_clear(session, i);
        hfi_step("reap:slot-cleared");
        reaped++;
    }
    return reaped;
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
