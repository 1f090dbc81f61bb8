/* wait.c - sleeping until the session has another generation.
 *
 *   publisher, with the writer lock        reader
 *     changes += 2, wake all                 read changes
 *     generation = g + 1                     the generation is another one? done
 *     unlock                                 the lock is held by a living process? look again
 *                                            sleep while changes is what was read
 *
 * The order makes a kill harmless. If the publisher dies before it stores the
 * generation, readers were woken for nothing: the holder of the lock is dead, and they
 * sleep again. If it dies afterwards, they were woken before, and find the generation.
 * A reader that was woken waits out the rest of the critical section, which takes
 * microseconds. While it looks again, it isn't asleep, so it needs no other wake-up.
 *
 * The lowest bit of the word says that the session is being removed, because that needs
 * no lock.
 *
 * A reader uses the read-only mapping alone. It leaves nothing in the session, and the
 * publisher doesn't know whether there are readers: it makes one system call a commit.
 *
 * Rejected: a count of readers, to spare that call. A reader that is killed leaves the
 * count wrong, and a reader would have to write. Rejected as well: sleeping on the
 * generation itself, since a removed session has the same one.
 */
#include "engine/wait.h"

#include <errno.h>
#include <time.h>

#include "base/argument.h"
#include "engine/slot.h"
#include "platform/futex.h"
#include "tuning/tuning.h"

#define NAP_MIN_NS 20000
#define NAP_MAX_NS 1000000
#define GOING      1u /* in `changes`: the session is being removed */
#define CHANGE     2u
#define FOREVER    (-1)

void
hfi_wait_announce(hf_session *session) {
    atomic_fetch_add(&session->super->changes, CHANGE);
    hfi_futex_wake(&session->super->changes);
}

void
hfi_wait_announce_end(hf_session *session) {
    atomic_fetch_or(&session->super->changes, GOING);
    hfi_futex_wake(&session->super->changes);
}

void
hfi_session_wake(hf_session *session) {
    hfi_futex_wake(&session->super->changes);
}

static int64_t
now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether a living process may be about to store a generation. */
static int
is_being_changed(hf_session *session, const hfi_superblock *super) {
    uint64_t holder = atomic_load(&super->lock);
    return holder && hfi_lock_holder_is_dead(session, holder) <= 0;
}

hf_status
hfi_session_wait_once(hf_session *session, uint64_t generation, int64_t deadline_ns,
                      hf_error *reterr) {
    const hfi_superblock *super = (const hfi_superblock *)(const void *)session->window;
    struct timespec nap = {0, NAP_MIN_NS};
    for (;;) {
        uint32_t changes = atomic_load(&super->changes);
        int changing = is_being_changed(session, super);
        hf_status status = hfi_session_check(session, reterr);
        if (status)
            return status;
        if (changes & GOING)
            return hf_error_set(reterr, HF_E_GONE, "the session was destroyed");
        if (atomic_load(&super->generation) != generation)
            return HF_OK;
        if (deadline_ns != FOREVER && now_ns() >= deadline_ns)
            return HF_BUSY;
        if (changing) {
            nanosleep(&nap, NULL);
            if (nap.tv_nsec < NAP_MAX_NS)
                nap.tv_nsec *= 2;
            continue;
        }
        int err = hfi_futex_wait(&super->changes, changes, deadline_ns);
        if (!err && atomic_load(&super->changes) == changes)
            return HF_AGAIN;
        if (err == EINTR)
            return HF_BUSY;
        if (err && err != ETIMEDOUT)
            return hf_error_set_errno(reterr, err, "can't wait for a change");
    }
}

int64_t
hfi_session_wait_deadline(int64_t timeout_ms) {
    int64_t now = now_ns();
    if (timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000)
        return FOREVER;
    return now + timeout_ms * 1000000;
}

hf_status
hf_session_wait(hf_session *session, uint64_t generation, int64_t timeout_ms,
                hf_error *reterr) {
    HFI_NEED(reterr, session);
    int64_t deadline_ns = hfi_session_wait_deadline(timeout_ms);
    hf_status status;
    do
        status = hfi_session_wait_once(session, generation, deadline_ns, reterr);
    while (status == HF_AGAIN);
    return status;
}
