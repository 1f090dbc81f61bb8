/* test_owner.c - what only a session's owner may do, and how a session changes hands.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/owner.h"
#include "platform/process.h"
#include "own_user.h"
#include "store_fixture.h"

static const hf_claim claim = {{7}};

/* Run `act` in another process that has attached by name; gives what it returned. */
static hf_status
elsewhere(const char *name, hf_status (*act)(hf_session *, hf_error *),
          hf_error *ret_error) {
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *session;
        hf_error error = HF_ERROR_INIT;
        OK(hf_session_open(name, &session, NULL));
        error.status = act(session, &error);
        CHECK(write(ends[1], &error, sizeof error) == sizeof error);
        hf_session_close(session);
        _exit(0);
    }
    CHECK(read(ends[0], ret_error, sizeof *ret_error) == sizeof *ret_error);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close(ends[0]);
    close(ends[1]);
    return ret_error->status;
}

static hf_status
commit_one(hf_session *session, hf_error *reterr) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "theirs", "value", 6, NULL, NULL));
    hf_status status = hf_commit_publish_consume(commit, NULL, reterr);
    CHECK(info_of(session).reserved_bytes == 0); /* nothing of it is left */
    return status;
}

static hf_status
destroy(hf_session *session, hf_error *reterr) {
    return hf_session_destroy(session, reterr);
}

static hf_status
keep(hf_session *session, hf_error *reterr) {
    hf_session_note(session, 1, 5);
    return hf_session_keep(session, NULL, 0, reterr);
}

static hf_status
look(hf_session *session, hf_error *reterr) {
    (void)reterr;
    hf_region_release(map_value(session, "ours"));
    OK(hf_session_reap(session, 1, NULL, NULL));
    return info_of(session).owner_publishes ? HF_OK : HF_E_INVALID;
}

static void
commit_ours(hf_session *session) {
    hf_region *region;
    OK(hf_region_reserve(session, 5000, 1, &region, NULL, NULL));
    commit_value(session, "ours", "x", 2, region);
    hf_region_release(region);
}

/* Others read, prepare and tidy up; the rest is refused, in words with the owner. */
static void
test_strangers(void) {
    static const struct {
        hf_status (*act)(hf_session *, hf_error *);
        hf_status status;
    } cases[] = {{look, HF_OK},
                 {commit_one, HF_E_ACCESS},
                 {destroy, HF_E_ACCESS},
                 {keep, HF_E_ACCESS}};
    hf_session *session = new_session(0, HF_SESSION_OWNER_PUBLISHES), *second;
    char owner[32];
    snprintf(owner, sizeof owner, "process %ld,", (long)getpid());
    commit_ours(session);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_error error;
        CHECK(elsewhere(hf_session_name(session), cases[i].act, &error) ==
              cases[i].status);
        CHECK(!cases[i].status || (strstr(error.message, owner) &&
                                   strstr(error.message, "hand its token")));
        CHECK(hf_session_generation(session) == 1);
    }
    CHECK(hf_session_noted(session, 1) == 0);
    /* Any handle of the owner's process is the owner's. */
    OK(hf_session_open(hf_session_name(session), &second, NULL));
    commit_ours(second);
    hf_session_close(second);
    CHECK(hf_session_generation(session) == 2);
    end_session(session);
}

/* A stranger prepares, and the owner publishes. */
static void
test_token(void) {
    hf_session *session = new_session(0, HF_SESSION_OWNER_PUBLISHES);
    hf_prepared token;
    int to_owner[2], to_child[2];
    char word;
    CHECK(pipe(to_owner) == 0 && pipe(to_child) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        hf_session *own;
        hf_commit *commit;
        CHECK(hf_session_publish(session, &token, NULL, NULL) == HF_E_GONE);
        OK(hf_session_open(hf_session_name(session), &own, NULL));
        OK(hf_commit_begin(own, &commit, NULL));
        OK(put_value(commit, "theirs", "value", 6, NULL, NULL));
        OK(hf_commit_prepare_consume(commit, &token, NULL));
        CHECK(hf_session_publish(own, &token, NULL, NULL) == HF_E_ACCESS);
        CHECK(write(to_owner[1], &token, sizeof token) == sizeof token);
        CHECK(read(to_child[0], &word, 1) == 1);
        _exit(0);
    }
    CHECK(read(to_owner[0], &token, sizeof token) == sizeof token);
    OK(hf_session_publish(session, &token, NULL, NULL));
    CHECK(write(to_child[1], "x", 1) == 1);
    CHECK(waitpid(pid, NULL, 0) == pid);
    end_session(session);
}

