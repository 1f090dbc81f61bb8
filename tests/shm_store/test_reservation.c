/* test_reservation.c - taking memory where it is scarce: a bounded arena, a limit of
 * file sizes, a small tmpfs that somebody else fills. Always HF_E_NOSPACE, never a
 * signal, and the session goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/region.h"
#include "store_fixture.h"
#ifdef __linux__
#include <sys/mount.h>
#endif

#define SKIPPED 77
#define MIB     ((size_t)1 << 20)

static void
test_capacity(void) {
    hf_session *session = new_session(4 * MIB, HF_SESSION_MEMFD);
    hf_region *region, *second;
    hf_error error = HF_ERROR_INIT;
    CHECK(hf_region_reserve(session, 8 * MIB, 0, &region, NULL, &error) ==
          HF_E_NOSPACE);
    CHECK(error.message[0]);
    OK(hf_region_reserve(session, 3 * MIB, 0, &region, NULL, NULL));
    CHECK(hf_region_reserve(session, 2 * MIB, 0, &second, NULL, NULL) == HF_E_NOSPACE);
    hf_region_release(region); /* to the cache, which gives way */
    OK(hf_region_reserve(session, 2 * MIB, 0, &region, NULL, NULL));
    hf_region_release(region);
    end_session(session);
}

static void
test_trim(void) {
    hf_session *session = new_session(64 * MIB, HF_SESSION_MEMFD);
    hf_region *region;
    int zeroed;
    OK(hf_region_reserve(session, 32 * MIB, 0, &region, &zeroed, NULL));
    CHECK(zeroed);
    memset(hf_region_address(region), 1, 32 * MIB);
    hf_region_release(region);
    CHECK(info_of(session).allocated_bytes >= 32 * MIB);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).allocated_bytes < MIB);
    CHECK(info_of(session).free_bytes == 0);
    OK(hf_region_reserve(session, MIB, 0, &region, &zeroed, NULL));
    CHECK(zeroed && ((char *)hf_region_address(region))[5] == 0);
    hf_region_release(region);
    end_session(session);
}

/* What another program truncates is noticed; trimming and bare extents are no cut. */
static void
test_cut(void) {
    hf_session *session = new_session(64 * MIB, 0);
    hf_region *region;
    CHECK(!hf_session_is_cut(session));
    OK(hf_region_reserve(session, 8 * MIB, 0, &region, NULL, NULL));
    hf_region_release(region);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(!hf_session_is_cut(session));
    OK(hf_region_reserve(session, 8 * MIB, 0, &region, NULL, NULL));
    CHECK(!hf_session_is_cut(session));
    CHECK(ftruncate(hf_session_fd(session), HFI_ARENA_OFFSET + 4096) == 0);
    CHECK(hf_session_is_cut(session));
    hf_region_release(region);
    end_session(session);
}

/* Reserve until there is no more, write to all of it, then give it back; then it works
 * again, commits too. */
static void
exhaust(hf_session *session, size_t least) {
    hf_region *regions[256];
    int n = 0;
    hf_status status;
    while ((status = hf_region_reserve(session, MIB, 0, &regions[n], NULL, NULL)) ==
           HF_OK) {
        memset(hf_region_address(regions[n]), 1, MIB); /* a SIGBUS would end it here */
        CHECK(++n < 256);
    }
    CHECK(status == HF_E_NOSPACE);
    CHECK((size_t)n * MIB >= least);
    char *payload = calloc(1, 2 * MIB);
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    CHECK(put_value(commit, "big", payload, 2 * MIB, NULL, NULL) == HF_E_NOSPACE);
    hf_commit_abort(commit);
    while (n)
        hf_region_release(regions[--n]);
    commit_value(session, "big", payload, 2 * MIB, NULL);
    OK(hf_session_verify(session, NULL));
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).reserved_bytes == 0);
    free(payload);
}

static int
under_limit(void) {
    struct rlimit limit = {HFI_ARENA_OFFSET + 16 * MIB, HFI_ARENA_OFFSET + 16 * MIB};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    hf_session *session = new_session(512 * MIB, HF_SESSION_MEMFD);
    commit_value(session, "small", "x", 1, NULL);
    exhaust(session, 12 * MIB);
    end_session(session);
    return 0;
}

