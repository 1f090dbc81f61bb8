/* test_store_crash.c - a process is killed at every named step of the store, in turn.
 *
 * A child attaches, reserves, unshares, commits, privatizes, restores what was before
 * and what it made, scrubs, gives a generation away, reaps and trims; at its n-th step
 * it dies by SIGKILL. The parent then reaps and checks: the state is generation g or
 * g+1, whole; every checksum holds; every byte is accounted for; and another commit
 * works. n grows until a child survives to its end, so no step is missed. A second pass
 * kills the recovery itself; a third one a process that takes a session up.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/step.h"
#include "engine/reservation.h"
#include "../shm_store/own_user.h"
#include "../support/check.h"

#define OK(call) CHECK((call) == HF_OK)
#define NAMES    40

#define MIXED_PAGES 20

static int steps_left, recovery_only;

static void
die_at_step(const char *name) {
    if (recovery_only && strncmp(name, "recovery:", 9) != 0)
        return;
    if (steps_left-- == 0)
        kill(getpid(), SIGKILL);
}

/* A name's buffer as it is committed, mapped; the first time reserved, full of
 * nines. */
static hf_region *
own_or_mapped(hf_session *session, const char *key, int *ret_mapped) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    size_t size = MIXED_PAGES * (size_t)getpagesize();
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    *ret_mapped = hf_snapshot_find(snapshot, key, 5, &entry, NULL) == HF_OK;
    if (*ret_mapped)
        OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
    else {
        OK(hf_region_reserve(session, size, 0, &region, NULL, NULL));
        memset(hf_region_address(region), 9, size);
    }
    hf_snapshot_release(snapshot);
    return region;
}

/* The buffer of which each commit changes one page, in place: so that privatizing maps
 * what the commit wrote. */
static hf_region *
mixed_region(hf_session *session, int version) {
    int is_mapped;
    size_t page = (size_t)getpagesize();
    hf_region *region = own_or_mapped(session, "mixed", &is_mapped);
    memset((char *)hf_region_address(region) + 3 * page, version, page);
    return region;
}

/* The buffer that each commit writes all over, in place, and so unshares before: once
 * into fresh pages, and again into those, which are recycled then. */
static hf_region *
whole_region(hf_session *session, int version) {
    int is_mapped;
    hf_region *region = own_or_mapped(session, "whole", &is_mapped);
    for (int again = 0; again < 2 && is_mapped; again++) {
        OK(hf_region_unshare(region, NULL));
        if (again)
            break;
        hf_region_release(region);
        region = own_or_mapped(session, "whole", &is_mapped);
    }
    memset(hf_region_address(region), version, hf_region_size(region));
    return region;
}

static void
check_mixed(hf_snapshot *snapshot, int version) {
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    size_t page = (size_t)getpagesize();
    OK(hf_snapshot_find(snapshot, "mixed", 5, &entry, NULL));
    OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
    const unsigned char *bytes = hf_region_address(region);
    for (size_t i = 0; i < MIXED_PAGES * page; i++)
        CHECK(bytes[i] == (i / page == 3 ? version : 9));
    hf_region_release(region);
}

