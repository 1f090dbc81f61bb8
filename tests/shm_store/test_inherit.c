/* test_inherit.c - a forked child has memory of its own, and takes nothing from its
 * parent: no block, no pin, no slot. An heir has a slot, and keeps what it saw.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/region.h"
#include "engine/extent.h"
#include "store_fixture.h"

#define SIZE 100000

/* Run `child` in a child; it ends with 0 where every CHECK held. */
static void
in_child(void (*child)(hf_session *, hf_region *), hf_session *session,
         hf_region *region) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child(session, region);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
write_and_leave(hf_session *session, hf_region *region) {
    char *bytes = hf_region_address(region);
    CHECK(session->inherited && bytes[7] == 'p');
    memset(bytes, 'c', SIZE);
    CHECK(bytes[SIZE - 1] == 'c');
}

static void
ask_for_everything(hf_session *session, hf_region *region) {
    hf_region *other;
    hf_snapshot *snapshot;
    hf_commit *commit;
    CHECK(hf_region_reserve(session, SIZE, 0, &other, NULL, NULL) == HF_E_GONE);
    CHECK(hf_snapshot_acquire(session, &snapshot, NULL) == HF_E_GONE);
    CHECK(hf_commit_begin(session, &commit, NULL) == HF_E_GONE);
    CHECK(hf_region_unshare(region, NULL) == HF_E_GONE);
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(hf_session_reap(session, 1, NULL, NULL) == HF_E_GONE);
}

static void
drop_everything(hf_session *session, hf_region *region) {
    hf_region_release(region);
    hf_session_close(session);
}

static void
test_own(hf_session *session) {
    hf_region *own, *spare;
    OK(hf_region_reserve(session, SIZE, 0, &own, NULL, NULL));
    OK(hf_region_reserve(session, SIZE, 0, &spare, NULL, NULL));
    hf_region_release(spare); /* in the cache, for both to take */
    char *bytes = hf_region_address(own);
    memset(bytes, 'p', SIZE);
    hf_session_info before = info_of(session);
    in_child(write_and_leave, session, own);
    for (size_t i = 0; i < SIZE; i++)
        CHECK(bytes[i] == 'p');
    in_child(ask_for_everything, session, own);
    in_child(drop_everything, session, own);
    hf_session_info after = info_of(session);
    CHECK(after.reserved_bytes == before.reserved_bytes && after.process_count == 1);
    CHECK(!session->inherited && !hf_region_is_own(own));
    CHECK(!hf_region_is_committed(own));
    OK(hf_region_reserve(session, SIZE, 0, &spare, NULL, NULL));
    hf_region_release(spare);
    hf_region_release(own);
    CHECK(info_of(session).reserved_bytes < before.reserved_bytes);
}