#ifdef __linux__
/* A file that takes what the file system has left. */
static int
fill_rest(void) {
    int fd = open("/dev/shm/filler", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0);
    char block[4096] = {1};
    while (write(fd, block, sizeof block) > 0)
        ;
    CHECK(errno == ENOSPC);
    return fd;
}

static int
write_proc(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fputs(text, file);
    return fclose(file);
}

/* In a new user namespace nobody owns anything until user and group are mapped. */
static int
enter_namespace(void) {
    unsigned long user = getuid(), group = getgid();
    char users[64], groups[64];
    if (unshare(CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)) != 0)
        return -1;
    if (!user)
        return 0;
    snprintf(users, sizeof users, "%lu %lu 1", user, user);
    snprintf(groups, sizeof groups, "%lu %lu 1", group, group);
    return write_proc("/proc/self/uid_map", users) ||
                   write_proc("/proc/self/setgroups", "deny") ||
                   write_proc("/proc/self/gid_map", groups)
               ? -1
               : 0;
}

/* 1 where this process has a /dev/shm of its own now. */
static int
own_shm(const char *options) {
    if (enter_namespace() == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0)
        return 1;
    printf("skipped: no private mount of %s (%s)\n", options, strerror(errno));
    return 0;
}

/* Where huge pages are given they are used, and a full file system is an error
 * still. */
static int
on_huge_tmpfs(void) {
    if (!own_shm("size=32m,mode=1777,huge=advise"))
        return SKIPPED;
    hf_session *session = new_session(32 * MIB, 0);
    size_t huge = (size_t)session->super->huge_page;
    if (!huge || huge > 4 * MIB) {
        printf("skipped: no huge pages\n");
        end_session(session);
        return SKIPPED;
    }
    CHECK(info_of(session).allocated_bytes < MIB); /* the trial left nothing */
    commit_value(session, "small", "x", 1, NULL);
    hf_region *region;
    OK(hf_region_reserve(session, 2 * huge, 0, &region, NULL, NULL));
    CHECK(region->own_piece.offset % huge == 0);
    CHECK((uintptr_t)hf_region_address(region) % huge == 0);
    memset(hf_region_address(region), 1, 2 * huge);
    hf_region_release(region);
    exhaust(session, 20 * MIB);
    end_session(session);
    return 0;
}

static int
on_small_tmpfs(void) {
    if (!own_shm("size=16m,mode=1777"))
        return SKIPPED;
    hf_session *session = new_session(16 * MIB, 0);
    CHECK(hf_session_name(session)[0]); /* in /dev/shm, not a memfd */
    commit_value(session, "before", "x", 1, NULL);
    exhaust(session, 12 * MIB);

    int filler = fill_rest(); /* full, though the arena is not */
    hf_region *region;
    hf_commit *commit;
    char *payload = calloc(1, MIB);
    CHECK(hf_region_reserve(session, MIB, 0, &region, NULL, NULL) == HF_E_NOSPACE);
    OK(hf_commit_begin(session, &commit, NULL));
    CHECK(put_value(commit, "late", payload, MIB, NULL, NULL) == HF_E_NOSPACE);
    hf_commit_abort(commit);
    hf_session *second;
    OK(hf_session_create(NULL, &second, NULL)); /* there is no room: a memfd */
    CHECK(hf_session_name(second)[0] == 0);
    end_session(second);
    OK(hf_session_verify(session, NULL));
    close(filler);
    CHECK(unlink("/dev/shm/filler") == 0);
    commit_value(session, "late", payload, MIB, NULL);
    OK(hf_session_verify(session, NULL));
    free(payload);
    end_session(session);
    return 0;
}
#else
static int
on_small_tmpfs(void) {
    printf("skipped: no tmpfs\n");
    return SKIPPED;
}

static int
on_huge_tmpfs(void) {
    return on_small_tmpfs();
}
#endif

/* In a child, whose limits and mounts end with it. 1 where it could not be tried. */
static int
in_child(int (*test)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int code = test();
        fflush(stdout);
        _exit(code);
    }
    int how;
    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK(WIFEXITED(how));
    CHECK(WEXITSTATUS(how) == 0 || WEXITSTATUS(how) == SKIPPED);
    return WEXITSTATUS(how) == SKIPPED;
}

int
main(void) {
    test_capacity();
    test_trim();
    test_cut();
    CHECK(!in_child(under_limit));
    in_child(on_small_tmpfs);
    in_child(on_huge_tmpfs);
    return 0;
}
