/* test_fork.c - forks that are the frontend's: what each has, wakes by, and dies with.
 *
 * This program is the frontend. Each case runs in a child of it, the process that forks.
 */
#include "fork.h"
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NEAR, FAR };

static pid_t frontend;
static int channel[2], said[2];

/* ---- the frontend's side ---- */

/* Run a case in a process of its own: its status, and that of the fork that it made. Negative: the
 * signal that ended it. */
static int
run(void (*body)(void), int *ret_fork) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, channel) == 0 && pipe(said) == 0);
    pid_t maker = fork(), made = 0, pid;
    if (maker == 0) {
        body();
        _exit(0);
    }
    close(channel[FAR]);
    close(said[1]);
    CHECK(read(said[0], &made, sizeof made) >= 0);
    int status, ret = -1000;
    while ((pid = wait(&status)) > 0) { /* the helper is another child */
        int ended = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        if (pid == maker)
            ret = ended;
        else if (pid == made)
            *ret_fork = ended;
    }
    CHECK(errno == ECHILD);
    close(channel[NEAR]);
    close(said[0]);
    return ret;
}

/* ---- the process that forks ---- */

static char calls[16];

static void
before(void *context) {
    strcat(calls, context);
}

static void
after(void *context, pid_t pid) {
    (void)context;
    strcat(calls, pid == 0 ? "fork" : pid > 0 ? "made" : "none");
}

static hf_status
make(hfi_fork_purpose purpose, const int *kept, size_t kept_count, pid_t *ret_pid) {
    const hfi_descriptor_move moves[] = {{channel[FAR], channel[FAR]}};
    const hfi_fork_request request = {
        .purpose = purpose,
        .frontend = frontend,
        .moves = moves,
        .move_count = 1,
        .kept = kept,
        .kept_count = kept_count,
        .hooks = {"before ", before, after},
    };
    hf_error error = HF_ERROR_INIT;
    double seconds = -1;
    hf_status status = hfi_fork(&request, ret_pid, &seconds, &error);
    if (status != HF_OK)
        fprintf(stderr, "%s\n", error.message);
    CHECK(status == HF_OK ? seconds >= 0 : error.message[0]);
    return status;
}

static void
tell(pid_t pid) {
    CHECK(write(said[1], &pid, sizeof pid) == sizeof pid);
}

static void
wake(void) {
    CHECK(write(channel[NEAR], "w", 1) == 1);
}

/* ---- the cases ---- */

static int
is_open(int fd) {
    return fcntl(fd, F_GETFD) >= 0;
}

/* It has what it was given, and nothing else; an interrupt isn't for it. */
static void
worker(void) {
    pid_t pid;
    int other = open("/proc/self/exe", O_RDONLY), pipes[2];
    CHECK(other > 2 && pipe(pipes) == 0);
    signal(SIGTERM, SIG_IGN);
    CHECK(make(HFI_FORK_WORKER, &said[1], 1, &pid) == HF_OK);
    if (pid > 0) {
        CHECK_TEXT(calls, "before made");
        CHECK(is_open(channel[FAR]) && is_open(other));
        tell(pid);
        return;
    }
    CHECK_TEXT(calls, "before fork");
    CHECK(getppid() == frontend);
    CHECK(is_open(channel[FAR]) && is_open(said[1]));
    CHECK(!is_open(other) && !is_open(pipes[0]) && !is_open(pipes[1]) &&
          !is_open(channel[NEAR]));
    char byte;
    CHECK(read(0, &byte, 1) == 0);
    CHECK(signal(SIGINT, SIG_DFL) == SIG_IGN && signal(SIGTERM, SIG_DFL) == SIG_DFL);
    _exit(21);
}

/* It shares all descriptors, and the timers go on when it says so. */
static void
cell(void) {
    pid_t pid;
    int other = open("/proc/self/exe", O_RDONLY);
    const struct itimerval hour = {.it_value = {3600, 0}};
    CHECK(!hfi_fork_note_timers());
    CHECK(setitimer(ITIMER_REAL, &hour, NULL) == 0);
    CHECK(hfi_fork_note_timers());
    signal(SIGTERM, SIG_IGN);
    CHECK(make(HFI_FORK_CELL, NULL, 0, &pid) == HF_OK);
    if (pid > 0) {
        tell(pid);
        return;
    }
    CHECK(is_open(other) && signal(SIGTERM, SIG_DFL) == SIG_IGN);
    struct itimerval now;
    CHECK(getitimer(ITIMER_REAL, &now) == 0 && now.it_value.tv_sec == 0);
    hfi_fork_start_timers();
    CHECK(getitimer(ITIMER_REAL, &now) == 0 && now.it_value.tv_sec > 3000);
    _exit(22);
}

/* The far end of a pipe is given up, a file stands where it stood, and memory is as it was. */
static void
sleeper(void) {
    static volatile int value = 1;
    pid_t pid;
    int file = open("/proc/self/exe", O_RDONLY), pipes[2];
    char byte;
    CHECK(lseek(file, 100, SEEK_SET) == 100 && pipe(pipes) == 0);
    CHECK(make(HFI_FORK_SLEEPER, &said[1], 1, &pid) == HF_OK);
    if (pid == 0) {
        CHECK(value == 1 && lseek(file, 0, SEEK_CUR) == 100);
        CHECK(write(pipes[1], "x", 1) < 0 && errno == EBADF);
        CHECK_TEXT(calls, "before fork");
        _exit(23);
    }
    value = 2;
    close(pipes[1]);
    CHECK(read(pipes[0], &byte, 1) == 0); /* nobody else has the other end */
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    tell(pid);
    wake();
}

static void
unneeded_sleeper(void) {
    pid_t pid;
    CHECK(make(HFI_FORK_SLEEPER, NULL, 0, &pid) == HF_OK);
    if (pid == 0)
        _exit(99);
    tell(pid);
    CHECK(shutdown(channel[NEAR], SHUT_WR) == 0);
}

/* A descriptor that isn't there; no child is left, and the hook hears of it. */
static void
nothing_to_move(void) {
    pid_t pid;
    close(channel[FAR]);
    CHECK(make(HFI_FORK_CELL, NULL, 0, &pid) == HF_E_SYSTEM && pid == -1);
    CHECK_TEXT(calls, "before none");
}

static void
too_much(void) {
    pid_t pid;
    int kept[HFI_DESCRIPTORS_MAX] = {0};
    CHECK(make(HFI_FORK_CELL, kept, HFI_DESCRIPTORS_MAX, &pid) == HF_E_INVALID);
    CHECK_TEXT(calls, "");
}

/* A process whose frontend isn't its parent any more has no fork that lives. */
static void
orphan(void) {
    pid_t pid;
    frontend = 1;
    CHECK(make(HFI_FORK_CELL, NULL, 0, &pid) == HF_OK);
    if (pid == 0)
        _exit(99);
    tell(pid);
}

int
main(void) {
    int made = -1000;
    frontend = getpid();
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    CHECK(run(worker, &made) == 0 && made == 21);
    CHECK(run(cell, &made) == 0 && made == 22);
    CHECK(run(sleeper, &made) == 0 && made == 23);
    CHECK(run(unneeded_sleeper, &made) == 0 && made == 0);
    CHECK(run(orphan, &made) == 0 && made == 1);
    made = -1000;
    CHECK(run(nothing_to_move, &made) == 0 && made == -1000);
    CHECK(run(too_much, &made) == 0 && made == -1000);
    return 0;
}
