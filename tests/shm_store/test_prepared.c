/* test_prepared.c - what becomes of a prepared commit: published by anybody, once; or
 * dropped, with its memory, when its preparer goes on, leaves or dies.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/handle.h"
#include "platform/object.h"
#include "store_fixture.h"

static hf_prepared
prepare(hf_session *session, const char *key, hf_region *region) {
    hf_commit *commit;
    hf_prepared token;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, key, "1", 1, region, NULL));
    OK(hf_commit_prepare_consume(commit, &token, NULL));
    return token;
}

static int
has(hf_session *session, const char *key) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    hf_status status = hf_snapshot_find(snapshot, key, strlen(key), &entry, NULL);
    CHECK(status == HF_OK || status == HF_NOT_FOUND);
    hf_snapshot_release(snapshot);
    return status == HF_OK;
}

static void
test_once(hf_session *session, hf_session *other) {
    uint64_t generation, before = hf_session_generation(session);
    hf_prepared token = prepare(session, "once", NULL);
    CHECK(!has(session, "once") && !has(other, "once"));
    OK(hf_session_publish(other, &token, &generation, NULL));
    CHECK(generation == before + 1 && hf_session_generation(session) == generation);
    CHECK(has(session, "once") && has(other, "once"));
    CHECK(hf_session_publish(other, &token, NULL, NULL) == HF_CONFLICT);
}

static void
test_lies(hf_session *session, hf_session *other) {
    hf_prepared token = prepare(session, "lie", NULL), lie = token;
    lie.checksum ^= 1;
    CHECK(hf_session_publish(other, &lie, NULL, NULL) == HF_E_CORRUPT);
    lie = token;
    lie.slot ^= 1;
    CHECK(hf_session_publish(other, &lie, NULL, NULL) == HF_E_CORRUPT);
    lie.slot = 100000;
    CHECK(hf_session_publish(other, &lie, NULL, NULL) == HF_E_CORRUPT);
    uint64_t wrong[] = {0, 1, token.commit_extent + session->page, UINT64_MAX - 4095};
    for (int i = 0; i < 4; i++) {
        lie = token;
        lie.commit_extent = wrong[i];
        CHECK(hf_session_publish(other, &lie, NULL, NULL) == HF_E_CORRUPT);
    }
    /* A damaged manifest, in every byte. */
    for (size_t i = 0; i < sizeof(hfi_manifest); i++) {
        char byte = (char)session->window[token.commit_extent + i];
        char changed = (char)(byte ^ 1);
        CHECK(hfi_object_write(session->fd, &changed, 1, token.commit_extent + i) == 0);
        CHECK(hf_session_publish(other, &token, NULL, NULL) == HF_E_CORRUPT);
        CHECK(hfi_object_write(session->fd, &byte, 1, token.commit_extent + i) == 0);
    }
    CHECK(!has(session, "lie"));
    OK(hf_session_publish(other, &token, NULL, NULL));
    CHECK(has(session, "lie"));
}

static void
test_dropped(hf_session *session, hf_session *other) {
    hf_region *region;
    OK(hf_region_reserve(session, 1 << 20, 0, &region, NULL, NULL));
    hf_prepared token = prepare(session, "dropped", region);
    CHECK(!hf_region_is_own(region)); /* whoever publishes it makes it immutable */
    hf_prepared next = prepare(session, "next", NULL); /* drops the one before */
    CHECK(hf_region_is_own(region));                   /* and gives the region back */
    CHECK(hf_session_publish(other, &token, NULL, NULL) == HF_E_CORRUPT);
    OK(hf_session_publish(other, &next, NULL, NULL));
    CHECK(has(session, "next") && !has(session, "dropped"));
    token = prepare(session, "late", region);
    commit_value(other, "between", "1", 1, NULL);
    CHECK(hf_session_publish(other, &token, NULL, NULL) == HF_CONFLICT);
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    CHECK(hf_region_is_own(region));
    hf_commit *second;
    CHECK(hf_commit_begin(session, &second, NULL) == HF_BUSY);
    hf_commit_abort(commit);
    hf_commit_abort(NULL);
    hf_region_release(region);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).reserved_bytes == 0);
}

/* Published after its preparer left: it is dropped, and so it is if it died. */
static void
test_left(hf_session *session) {
    hf_session *mine;
    OK(hf_session_open_fd(hf_session_fd(session), &mine, NULL));
    hf_prepared token = prepare(mine, "left", NULL);
    hf_session_close(mine);
    CHECK(hf_session_publish(session, &token, NULL, NULL) == HF_E_CORRUPT);

    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        OK(hf_session_open_fd(hf_session_fd(session), &mine, NULL));
        token = prepare(mine, "died", NULL);
        CHECK(write(ends[1], &token, sizeof token) == sizeof token);
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(read(ends[0], &token, sizeof token) == sizeof token);
    uint32_t reaped;
    OK(hf_session_reap(session, 1, &reaped, NULL));
    CHECK(reaped == 1);
    CHECK(hf_session_publish(session, &token, NULL, NULL) == HF_E_CORRUPT);
    CHECK(!has(session, "left") && !has(session, "died"));
    CHECK(info_of(session).reserved_bytes == 0);
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD), *other;
    OK(hf_session_open_fd(hf_session_fd(session), &other, NULL));
    test_once(session, other);
    test_lies(session, other);
    test_dropped(session, other);
    test_left(session);
    OK(hf_session_verify(session, NULL));
    hf_session_close(other);
    end_session(session);
    return 0;
}
