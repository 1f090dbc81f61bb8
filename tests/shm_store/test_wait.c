/* test_wait.c - sleeping until a session changes, and handles that only read.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/step.h"
#include "engine/handle.h"
#include "own_user.h"
#include "store_fixture.h"
#include "tuning/tuning.h"

/* A process that waits for another generation than `generation`, and whose exit code is
 * minus the status. */
static pid_t
waiter(const char *name, uint64_t generation, int64_t timeout_ms) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid)
        return pid;
    hf_session *session;
    OK(hf_session_open_readonly(name, &session, NULL));
    /* It needs no mapping that it can write to. */
    CHECK(mprotect(session->super, HFI_ARENA_OFFSET, PROT_READ) == 0);
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    hf_status status = hf_session_wait(session, generation, timeout_ms, NULL);
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK(after.ru_nvcsw - before.ru_nvcsw < 200); /* it doesn't look again and again */
    _exit(-status);
}

static int
end_of(pid_t pid) {
    int how;
    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK(WIFEXITED(how));
    return -WEXITSTATUS(how);
}

/* 'S' while it sleeps; once it has come to hf_session_wait it sleeps nowhere else for
 * long. */
static char
state_of(pid_t pid) {
    char path[40], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%*d %*s %c", &state) == 1);
    fclose(file);
    return state;
}

static void
nap(void) {
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
}

static void
await_sleep(pid_t pid) {
    char state;
    for (int asleep = 0; asleep < 5; nap()) {
        asleep = (state = state_of(pid)) == 'S' ? asleep + 1 : 0;
        CHECK(state != 'Z');
    }
}

static void
wakes_and_answers(void) {
    hf_session *session = new_session(0, 0);
    const char *name = hf_session_name(session);
    CHECK(hf_session_wait(session, 7, -1, NULL) == HF_OK); /* it is another one */
    CHECK(hf_session_wait(session, 0, 0, NULL) == HF_BUSY);
    CHECK(hf_session_wait(session, 0, 3, NULL) == HF_BUSY);
    for (int i = 0; i < 20; i++) {
        uint64_t generation = hf_session_generation(session);
        pid_t one = waiter(name, generation, -1), two = waiter(name, generation, 60000);
        if (i % 2) {
            await_sleep(one);
            await_sleep(two);
        }
        commit_value(session, "x", &i, sizeof i, NULL);
        CHECK(end_of(one) == HF_OK && end_of(two) == HF_OK);
    }
    pid_t last = waiter(name, 20, -1);
    await_sleep(last);
    end_session(session);
    CHECK(end_of(last) == HF_E_GONE);
}

/* ---- a publisher that is killed ---- */

static int steps_left;

static void
die_at_step(const char *name) {
    (void)name;
    if (steps_left-- == 0)
        kill(getpid(), SIGKILL);
}

static int
publisher_dies(const char *name, int step, int destroys) {
    int how;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *session;
        OK(hf_session_open(name, &session, NULL));
        steps_left = step;
        hfi_step_hook = die_at_step;
        if (destroys)
            OK(hf_session_destroy(session, NULL));
        else
            commit_value(session, "x", "theirs", 6, NULL);
        _exit(0);
    }
    CHECK(waitpid(pid, &how, 0) == pid);
    return WIFSIGNALED(how);
}

/* Wherever it dies: if there is a new generation, all who sleep hear of it without any
 * further act. If there is none, they sleep until the next one. */
static void
survives_kills(void) {
    hf_session *session = new_session(0, 0);
    const char *name = hf_session_name(session);
    int step = 0, killed = 1, committed = 0;
    for (; killed; step++) {
        uint64_t generation = hf_session_generation(session);
        pid_t pid = waiter(name, generation, -1);
        await_sleep(pid);
        killed = publisher_dies(name, step, 0);
        if (hf_session_generation(session) != generation)
            committed++;
        else
            commit_value(session, "x", "ours", 4, NULL);
        CHECK(end_of(pid) == HF_OK);
    }
    CHECK(step > 8 && committed > 2);
    pid_t pid = waiter(name, hf_session_generation(session), -1);
    await_sleep(pid);
    CHECK(publisher_dies(name, 0, 1)); /* between its two marks */
    CHECK(end_of(pid) == HF_E_GONE);
    CHECK(hf_session_wait(session, 0, -1, NULL) == HF_E_GONE);
    end_session(session);
}

/* ---- signals; waking for nothing ---- */

static volatile sig_atomic_t rang;

static void
ring(int signal) {
    (void)signal;
    rang = 1;
}

static void
is_interrupted(void) {
    hf_session *session = new_session(0, 0);
    struct sigaction action = {.sa_handler = ring};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    pid_t parent = getpid(), pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        await_sleep(parent);
        kill(parent, SIGUSR1);
        _exit(0);
    }
    CHECK(hf_session_wait(session, 0, -1, NULL) == HF_BUSY);
#ifndef __SANITIZE_THREAD__ /* which calls handlers later */
    CHECK(rang);
#endif
    CHECK(end_of(pid) == 0);
    if ((pid = fork()) == 0) {
        hf_session *theirs;
        OK(hf_session_open(hf_session_name(session), &theirs, NULL));
        await_sleep(parent);
        hfi_session_wake(theirs);
        await_sleep(parent);
        _exit(0);
    }
    CHECK(hfi_session_wait_once(session, 0, -1, NULL) == HF_AGAIN);
    OK(hf_session_wait(session, 1, 3, NULL));
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
    end_session(session);
}

