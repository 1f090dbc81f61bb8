/* guardian.c - the program that outlives a recorded process.
 *
 *   holdfast_guardian DIRECTORY [PID]
 *
 * A process that is killed leaves its log file (log_file.c), and somebody has to make a
 * trace of it. The guardian waits for the end of the process, and makes the trace if
 * the process has left such a file. Without PID it does so at once, also for a process that
 * lives, has ended its recording and goes on: then it gives way to that. If children of the
 * process are still recorded, it waits for the last of them and tries again: first for
 * those that have locks, then for those that have lost theirs.
 *
 * The recorded program must not notice the guardian:
 * - It is started before the program runs, and isn't its child: the process that is
 *   started forks the guardian and exits at once. So there is nothing to wait for, and
 *   no SIGCHLD.
 * - It has a session of its own, so no key and no signal to the process group reaches
 *   it.
 * - It notices the program's end through a descriptor of its own (pidfd), so it needs
 *   nothing of the program.
 * - It holds none of the program's files except stderr, for messages. So a reader that
 *   waits for the end of that pipe finds the trace written.
 *
 * Rejected:
 * - A fork of the interpreter: its pages would be copied, one by one, as the program
 *   writes to them.
 * - The program as a child of the guardian: the program would have another process
 *   number, and signals and exit statuses would have to be passed on.
 */
#include "log_file.h"
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ASIDE_NICE 10

#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>

/* A descriptor that is readable when the process has ended; -1 on failure. */
static int
watch_process(pid_t pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0u);
}
#else
static int
watch_process(pid_t pid) {
    (void)pid;
    return -1;
}
#endif

static void
wait_for_end(int watch) {
    struct pollfd one = {.fd = watch, .events = POLLIN};
    while (poll(&one, 1, -1) < 0 && errno == EINTR)
        ;
}

static bool
read_log_head(int directory, const char *name, hfi_log_head *ret_head) {
    if (strncmp(name, "log-", 4) != 0)
        return false;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, ret_head, sizeof *ret_head);
    close(fd);
    return length == (ssize_t)sizeof *ret_head && ret_head->mark == HFI_LOG_FILE_MARK;
}

typedef bool log_test(const hfi_log_head *head, pid_t pid);

static bool
is_of(const hfi_log_head *head, pid_t pid) {
    return (pid_t)(uint32_t)head->process.owner == pid;
}

static bool
is_of_the_living(const hfi_log_head *head, pid_t pid) {
    (void)pid;
    return hfi_process_await_end(&head->process) == 1;
}

static bool
find_log(const char *directory, log_test *test, pid_t pid, hfi_log_head *ret_head) {
    DIR *entries = opendir(directory);
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));)
        found = read_log_head(dirfd(entries), entry->d_name, ret_head) &&
                test(ret_head, pid);
    if (entries)
        closedir(entries);
    return found;
}

static bool
is_left(const hfi_log_head *head, pid_t pid) {
    (void)pid;
    return head->end_time != 0 && (uint32_t)head->process.owner == 0;
}

static bool
has_log(const char *directory, pid_t pid) {
    hfi_log_head head;
    return find_log(directory, is_of, pid, &head);
}

static bool
recover_recording(const char *directory) {
    hfi_recovered found;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_recover(directory, &found, &error);
    if (status < 0)
        fprintf(stderr, "holdfast.scorep: %s can't be recovered: %s\n", directory,
                error.message);
    else if (status == HF_OK && found.processes)
        fprintf(stderr,
                "holdfast.scorep: %zu process%s ended without closing the recording: "
                "%" PRIu64 " events until then are in %s\n",
                found.processes, found.processes == 1 ? "" : "es", found.events,
                directory);
    return status == HF_OK;
}

static void
close_between(int first, int last) {
#if defined(SYS_close_range)
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
#endif
    long end = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd <= last && fd < end && fd < 65536; fd++)
        close(fd);
}

static void
keep_only(int watch) {
    int nothing = open("/dev/null", O_RDWR);
    if (nothing >= 0) {
        dup2(nothing, 0);
        dup2(nothing, 1);
    }
    close_between(3, watch - 1);
    close_between(watch + 1, INT_MAX);
}

/* Open the lock file, in which recorded processes have locked their bytes (parts.c); -1
 * if there is none. */
static int
open_lock(const char *directory) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/parts/lock", directory) >= (int)sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

static struct flock
lock_of_all(void) {
    return (struct flock){
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = (off_t)1 << 40};
}

/* A user who kills a program usually kills its children, too, and these take a moment
 * to end. */
static void
give_others_time(int lock) {
    struct timespec moment = {0, 5000000};
    for (int i = 0; i < 40; i++) {
        struct flock all = lock_of_all();
        if (fcntl(lock, F_OFD_GETLK, &all) != 0 || all.l_type == F_UNLCK)
            return;
        nanosleep(&moment, NULL);
    }
}

static void
leave_stderr(void) {
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, 2); /* don't keep waiting whoever started the program */
}

static void
wait_for_locks(int lock) {
    struct flock all = lock_of_all();
    while (fcntl(lock, F_OFD_SETLKW, &all) != 0 && errno == EINTR)
        ;
    all.l_type = F_UNLCK; /* others may still join */
    (void)fcntl(lock, F_OFD_SETLK, &all);
}

/* Wait for a process that lives and has a log but no lock: a daemon, for example,
 * closes all descriptors. */
static bool
wait_for_somebody(const char *directory) {
    hfi_log_head head;
    if (!find_log(directory, is_of_the_living, 0, &head))
        return false;
    int watch = watch_process((pid_t)(uint32_t)head.process.owner);
    if (watch < 0)
        return hfi_process_await_end(&head.process) == 0; /* it has just ended */
    wait_for_end(watch);
    close(watch);
    return true;
}

static int
guard_process(const char *directory, pid_t pid) {
    int watch = watch_process(pid);
    if (watch < 0)
        return 1;
    if (fork() != 0)
        return 0;
    (void)setsid();
    keep_only(watch);
    wait_for_end(watch);
    int lock = open_lock(directory);
    bool was_killed = has_log(directory, pid);
    if (was_killed && lock >= 0)
        give_others_time(lock);
    if (was_killed)
        (void)recover_recording(directory);
    if (lock < 0)
        return 0;
    leave_stderr();
    do
        wait_for_locks(lock);
    while (wait_for_somebody(directory));
    /* does nothing if the last process has written everything */
    (void)recover_recording(directory);
    return 0;
}

/* The recorded process goes on: its next cell comes first, and has none of our time
 * (HELPER_NAME in kernel/session/observe.c). */
static void
give_way(const char *directory) {
    hfi_log_head head;
    if (!find_log(directory, is_left, 0, &head))
        return;
#if defined(__linux__)
    prctl(PR_SET_NAME, "holdfast-helper");
#endif
    (void)nice(ASIDE_NICE);
}

int
main(int count, char **arguments) {
    if (count == 3)
        return guard_process(arguments[1], (pid_t)atol(arguments[2]));
    if (count == 2)
        give_way(arguments[1]);
    return count == 2 && recover_recording(arguments[1]) ? 0 : 1;
}
