/* test_roster.c - all sessions of this user: the living are left alone, the dead and
 * the half-made are collected, what is damaged is named, and a stranger's isn't
 * touched.
 */
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/step.h"
#include "engine/handle.h"
#include "platform/object.h"
#include "platform/process.h"
#include "own_user.h"
#include "store_fixture.h"

static const char *die_at;

static void
die(const char *name) {
    if (strcmp(name, die_at) == 0)
        raise(SIGKILL);
}

/* A process that creates a session and dies at a step of it, or after it (NULL). */
static void
make_and_die(const char *step) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        die_at = step ? step : "";
        hfi_step_hook = die;
        hf_session *session = new_session(0, 0);
        commit_value(session, "x", "1", 1, NULL);
        raise(SIGKILL);
    }
    int how;
    CHECK(waitpid(pid, &how, 0) == pid && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

typedef struct seen {
    const char *name; /* NULL: all */
    int count;
    hf_session_info info;
} seen;

static int
note(void *context, const hf_session_info *info) {
    seen *s = context;
    if (s->name && strcmp(s->name, info->name) != 0)
        return 0;
    s->count++;
    s->info = *info;
    return 0;
}

static seen
listed(const char *name) {
    seen s = {.name = name};
    OK(hf_session_list(note, &s, NULL));
    return s;
}

static seen
collected(const char *name) {
    seen s = {.name = name};
    OK(hf_session_collect(note, &s, NULL, NULL));
    return s;
}

typedef struct names {
    char items[512][HF_SESSION_NAME_SIZE];
    int count;
} names;

static int
note_name(void *context, const char *name) {
    names *n = context;
    CHECK(n->count < 512);
    snprintf(n->items[n->count++], HF_SESSION_NAME_SIZE, "/%.62s", name);
    return 0;
}

/* All objects of this user, sessions or not. */
static void
list_objects(names *n) {
    char prefix[40];
    n->count = 0;
    snprintf(prefix, sizeof prefix, "holdfast-%lu-", (unsigned long)getuid());
    CHECK(hfi_object_each(prefix, note_name, n) == 0);
}

/* The object that came since and can't be attached: other tests may make good ones. */
static const char *
new_broken(const names *before) {
    static names after;
    list_objects(&after);
    for (int i = 0; i < after.count; i++) {
        hf_session *session;
        int known = 0;
        for (int k = 0; k < before->count; k++)
            known |= strcmp(before->items[k], after.items[i]) == 0;
        if (known)
            continue;
        hf_status status = hf_session_open(after.items[i], &session, NULL);
        if (status == HF_OK)
            hf_session_close(session);
        if (status == HF_E_CORRUPT)
            return after.items[i];
    }
    return NULL;
}

/* As if it had been left a minute ago. */
static void
make_old(int fd) {
    struct timespec times[2] = {{0, UTIME_OMIT}, {0, 0}};
    times[1].tv_sec = (time_t)(hfi_process_unix_ns() / 1000000000 - 60);
    CHECK(futimens(fd, times) == 0);
}

static void
name_of(unsigned number, char name[64]) {
    snprintf(name, 64, "/holdfast-%lu-%08x%08x", (unsigned long)getuid(),
             (unsigned)getpid(), number);
}

static void
test_living_and_dead(void) {
    hf_session *session = new_session(0, 0);
    const char *name = hf_session_name(session);
    seen s = listed(name);
    CHECK(s.count == 1 && s.info.state == HF_OK && s.info.owner_alive == 1);
    CHECK(s.info.process_count == 1);
    CHECK(collected(name).count == 0);
    make_and_die(NULL);
    CHECK(collected(NULL).count >= 1);
    CHECK(listed(name).count == 1);

    /* The owner is dead, but somebody else has it open. */
    int ends[2], go[2];
    CHECK(pipe(ends) == 0 && pipe(go) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *mine = new_session(0, 0);
        CHECK(write(ends[1], hf_session_name(mine), HF_SESSION_NAME_SIZE) > 0);
        char byte;
        CHECK(read(go[0], &byte, 1) == 1);
        raise(SIGKILL);
    }
    char orphan[HF_SESSION_NAME_SIZE];
    hf_session *adopted;
    CHECK(read(ends[0], orphan, sizeof orphan) == sizeof orphan);
    OK(hf_session_open(orphan, &adopted, NULL));
    CHECK(write(go[1], "!", 1) == 1);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(collected(orphan).count == 0);
    CHECK(listed(orphan).info.owner_alive == 0);
    hf_session_close(adopted);
    CHECK(collected(orphan).count == 1);
    CHECK(listed(orphan).count == 0);
    end_session(session);
}

static void
test_half_made(const char *step) {
    static names before;
    int fd;
    list_objects(&before);
    make_and_die(step);
    const char *name = new_broken(&before);
    CHECK(name);
    CHECK(collected(name).count == 0 && listed(name).count == 0); /* young */
    CHECK(hfi_object_open(name, &fd) == 0);
    make_old(fd);
    CHECK(listed(name).info.state == HF_E_CORRUPT);
    hfi_object_hold(fd);
    CHECK(collected(name).count == 0); /* its maker is slow, but lives */
    close(fd);
    seen s = collected(name);
    CHECK(s.count == 1 && s.info.state == HF_E_CORRUPT && s.info.owner_alive == -1);
    CHECK(hfi_object_open(name, &fd) != 0);
}

static void
test_damaged(void) {
    char name[64];
    int fd, holder;
    name_of(1, name);
    CHECK(hfi_object_create(name, &fd) == 0);
    CHECK(hfi_object_allocate(fd, 0, 1 << 20) == 0);
    CHECK(hfi_object_write(fd, "garbage!", 8, 0) == 0);
    make_old(fd);
    CHECK(hfi_object_open(name, &holder) == 0);
    hfi_object_hold(holder);
    CHECK(listed(name).info.state == HF_E_CORRUPT);
    CHECK(collected(name).count == 0); /* another process has it open */
    close(holder);
    CHECK(fchmod(fd, 0644) == 0);
    CHECK(collected(name).count == 0 && listed(name).count == 0);
    CHECK(fchmod(fd, 0600) == 0);
    if (geteuid() == 0) { /* a stranger's */
        CHECK(fchown(fd, 12345, (gid_t)-1) == 0);
        CHECK(collected(name).count == 0 && listed(name).count == 0);
        CHECK(fchown(fd, 0, (gid_t)-1) == 0);
    }
    CHECK(collected(name).count == 1);
    CHECK(hfi_object_open(name, &holder) != 0);
    close(fd);

    /* Not a name of ours: whatever it is, it stays. */
    snprintf(name, sizeof name, "/holdfast-%lu-notes", (unsigned long)getuid());
    if (hfi_object_create(name, &fd) == 0) {
        make_old(fd);
        CHECK(collected(name).count == 0 && listed(name).count == 0);
        close(fd);
        CHECK(hfi_object_unlink(name) == 0);
    }
}

static void
test_other_version_and_gone(void) {
    hf_session *session = new_session(0, 0);
    const char *name = hf_session_name(session);
    session->super->version++;
    CHECK(listed(name).info.state == HF_E_VERSION);
    make_old(session->fd);
    CHECK(collected(name).count == 0);
    session->super->version--;
    atomic_store(&session->super->gone, 1); /* died in the middle of destroying */
    atomic_store(&session->super->magic, 0);
    CHECK(listed(name).info.state == HF_E_GONE);
    CHECK(collected(name).count == 1);
    OK(hf_session_destroy(session, NULL)); /* its name is gone already */
    hf_session_close(session);
}

static void
test_describe(void) {
    hf_session *session = new_session(0, 0);
    hf_region *region;
    uint32_t reaped = 9;
    commit_value(session, "x", "1", 1, NULL);
    OK(hf_region_reserve(session, 1 << 20, 0, &region, NULL, NULL));
    hf_session_info info = info_of(session);
    CHECK(info.generation == 1 && info.entry_count == 1 && info.state == HF_OK);
    CHECK(info.reserved_bytes == 1 << 20 && info.committed_bytes > 0);
    struct stat st;
    CHECK(fstat(session->fd, &st) == 0);
    CHECK(info.allocated_bytes <= (uint64_t)st.st_blocks * 512 + 4096 * 4);
    OK(hf_session_reap(session, 0, &reaped, NULL));
    CHECK(reaped == 0);
    hf_region_release(region);
    end_session(session);
}

int
main(void) {
    test_living_and_dead();
    test_half_made("create:object-made");
    test_half_made("create:allocated");
    test_half_made("create:formatted");
    test_damaged();
    test_other_version_and_gone();
    test_describe();
    return 0;
}