/* ---- owners that die ---- */

static const hf_claim claim = {{5}};

/* A session of a process that is killed; `ret_name` has room for a name. */
static void
leave_session(int is_claimed, char *ret_name) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *session = new_session(0, 0);
        if (is_claimed)
            OK(hf_session_keep(session, &claim, 0, NULL));
        commit_value(session, "x", "theirs", 6, NULL);
        const char *name = hf_session_name(session);
        CHECK(write(ends[1], name, strlen(name) + 1) > 0);
        kill(getpid(), SIGKILL);
    }
    CHECK(read(ends[0], ret_name, HF_SESSION_NAME_SIZE) > 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    close(ends[0]);
    close(ends[1]);
}

static int
note_removed(void *context, const hf_session_info *info) {
    struct {
        const char *name;
        int found;
    } *removed = context;
    removed->found |= strcmp(info->name, removed->name) == 0;
    return 0;
}

/* A process that waits for a kernel's session is woken when the kernel is gone. The
 * waiting process doesn't keep the session. */
static void
readers_keep_nothing(void) {
    char name[HF_SESSION_NAME_SIZE];
    hf_session *other;
    struct {
        const char *name;
        int found;
    } removed = {name, 0};
    leave_session(1, name);
    OK(hf_session_open(name, &other, NULL));
    pid_t reader = waiter(name, 1, -1);
    await_sleep(reader);
    CHECK(hf_session_free_orphan(name, NULL) == HF_BUSY);
    hf_session_close(other);
    OK(hf_session_free_orphan(name, NULL));
    CHECK(end_of(reader) == HF_E_GONE);

    leave_session(0, name);
    OK(hf_session_open(name, &other, NULL));
    reader = waiter(name, 1, -1);
    await_sleep(reader);
    OK(hf_session_collect(note_removed, &removed, NULL, NULL));
    CHECK(!removed.found);
    hf_session_close(other);
    OK(hf_session_collect(note_removed, &removed, NULL, NULL));
    CHECK(removed.found);
    CHECK(end_of(reader) == HF_E_GONE);
}

/* ---- handles that only read ---- */

static void
only_reads(void) {
    hf_session *session = new_session(0, 0), *reader;
    hf_error error = HF_ERROR_INIT;
    hf_snapshot *snapshot;
    hf_region *region;
    hf_commit *commit;
    hf_prepared token = {0};
    hf_turn turn = {.struct_size = sizeof turn, .kind = HF_TURN_DECODE};
    OK(hf_region_reserve(session, 10000, 1, &region, NULL, NULL));
    commit_value(session, "x", "one", 3, region);
    hf_region_release(region);
    OK(hf_session_privatize(session, 1, NULL));
    OK(hf_session_open_readonly(hf_session_name(session), &reader, NULL));

    hf_entry entry = {.struct_size = sizeof entry};
    OK(hf_snapshot_acquire(reader, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, "x", 1, &entry, NULL));
    OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
    ((char *)hf_region_address(region))[0] = 9; /* its own page */
    hf_session_info before = info_of(reader);
    CHECK(hf_region_unshare(region, NULL) == HF_E_ACCESS);
    hf_region *own;
    CHECK(hf_region_reserve(reader, 10000, 0, &own, NULL, NULL) == HF_E_ACCESS);
    CHECK(hf_commit_begin(reader, &commit, &error) == HF_E_ACCESS);
    CHECK(strstr(error.message, "hf_session_open"));
    CHECK(hf_session_publish(reader, &token, NULL, NULL) == HF_E_ACCESS);
    CHECK(hf_session_destroy(reader, NULL) == HF_E_ACCESS);
    CHECK(hf_session_keep(reader, NULL, 0, NULL) == HF_E_ACCESS);
    CHECK(hf_session_reap(reader, 1, NULL, NULL) == HF_E_ACCESS);
    CHECK(hf_session_scrub(reader, UINT64_MAX, NULL, NULL) == HF_E_ACCESS);
    CHECK(hf_session_give_back(reader, 0, UINT64_MAX, NULL, NULL, NULL) == HF_E_ACCESS);
    CHECK(hf_session_quarantine(reader, &turn, 1, NULL) == HF_E_ACCESS);
    hf_session_note(reader, 0, 5);
    CHECK(hf_session_noted(session, 0) == 0);
    hf_session_info after = info_of(reader);
    CHECK(after.generation == 1 && after.reserved_bytes == before.reserved_bytes &&
          after.allocated_bytes == before.allocated_bytes);
    OK(hf_session_verify(reader, NULL));

    commit_value(session, "x", "two", 3, NULL); /* the owner goes on */
    CHECK(((char *)hf_region_address(region))[0] == 9);
    CHECK(((char *)hf_region_address(region))[1] == 0);
    hf_region_release(region);
    hf_snapshot_release(snapshot);
    hf_session_close(reader);
    CHECK(info_of(session).process_count == 1);
    end_session(session);
    CHECK(hf_session_open_readonly("holdfast-0-none", &reader, NULL) == HF_NOT_FOUND);
}

int
main(void) {
    wakes_and_answers();
    survives_kills();
    is_interrupted();
    readers_keep_nothing();
    only_reads();
    return 0;
}
