/* test_inherit.c - a forked child has memory of its own, and takes nothing from its
 * parent: no block, no pin, no slot. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/internal.h"
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
    CHECK(hf_region_unseal(region, NULL) == HF_E_GONE);
    OK(hf_session_seal(session, 1, NULL));
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
    CHECK(!session->inherited && hf_region_is_own(own));
    OK(hf_region_reserve(session, SIZE, 0, &spare, NULL, NULL));
    hf_region_release(spare);
    hf_region_release(own);
}

/* What a child unmaps stays pinned here. */
static void
test_committed(hf_session *session) {
    hf_region *own, *seen;
    OK(hf_region_reserve(session, SIZE, 0, &own, NULL, NULL));
    memset(hf_region_address(own), 'p', SIZE);
    commit_value(session, "x", NULL, 0, own);
    OK(hf_session_seal(session, 1, NULL));
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

int
main(void) {
    hf_session *session = new_session(64 << 20, 0);
    hf_session *other = new_session(1 << 20, 0);
    test_own(session);
    test_committed(session);
    test_a_child_may_attach(session);
    end_session(other);
    end_session(session);
    return 0;
}
