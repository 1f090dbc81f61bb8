/* test_failing_calls.c - every system call and allocation of the store fails, in turn,
 * or kills the process.
 *
 * Each scenario is one thing that a process does: a commit, a seal, binding, a fork.
 * A child does it again and again, on a new session each time: the first call fails,
 * then the second, until there is none left to fail; for each errno, once and from
 * there on, and by SIGKILL. After each the child checks that it got what it wanted or
 * an error with words, that no byte of its arrays changed, that a second try works, and
 * that it has lost no descriptor, mapping or block. The parent checks that the session
 * has the old version or the new one, whole, as the child's status says; that every
 * extent is accounted for; and that the next commit works.
 *
 *     test_failing_calls            a sample, in some seconds
 *     test_failing_calls all        every point
 *     test_failing_calls NAME ...   every point of some scenarios
 *
 * docs/robustness.md has what was found by it.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/failing_calls.h"
#include "failing_stage.h"
#include "holdfast/save.h"

enum { OLD = 1, NEW = 2, NEXT = 3 };

#define SAMPLE_STRIDE 29 /* one call of so many, in the short version */

/* What a run shares with the driver. */
typedef struct report {
    hft_calls calls;
    int version; /* that the session is to have, 0: OLD or NEW */
    int status;
} report;

static report *told;
static char directory[64]; /* of saved sessions */
static int parent_is_dead[2];

/* Objects with names hold the user: here one of whom nobody else looks for objects. */
static uid_t user;

uid_t
getuid(void) {
    return user;
}

/* The fault comes while this is done. */
static long fails_at;
static hft_fault fault;

static void
begin(void) {
    hft_calls_arm(fails_at, fault);
}

static hf_status
end(hf_status status, const hf_error *error) {
    hft_calls_disarm();
    told->status = status;
    if (status) {
        CHECK(strcmp(hf_status_name(status), "HF_E_UNKNOWN") != 0);
        CHECK(status == HF_BUSY || (error->status == status && error->message[0]));
        CHECK(atomic_load(&told->calls.failed) > 0);
    }
    return status;
}

/* ---- scenarios ---- */

typedef struct scenario {
    const char *name;
    void (*run)(stage *s);
} scenario;

static void
check_store(stage *s, int version) {
    CHECK(stage_version(s->session) == version);
    told->version = version;
}

static void
commit_again(stage *s) {
    hf_error error = HF_ERROR_INIT;
    if (stage_commit(s, NEW, NULL, &error)) {
        fprintf(stderr, "the second try: %s\n", error.message);
        exit(1);
    }
}

/* What follows each commit that may have failed: the store says what the status does,
 * the arrays are as they were, and the second try works. */
static void
after_commit(stage *s, hf_status status) {
    check_store(s, status ? OLD : NEW);
    stage_check_regions(s);
    if (status)
        commit_again(s);
    OK(hf_session_seal(s->session, 1, NULL));
    stage_check_regions(s);
    stage_write_regions(s, NEXT);
    check_store(s, NEW);
}

static void
run_commit(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    begin();
    after_commit(s, end(stage_commit(s, NEW, NULL, &error), &error));
}

/* Prepared by one and published by another. */
static void
run_prepare(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    begin();
    hf_status status = stage_commit(s, NEW, &s->token, &error);
    end(status, &error);
    check_store(s, OLD);
    if (!status)
        OK(hf_session_publish(s->session, &s->token, NULL, NULL));
    after_commit(s, status);
}

static void
run_publish(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    OK(hf_session_open_fd(hf_session_fd(s->session), &s->other, NULL));
    OK(stage_commit(s, NEW, &s->token, NULL));
    begin();
    hf_status status = hf_session_publish(s->other, &s->token, NULL, &error);
    end(status, &error);
    hf_session_close(s->other);
    after_commit(s, status);
}

