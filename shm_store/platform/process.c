/* process.c - the identity of processes.
 *
 * A pid alone isn't an identity: pids are reused, and a shared-memory object may be
 * visible in another pid namespace (a container that shares /dev/shm). So a process is
 * identified by pid, pid namespace, start time and boot id. An uncertain answer is -1,
 * and callers treat it as alive: a wrong "alive" only keeps memory, while a wrong
 * "dead" would give the memory of a living process away.
 *
 * A process whose leader is a zombie has no memory any more, unless other threads of it
 * still run (the leader called pthread_exit): then field 20, the thread count, is
 * above 1.
 *
 * On its way out a process gives its locks back before it is a zombie. So a process
 * that learns of an end by a lock may find the process alive: its flags show that it is
 * ending.
 *
 * Elsewhere than on Linux the start time is unknown, and kill(pid, 0) decides.
 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
static int
read_proc_file(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n;
    do
        n = read(fd, text, size - 1);
    while (n < 0 && errno == EINTR);
    int err = errno;
    close(fd);
    errno = err;
    if (n < 0)
        return -1;
    text[n] = 0;
    return 0;
}

#define PF_EXITING 4u /* of the flags: the kernel's, and as old as they are */

/* 1 and the start time. 0 if there is no such process, or only a zombie. Negative if
 * that is unknown: a process that has no descriptor left must not count others as dead.
 * The file is that of the leader's task: qemu-user makes up a process's own
 * /proc/PID/stat, with another start time than all others see. */
static int
read_stat(uint64_t pid, uint64_t *ret_start, bool *ret_is_ending) {
    char path[64], text[1024];
    *ret_is_ending = false;
    snprintf(path, sizeof path, "/proc/%llu/task/%llu/stat", (unsigned long long)pid,
             (unsigned long long)pid);
    if (read_proc_file(path, text, sizeof text) != 0)
        return errno == ENOENT || errno == ESRCH ? 0 : -1;
    const char *p = strrchr(text, ')'); /* the name may contain any character */
    char state = 0;
    long threads = 0;
    unsigned flags = 0;
    unsigned long long start = 0;
    if (!p || sscanf(p + 1,
                     " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                     "%*d %ld %*d %llu",
                     &state, &flags, &threads, &start) != 4)
        return -1;
    *ret_start = start;
    *ret_is_ending = (flags & PF_EXITING) != 0;
    return !((state == 'Z' && threads <= 1) || state == 'X');
}

/* Neither of the two changes while a process lives, and a fork is of the same boot. A
 * fork may be in another namespace: if that can't be read any more, the old value
 * holds. */
static uint64_t
boot_hash(void) {
    static _Atomic uint64_t last;
    char text[64];
    if (atomic_load(&last) != 0)
        return atomic_load(&last);
    if (read_proc_file("/proc/sys/kernel/random/boot_id", text, sizeof text) != 0)
        return 0;
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = text; *p && *p != '\n'; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    atomic_store(&last, h);
    return h;
}

static uint64_t
namespace_id(void) {
    static _Atomic uint64_t last;
    struct stat st;
    if (stat("/proc/self/ns/pid", &st) == 0)
        atomic_store(&last, (uint32_t)st.st_ino);
    return atomic_load(&last);
}
#else
static int
read_stat(uint64_t pid, uint64_t *ret_start, bool *ret_is_ending) {
    *ret_start = 0;
    *ret_is_ending = false;
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

static uint64_t
boot_hash(void) {
    return 0;
}

static uint64_t
namespace_id(void) {
    return 0;
}
#endif

hfi_process
hfi_process_of(uint64_t pid) {
    hfi_process process = {0, 0, boot_hash()};
    bool is_ending;
    process.owner = (uint32_t)pid | namespace_id() << 32;
    read_stat(pid, &process.start_time, &is_ending);
    return process;
}

hfi_process
hfi_process_self(void) {
    return hfi_process_of((uint64_t)getpid());
}

static bool
may_be_equal(uint64_t one, uint64_t other) {
    return !one || !other || one == other;
}

int
hfi_process_is_same(const hfi_process *one, const hfi_process *other) {
    return one->owner == other->owner && may_be_equal(one->boot, other->boot) &&
           may_be_equal(one->start_time, other->start_time);
}

static int
look_at_process(const hfi_process *process, bool *ret_is_ending) {
    uint64_t boot = boot_hash(), start = 0;
    *ret_is_ending = false;
    if (!may_be_equal(boot, process->boot))
        return 0;
    uint32_t pid = (uint32_t)process->owner;
    if (pid == 0)
        return 0;
    if (process->owner >> 32 != namespace_id())
        return -1;
    int found = read_stat(pid, &start, ret_is_ending);
    if (found <= 0 && kill((pid_t)pid, 0) != 0)
        return errno == EPERM;
    if (found == 0)
        return 0;
    return may_be_equal(start, process->start_time);
}

int
hfi_process_alive(const hfi_process *process) {
    bool is_ending;
    return look_at_process(process, &is_ending);
}

int
hfi_process_await_end(const hfi_process *process) {
    struct timespec moment = {0, 1000000};
    bool is_ending;
    int alive = look_at_process(process, &is_ending);
    for (int i = 0; i < 1000 && alive == 1 && is_ending; i++) {
        nanosleep(&moment, NULL);
        alive = look_at_process(process, &is_ending);
    }
    return alive;
}

int64_t
hfi_process_unix_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
