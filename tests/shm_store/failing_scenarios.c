/* failing_scenarios.c - what test_failing_calls.c makes fail.
 *
 * A scenario prepares what it needs, does one thing between begin() and end(), where
 * the fault comes, and then checks what this process can see: the status and the words
 * of the error, the bytes of its arrays, the version in the session, and that the same
 * thing works when nothing fails. What the session is like for others is the driver's.
 */
#include "failing_scenarios.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/slot.h"
#include "holdfast/array.h"
#include "holdfast/save.h"
#include "platform/object.h"
#include "tuning/tuning.h"

trial this_trial;

/* Objects with names hold the user: here one of whom nobody else looks for objects. */
uid_t
getuid(void) {
    return this_trial.user;
}

/* The fault comes while this is done. */
static void
begin(void) {
    hft_calls_arm(this_trial.at, this_trial.fault);
}

static hf_status
end(hf_status status, const hf_error *error) {
    hft_calls_disarm();
    this_trial.results->status = status;
    if (status) {
        CHECK(strcmp(hf_status_name(status), "HF_E_UNKNOWN") != 0);
        CHECK(status == HF_BUSY || (error->status == status && error->message[0]));
        CHECK(atomic_load(&this_trial.results->calls.failed) > 0);
    }
    return status;
}

/* ---- scenarios ---- */