/* A fork is a snapshot: it doesn't see what its parent writes later. */
static void
test_snapshot(hf_session *session) {
    hf_region *own;
    int line[2], status;
    char byte;
    OK(hf_region_reserve(session, SIZE, 0, &own, NULL, NULL));
    char *bytes = hf_region_address(own);
    memset(bytes, 'p', SIZE);
    CHECK(pipe(line) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(read(line[0], &byte, 1) == 1); /* the parent has written */
        for (size_t i = 0; i < SIZE; i++)
            CHECK(bytes[i] == 'p');
        _exit(0);
    }
    memset(bytes, 'q', SIZE / 2);
    CHECK(write(line[1], "x", 1) == 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close(line[0]);
    close(line[1]);
    /* What the fork made private is committed as it is now: pages of both kinds. */
    bytes[SIZE - 1] = 'z';
    commit_value(session, "forked", NULL, 0, own);
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(hf_region_is_committed(own));
    hf_region_release(own);
    hf_region *seen = map_value(session, "forked");
    bytes = hf_region_address(seen);
    CHECK(bytes[0] == 'q' && bytes[SIZE / 2 - 1] == 'q' && bytes[SIZE / 2] == 'p' &&
          bytes[SIZE - 1] == 'z');
    hf_region_release(seen);
    remove_value(session, "forked");
}

/* What a child unmaps stays pinned here. */
static void
test_committed(hf_session *session) {
    hf_region *own, *seen;
    OK(hf_region_reserve(session, SIZE, 0, &own, NULL, NULL));
    memset(hf_region_address(own), 'p', SIZE);
    commit_value(session, "x", NULL, 0, own);
    OK(hf_session_privatize(session, 1, NULL));
    hf_region_release(own);
    seen = map_value(session, "x");
    uint32_t extent = seen->pieces[0].extent;
    in_child(write_and_leave, session, seen);
    in_child(drop_everything, session, seen);
    CHECK(hfi_extent_is_pinned(&session->extents[extent]));
    remove_value(session, "x");
    CHECK(hfi_extent_state(&session->extents[extent]) == HFI_RETIRED);
    char *bytes = hf_region_address(seen);
    CHECK(bytes[0] == 'p' && bytes[SIZE - 1] == 'p');
    hf_region_release(seen);
}

static void
attach_anew(hf_session *session, hf_region *region) {
    hf_session *mine;
    (void)region;
    OK(hf_session_open_fd(hf_session_fd(session), &mine, NULL));
    commit_value(mine, "from the child", "v", 1, NULL);
    hf_session_close(mine);
}

static void
test_a_child_may_attach(hf_session *session) {
    in_child(attach_anew, session, NULL);
    hf_session_info info = info_of(session);
    CHECK(info.entry_count == 1 && info.process_count == 1);
    remove_value(session, "from the child");
}

/* ---- heirs ---- */

static void
check_bytes(const hf_region *region, char expected) {
    const char *bytes = hf_region_address(region);
    for (size_t i = 0; i < SIZE; i++)
        CHECK(bytes[i] == expected);
}

/* When the parent dies. */
typedef enum death {
    AFTER_NAMING,  /* its heir */
    BEFORE_NAMING, /* it: the heir has named itself */
    BEFORE_ALL,    /* and its slot was cleared before the heir did anything */
} death;

typedef struct trial {
    hf_session *session;
    hf_region *kept, *freed, *committed;
    int line[2]; /* to the heir */
    int back[2]; /* from it */
    death death;
} trial;

/* In a process that attaches by itself: three regions, and a fork that is its heir. */
static pid_t
fork_heir(trial *at, int fd, int (*live)(trial *)) {
    OK(hf_session_open_fd(fd, &at->session, NULL));
    OK(hf_region_reserve(at->session, SIZE, 0, &at->committed, NULL, NULL));
    memset(hf_region_address(at->committed), 'c', SIZE);
    commit_value(at->session, "committed", NULL, 0, at->committed);
    OK(hf_session_privatize(at->session, 1, NULL));
    OK(hf_region_reserve(at->session, SIZE, 0, &at->kept, NULL, NULL));
    OK(hf_region_reserve(at->session, SIZE, 0, &at->freed, NULL, NULL));
    memset(hf_region_address(at->kept), 'k', SIZE);
    memset(hf_region_address(at->freed), 'f', SIZE);
    CHECK(pipe(at->line) == 0 && pipe(at->back) == 0);
    OK(hf_session_fork_begin(at->session, NULL));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(live(at));
    char byte;
    if (at->death != BEFORE_ALL)
        CHECK(read(at->back[0], &byte, 1) == 1);
    if (at->death == AFTER_NAMING)
        hf_session_fork_parent(at->session, pid);
    return pid;
}

/* The parent goes on: it writes, frees, and makes new data in what it has freed. */
static void
go_on(trial *at) {
    hf_region *fresh[8];
    memset(hf_region_address(at->kept), 'K', SIZE);
    memset(hf_region_address(at->committed), 'C', SIZE);
    hf_region_release(at->freed);
    hf_region_release(at->committed);
    remove_value(at->session, "committed");
    for (int i = 0; i < 8; i++) {
        OK(hf_region_reserve(at->session, SIZE, 0, &fresh[i], NULL, NULL));
        memset(hf_region_address(fresh[i]), '!', SIZE);
    }
}

static int
succeed(trial *at) {
    char byte = 'r';
    if (at->death == BEFORE_ALL) {
        CHECK(read(at->line[0], &byte, 1) == 1);
        CHECK(hf_session_fork_child(at->session, NULL) == HF_E_GONE);
        return 1;
    }
    OK(hf_session_fork_child(at->session, NULL));
    CHECK(write(at->back[1], &byte, 1) == 1);
    int has_word = read(at->line[0], &byte, 1) == 1;
    check_bytes(at->kept, 'k');
    check_bytes(at->freed, 'f');
    check_bytes(at->committed, 'c');
    if (!has_word)
        return 1;
    OK(hf_session_fork_succeed(at->session, NULL));
    hf_session_info info = info_of(at->session);
    CHECK(info.process_count == 2); /* the dead one is gone */
    hf_region *more;
    OK(hf_region_reserve(at->session, SIZE, 0, &more, NULL, NULL));
    memset(hf_region_address(more), 'm', SIZE);
    check_bytes(at->freed, 'f');
    ((char *)hf_region_address(at->kept))[0] = '0';
    commit_value(at->session, "kept", NULL, 0, at->kept);
    commit_value(at->session, "freed", NULL, 0, at->freed);
    hf_session_close(at->session);
    return 0;
}

/* The heir's parent is killed, and reaped before the heir hears of it. */
static void
test_an_heir_succeeds(hf_session *session, death when) {
    int line[2], status;
    CHECK(pipe(line) == 0);
    pid_t parent = fork(), heir;
    CHECK(parent >= 0);
    if (parent == 0) {
        trial at = {.death = when};
        heir = fork_heir(&at, hf_session_fd(session), succeed);
        go_on(&at);
        CHECK(write(line[1], &heir, sizeof heir) == sizeof heir);
        CHECK(write(line[1], &at.line[1], sizeof(int)) == sizeof(int));
        pause();
        _exit(1);
    }
    CHECK(read(line[0], &heir, sizeof heir) == sizeof heir);
    int end;
    CHECK(read(line[0], &end, sizeof end) == sizeof end);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)parent, end);
    FILE *wake = fopen(path, "w");
    CHECK(wake != NULL);
    kill(parent, SIGKILL);
    CHECK(waitpid(parent, &status, 0) == parent);
    uint32_t reaped = 0;
    OK(hf_session_reap(session, 1, &reaped, NULL));
    CHECK(reaped == (when == BEFORE_ALL ? 2 : 1));
    CHECK(fputc('x', wake) == 'x' && fclose(wake) == 0);
    hf_session_info info = info_of(session);
    if (when == BEFORE_ALL) {
        CHECK(info.process_count == 1 && info.reserved_bytes == 0);
        close(line[0]);
        close(line[1]);
        return;
    }
    while ((info = info_of(session)).process_count > 1)
        OK(hf_session_reap(session, 1, NULL, NULL)); /* until the heir has left */
    CHECK(info.reserved_bytes == 0);
    hf_region *seen = map_value(session, "kept");
    CHECK(((char *)hf_region_address(seen))[0] == '0' &&
          ((char *)hf_region_address(seen))[1] == 'k');
    hf_region_release(seen);
    seen = map_value(session, "freed");
    check_bytes(seen, 'f');
    hf_region_release(seen);
    remove_value(session, "kept");
    remove_value(session, "freed");
    close(line[0]);
    close(line[1]);
}