/* Set every name to `version`, in one commit, with regions that hold it too. */
static void
commit_version(hf_session *session, int version) {
    hf_commit *commit;
    hf_region *region, *mixed = mixed_region(session, version);
    hf_region *whole = whole_region(session, version);
    char key[16], payload[300];
    OK(hf_region_reserve(session, 300000, 0, &region, NULL, NULL));
    memset(hf_region_address(region), version, 300000);
    memset(payload, version, sizeof payload);
    OK(hf_commit_begin(session, &commit, NULL));
    for (int i = 0; i < NAMES; i++) {
        hf_buffer buffer = {sizeof buffer, payload, sizeof payload, i ? NULL : region};
        hf_value value = {.struct_size = sizeof value,
                          .key = key,
                          .key_size = (size_t)snprintf(key, sizeof key, "name%d", i),
                          .codec = 1,
                          .payload = payload,
                          .payload_size = sizeof payload,
                          .buffers = &buffer,
                          .buffer_count = i % 4 == 0};
        OK(hf_commit_put(commit, &value, NULL));
    }
    hf_buffer changed = {sizeof changed, NULL, 0, mixed};
    hf_value value = {.struct_size = sizeof value,
                      .key = "mixed",
                      .key_size = 5,
                      .buffers = &changed,
                      .buffer_count = 1};
    OK(hf_commit_put(commit, &value, NULL));
    value.key = "whole";
    changed.region = whole;
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_session_privatize(session, 1, NULL));
    hf_region_release(whole);
    hf_region_release(mixed);
    ((char *)hf_region_address(region))[5000] = (char)version;
    hf_region_release(region);
}

static int version_seen;

static int
check_entry(void *context, const hf_entry *entry) {
    const unsigned char *payload = entry->payload;
    (void)context;
    if (version_seen < 0 && payload)
        version_seen = payload[0];
    for (size_t i = 0; i < entry->payload_size; i++)
        CHECK(payload[i] == version_seen);
    return 0;
}

static void
check_buffer(hf_snapshot *snapshot, const char *key) {
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    OK(hf_snapshot_find(snapshot, key, 5, &entry, NULL));
    OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
    const unsigned char *bytes = hf_region_address(region);
    for (size_t i = 0; i < hf_region_size(region); i++)
        CHECK(bytes[i] == version_seen);
    hf_region_release(region);
}

/* One version in all names and in the mapped buffer; gives it. */
static int
check_whole(hf_session *session) {
    hf_snapshot *snapshot;
    OK(hf_session_verify(session, NULL));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    CHECK(hf_snapshot_entry_count(snapshot) == NAMES + 2);
    version_seen = -1;
    OK(hf_snapshot_each(snapshot, check_entry, NULL, NULL));
    check_buffer(snapshot, "name0");
    check_buffer(snapshot, "whole");
    check_mixed(snapshot, version_seen);
    hf_snapshot_release(snapshot);
    return version_seen;
}

static void
check_accounts(hf_session *session) {
    hf_session_info info = {.struct_size = sizeof info};
    const struct timespec moment = {0, 1000000};
    OK(hf_session_reap(session, 1, NULL, NULL));
    OK(hf_session_describe(session, &info, NULL));
    /* Any kernel that starts looks at all sessions, and is attached meanwhile. */
    for (int i = 0; i < 10000 && info.process_count != 1; i++) {
        nanosleep(&moment, NULL);
        OK(hf_session_describe(session, &info, NULL));
    }
    CHECK(info.process_count == 1);
    CHECK(info.reserved_bytes == 0);
    CHECK(info.retired_bytes == 0);
    CHECK(info.free_bytes == 0); /* all trimmed */
    uint64_t control = info.allocated_bytes - info.committed_bytes;
    CHECK(control < 1u << 20);
    CHECK(info.committed_bytes < 3u << 20);
}

static void
restore(hf_session *session, hf_snapshot *snapshot) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_restore(commit, snapshot, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

/* Back to what was before, and forth again; then the oldest generation gives way to
 * what fills the arena. */
static void
walk_history(hf_session *session, hf_snapshot *before) {
    hf_snapshot *after;
    OK(hf_snapshot_acquire(session, &after, NULL));
    restore(session, before);
    restore(session, after);
    hf_snapshot_yield(before);
    CHECK(hfi_extent_give_way(session, 1));
    CHECK(!hfi_extent_give_way(session, 2));
    CHECK(hf_snapshot_hold(before, NULL) == HF_NOT_FOUND);
    hf_snapshot_release(before);
    hf_snapshot_release(after);
}

static void
child(hf_session *parent, int version) {
    hf_session *session;
    hf_snapshot *before;
    hfi_step_hook = die_at_step;
    OK(hf_session_open_fd(hf_session_fd(parent), &session, NULL));
    OK(hf_snapshot_acquire(session, &before, NULL));
    commit_version(session, version);
    walk_history(session, before);
    OK(hf_session_scrub(session, UINT64_MAX, NULL, NULL));
    OK(hf_session_reap(session, 1, NULL, NULL));
    hf_session_close(session);
    _exit(0);
}

/* 1 where the child was killed, 0 where it came to its end. */
static int
run_child(hf_session *session, int step, int version, int only_recovery) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        steps_left = step;
        recovery_only = only_recovery;
        child(session, version);
    }
    int how;
    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL : how == 0);
    return WIFSIGNALED(how);
}

