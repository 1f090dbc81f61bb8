/* inherit.c - what forks of this process do with its sessions.
 *
 * A forked child has copies of the handles, and the same shared mappings. Left alone it
 * would be a second writer with its parent's slot. It would recycle the parent's
 * blocks, and clear the parent's pins when it drops a region. If either process wrote
 * to an array that was born in the arena, the other one would see it. User code forks
 * without expecting that (multiprocessing, DataLoader workers). It expects a child with
 * memory of its own, as it was at the fork.
 *
 * So before any fork the parent's own regions are mapped again, privately, over the
 * same pages (hfi_region_privatize). What either process writes from then on is its
 * own. The parent pays a copy for the first write to each page, as it does for all
 * other memory after a fork. The next commit publishes the pages of such a region by
 * reference as before, and the written ones as a copy (commit_region.c).
 *
 * A child of user code may do nothing with the session: its handles are marked, take no
 * lock, lease, block or pin, and release only what is the child's, its mappings.
 *
 * An *heir* is a fork that is to go on in the place of its parent if the parent dies.
 * It gets a slot of its own before the fork, with the parent's leases, and a pin on
 * each extent that one of the parent's regions maps. So nothing that the fork sees is
 * freed or reused while it lives, whatever its parent does and in whatever way the
 * parent ends. A RESERVED extent that its owner gives up, or whose owner dies, belongs
 * to the slot that pins it (hfi_extent_give_up). No step hands anything over, so a
 * crash leaves none half done. The slot counts as the parent's until it is named after
 * the child. The first of the two processes does that: the parent knows the pid, and
 * the child takes the writer lock, under which slots of dead processes are cleared. So
 * if the parent dies at once, either the child has its slot, or it finds out that the
 * slot was cleared.
 *
 * The handlers take the mutexes around the fork, so that the child finds the treap and
 * the counts undamaged. They are registered once, by the first session, and go through
 * a list of all. A program that is started by vfork or posix_spawn runs no handlers,
 * and needs none.
 */
#include "engine/inherit.h"

#include <unistd.h>

#include "base/argument.h"
#include "base/step.h"
#include "engine/attach.h"
#include "engine/idle.h"
#include "engine/owner.h"
#include "engine/prepared.h"
#include "engine/region.h"
#include "engine/slot.h"
#include "engine/snapshot.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static hf_session *sessions; /* under `mutex`; linked by next_open */

/* Whether the fork that this thread makes now is the session's heir. */
static int
makes_heir(const hf_session *session) {
    return session->heir->slot != HFI_NONE &&
           pthread_equal(session->heir->thread, pthread_self());
}

/* ---- before the fork: mutex held ---- */

static int
privatize_all(hf_session *session) {
    hf_region *region = hfi_regions_above(session, NULL);
    int err = 0;
    for (; region && !err; region = hfi_regions_above(session, region->address))
        if (region->is_own)
            err = hfi_region_privatize(region);
    return err;
}

static void
pin_for_heir(hf_session *session, const hfi_piece *pieces, uint32_t count) {
    uint32_t slot = session->heir->slot;
    for (uint32_t i = 0; i < count; i++)
        atomic_fetch_or(&session->extents[pieces[i].extent].pins[slot / 64],
                        1ull << (slot % 64));
}

/* Everything that the parent's regions refer to, and what its snapshots read. The
 * parent's own pins and leases hold it meanwhile. */
static void
endow_child(hf_session *session) {
    hfi_slot *slots = session->slots;
    hf_region *region = hfi_regions_above(session, NULL);
    for (; region; region = hfi_regions_above(session, region->address)) {
        pin_for_heir(session, region->pieces, region->piece_count);
        pin_for_heir(session, region->was_pieces, region->was_count);
        pin_for_heir(session, region->next_pieces, region->next_count);
    }
    for (uint32_t i = 0; i < HFI_LEASE_COUNT; i++)
        if (session->snapshots->lease_uses[i])
            atomic_store(&slots[session->heir->slot].leases[i],
                         atomic_load(&slots[session->slot].leases[i]));
    hfi_step("fork:endowed");
}

