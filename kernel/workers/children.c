/* children.c - the frontend as the parent of its workers.
 *
 * A worker is made by the fork server or by the main worker, and must outlive both. The
 * main worker has objects that are nowhere else, and the sleeping fork is needed just
 * when the main worker is dead. So a worker is forked by a helper process that exits at
 * once (worker/fork.c). The orphan comes to the frontend, which has asked for that as a
 * "subreaper" (Linux). So the frontend is the parent of all workers: it sees how each
 * one ended, and PDEATHSIG of a worker follows the frontend's death only.
 *
 * A subreaper gets all orphans, also the daemons of the notebook's code. Nobody else
 * waits for them, so the frontend does. Otherwise they would stay zombies.
 *
 * Rejected: a signal handler in the workers that checks, when the fork server has died,
 * whether the new parent is the frontend. The notebook's code can change handlers and
 * masks, and a signal during a system call can change what the call returns.
 */
#include "workers/children.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

void
hfi_children_adopt(void) {
#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
#endif
}

void
hfi_children_end(void) {
#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
#endif
}

static pid_t
ended_child(idtype_t kind, id_t id) {
    siginfo_t info = {0};
    if (waitid(kind, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return 0;
    return info.si_pid;
}

int
hfi_child_has_ended(pid_t pid) {
    return pid > 0 && ended_child(P_PID, (id_t)pid) == pid;
}

int
hfi_children_all_live(void) {
#ifdef __linux__
    return ended_child(P_ALL, 0) == 0;
#else
    return 0;
#endif
}

pid_t
hfi_children_ended(void) {
#ifdef __linux__
    return ended_child(P_ALL, 0);
#else
    return 0;
#endif
}

void
hfi_child_end(pid_t pid, int timeout_ms) {
    const struct timespec pause = {0, 1000000};
    siginfo_t info = {0};
    for (int i = 0;
         i < timeout_ms && pid > 0 &&
         waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0;
         i++)
        nanosleep(&pause, NULL);
}

/* Read a file in /proc of a process that has ended. It is gone once the process was
 * waited for. */
static void
read_file(pid_t pid, const char *name, char *ret_text, size_t room) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, ret_text, room - 1) : 0;
    ret_text[size > 0 ? size : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

int
hfi_child_wait(pid_t pid, hfi_exit *ret_exit) {
    struct rusage used;
    memset(ret_exit, 0, sizeof *ret_exit);
    if (!hfi_child_has_ended(pid))
        return 0;
    read_file(pid, "io", ret_exit->io, sizeof ret_exit->io);
    read_file(pid, "comm", ret_exit->name, sizeof ret_exit->name);
    if (wait4(pid, &ret_exit->status, WNOHANG, &used) != pid)
        return 0;
    ret_exit->pid = pid;
    ret_exit->cpu_seconds =
        (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
        1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return 1;
}