static void
check_store(stage *s, int version) {
    CHECK(stage_version(s->session) == version);
    this_trial.results->version = version;
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
    OK(hf_session_privatize(s->session, 1, NULL));
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
run_privatize(stage *s) {
    hf_error error = HF_ERROR_INIT;
    stage_open_regions(s, NEW);
    OK(stage_commit(s, NEW, NULL, NULL));
    this_trial.results->version = NEW;
    begin();
    hf_status status = hf_session_privatize(s->session, 1, &error);
    end(status, &error);
    stage_check_regions(s);
    check_store(s, NEW);
    if (!status) {
        stage_write_regions(s, NEXT);
        check_store(s, NEW);
    }
    OK(stage_commit(s, status ? NEW : NEXT, NULL, NULL)); /* whatever is mapped */
    check_store(s, status ? NEW : NEXT);
    OK(hf_session_privatize(s->session, 1, NULL));
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
    hf_entry entry = {.struct_size = sizeof entry};
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
    this_trial.results->version = OLD;
    begin();
    if (end(bind_all(s, &error), &error))
        OK(bind_all(s, NULL));
    check_store(s, OLD);
}

static hf_status
unshare_all(stage *s, hf_error *reterr) {
    hf_status status = hf_region_unshare(s->mixed, reterr);
    if (!status)
        status = hf_region_unshare(s->whole, reterr);
    if (!status)
        status = hf_region_reshare(s->mixed, reterr);
    return status;
}

static void
unshare_region(stage *s) {
    hf_error error = HF_ERROR_INIT;
    this_trial.results->version = OLD;
    stage_open_regions(s, OLD);
    OK(stage_commit(s, OLD, NULL, NULL));
    OK(hf_session_privatize(s->session, 1, NULL));
    begin();
    end(unshare_all(s, &error), &error);
    stage_check_regions(s);
    check_store(s, OLD);
    stage_write_regions(s, NEW);
    check_store(s, OLD);
    after_commit(s, stage_commit(s, NEW, NULL, NULL));
}

static void
run_unshare_fresh(stage *s) {
    OK(hf_session_reap(s->session, 1, NULL, NULL));
    unshare_region(s);
}

static void
run_unshare_recycled(stage *s) {
    hf_region *region;
    OK(hf_region_reserve(s->session, 200 * s->session->page, 0, &region, NULL, NULL));
    hf_region_release(region);
    unshare_region(s);
}

static hf_status
reserve_all(stage *s, hf_error *reterr) {
    static const size_t sizes[] = {1, 3 << 20, 70000, 3 << 20};
    hf_region *regions[4] = {NULL};
    uint64_t provided;
    int is_zero, more = 1;
    hf_status status = hfi_session_preallocate(s->session, sizes, 2, &provided, reterr);
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
    hfi_session_prefill(s->session, sizes, 3);
    while (!status && more)
        status = hfi_session_prefill_some(s->session, 1 << 20, &more, reterr);
    hfi_session_prefill_end(s->session);
    return status;
}

static void
run_reserve(stage *s) {
    hf_error error = HF_ERROR_INIT;
    this_trial.results->version = OLD;
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

/* The same by a process that reaps, trims, and sums what is committed. */
static void
run_reap(stage *s) {
    hf_error error = HF_ERROR_INIT;
    this_trial.results->version = OLD;
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
    if ((status = hf_commit_restore(commit, s->snapshot, reterr))) {
        hf_commit_abort(commit);
        return status;
    }
    return hf_commit_publish_consume(commit, NULL, reterr);
}

static void
run_restore(stage *s) {
    hf_error error = HF_ERROR_INIT;
    this_trial.results->version = 0;
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

void
drop_objects(void) {
    char prefix[40];
    snprintf(prefix, sizeof prefix, "holdfast-%lu-", (unsigned long)this_trial.user);
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
    this_trial.results->version = OLD;
    drop_objects();
    begin();
    hf_status status = hf_session_create(&options, &made, &error);
    end(status, &error);
    if (!status) {
        CHECK(hf_session_generation(made) == 0);
        end_session(made);
    }
    OK(hf_session_list(count_session, &count, NULL));
    CHECK(count == 0 || strcmp(this_trial.results->calls.name, "shm_unlink") == 0 ||
          this_trial.fault.ever);
}

static void
run_open(stage *s) {
    hf_error error = HF_ERROR_INIT;
    this_trial.results->version = OLD;
    begin();
    hf_status status = hf_session_open_fd(hf_session_fd(s->session), &s->other, &error);
    if (!status)
        hf_session_close(s->other);
    end(status, &error);
    OK(hf_session_open_fd(hf_session_fd(s->session), &s->other, NULL));
    CHECK(stage_version(s->other) == OLD);
    hf_session_close(s->other);
}

static const hf_claim claim = {{1}};

/* A session whose owner was killed. */
static void
leave_orphan(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *made = new_session(1 << 20, HF_SESSION_OWNER_PUBLISHES);
        OK(hf_session_keep(made, &claim, 0, NULL));
        commit_value(made, "name", "value", 6, NULL);
        kill(getpid(), SIGKILL);
    }
    CHECK(waitpid(pid, NULL, 0) == pid);
}

/* Whoever says that it has taken the session up can publish; else the next one can. */
static void
run_take_up(stage *s) {
    hf_error error = HF_ERROR_INIT;
    hf_session *taken;
    (void)s;
    this_trial.results->version = OLD;
    drop_objects();
    leave_orphan();
    begin();
    hf_status status = hf_session_take_up(&claim, &taken, &error);
    if (end(status, &error))
        OK(hf_session_take_up(&claim, &taken, NULL));
    CHECK(commit_value(taken, "name", "other", 6, NULL) == 2);
    end_session(taken);
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
    status = hf_save_read(s->path, s->session, put_value_of, commit, NULL, reterr);
    if (status) {
        hf_commit_abort(commit);
        return status;
    }
    return hf_commit_publish_consume(commit, NULL, reterr);
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

int
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
    this_trial.results->version = NEW;
    begin();
    hf_status status = end(save(s, &error), &error);
    CHECK(files_in(this_trial.directory) == 1 ||
          strcmp(this_trial.results->calls.name, "unlink") == 0 ||
          (this_trial.fault.ever && status));
    OK(load(s, NULL));
    check_store(s, status ? OLD : NEW);
}

static void
run_load(stage *s) {
    hf_error error = HF_ERROR_INIT;
    OK(save(s, NULL));
    stage_open_regions(s, NEW);
    OK(stage_commit(s, NEW, NULL, NULL));
    this_trial.results->version = 0;
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
    close(this_trial.parent_is_dead[1]);
    if (__real_read(this_trial.parent_is_dead[0], &byte, 1) == 1)
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

/* ---- tables ---- */

/* Of two columns in two chunks each, of numbers with bits and of lists of texts, in a
 * payload of zeros. */
static void
put_chunks(hf_session *session) {
    static const char payload[64];
    static const char meta[] =
        "\x81\xa5table\xc4\x7d\x94\3\x92\xa1"
        "c\xa1"
        "d\x90\x94"
        "\0\x92\x99\xa1"
        "c\xc0\2\2\1\0\x96\xc0\0\1\xc0\0\3\x90\xc0\x99\xa1"
        "c\xc0\2\1\0\0\x96\xc0\0\0\xc0\0\1\x90\xc0"
        "\1\x92\x99\xa2+L\xc0\2\2\0\0\x96\xc0\0\1\xc0\x08\x18\x91"
        "\x99\xa1u\xa1v\2\0\0\0\x99\xc0\0\0\xc0\0\0\xc0\0\0\x90\xc0\xc0"
        "\x99\xa2+L\xc0\2\1\0\0\x96\xc0\0\1\xc0\x08\x10\x91"
        "\x99\xa1u\xa1v\2\0\0\0\x99\xc0\0\0\xc0\0\0\xc0\0\0\x90\xc0\xc0";
    _Static_assert(sizeof meta == 10 + 0x7d, "the size of the bytes");
    hf_value value = {.struct_size = sizeof value,
                      .key = "table",
                      .key_size = 5,
                      .codec = 18,
                      .meta = meta,
                      .meta_size = sizeof meta - 1,
                      .payload = payload,
                      .payload_size = sizeof payload};
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

/* Export the table, and read its first column as an array. */
static hf_status
read_chunks(hf_snapshot *snapshot, hf_error *reterr) {
    struct ArrowSchema schema;
    struct ArrowArray array;
    hf_array column = {.struct_size = sizeof column};
    hf_status status = hf_table_export(snapshot, "table", 5, &schema, &array, reterr);
    if (status)
        return status;
    CHECK(array.length == 3 && array.n_children == 2);
    schema.release(&schema);
    array.release(&array);
    status = hf_array_of_column(snapshot, "table", 5, "c", 1, &column, reterr);
    if (status)
        return status;
    CHECK(column.shape[0] == 3 && column.kind == 'i');
    hf_array_release(&column);
    return HF_OK;
}

/* In a session of its own, since the others' has just the entries of a version. */
static void
run_table(stage *s) {
    hf_error error = HF_ERROR_INIT;
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_snapshot *snapshot;
    put_chunks(session);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    begin();
    if (end(read_chunks(snapshot, &error), &error))
        OK(read_chunks(snapshot, NULL));
    hf_snapshot_release(snapshot);
    end_session(session);
    check_store(s, OLD);
}

const scenario scenarios[] = {
    {"commit", run_commit, 0},
    {"prepare", run_prepare, 0},
    {"publish", run_publish, 0},
    {"privatize", run_privatize, 0},
    {"bind", run_bind, 0},
    {"unshare-fresh", run_unshare_fresh, 0},
    {"unshare-recycled", run_unshare_recycled, 0},
    {"reserve", run_reserve, 0},
    {"recovery", run_recovery, 0},
    {"reap", run_reap, 0},
    {"restore", run_restore, 0},
    {"create", run_create, 0},
    {"open", run_open, 0},
    {"table", run_table, 0},
    {"take-up", run_take_up, 0},
    {"save", run_save, 0},
    {"load", run_load, 0},
    {"fork", run_fork, 0},
    {"succeed", run_succeed, 1},
};
const size_t scenario_count = sizeof scenarios / sizeof *scenarios;