static void
lock_before_fork(void) {
    pthread_mutex_lock(&mutex);
    for (hf_session *session = sessions; session; session = session->heir->next) {
        pthread_mutex_lock(&session->mutex);
        pthread_mutex_lock(&session->writer_mutex);
        if (session->inherited)
            continue;
        /* If a mapping fails, the region stays shared, and an heir gets that as an
         * error. */
        session->heir->failed = privatize_all(session);
        if (makes_heir(session))
            endow_child(session);
    }
}

static void
after_in_parent(void) {
    for (hf_session *session = sessions; session; session = session->heir->next) {
        pthread_mutex_unlock(&session->writer_mutex);
        pthread_mutex_unlock(&session->mutex);
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- in the child ---- */

static void
become_heir(hf_session *session) {
    session->slot = session->heir->slot;
    session->heir->slot = HFI_NONE;
    hfi_process self = hfi_process_self();
    session->lock_word = hfi_lock_word(session->slot, &self);
    hfi_cache_forget(session);
    hfi_prefill_forget(session);
    /* It shows the memory of the process that opened it. */
    hfi_session_pagemap_close(session);
}

static void
after_in_child(void) {
    for (hf_session *session = sessions; session; session = session->heir->next)
        if (makes_heir(session))
            become_heir(session);
        else
            session->inherited = 1;
    after_in_parent();
}

static void
register_fork_handlers(void) {
    (void)pthread_atfork(lock_before_fork, after_in_parent, after_in_child);
}

void
hfi_inherit_watch(hf_session *session) {
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&mutex);
    session->heir->next = sessions;
    sessions = session;
    pthread_mutex_unlock(&mutex);
}

void
hfi_inherit_forget(hf_session *session) {
    pthread_mutex_lock(&mutex);
    hf_session **link = &sessions;
    while (*link && *link != session)
        link = &(*link)->heir->next;
    if (*link)
        *link = session->heir->next;
    pthread_mutex_unlock(&mutex);
}

/* ---- heirs ---- */

hf_status
hf_session_fork_begin(hf_session *session, hf_error *reterr) {
    HFI_NEED(reterr, session);
    hf_status status = hfi_session_check(session, reterr);
    if (status)
        return status;
    if ((status = hfi_prepared_finish(session, reterr)))
        return status;
    pthread_mutex_lock(&session->mutex);
    int err = privatize_all(session);
    pthread_mutex_unlock(&session->mutex);
    if (err)
        return hf_error_set_errno(reterr, err, "can't make a region private");
    session->heir->thread = pthread_self();
    session->heir->parent = hfi_process_self().owner;
    return hfi_slot_claim_heir(session, &session->heir->slot, reterr);
}

void
hf_session_fork_parent(hf_session *session, int64_t pid) {
    if (!session)
        return;
    uint32_t slot = session->heir->slot;
    hf_error ignored;
    session->heir->slot = HFI_NONE;
    if (pid > 0)
        (void)hfi_slot_pass(session, slot, hfi_process_self().owner,
                            hfi_process_of((uint64_t)pid).owner);
    else if (!hfi_lock(session, &ignored)) {
        hfi_slot_clear(session, slot);
        hfi_unlock(session);
    }
}

hf_status
hf_session_fork_child(hf_session *session, hf_error *reterr) {
    HFI_NEED(reterr, session);
    if (session->inherited || session->heir->failed)
        return hf_error_set_errno(reterr, session->heir->failed,
                                  "the fork's memory of the session isn't its own");
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    hfi_process self = hfi_process_self();
    int is_ours =
        hfi_slot_pass(session, session->slot, session->heir->parent, self.owner);
    if (is_ours)
        atomic_store(&session->slots[session->slot].start_time, self.start_time);
    hfi_unlock(session);
    return is_ours ? HF_OK
                   : hf_error_set(reterr, HF_E_GONE,
                                  "the parent died before the fork had its slot");
}

hf_status
hf_session_fork_succeed(hf_session *session, hf_error *reterr) {
    HFI_NEED(reterr, session);
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    int is_ours =
        atomic_load(&session->slots[session->slot].owner) == hfi_process_self().owner;
    if (is_ours) /* what the parent had reserved can be published from here on */
        hfi_slot_reap(session);
    if (is_ours && session->super->owner == session->heir->parent &&
        hfi_owner_alive(session->super) == 0)
        hfi_owner_become(session);
    hfi_unlock(session);
    if (!is_ours)
        return hf_error_set(reterr, HF_E_GONE,
                            "the slot that the fork had was given to another process");
    return HF_OK;
}