/* As if there were huge pages, for buffers of a few pages: their steps are walked
 * too. */
static void
pretend_huge_pages(hf_session *session) {
    hfi_superblock *super = mmap(NULL, HFI_SLOTS_OFFSET, PROT_READ | PROT_WRITE,
                                 MAP_SHARED, hf_session_fd(session), 0);
    CHECK(super != MAP_FAILED);
    super->huge_page = 4 * (uint64_t)getpagesize();
    munmap(super, HFI_SLOTS_OFFSET);
}

/* ---- a change of owners ---- */

static const hf_claim claim = {{9}};

static void
leave_session(void) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .flags = HF_SESSION_OWNER_PUBLISHES};
    hf_session *session;
    OK(hf_session_create(&options, &session, NULL));
    OK(hf_session_keep(session, &claim, getppid(), NULL));
    commit_version(session, 1);
    kill(getpid(), SIGKILL);
}

static void
take_up(void) {
    hf_session *session;
    hfi_step_hook = die_at_step;
    OK(hf_session_take_up(&claim, &session, NULL));
    commit_version(session, 2);
    _exit(0);
}

static int
run_alone(void (*act)(void)) {
    int how;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        act();
    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL : how == 0);
    return WIFSIGNALED(how);
}

/* Wherever the one that takes a session up dies, the next one has it whole. */
static int
walk_owners(void) {
    int step = 0, killed = 1, seen[3] = {0};
    recovery_only = 0;
    for (; killed; step++) {
        hf_session *session;
        run_alone(leave_session);
        steps_left = step;
        killed = run_alone(take_up);
        OK(hf_session_take_up(&claim, &session, NULL));
        int version = check_whole(session);
        CHECK(version == 1 || version == 2);
        seen[version]++;
        commit_version(session, 3);
        CHECK(check_whole(session) == 3);
        check_accounts(session);
        OK(hf_session_destroy(session, NULL));
        hf_session_close(session);
    }
    CHECK(seen[1] > 5 && seen[2] > 1);
    return step;
}

int
main(void) {
    hf_session *session;
    OK(hf_session_create(NULL, &session, NULL));
    pretend_huge_pages(session);
    commit_version(session, 1);
    int version = 1, step = 0, killed = 1, seen_old = 0, seen_new = 0;
    for (; killed; step++) {
        int next = 1 + (version + 1) % 100;
        killed = run_child(session, step, next, 0);
        if (step % 3 == 0) /* and now and then the one that recovers dies as well */
            for (int again = 0; again < 3; again++)
                run_child(session, again, version, 1);
        int found = check_whole(session);
        if (found == next)
            seen_new++;
        else
            seen_old++;
        version = found;
        check_accounts(session);
        if (step % 5 == 0) {
            commit_version(session, version);
            check_whole(session);
        }
    }
    CHECK(step > 20); /* the steps are there at all */
    CHECK(seen_old > 10 && seen_new > 2);
    OK(hf_session_destroy(session, NULL));
    hf_session_close(session);
    printf("%d steps: %d kept the old state, %d the new one\n", step, seen_old,
           seen_new);
    printf("%d steps of taking up\n", walk_owners());
    return 0;
}
