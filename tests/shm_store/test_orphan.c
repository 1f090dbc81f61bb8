/* test_orphan.c - sessions whose owner is dead: who may have them, and who frees them.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "own_user.h"
#include "store_fixture.h"

static const hf_claim claim = {{1, 2, 3}}, other = {{1, 2, 4}};

/* A child makes a session, keeps it, commits one name and dies. */
static void
leave_one(const hf_claim *kept, pid_t reaper, char ret_name[HF_SESSION_NAME_SIZE]) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *session = new_session(0, 0);
        hf_commit *commit;
        uint64_t generation;
        OK(hf_session_keep(session, kept, reaper, NULL));
        OK(hf_commit_begin(session, &commit, NULL));
        OK(put_value(commit, "name", "value", 6, NULL, NULL));
        OK(hf_commit_publish_consume(commit, &generation, NULL));
        hf_session_note(session, 0, 42);
        hf_session_note(session, HF_NOTE_COUNT, 1); /* there is no such */
        CHECK(write(ends[1], hf_session_name(session), HF_SESSION_NAME_SIZE) > 0);
        raise(SIGKILL);
    }
    CHECK(read(ends[0], ret_name, HF_SESSION_NAME_SIZE) == HF_SESSION_NAME_SIZE);
    CHECK(waitpid(pid, NULL, 0) == pid);
    close(ends[0]);
    close(ends[1]);
}

static int
exists(const char *name) {
    hf_session *session;
    hf_status status = hf_session_open(name, &session, NULL);
    if (status == HF_OK)
        hf_session_close(session);
    return status == HF_OK;
}

static void
test_taken_up(void) {
    char name[HF_SESSION_NAME_SIZE];
    hf_session *session, *second;
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    leave_one(&claim, getpid(), name);
    CHECK(hf_session_is_orphan(name));
    CHECK(hf_session_take_up(&other, &session, NULL) == HF_NOT_FOUND);
    OK(hf_session_take_up(&claim, &session, NULL));
    CHECK(strcmp(hf_session_name(session), name) == 0);
    CHECK(info_of(session).owner_alive == 1 && info_of(session).process_count == 1);
    CHECK(info_of(session).owner_pid == getpid());
    CHECK(hf_session_noted(session, 0) == 42 && hf_session_noted(session, 1) == 0);
    CHECK(hf_session_noted(session, HF_NOTE_COUNT) == 0);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, "name", 4, &entry, NULL));
    hf_snapshot_release(snapshot);
    /* It has an owner now. */
    CHECK(!hf_session_is_orphan(name));
    CHECK(hf_session_take_up(&claim, &second, NULL) == HF_NOT_FOUND);
    CHECK(hf_session_free_orphan(name, NULL) == HF_NOT_FOUND);
    CHECK(exists(name));
    end_session(session);
}

static void
test_not_kept(void) {
    char name[HF_SESSION_NAME_SIZE];
    hf_session *session;
    leave_one(NULL, getpid(), name);
    CHECK(!hf_session_is_orphan(name));
    CHECK(hf_session_take_up(&claim, &session, NULL) == HF_NOT_FOUND);
    CHECK(hf_session_free_orphan(name, NULL) == HF_NOT_FOUND);
    OK(hf_session_collect(NULL, NULL, NULL, NULL));
    CHECK(!exists(name));
}

/* Collecting passes it by while its reaper lives. */
static void
test_reaper(void) {
    char name[HF_SESSION_NAME_SIZE];
    pid_t reaper = fork();
    CHECK(reaper >= 0);
    if (reaper == 0)
        for (;;)
            pause();
    leave_one(&claim, reaper, name);
    OK(hf_session_collect(NULL, NULL, NULL, NULL));
    CHECK(exists(name));
    CHECK(kill(reaper, SIGKILL) == 0 && waitpid(reaper, NULL, 0) == reaper);
    OK(hf_session_collect(NULL, NULL, NULL, NULL));
    CHECK(!exists(name));
}

static void
test_freed(void) {
    char name[HF_SESSION_NAME_SIZE];
    hf_session *reader, *session;
    leave_one(&claim, getpid(), name);
    pid_t pid = fork();
    if (pid == 0) {
        OK(hf_session_open(name, &reader, NULL));
        raise(SIGSTOP);
        raise(SIGKILL);
    }
    CHECK(waitpid(pid, NULL, WUNTRACED) == pid);
    CHECK(hf_session_free_orphan(name, NULL) == HF_BUSY);
    CHECK(exists(name));
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    OK(hf_session_free_orphan(name, NULL));
    CHECK(!exists(name) && !hf_session_is_orphan(name));
    CHECK(hf_session_free_orphan(name, NULL) == HF_NOT_FOUND);
    CHECK(hf_session_take_up(&claim, &session, NULL) == HF_NOT_FOUND);
}

/* Of several the newest. */
static void
test_newest(void) {
    char names[2][HF_SESSION_NAME_SIZE];
    hf_session *session;
    for (int i = 0; i < 2; i++)
        leave_one(&claim, getpid(), names[i]);
    for (int i = 2; i-- > 0;) {
        OK(hf_session_take_up(&claim, &session, NULL));
        CHECK(strcmp(hf_session_name(session), names[i]) == 0);
        OK(hf_session_keep(session, NULL, 0, NULL));
        end_session(session);
    }
}

int
main(void) {
    test_taken_up();
    test_not_kept();
    test_reaper();
    test_freed();
    test_newest();
    return 0;
}