/* A process with the owner's pid that began at another time, or after another boot. */
static void
test_pid_used_again(void) {
    hf_session *session = new_session(0, HF_SESSION_OWNER_PUBLISHES);
    hfi_superblock *super = session->super;
    uint64_t *const words[] = {&super->owner_start_time, &super->owner_boot};
    for (int i = 0; i < 2; i++) {
        hf_error error;
        uint64_t was = *words[i];
        *words[i] += 1;
        CHECK(commit_one(session, &error) == HF_E_ACCESS);
        CHECK(strstr(error.message, "is dead"));
        *words[i] = was;
        OK(commit_one(session, NULL));
    }
    end_session(session);
}

/* The child makes a session and dies; nobody publishes before somebody takes it up. */
static void
test_taken_up(void) {
    char name[HF_SESSION_NAME_SIZE];
    int ends[2];
    hf_session *session, *early;
    hf_error error;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        session = new_session(0, HF_SESSION_OWNER_PUBLISHES);
        OK(hf_session_keep(session, &claim, getppid(), NULL));
        commit_ours(session);
        CHECK(write(ends[1], hf_session_name(session), sizeof name) > 0);
        raise(SIGKILL);
    }
    CHECK(read(ends[0], name, sizeof name) == sizeof name);
    CHECK(waitpid(pid, NULL, 0) == pid);
    OK(hf_session_open(name, &early, NULL));
    CHECK(commit_one(early, &error) == HF_E_ACCESS);
    CHECK(strstr(error.message, "takes the session up"));
    OK(hf_session_take_up(&claim, &session, NULL));
    OK(commit_one(session, NULL));
    CHECK(elsewhere(name, commit_one, &error) == HF_E_ACCESS);
    CHECK(hf_session_generation(session) == 2);
    hf_session_close(early);
    end_session(session);
}

/* A fork that goes on in its owner's place owns the session from then on. */
static void
test_heir(void) {
    int ends[2], begin[2];
    char word;
    CHECK(pipe(ends) == 0 && pipe(begin) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        hf_session *session = new_session(0, HF_SESSION_OWNER_PUBLISHES);
        OK(hf_session_fork_begin(session, NULL));
        pid_t heir = fork();
        if (heir != 0) {
            hf_session_fork_parent(session, heir);
            CHECK(read(begin[0], &word, 1) == 1);
            raise(SIGKILL);
        }
        OK(hf_session_fork_child(session, NULL));
        CHECK(commit_one(session, NULL) == HF_E_ACCESS);
        CHECK(write(begin[1], "x", 1) == 1);
        while (hfi_owner_alive(session->super) != 0)
            usleep(1000);
        OK(hf_session_fork_succeed(session, NULL));
        OK(commit_one(session, NULL));
        end_session(session);
        CHECK(write(ends[1], "x", 1) == 1);
        _exit(0);
    }
    close(ends[1]);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(read(ends[0], &word, 1) == 1);
    close(ends[0]);
}

static void
test_not_asked_for(void) {
    hf_session *session = new_session(0, 0);
    hf_error error;
    CHECK(!info_of(session).owner_publishes);
    CHECK(elsewhere(hf_session_name(session), commit_one, &error) == HF_OK);
    CHECK(elsewhere(hf_session_name(session), destroy, &error) == HF_OK);
    hf_session_close(session);
}

int
main(void) {
    test_strangers();
    test_token();
    test_pid_used_again();
    test_taken_up();
    test_heir();
    test_not_asked_for();
    return 0;
}