static void
run_seal(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    OK(stage_commit(s, NEW, NULL, NULL));
    told->version = NEW;
    begin();
    hf_status status = hf_session_seal(s->session, 1, &error);
    end(status, &error);
    stage_check_regions(s);
    check_store(s, NEW);
    if (!status) {
        stage_write_regions(s, NEXT);
        check_store(s, NEW);
    }
    OK(stage_commit(s, status ? NEW : NEXT, NULL, NULL)); /* whatever is mapped */
    check_store(s, status ? NEW : NEXT);
    OK(hf_session_seal(s->session, 1, NULL));
    stage_write_regions(s, 4);
    check_store(s, status ? NEW : NEXT);
}

static int
count_pair(void *context, const hf_entry *before, const hf_entry *after) {
    (void)before;
    *(int *)context += after != NULL;
    return 0;
}

static int
count_entry(void *context, const hf_entry *entry) {
    (void)entry;
    ++*(int *)context;
    return 0;
}

/* A cell's worker binds, and the main worker adopts. */
static hf_status
bind_all(stage *s, hf_error *reterr) {
    static const char *const keys[] = {"packed", "copied", "mixed", "whole", "born"};
    hf_region *regions[5] = {NULL};
    int met = 0, different = 0;
    uint64_t pages;
    hf_entry entry;
    hf_status status = hf_snapshot_acquire(s->session, &s->snapshot, reterr);
    if (status)
        return status;
    status = hf_snapshot_diff(NULL, s->snapshot, count_pair, &different, reterr);
    if (!status)
        status = hf_snapshot_each_in_order(s->snapshot, count_entry, &met, reterr);
    for (int i = 0; i < 5 && !status; i++) {
        status =
            hf_snapshot_find(s->snapshot, keys[i], strlen(keys[i]), &entry, reterr);
        if (!status)
            status = hf_region_map(s->snapshot, &entry, 0, &regions[i], reterr);
        if (!status) {
            hf_region_populate(regions[i], i % 2);
            status = hf_region_changed_pages(regions[i], &pages, reterr);
        }
    }
    for (int i = 0; i < 5; i++)
        hf_region_release(regions[i]);
    hf_snapshot_release(s->snapshot);
    CHECK(status || (met == 7 && different == 7));
    return status;
}

static void
run_bind(stage *s) {
    hf_error error = HF_ERROR_INIT;
    told->version = OLD;
    begin();
    if (end(bind_all(s, &error), &error))
        OK(bind_all(s, NULL));
    check_store(s, OLD);
}

static hf_status
unseal_all(stage *s, hf_error *reterr) {
    hf_status status = hf_region_unseal(s->mixed, reterr);
    if (!status)
        status = hf_region_unseal(s->whole, reterr);
    if (!status)
        status = hf_region_reseal(s->mixed, reterr);
    return status;
}

static void
unseal(stage *s) {
    hf_error error = HF_ERROR_INIT;
    told->version = OLD;
    stage_open_regions(s, OLD);
    OK(stage_commit(s, OLD, NULL, NULL));
    OK(hf_session_seal(s->session, 1, NULL));
    begin();
    end(unseal_all(s, &error), &error);
    stage_check_regions(s);
    check_store(s, OLD);
    stage_write_regions(s, NEW);
    check_store(s, OLD);
    after_commit(s, stage_commit(s, NEW, NULL, NULL));
}

static void
run_unseal_fresh(stage *s) {
    OK(hf_session_reap(s->session, 1, NULL, NULL));
    unseal(s);
}

static void
run_unseal_recycled(stage *s) {
    hf_region *region;
    OK(hf_region_reserve(s->session, 200 * s->session->page, 0, &region, NULL, NULL));
    hf_region_release(region);
    unseal(s);
}

static hf_status
reserve_all(stage *s, hf_error *reterr) {
    static const size_t sizes[] = {1, 3 << 20, 70000, 3 << 20};
    hf_region *regions[4] = {NULL};
    uint64_t provided;
    int is_zero, more = 1;
    hf_status status = hf_session_stock(s->session, sizes, 2, &provided, reterr);
    for (int i = 0; i < 4 && !status; i++) {
        status = hf_region_reserve(s->session, sizes[i], i % 2, &regions[i], &is_zero,
                                   reterr);
        if (!status && is_zero)
            for (size_t k = 0; k < sizes[i]; k += 511)
                CHECK(((char *)hf_region_address(regions[i]))[k] == 0);
        if (!status)
            memset(hf_region_address(regions[i]), 'r', sizes[i]);
    }
    for (int i = 0; i < 4; i++)
        hf_region_release(regions[i]);
    hf_session_provide(s->session, sizes, 3);
    while (!status && more)
        status = hf_session_provide_some(s->session, 1 << 20, &more, reterr);
    hf_session_provide_end(s->session);
    return status;
}

