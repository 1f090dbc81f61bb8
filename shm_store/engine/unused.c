/* unused.c - blocks that a process keeps for its next allocation, and that it doesn't
 * use.
 *
 * A freed block stays in the cache of its process (block.c), with its memory, since
 * programs ask for the same sizes again and again. If no request comes within a second,
 * the memory is wasted. The process itself may be in the middle of a computation then,
 * or wait for input. So any other process of the session may give the memory back. The
 * frontend of a notebook does (kernel/session/rest.c).
 *
 * One word of the extent decides who has the block. Its process writes the time of the
 * free into it, and takes the block again by an exchange for HFI_IDLE_NOT. A process
 * that gives the memory back first exchanges the time for HFI_IDLE_EMPTIED. Only one of
 * the two exchanges succeeds. From then on the owner doesn't touch the memory. The
 * extent stays its own, RESERVED and mapped, until it finds the block in its cache and
 * frees it. Punching the object also takes the pages from that process's page tables.
 *
 * Free extents keep their pages for the next array, too. If nobody has taken any for as
 * long, the session gives back those above a bound (reservation.c).
 *
 * The work is done in steps, since the process that does it may have requests to
 * answer. Between two steps the writer lock is free, and `emptied_mib` says how far it
 * has come. The next caller goes on there. The extent is a HOLE from the first step on.
 *
 * Rejected: a thread of the process that freed the block. The process forks meanwhile,
 * and the thread would show in traces, debuggers and counts of threads.
 */
#include <time.h>

#include "base/argument.h"
#include "base/step.h"
#include "engine/extent.h"
#include "engine/reservation.h"
#include "engine/slot.h"
#include "platform/object.h"

#define MIB (1ull << 20)

static uint32_t
idle_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

uint32_t (*hfi_idle_now)(void) = idle_clock_ms;

void
hfi_extent_let_idle(hfi_extent *extent) {
    uint32_t now = hfi_idle_now();
    atomic_store(&extent->idle, now > HFI_IDLE_EMPTIED ? now : HFI_IDLE_EMPTIED + 1);
}

int
hfi_extent_claim(hfi_extent *extent) {
    uint32_t since = atomic_load(&extent->idle);
    return since != HFI_IDLE_EMPTIED &&
           atomic_compare_exchange_strong(&extent->idle, &since, HFI_IDLE_NOT);
}

uint64_t
hfi_extent_emptied(const hfi_extent *extent) {
    uint64_t bytes = extent->emptied_mib * MIB;
    return bytes < extent->size ? bytes : extent->size;
}

static int
is_empty(const hfi_extent *extent) {
    return hfi_extent_emptied(extent) == extent->size;
}

/* Whether there is something to give back. Without the lock it is a guess. */
static int
extent_is_due(hfi_extent *extent, uint32_t now, uint32_t unused_ms, int *ret_waits) {
    uint32_t since = atomic_load(&extent->idle);
    if (since == HFI_IDLE_NOT || hfi_extent_state(extent) != HFI_RESERVED)
        return 0;
    if (since == HFI_IDLE_EMPTIED)
        return !is_empty(extent);
    int is_old = (int32_t)(now - since) >= (int32_t)unused_ms;
    *ret_waits |= !is_old;
    return is_old;
}

/* Take the block from its process, unless the process uses it again. Lock held. */
static int
seize_block(hfi_extent *extent, uint32_t now, uint32_t unused_ms) {
    int waits = 0;
    uint32_t since = atomic_load(&extent->idle);
    if (!extent_is_due(extent, now, unused_ms, &waits) ||
        (since != HFI_IDLE_EMPTIED &&
         !atomic_compare_exchange_strong(&extent->idle, &since, HFI_IDLE_EMPTIED)))
        return 0;
    extent->flags |= HFI_EXTENT_HOLE;
    hfi_step("unused:seized");
    return 1;
}

/* Give back up to so many bytes of it, in whole MiB. Returns how many. Lock held. */
static uint64_t
empty_extent(hf_session *session, hfi_extent *extent, uint64_t budget) {
    uint64_t done = hfi_extent_emptied(extent), left = extent->size - done;
    uint64_t part = hfi_round_up(budget < left ? budget : left, MIB);
    if (part > left)
        part = left;
    if (hfi_object_punch(hfi_session_fd(session), extent->offset + done, part) != 0)
        part = left; /* the file system can't punch: the memory stays */
    extent->emptied_mib = (uint32_t)((done + part + MIB - 1) / MIB);
    return part;
}

hf_status
hf_session_give_back(hf_session *session, uint32_t unused_ms, uint64_t budget_bytes,
                     uint64_t *ret_bytes, int *ret_waits, hf_error *reterr) {
    HFI_NEED(reterr, session);
    hf_status status = hfi_session_check(session, reterr);
    if (!status)
        status = hfi_session_check_writable(session, reterr);
    if (status)
        return status;
    uint32_t now = hfi_idle_now(), count = hfi_extent_count(session);
    uint64_t bytes = 0;
    int waits = 0, is_locked = 0;
    for (uint32_t i = 0; i < count; i++) {
        hfi_extent *extent = &session->extents[i];
        if (!extent_is_due(extent, now, unused_ms, &waits))
            continue;
        if (bytes >= budget_bytes) {
            waits = 1;
            break;
        }
        if (!is_locked && (status = hfi_lock(session, reterr)))
            return status;
        is_locked = 1;
        if (seize_block(extent, now, unused_ms)) {
            bytes += empty_extent(session, extent, budget_bytes - bytes);
            waits |= !is_empty(extent);
        }
    }
    int is_over = hfi_extent_excess(session, 0) > 0;
    int is_old = (int32_t)(now - session->super->taken_ms) >= (int32_t)unused_ms;
    if (is_over && is_old && bytes < budget_bytes) {
        if (!is_locked && (status = hfi_lock(session, reterr)))
            return status;
        is_locked = 1;
        uint64_t given = hfi_extent_bound(session, budget_bytes - bytes);
        bytes += given;
        /* If nothing could be given, the next call couldn't either. */
        is_over = given > 0 && hfi_extent_excess(session, 0) > 0;
    }
    if (is_locked)
        hfi_unlock(session);
    waits |= is_over;
    if (ret_bytes)
        *ret_bytes = bytes;
    if (ret_waits)
        *ret_waits = waits;
    return HF_OK;
}