/* As a rule the heir isn't needed: it ends, and the parent has lost nothing. */
static void
test_an_heir_is_dropped(hf_session *session) {
    pid_t parent = fork();
    int status;
    CHECK(parent >= 0);
    if (parent == 0) {
        trial at = {.death = AFTER_NAMING};
        pid_t heir = fork_heir(&at, hf_session_fd(session), succeed);
        go_on(&at);
        hf_session_info with = info_of(at.session);
        close(at.line[0]);
        close(at.line[1]);
        CHECK(kill(heir, SIGKILL) == 0 && waitpid(heir, &status, 0) == heir);
        uint32_t reaped = 0;
        OK(hf_session_reap(at.session, 1, &reaped, NULL));
        CHECK(reaped == 1);
        hf_session_info without = info_of(at.session);
        CHECK(without.reserved_bytes < with.reserved_bytes); /* what it alone held */
        CHECK(without.retired_bytes == 0);
        commit_value(at.session, "kept", NULL, 0, at.kept);
        OK(hf_session_privatize(at.session, 1, NULL));
        check_bytes(at.kept, 'K');
        remove_value(at.session, "kept");
        _exit(0);
    }
    CHECK(waitpid(parent, &status, 0) == parent && status == 0);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).reserved_bytes == 0);
}

/* A commit that is under way is its process's alone. */
static void
test_no_heir_during_a_commit(hf_session *session) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    CHECK(hf_session_fork_begin(session, NULL) == HF_BUSY);
    hf_commit_abort(commit);
    OK(hf_session_fork_begin(session, NULL));
    CHECK(info_of(session).process_count == 2);
    hf_session_fork_parent(session, -1); /* fork() failed */
    CHECK(info_of(session).process_count == 1);
}

int
main(void) {
    hf_session *session = new_session(64 << 20, 0);
    hf_session *other = new_session(1 << 20, 0);
    test_own(session);
    test_snapshot(session);
    for (death when = AFTER_NAMING; when <= BEFORE_ALL; when++)
        test_an_heir_succeeds(session, when);
    test_an_heir_is_dropped(session);
    test_no_heir_during_a_commit(session);
    test_committed(session);
    test_a_child_may_attach(session);
    end_session(other);
    end_session(session);
    return 0;
}