static void
run_reserve(stage *s) {
    hf_error error = HF_ERROR_INIT;
    told->version = OLD;
    begin();
    if (end(reserve_all(s, &error), &error))
        OK(reserve_all(s, NULL));
}

/* Somebody died with the writer lock, some extents and a pin. */
static void
leave_dead(stage *s) {
    int go[2];
    char byte;
    CHECK(pipe(go) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        stage dead = {.session = NULL};
        OK(hf_session_open_fd(hf_session_fd(s->session), &dead.session, NULL));
        stage_open_regions(&dead, 9);
        OK(stage_commit(&dead, 9, &dead.token, NULL));
        OK(hfi_lock(dead.session, NULL));
        kill(getpid(), SIGKILL);
    }
    close(go[1]);
    CHECK(read(go[0], &byte, 1) == 0);
    close(go[0]);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

static void
run_recovery(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    leave_dead(s);
    begin();
    after_commit(s, end(stage_commit(s, NEW, NULL, &error), &error));
}

static hf_status
reap_all(stage *s, hf_error *reterr) {
    hf_status status = hf_session_reap(s->session, 1, NULL, reterr);
    if (!status)
        status = hf_session_scrub(s->session, UINT64_MAX, NULL, reterr);
    return status ? status : hf_session_verify(s->session, reterr);
}

/* The same by who reaps, trims, and sums what is committed. */
static void
run_reap(stage *s) {
    hf_error error = HF_ERROR_INIT;
    told->version = OLD;
    leave_dead(s);
    begin();
    if (end(reap_all(s, &error), &error))
        OK(reap_all(s, NULL));
    check_store(s, OLD);
}

static hf_status
restore(stage *s, hf_error *reterr) {
    hf_commit *commit;
    hf_status status = hf_commit_begin(s->session, &commit, reterr);
    if (status)
        return status;
    if ((status = hf_commit_restore(commit, s->snapshot, reterr)) ||
        (status = hf_commit_publish_consume(commit, NULL, reterr)))
        hf_commit_abort(commit);
    return status;
}

static void
run_restore(stage *s) {
    hf_error error = HF_ERROR_INIT;
    told->version = 0;
    OK(hf_snapshot_acquire(s->session, &s->snapshot, NULL));
    stage_open_regions(s, NEW);
    OK(stage_commit(s, NEW, NULL, NULL));
    begin();
    hf_status status = end(restore(s, &error), &error);
    check_store(s, status ? NEW : OLD);
    if (status)
        OK(restore(s, NULL));
    check_store(s, OLD);
    hf_snapshot_release(s->snapshot);
}

static int
count_session(void *context, const hf_session_info *info) {
    (void)info;
    ++*(int *)context;
    return 0;
}

/* A process that was killed leaves its object to hf_session_collect, which waits. */
static int
drop_object(void *context, const char *name) {
    char path[300];
    (void)context;
    snprintf(path, sizeof path, "/%s", name);
    shm_unlink(path);
    return 0;
}

static void
drop_objects(void) {
    char prefix[40];
    snprintf(prefix, sizeof prefix, "holdfast-%lu-", (unsigned long)user);
    OK(hfi_object_each(prefix, drop_object, NULL));
}

static void
run_create(stage *s) {
    hf_error error = HF_ERROR_INIT;
    hf_session_options options = {.struct_size = sizeof options,
                                  .capacity_bytes = 1 << 20};
    hf_session *made;
    int count = 0;
    (void)s;
    told->version = OLD;
    drop_objects();
    begin();
    hf_status status = hf_session_create(&options, &made, &error);
    end(status, &error);
    if (!status) {
        CHECK(hf_session_generation(made) == 0);
        end_session(made);
    }
    OK(hf_session_list(count_session, &count, NULL));
    CHECK(count == 0 || strcmp(told->calls.name, "shm_unlink") == 0 || fault.ever);
}

static void
run_open(stage *s) {
    hf_error error = HF_ERROR_INIT;
    told->version = OLD;
    begin();
    hf_status status = hf_session_open_fd(hf_session_fd(s->session), &s->other, &error);
    if (!status)
        hf_session_close(s->other);
    end(status, &error);
    OK(hf_session_open_fd(hf_session_fd(s->session), &s->other, NULL));
    CHECK(stage_version(s->other) == OLD);
    hf_session_close(s->other);
}

/* ---- saved sessions ---- */

static hf_status
put_value_of(void *context, const hf_value *value, hf_error *reterr) {
    return hf_commit_put(context, value, reterr);
}

static hf_status
load(stage *s, hf_error *reterr) {
    hf_commit *commit;
    hf_status status = hf_commit_begin(s->session, &commit, reterr);
    if (status)
        return status;
    if ((status =
             hf_save_read(s->path, s->session, put_value_of, commit, NULL, reterr)) ||
        (status = hf_commit_publish_consume(commit, NULL, reterr)))
        hf_commit_abort(commit);
    return status;
}

static hf_status
save(stage *s, hf_error *reterr) {
    hf_status status = hf_snapshot_acquire(s->session, &s->snapshot, reterr);
    if (status)
        return status;
    status = hf_save_write(s->snapshot, s->path, NULL, NULL, NULL, reterr);
    hf_snapshot_release(s->snapshot);
    return status;
}

static int
files_in(const char *name) {
    DIR *list = opendir(name);
    int count = 0;
    CHECK(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count - 2;
}

/* Over an older file: that one or the new one is there, and nothing else. */
static void
run_save(stage *s) {
    hf_error error = HF_ERROR_INIT;
    OK(save(s, NULL));
    stage_open_regions(s, NEW);
    OK(stage_commit(s, NEW, NULL, NULL));
    told->version = NEW;
    begin();
    hf_status status = end(save(s, &error), &error);
    CHECK(files_in(directory) == 1 || strcmp(told->calls.name, "unlink") == 0 ||
          (fault.ever && status));
    OK(load(s, NULL));
    check_store(s, status ? OLD : NEW);
}

static void
run_load(stage *s) {
    hf_error error = HF_ERROR_INIT;
    OK(save(s, NULL));
    stage_open_regions(s, NEW);
    OK(stage_commit(s, NEW, NULL, NULL));
    told->version = 0;
    begin();
    hf_status status = end(load(s, &error), &error);
    check_store(s, status ? NEW : OLD);
    if (status)
        OK(load(s, NULL));
    check_store(s, OLD);
}

/* ---- forks ---- */

ssize_t __real_read(int fd, void *data, size_t size);

/* The heir waits until its parent is dead, or doesn't want it any more. */
static void
be_heir(stage *s, int ready, int (*goes_on)(stage *s)) {
    hf_error error = HF_ERROR_INIT;
    char byte = 0;
    hf_status status = hf_session_fork_child(s->session, &error);
    end(status, &error);
    if (status)
        _exit(0);
    CHECK(write(ready, "r", 1) == 1);
    close(ready);
    close(parent_is_dead[1]);
    if (__real_read(parent_is_dead[0], &byte, 1) == 1)
        _exit(goes_on(s));
    _exit(0);
}

static int
do_nothing(stage *s) {
    (void)s;
    return 0;
}

/* Fork an heir; negative where that fails. */
static pid_t
fork_heir(stage *s, hf_error *reterr, int (*goes_on)(stage *s)) {
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    if (hf_session_fork_begin(s->session, reterr)) {
        close(ready[0]);
        close(ready[1]);
        return -1;
    }
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        be_heir(s, ready[1], goes_on);
    close(ready[1]);
    int has_heir = __real_read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    hf_session_fork_parent(s->session, pid);
    if (!has_heir)
        CHECK(waitpid(pid, NULL, 0) == pid);
    return pid;
}

/* The parent goes on, whatever becomes of the fork. */
static void
run_fork(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    begin();
    pid_t pid = fork_heir(s, &error, do_nothing);
    end(pid < 0 ? error.status : HF_OK, &error);
    stage_check_regions(s);
    check_store(s, OLD);
    after_commit(s, stage_commit(s, NEW, NULL, NULL));
    if (pid > 0 && kill(pid, SIGKILL) == 0)
        waitpid(pid, NULL, 0);
}

/* In the heir: takes over and commits. */
static int
take_over(stage *s) {
    hf_error error = HF_ERROR_INIT;
    begin();
    hf_status status = hf_session_fork_succeed(s->session, &error);
    end(status, &error);
    if (status)
        OK(hf_session_fork_succeed(s->session, NULL));
    stage_check_regions(s);
    begin();
    status = stage_commit(s, NEW, NULL, &error);
    end(status, &error);
    after_commit(s, status);
    stage_release_regions(s);
    hf_session_close(s->session);
    return 0;
}

/* The parent dies, and its heir goes on. */
static void
run_succeed(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    CHECK(fork_heir(s, &error, take_over) > 0);
    _exit(0);
}

static const scenario scenarios[] = {
    {"commit", run_commit},
    {"prepare", run_prepare},
    {"publish", run_publish},
    {"seal", run_seal},
    {"bind", run_bind},
    {"unseal-fresh", run_unseal_fresh},
    {"unseal-recycled", run_unseal_recycled},
    {"reserve", run_reserve},
    {"recovery", run_recovery},
    {"reap", run_reap},
    {"restore", run_restore},
    {"create", run_create},
    {"open", run_open},
    {"save", run_save},
    {"load", run_load},
    {"fork", run_fork},
    {"succeed", run_succeed},
};

/* ---- what a process has ---- */

typedef struct holdings {
    int descriptors, mappings;
    long blocks;
} holdings;

/* Mappings of sessions, and of addresses that are kept for them. */
static holdings
count_holdings(void) {
    holdings h = {.blocks = hft_calls_blocks(),
                  .descriptors = files_in("/proc/self/fd")};
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        h.mappings += strstr(line, "holdfast") != NULL ||
                      (strstr(line, " ---p ") && strstr(line, " 0 \n"));
    fclose(file);
    return h;
}

static void
run_in_child(hf_session *base, const scenario *what) {
    stage s = {.session = NULL};
    alarm(60);
    snprintf(s.path, sizeof s.path, "%s/saved", directory);
    holdings before = count_holdings();
    OK(hf_session_open_fd(hf_session_fd(base), &s.session, NULL));
    what->run(&s);
    stage_release_regions(&s);
    hf_session_close(s.session);
    holdings after = count_holdings();
    CHECK(after.descriptors == before.descriptors);
    CHECK(after.mappings == before.mappings);
    CHECK(after.blocks == before.blocks);
    _exit(0);
}

/* ---- the driver ---- */

static hf_session *
make_base(void) {
    stage s = {.session = new_session(64 << 20, HF_SESSION_MEMFD)};
    static const int versions[] = {5, 6, OLD};
    for (int i = 0; i < 3; i++) {
        stage_open_regions(&s, versions[i]);
        OK(stage_commit(&s, versions[i], NULL, NULL));
        OK(hf_session_seal(s.session, 1, NULL));
        stage_release_regions(&s);
    }
    return s.session;
}

static void
empty_directory(void) {
    char path[400];
    struct dirent *item;
    mkdir(directory, 0700);
    DIR *list = opendir(directory);
    CHECK(list);
    while ((item = readdir(list)))
        if (item->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", directory, item->d_name);
            unlink(path);
        }
    closedir(list);
}

/* What the run left is whole, and can be gone on with. */
static void
check_base(hf_session *base) {
    stage s = {.session = base};
    int version = stage_version(base);
    CHECK(told->version ? version == told->version : version == OLD || version == NEW);
    stage_check_accounts(base);
    stage_open_regions(&s, NEXT);
    OK(stage_commit(&s, NEXT, NULL, NULL));
    CHECK(stage_version(base) == NEXT);
    stage_release_regions(&s);
    hfi_cache_flush(base);
    stage_check_accounts(base);
}

/* Of a process that did what fails: by itself, or killed there. */
static void
check_end(int how) {
    CHECK(WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL && !fault.err : how == 0);
    if (WIFSIGNALED(how))
        told->version = 0;
}

/* One run, in a process of its own: a check that fails ends that. */
static void
run_once(const scenario *what) {
    int how;
    empty_directory();
    hf_session *base = make_base();
    CHECK(pipe(parent_is_dead) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); /* of an heir */
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run_in_child(base, what);
    close(parent_is_dead[0]);
    CHECK(waitpid(pid, &how, 0) == pid);
    check_end(how);
    if (what->run == run_succeed)
        CHECK(write(parent_is_dead[1], "d", 1) == 1);
    close(parent_is_dead[1]);
    while (waitpid(-1, &how, 0) > 0)
        check_end(how);
    check_base(base);
    end_session(base);
    _exit(0);
}

typedef struct tally {
    long calls, points, ok, failed, killed, bad;
} tally;

/* The call number `at` of a scenario; 0 where there are fewer. */
static int
try_point(const scenario *what, long at, tally *t) {
    int how;
    fails_at = at;
    memset(told, 0, sizeof *told);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run_once(what);
    CHECK(waitpid(pid, &how, 0) == pid);
    int failed = atomic_load(&told->calls.failed) > 0;
    if (how != 0) {
        fprintf(stderr, "%s: call %ld, %s, %s%s: status %x\n", what->name, at,
                told->calls.name, fault.err ? strerror(fault.err) : "killed",
                fault.ever ? " ever after" : "", how);
        t->bad++;
    }
    if (failed) {
        t->points++;
        *(fault.err ? told->status ? &t->failed : &t->ok : &t->killed) += 1;
    } else if (atomic_load(&told->calls.counted) > t->calls)
        t->calls = atomic_load(&told->calls.counted);
    return failed;
}

static const hft_fault kinds[] = {
    {0, 0},      {ENOSPC, 0}, {ENOMEM, 0}, {EIO, 0}, {EINTR, 0},
    {EMFILE, 0}, {ENOSPC, 1}, {ENOMEM, 1}, {EIO, 1}, {EMFILE, 1},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* `stride`: one of so many calls, others for each fault. */
static tally
try_scenario(const scenario *what, long stride) {
    tally t = {0};
    for (size_t i = 0; i < KINDS; i++) {
        long at = 1 + (long)(i * 7) % stride;
        fault = kinds[i];
        while (try_point(what, at, &t))
            at += stride;
    }
    printf("%-16s %4ld calls, %5ld points: %5ld done all the same, %5ld errors, "
           "%4ld killed, %ld bad\n",
           what->name, t.calls, t.points, t.ok, t.failed, t.killed, t.bad);
    fflush(stdout);
    return t;
}

static int
is_asked_for(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0 || strcmp(argv[i], "all") == 0)
            return 1;
    return argc == 1;
}

int
main(int argc, char **argv) {
    long points = 0, bad = 0, chosen = 0;
    user = 0x50000000u + (uid_t)(getpid() & 0xffffff);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    CHECK(told != MAP_FAILED);
    hft_calls_seen = &told->calls;
    snprintf(directory, sizeof directory, "/tmp/holdfast-failing-%ld", (long)getpid());
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (is_asked_for(scenarios[i].name, argc, argv)) {
            tally t = try_scenario(&scenarios[i], argc > 1 ? 1 : SAMPLE_STRIDE);
            points += t.points;
            bad += t.bad;
            chosen++;
        }
    CHECK(chosen);
    empty_directory();
    rmdir(directory);
    drop_objects();
    printf("%ld points, %ld bad\n", points, bad);
    return bad != 0;
}
