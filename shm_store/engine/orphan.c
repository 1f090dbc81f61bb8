/* orphan.c - sessions that outlive their owner, until another process takes them up.
 *
 *     kept ──owner dies──► orphan ──take up──► kept, by another owner
 *       │                     │
 *    not kept            free: nobody came
 *
 * An owner that keeps its session writes a claim into it: bytes that only a process
 * which may have the session can know. It also names its reaper. That is a process that
 * outlives it, and frees the session if nobody has taken it up after some time. While
 * the reaper lives, hf_session_collect skips the session.
 *
 * Taking up and freeing exclude each other by the writer lock: both check under it that
 * the owner is still the dead one. A process that only looks (a list) may see half of a
 * change of owners. It then finds by its slot that the new owner is attached.
 */
#include "engine/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/argument.h"
#include "engine/owner.h"
#include "engine/slot.h"
#include "platform/object.h"

_Static_assert(sizeof(hf_claim) == HFI_CLAIM_SIZE, "one claim");
_Static_assert(HF_NOTE_COUNT == HFI_NOTE_COUNT, "as many notes");

int
hfi_orphan_is_kept(const hfi_superblock *super) {
    static const unsigned char none[HFI_CLAIM_SIZE];
    return memcmp(super->claim, none, sizeof none) != 0;
}

int
hfi_orphan_has_reaper(const hfi_superblock *super) {
    hfi_process reaper = {super->reaper, super->reaper_start_time, super->reaper_boot};
    return hfi_orphan_is_kept(super) && reaper.owner != 0 &&
           hfi_process_alive(&reaper) != 0;
}

hf_status
hf_session_keep(hf_session *session, const hf_claim *claim, int64_t reaper_pid,
                hf_error *reterr) {
    HFI_NEED(reterr, session);
    hfi_superblock *super = session->super;
    hfi_process reaper = {0, 0, 0};
    if (reaper_pid > 0)
        reaper = hfi_process_of((uint64_t)reaper_pid);
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    if ((status = hfi_owner_check(session, reterr)))
        goto out;
    super->reaper = reaper.owner;
    super->reaper_start_time = reaper.start_time;
    super->reaper_boot = reaper.boot;
    if (claim)
        memcpy(super->claim, claim->bytes, sizeof super->claim);
    else
        memset(super->claim, 0, sizeof super->claim);
out:
    hfi_unlock(session);
    return status;
}

void
hf_session_note(hf_session *session, uint32_t index, uint64_t value) {
    if (!session)
        return;
    if (index < HFI_NOTE_COUNT && hfi_owner_check(session, NULL) == HF_OK)
        atomic_store_explicit(&session->super->notes[index], value,
                              memory_order_relaxed);
}

uint64_t
hf_session_noted(const hf_session *session, uint32_t index) {
    if (!session)
        return 0;
    return index < HFI_NOTE_COUNT ? atomic_load(&session->super->notes[index]) : 0;
}

/* ---- taking up ---- */

typedef struct search {
    const hf_claim *claim;
    char name[HF_SESSION_NAME_SIZE]; /* the newest one that was found; or "" */
    int64_t created_unix_ns;
} search;

static int
look_at_session(void *context, const char *name) {
    search *at = context;
    hf_session *session;
    if (hfi_session_peek(name, &session, NULL))
        return 0;
    const hfi_superblock *super = session->super;
    if (memcmp(super->claim, at->claim->bytes, sizeof super->claim) == 0 &&
        hfi_owner_alive(super) == 0 && super->created_unix_ns >= at->created_unix_ns) {
        memcpy(at->name, session->name, sizeof at->name);
        at->created_unix_ns = super->created_unix_ns;
    }
    hfi_session_unpeek(session);
    return 0;
}

/* Under the lock: no other process has taken it up, and it is still the one that was
 * found. */
static hf_status
become_owner(hf_session *session, const hf_claim *claim, hf_error *reterr) {
    hfi_superblock *super = session->super;
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    if (atomic_load(&super->gone) || hfi_owner_alive(super) != 0 ||
        memcmp(super->claim, claim->bytes, sizeof super->claim) != 0) {
        status = hf_error_set(reterr, HF_NOT_FOUND, "another process took it up first");
    } else {
        hfi_owner_become(session);
    }
    hfi_unlock(session);
    return status;
}

hf_status
hf_session_take_up(const hf_claim *claim, hf_session **ret_session, hf_error *reterr) {
    HFI_NEED(reterr, claim, ret_session);
    char prefix[40];
    search found = {claim, "", 0};
    snprintf(prefix, sizeof prefix, "holdfast-%lu-", (unsigned long)getuid());
    int err = hfi_object_each(prefix, look_at_session, &found);
    if (err)
        return hf_error_set_errno(reterr, err, "can't list shared memory");
    if (!found.name[0])
        return hf_error_set(reterr, HF_NOT_FOUND, "no session was left");
    hf_session *session;
    hf_status status = hf_session_open(found.name, &session, reterr);
    if (status)
        return status;
    if ((status = become_owner(session, claim, reterr))) {
        hf_session_close(session);
        return status;
    }
    hf_status ignored = hf_session_reap(session, 0, NULL, NULL);
    (void)ignored; /* another process clears them if it needs room */
    *ret_session = session;
    return HF_OK;
}

/* ---- freeing ---- */

int
hf_session_is_orphan(const char *name) {
    if (!name)
        return 0;
    hf_session *session;
    if (hfi_session_peek(name, &session, NULL))
        return 0;
    int answer =
        hfi_orphan_is_kept(session->super) && hfi_owner_alive(session->super) == 0;
    hfi_session_unpeek(session);
    return answer;
}

/* Under the lock. */
static hf_status
free_orphan(hf_session *session, hf_error *reterr) {
    if (!hfi_orphan_is_kept(session->super) || hfi_owner_alive(session->super) != 0)
        return HF_NOT_FOUND;
    for (uint32_t i = 0; i < HFI_SLOT_COUNT; i++)
        if (i != session->slot && hfi_slot_keeps(session, i))
            return hf_error_set(reterr, HF_BUSY, "another process has it open");
    return hf_session_destroy(session, reterr);
}

hf_status
hf_session_free_orphan(const char *name, hf_error *reterr) {
    HFI_NEED(reterr, name);
    hf_session *session;
    hf_status status = hf_session_open(name, &session, reterr);
    if (status)
        return status;
    if (!(status = hfi_lock(session, reterr))) {
        status = free_orphan(session, reterr);
        hfi_unlock(session);
    }
    hf_session_close(session);
    return status;
}
