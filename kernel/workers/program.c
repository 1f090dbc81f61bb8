/* program.c - fork and exec of the fork server program, and its end.
 *
 * libzmq has threads in this process, so only async-signal-safe calls are made between
 * fork and exec. All descriptors of this process are close-on-exec. The few that the
 * program is to have lose the flag in the child alone, so no other child can inherit
 * them by accident.
 *
 * The program gets a session of its own. So a terminal's Ctrl-C reaches only the
 * frontend, which decides what to interrupt. At the end one kill of the process group
 * reaches everything that user code has left running there. If the frontend is killed,
 * PDEATHSIG ends the program; on systems without it, the end of file on the control
 * channel does.
 *
 * One thread. PDEATHSIG follows the thread that forked. So the thread that spawns must
 * live as long as the kernel.
 */
#include "workers/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

static void
send_errno(int report, int err) {
    ssize_t ignored = write(report, &err, sizeof err);
    (void)ignored;
}

/* Become the program, with the signal settings that it expects. Returns if that
 * fails. */
static void
execute_program(char *const *argv, int report) {
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
    send_errno(report, errno);
}

static void
run_child(char *const *argv, const int *keep, size_t keep_count, int report) {
    setsid();
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0 && null != STDIN_FILENO) {
        dup2(null, STDIN_FILENO);
        close(null);
    }
    for (size_t i = 0; i < keep_count; i++)
        fcntl(keep[i], F_SETFD, 0);
    execute_program(argv, report);
    _exit(127);
}

/* Fork once more and run the program there, so that nobody has to wait for it. */
static void
run_detached(char *const *argv, int report) {
    pid_t pid = fork();
    if (pid < 0)
        send_errno(report, errno);
    if (pid == 0) {
        setsid();
        execute_program(argv, report);
    }
    _exit(0);
}

/* Fork, and wait until the child runs the program or has reported why it can't. Returns
 * the child's errno, or 0. A child that was detached or has failed has been waited for
 * by then. */
static int
start_program(char *const *argv, const int *keep, size_t keep_count, int detached,
              const int *report, pid_t *ret_pid) {
    pid_t pid = fork();
    int err = pid < 0 ? errno : 0;
    if (pid == 0 && detached)
        run_detached(argv, report[1]);
    if (pid == 0)
        run_child(argv, keep, keep_count, report[1]);
    close(report[1]);
    if (pid > 0) {
        ssize_t size;
        do
            size = read(report[0], &err, sizeof err);
        while (size < 0 && errno == EINTR);
        if (size != sizeof err)
            err = 0;
        if (detached || err != 0)
            while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                continue;
    }
    close(report[0]);
    *ret_pid = pid;
    return err;
}

static hf_status
start_reported(char *const *argv, const int *keep, size_t keep_count, int detached,
               pid_t *ret_pid, hf_error *reterr) {
    int report[2];
    pid_t pid;
    hf_status status = hfi_program_pipe(report, reterr);
    if (status != HF_OK)
        return status;
    fcntl(report[0], F_SETFL, 0); /* we wait for the report */
    int err = start_program(argv, keep, keep_count, detached, report, &pid);
    if (err != 0)
        return hf_error_set_errno(reterr, err, "cannot start %s", argv[0]);
    *ret_pid = pid;
    return HF_OK;
}

hf_status
hfi_program_spawn(char *const *argv, const int *keep, size_t keep_count, pid_t *ret_pid,
                  hf_error *reterr) {
    return start_reported(argv, keep, keep_count, 0, ret_pid, reterr);
}

hf_status
hfi_program_detach(char *const *argv, hf_error *reterr) {
    pid_t ended;
    return start_reported(argv, NULL, 0, 1, &ended, reterr);
}

/* 0: it runs. 1: it has ended, and keeps its number and its group's until it is waited
 * for. -1: somebody has waited for it. */
static int
find_ended(pid_t pid) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return errno == ECHILD ? -1 : 0;
    return info.si_pid == pid;
}

/* `killed`: an argument of kill(): the process or its group. It is killed before the
 * process is waited for: the number could be another group's afterwards. */
static int
end_program(pid_t pid, pid_t killed, int timeout_ms) {
    int status = -1, ended;
    const struct timespec pause = {0, 2000000};
    long long deadline = hfi_clock_ns() + timeout_ms * 1000000LL;
    while ((ended = find_ended(pid)) == 0 && hfi_clock_ns() < deadline)
        nanosleep(&pause, NULL);
    if (ended == 0 || (ended > 0 && killed < 0))
        kill(killed, SIGKILL);
    while (ended >= 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

int
hfi_program_end(pid_t pid, int timeout_ms) {
    return end_program(pid, -pid, timeout_ms);
}

int
hfi_program_lose(pid_t pid, int timeout_ms) {
    return end_program(pid, pid, timeout_ms);
}

/* Take the largest buffers that the system gives without privileges, so that a loop
 * that prints needn't wait for us. */
static void
widen_socket(int fd) {
    const int bytes = 1 << 20;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

static void
set_cloexec(const int fds[2]) {
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    fcntl(fds[1], F_SETFD, FD_CLOEXEC);
}

hf_status
hfi_program_pair(int ret_fds[2], hf_error *reterr) {
#ifdef SOCK_CLOEXEC
    int result = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fds);
#else
    int result = socketpair(AF_UNIX, SOCK_STREAM, 0, ret_fds);
#endif
    if (result != 0)
        return hf_error_set_errno(reterr, errno, "socketpair");
    set_cloexec(ret_fds);
    widen_socket(ret_fds[0]);
    widen_socket(ret_fds[1]);
    return HF_OK;
}

hf_status
hfi_program_pipe(int ret_fds[2], hf_error *reterr) {
    if (pipe(ret_fds) != 0)
        return hf_error_set_errno(reterr, errno, "pipe");
    set_cloexec(ret_fds);
    fcntl(ret_fds[0], F_SETFL, O_NONBLOCK);
    return HF_OK;
}

const char *
hfi_signal_name(int number) {
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"}, {SIGBUS, "SIGBUS"},
        {SIGFPE, "SIGFPE"},   {SIGHUP, "SIGHUP"},   {SIGILL, "SIGILL"},
        {SIGINT, "SIGINT"},   {SIGKILL, "SIGKILL"}, {SIGPIPE, "SIGPIPE"},
        {SIGQUIT, "SIGQUIT"}, {SIGSEGV, "SIGSEGV"}, {SIGSYS, "SIGSYS"},
        {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}, {SIGUSR1, "SIGUSR1"},
        {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}

/* The usual cause of this signal. */
static const char *
known_cause(int number) {
    switch (number) {
    case SIGKILL:
        return ", perhaps because memory ran out";
    case SIGXCPU:
        return ", since its limit of processor time was reached";
    case SIGXFSZ:
        return ", since its limit of a file's size was reached";
    default:
        return "";
    }
}

void
hfi_program_exit_reason(int known, int status, char *ret_text, size_t size) {
    if (known && WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        const char *name = hfi_signal_name(number);
        snprintf(ret_text, size, "was ended by signal %d%s%s%s%s", number,
                 name != NULL ? " (" : "", name != NULL ? name : "",
                 name != NULL ? ")" : "", known_cause(number));
    } else if (known && WIFEXITED(status)) {
        snprintf(ret_text, size, "left with exit status %d", WEXITSTATUS(status));
    } else {
        snprintf(ret_text, size, "ended, or closed its channel to the kernel");
    }
}

long long
hfi_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
