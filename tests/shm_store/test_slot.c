/* test_slot.c - attached processes: slots run out with an answer, dead ones are taken
 * over with their locks, and leases are seen.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/slot.h"
#include "platform/lock.h"
#include "store_fixture.h"

/* Mapped by each slot of this process, where sanitizers leave little room. */
#define ARENA ((uint64_t)64 << 20)

static void
test_all_taken(void) {
    hf_session *session = new_session(ARENA, HF_SESSION_MEMFD), *more[HFI_SLOT_COUNT];
    hf_error error = HF_ERROR_INIT;
    unsigned n = 0;
    hf_status status;
    while ((status = hf_session_open_fd(hf_session_fd(session), &more[n], &error)) ==
           HF_OK)
        CHECK(++n < HFI_SLOT_COUNT);
    CHECK(status == HF_E_LIMIT && error.message[0]);
    CHECK(n == HFI_SLOT_COUNT - 1);
    CHECK(info_of(session).process_count == HFI_SLOT_COUNT);
    hf_session_close(more[--n]);
    OK(hf_session_open_fd(hf_session_fd(session), &more[n], NULL));
    for (n++; n > 0; n--)
        hf_session_close(more[n - 1]);

    /* All but ours held by a process that died: the next one clears them. */
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (unsigned i = 1; i < HFI_SLOT_COUNT; i++)
            OK(hf_session_open_fd(hf_session_fd(session), &more[i], NULL));
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    hf_session *next;
    OK(hf_session_open_fd(hf_session_fd(session), &next, NULL));
    CHECK(info_of(session).process_count == 2);
    hf_session_close(next);
    end_session(session);
}

/* A process dies with the writer lock, a region and a lease. */
static void
test_dead_holder(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    commit_value(session, "x", "1", 1, NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *mine;
        hf_region *region;
        hf_snapshot *snapshot;
        OK(hf_session_open_fd(hf_session_fd(session), &mine, NULL));
        OK(hf_region_reserve(mine, 1 << 20, 0, &region, NULL, NULL));
        OK(hf_snapshot_acquire(mine, &snapshot, NULL));
        OK(hfi_lock(mine, NULL));
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(atomic_load(&session->super->lock) != 0);
    commit_value(session, "x", "2", 1, NULL); /* takes the lock over, and recovers */
    CHECK(atomic_load(&session->super->dirty) == 0);
    OK(hf_session_reap(session, 0, NULL, NULL)); /* the commit leased its base itself */
    hf_session_info info = info_of(session);
    CHECK(info.process_count == 1 && info.reserved_bytes == 0);
    CHECK(info.retired_bytes == 0); /* the lease went, too */
    end_session(session);
}

/* One that has no slot dies with the lock, and its pid is another process's by now. */
static void
test_reused_pid(void) {
    hf_session *session = new_session(ARENA, HF_SESSION_MEMFD);
    hfi_process parent = hfi_process_of((uint64_t)getppid());
    static const uint32_t slots[] = {0xfffe, 200}; /* none, and one that is cleared */
    for (int i = 0; i < 2; i++) {
        hfi_process before = parent;
        before.start_time -= 7;
        atomic_store(&session->super->lock, hfi_lock_word(slots[i], &before));
        alarm(60);
        commit_value(session, "x", "1", 1, NULL); /* takes the lock over */
        alarm(0);
    }
    CHECK(hfi_lock_word(0xfffe, &parent) >> 32 == (uint64_t)getppid());
    for (int i = 0; i < 2; i++) {
        hfi_process unread = parent; /* /proc couldn't be read when it took the lock */
        unread.start_time = 0;
        CHECK(!hfi_lock_holder_is_dead(session, hfi_lock_word(slots[i], &parent)));
        CHECK(!hfi_lock_holder_is_dead(session, hfi_lock_word(slots[i], &unread)));
        uint64_t damaged = hfi_lock_word(slots[i], &unread) & ~(uint64_t)0xffff;
        CHECK(hfi_lock_holder_is_dead(session, damaged));
        unread.owner = 0;
        CHECK(hfi_lock_holder_is_dead(session, hfi_lock_word(slots[i], &unread)));
    }
    end_session(session);
}

static int
leases(const hf_session *session, uint64_t birth, uint64_t death) {
    hfi_extent extent = {.birth = birth, .death = death};
    hfi_leases list;
    hfi_leases_read(session, 0, &list);
    CHECK(list.is_whole);
    return hfi_leases_keep(&list, &extent);
}

static void
test_leases(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_snapshot *snapshot;
    uint64_t g = commit_value(session, "x", "1", 1, NULL);
    CHECK(!leases(session, 0, g + 10));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    CHECK(leases(session, g, g + 1));
    CHECK(!leases(session, g + 1, g + 2)); /* born later */
    CHECK(!leases(session, g - 1, g));     /* died before */
    hf_snapshot_release(snapshot);
    CHECK(!leases(session, 0, g + 10));
    end_session(session);
}

/* A process of another pid namespace took the lock, and may be dead. */
static void
test_invisible_holder(void) {
    hf_session *session = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_session_info info = {.struct_size = sizeof info};
    CHECK(hf_session_create(NULL, &session, NULL) == HF_OK);
    hfi_slot *slot = &session->slots[7];
    hfi_process other = hfi_process_of((uint64_t)getppid());
    other.owner += 1ull << 40; /* its namespace */
    slot->boot = other.boot;
    atomic_store(&slot->start_time, other.start_time);
    atomic_store(&slot->owner, other.owner);
    atomic_store(&session->super->lock, hfi_lock_word(7, &other));
    hfi_lock_patience_ms = 30;
    CHECK(hf_session_describe(session, &info, &error) == HF_E_ACCESS);
    CHECK(strstr(error.message, "namespace") != NULL);
    hfi_lock_patience_ms = 30000;
    atomic_store(&session->super->lock, 0);
    atomic_store(&slot->owner, 0);
    CHECK(hf_session_describe(session, &info, NULL) == HF_OK);
    CHECK(hf_session_destroy(session, NULL) == HF_OK);
    hf_session_close(session);
}

int
main(void) {
    test_all_taken();
    test_dead_holder();
    test_reused_pid();
    test_leases();
    test_invisible_holder();
    return 0;
}
