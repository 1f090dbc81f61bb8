/* limit.c - how much memory and how many addresses this process may have.
 *
 * The size of a cache and the growth of an arena are limited to parts of the memory. In
 * a container or a job that isn't the machine's memory: a process that exceeds the
 * limit of a control group is killed, and shared memory counts to the process that
 * touched it first. A process may be in one tree of groups (version 2), in another tree
 * for each controller (version 1), or in both, and each group on the way up may have a
 * limit. Their paths are in /proc/self/cgroup. The places where they are mounted are
 * convention. A path that doesn't exist is a name from outside of a container. Then the
 * container's group is the top of the mount.
 *
 * Addresses are limited by RLIMIT_AS (ulimit -v), mostly on clusters. Elsewhere they
 * are cheap, so the store uses many (session.c).
 */
#include "limit.h"

#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH_SIZE 1024
#define TEXT_SIZE 8192
#define MOUNT     "/sys/fs/cgroup"

/* The beginning of a file as text; 0 if it can't be read. */
static int
read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n;
    do
        n = read(fd, text, size - 1);
    while (n < 0 && errno == EINTR);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static uint64_t
read_group_number(const char *directory, const char *file, uint64_t otherwise) {
    char path[PATH_SIZE + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    if (!read_text(path, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return otherwise; /* version 2 says "max" */
    return strtoull(text, NULL, 10);
}

/* A number behind `name` at the start of a line; 0 if there is none. */
static uint64_t
find_number(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0)
            return strtoull(line + length, NULL, 10);
    }
    return 0;
}

/* ---- control groups ---- */

typedef struct tree {
    const char *mount, *limit, *usage, *inactive;
} tree;

static const tree two = {MOUNT, "memory.max", "memory.current", "inactive_file "};
static const tree two_beside_one = {MOUNT "/unified", "memory.max", "memory.current",
                                    "inactive_file "};
static const tree one = {MOUNT "/memory", "memory.limit_in_bytes",
                         "memory.usage_in_bytes", "total_inactive_file "};

/* The free part of the group's limit. Files that it could drop at once count as
 * free. */
static uint64_t
left_in(const tree *kind, const char *group, uint64_t limit) {
    char path[PATH_SIZE + 64], text[TEXT_SIZE];
    uint64_t used = read_group_number(group, kind->usage, 0), files = 0;
    snprintf(path, sizeof path, "%s/memory.stat", group);
    if (read_text(path, text, sizeof text))
        files = find_number(text, kind->inactive);
    used -= files < used ? files : used;
    return used < limit ? limit - used : 0;
}

/* From the process's own group up to the mount. `path` begins with a slash. */
static void
climb_groups(const char *root, const tree *kind, const char *path, uint64_t *limit,
             uint64_t *left) {
    char group[PATH_SIZE];
    int top = snprintf(group, sizeof group, "%s%s", root, kind->mount);
    if (snprintf(group + top, sizeof group - (size_t)top, "%s", path) < 0 ||
        access(group, F_OK) != 0)
        group[top] = 0;
    for (;;) {
        uint64_t most = read_group_number(group, kind->limit, HFI_NO_LIMIT);
        if (most < *limit)
            *limit = most;
        if (most < INT64_MAX / 2) { /* version 1 has a large number for none */
            uint64_t here = left_in(kind, group, most);
            *left = here < *left ? here : *left;
        }
        char *slash = strrchr(group, '/');
        if (!slash || slash < group + top)
            return;
        *slash = 0;
    }
}

/* Whether `names`, up to a colon and with commas between, has "memory". */
static int
has_memory(const char *names) {
    const char *found = strstr(names, "memory"), *end = strchr(names, ':');
    return found && end && found < end && (found[6] == ',' || found[6] == ':') &&
           (found == names || found[-1] == ',');
}

uint64_t
hfi_limit_of_groups(const char *root, uint64_t *ret_left) {
    char path[PATH_SIZE], text[TEXT_SIZE];
    uint64_t limit = HFI_NO_LIMIT;
    *ret_left = HFI_NO_LIMIT;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_text(path, text, sizeof text))
        return limit;
    char *next;
    for (char *line = text; line && *line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = 0;
        const char *names = strchr(line, ':');
        const char *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        if (names + 1 == group) {
            climb_groups(root, &two, group + 1, &limit, ret_left);
            climb_groups(root, &two_beside_one, group + 1, &limit, ret_left);
        } else if (has_memory(names + 1))
            climb_groups(root, &one, group + 1, &limit, ret_left);
    }
    return limit;
}

/* ---- this process ---- */

uint64_t
hfi_limit_memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t bytes =
        pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 1ull << 32;
    uint64_t left, limit = hfi_limit_of_groups("", &left);
    return limit < bytes ? limit : bytes;
}

uint64_t
hfi_limit_free_bytes(void) {
    char text[TEXT_SIZE];
    uint64_t left, bytes = 0;
    if (read_text("/proc/meminfo", text, sizeof text))
        bytes = find_number(text, "MemAvailable:") * 1024;
    hfi_limit_of_groups("", &left);
    return left < bytes ? left : bytes;
}

uint64_t
hfi_limit_address_bytes(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return HFI_NO_LIMIT;
    return limit.rlim_cur;
}
