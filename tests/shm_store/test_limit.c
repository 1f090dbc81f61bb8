/* test_limit.c - how much memory this process may have, as control groups of both
 * versions report, and what follows from that and from RLIMIT_AS for a session.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/handle.h"
#include "platform/limit.h"
#include "store_fixture.h"

#define MIB (1ull << 20)

static char root[64];

static void
put_file(const char *path, const char *text) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        CHECK(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static uint64_t
limit(uint64_t *ret_left) {
    return hfi_limit_of_groups(root, ret_left);
}

static void
test_groups(void) {
    uint64_t left;
    CHECK(limit(&left) == HFI_NO_LIMIT && left == HFI_NO_LIMIT); /* nothing there */
    put_file("/proc/self/cgroup", "0::/job/step\n");
    put_file("/sys/fs/cgroup/job/step/memory.max", "max\n");
    CHECK(limit(&left) == HFI_NO_LIMIT && left == HFI_NO_LIMIT);
    put_file("/sys/fs/cgroup/job/memory.max", "1048576000\n"); /* above it */
    put_file("/sys/fs/cgroup/job/memory.current", "748576000\n");
    put_file("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 48576000\n");
    CHECK(limit(&left) == 1048576000 && left == 348576000);
    put_file("/sys/fs/cgroup/job/step/memory.max", "500000000\n");
    put_file("/sys/fs/cgroup/job/step/memory.current", "600000000\n");
    CHECK(limit(&left) == 500000000 && left == 0);
    put_file("/proc/self/cgroup", "0::/elsewhere/outside\n"); /* of the container */
    CHECK(limit(&left) == HFI_NO_LIMIT);
    put_file("/sys/fs/cgroup/memory.max", "7000000\n");
    CHECK(limit(&left) == 7000000);
}

static void
test_groups_of_version_1(void) {
    uint64_t left;
    put_file("/proc/self/cgroup", "12:cpu,cpuacct:/\n4:hugetlb,memory:/slurm/u/job\n"
                                  "2:memory_other:/no\n0::/\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_file("/sys/fs/cgroup/memory/slurm/u/job/memory.limit_in_bytes", "3000000\n");
    put_file("/sys/fs/cgroup/memory/slurm/u/memory.limit_in_bytes", "2000000\n");
    put_file("/sys/fs/cgroup/memory/slurm/u/memory.usage_in_bytes", "500000\n");
    put_file("/sys/fs/cgroup/memory/slurm/u/memory.stat",
             "cache 1\ntotal_inactive_file 200000\n");
    put_file("/sys/fs/cgroup/memory.max", "max\n");
    CHECK(limit(&left) == 2000000 && left == 1700000);
}

/* In a child, since limits of addresses only fall. */
static void
with_addresses(uint64_t bytes, void (*test)(uint64_t bytes)) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct rlimit limit = {bytes, bytes};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        test(bytes);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
          WEXITSTATUS(status) == 0);
}

/* The arena, and all of it in use once more, leave something for the program. */
static void
in_few(uint64_t bytes) {
    hf_session *session = new_session(0, 0);
    hf_session_info info = info_of(session);
    hf_region *region;
    CHECK(info.capacity_bytes <= bytes / 3 + session->page);
    for (int i = 0; i < 20; i++) { /* more than there are addresses for, in turn */
        OK(hf_region_reserve(session, 40 * MIB + (size_t)i * 10 * MIB, 0, &region, NULL,
                             NULL));
        hf_region_release(region);
    }
    end_session(session);
}

/* Too few: an error that says of what. */
static void
in_too_few(uint64_t bytes) {
    hf_session *session;
    hf_error error = HF_ERROR_INIT;
    hf_session_options options = {.struct_size = sizeof options};
    (void)bytes;
    CHECK(hf_session_create(&options, &session, &error) < 0);
    CHECK(strstr(error.message, "RLIMIT_AS") && strstr(error.message, "ulimit -v"));
}

int
main(void) {
    uint64_t left;
    snprintf(root, sizeof root, "/tmp/holdfast-limits-XXXXXX");
    CHECK(mkdtemp(root));
    test_groups();
    test_groups_of_version_1();
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);

    CHECK(hfi_limit_memory_bytes() > 1u << 20);
    CHECK(hfi_limit_memory_bytes() <= hfi_limit_of_groups("", &left));
    CHECK(hfi_limit_free_bytes() <= hfi_limit_memory_bytes());
/* These take all addresses for themselves. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    with_addresses(2048 * MIB, in_few);
    with_addresses(128 * MIB, in_too_few);
#endif
    return 0;
}
