/* fork.c - how a fork is made that is a child of the frontend.
 *
 * It is made by a helper: a process that shares the caller's memory (CLONE_VM, as vfork
 * does, but has descriptors of its own), calls fork() and ends. The helper is the caller's
 * sibling (CLONE_PARENT), a child of the frontend, which waits for it as for all orphans
 * (kernel/workers/children.c). Its child belongs to the frontend, too, once the helper has
 * ended, since that is the nearest subreaper. So a worker outlives the fork server, and
 * dies with the frontend: PDEATHSIG is that of its parent. And the program has no child
 * that it didn't make: no wait() shows one, no SIGCHLD comes, and RUSAGE_CHILDREN has
 * neither memory nor time of a helper.
 *
 * A helper takes processor time, tens of ms if the caller is large: none of a cell's. It
 * ends under a name by which the frontend knows it.
 *
 * The helper runs on a stack of its own. Its child, the new process, returns from the
 * caller's function: it has a copy of that frame, as it was when the helper began. Signals
 * are blocked meanwhile, since the helper has no handlers of its own. It ends after
 * HELPER_SECONDS in any case: handlers of pthread_atfork wait for threads (OpenBLAS does
 * for its pool), and if the caller is killed just then, these are gone.
 *
 * If the helper is killed, the caller ends, too. fork() takes locks of malloc() and
 * others; a helper that dies with them never releases them, and the caller would wait for
 * them for ever. So it ends by SIGKILL, and is treated like any killed process.
 *
 * If there is no clone(), the fork is an ordinary child.
 */
#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#endif

typedef struct fork_plan {
    const hfi_fork_request *request;
    hfi_descriptors descriptors;
    pid_t helper;   /* written by it, */
    double seconds; /* and how much of a processor it used */
} fork_plan;

static int
arrange_descriptors(const fork_plan *plan) {
    const hfi_descriptors *at = &plan->descriptors;
    hfi_fork_purpose purpose = plan->request->purpose;
    if (hfi_descriptors_move(at) < 0 ||
        (purpose == HFI_FORK_WORKER && hfi_descriptors_close_others(at) < 0) ||
        (purpose == HFI_FORK_SLEEPER && hfi_descriptors_give_up(at) < 0))
        return -1;
    hfi_descriptors_close_moved(at);
    return 0;
}

/* ---- the helper ---- */

#ifdef __linux__
#define STACK_SIZE     (256u << 10) /* for the handlers of pthread_atfork, too */
#define HELPER_SECONDS 10
#define HELPER_NAME    "holdfast-helper" /* kernel/session/observe.c has it, too */
#define SLEEPER_NAME   "holdfast-asleep"

typedef struct forking {
    void *frame[5]; /* of __builtin_setjmp */
    fork_plan *plan;
    struct sigaction on_alarm; /* the program's */
    volatile pid_t pid;
    volatile int error;
} forking;

static forking the_fork; /* one thread at a time makes one */

static void
give_up_forking(int signal_number) {
    (void)signal_number;
    the_fork.error = ETIMEDOUT;
    _exit(0);
}

/* The helper's signals are its own, and its child's are as they were. */
static void
arrange_alarm(forking *at, int in_child) {
    const struct sigaction ends = {.sa_handler = give_up_forking};
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    if (in_child) {
        pthread_sigmask(SIG_BLOCK, &alarms, NULL);
        sigaction(SIGALRM, &at->on_alarm, NULL);
        return;
    }
    sigaction(SIGALRM, &ends, &at->on_alarm);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(HELPER_SECONDS);
}

static int
fork_and_end(void *context) {
    forking *at = context;
    struct timespec used = {0};
    at->plan->helper = getpid();
    arrange_alarm(at, 0);
    pid_t pid = arrange_descriptors(at->plan) < 0 ? -1 : fork();
    if (pid == 0) {
        arrange_alarm(at, 1);
        __builtin_longjmp(at->frame, 1);
    }
    at->pid = pid;
    at->error = pid < 0 ? errno : 0;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    at->plan->seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    prctl(PR_SET_NAME, HELPER_NAME);
    _exit(0);
}

static pid_t
fork_aside(fork_plan *plan) {
    static char stack[STACK_SIZE] __attribute__((aligned(64)));
    forking *at = &the_fork;
    if (__builtin_setjmp(at->frame))
        return 0;
    at->plan = plan;
    at->pid = -1;
    at->error = ECANCELED; /* unless the helper gets as far as that */
    if (clone(fork_and_end, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PARENT,
              at) < 0)
        return -1;
    if (at->error == ECANCELED) /* it was killed, and may have died with locks */
        kill(getpid(), SIGKILL);
    errno = at->error;
    return at->pid;
}
#else
static pid_t
fork_aside(fork_plan *plan) {
    (void)plan;
    return fork();
}
#endif

/* ---- timers ---- */

static const int TIMERS[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
#define TIMER_COUNT (sizeof TIMERS / sizeof *TIMERS)

static struct itimerval noted_timers[TIMER_COUNT];

static int
is_running(const struct itimerval *timer) {
    return timerisset(&timer->it_value) || timerisset(&timer->it_interval);
}

int
hfi_fork_note_timers(void) {
    int runs = 0;
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        if (getitimer(TIMERS[i], &noted_timers[i]) != 0)
            noted_timers[i] = (struct itimerval){0};
        runs |= is_running(&noted_timers[i]);
    }
    return runs;
}

void
hfi_fork_start_timers(void) {
    for (size_t i = 0; i < TIMER_COUNT; i++)
        if (is_running(&noted_timers[i]))
            setitimer(TIMERS[i], &noted_timers[i], NULL);
}

/* ---- in the fork ---- */

#ifdef __linux__
#define SCORE_MOST 1000 /* of /proc/self/oom_score_adj, see proc(5) */
#define SCORE_MORE 500

/* What a fork has otherwise while it sleeps. */
typedef struct waking_state {
    char name[16];  /* prctl(2) */
    char score[16]; /* a number and a line's end; empty: it can't be read */
} waking_state;

/* Not by stdio: its buffers would be pages that the fork has for itself. */
static void
exchange_score(int flags, char *text, size_t size) {
    int fd = open("/proc/self/oom_score_adj", flags | O_CLOEXEC);
    ssize_t done = -1;
    if (fd >= 0) {
        done = flags == O_RDONLY ? read(fd, text, size) : write(fd, text, size);
        close(fd);
    }
    if (flags == O_RDONLY)
        text[done > 0 ? done : 0] = '\0';
}

/* Out of memory, the fork is to be ended before the process that it protects. And ps shows
 * what it is. */
static void
go_to_sleep(waking_state *ret_before) {
    char more[sizeof ret_before->score];
    exchange_score(O_RDONLY, ret_before->score, sizeof ret_before->score - 1);
    long score = strtol(ret_before->score, NULL, 10) + SCORE_MORE;
    int size =
        snprintf(more, sizeof more, "%ld", score < SCORE_MOST ? score : SCORE_MOST);
    exchange_score(O_WRONLY, more, (size_t)size);
    prctl(PR_GET_NAME, ret_before->name);
    prctl(PR_SET_NAME, SLEEPER_NAME);
}

static void
wake_up(waking_state *before) {
    exchange_score(O_WRONLY, before->score, strlen(before->score));
    prctl(PR_SET_NAME, before->name);
}
#else
typedef int waking_state;

static void
go_to_sleep(waking_state *ret_before) {
    *ret_before = 0;
}

static void
wake_up(waking_state *before) {
    (void)before;
}
#endif

/* The helper ends at once, and the frontend becomes the parent: die with that. Any other
 * parent means that it is dead already. */
static void
die_with_frontend(const fork_plan *plan) {
#ifdef __linux__
    const struct timespec moment = {0, 100000};
    while (getppid() == plan->helper)
        nanosleep(&moment, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->request->frontend)
        _exit(1);
#else
    (void)plan;
#endif
}

/* Whether there is something to read; 0 at the end of the channel. */
static int
await_word(int channel) {
    struct pollfd at = {.fd = channel, .events = POLLIN};
    char byte;
    ssize_t size;
    do
        poll(&at, 1, -1);
    while ((size = recv(channel, &byte, 1, MSG_PEEK | MSG_DONTWAIT)) < 0 &&
           (errno == EAGAIN || errno == EINTR));
    return size > 0;
}

/* Those of a program that begins; an interrupt is not for a worker without a cell. */
static void
begin_signals(void) {
    const int numbers[] = {SIGTERM, SIGCHLD, SIGALRM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], SIG_DFL);
    signal(SIGINT, SIG_IGN);
}

/* Be a process of its own, with signals blocked. */
static void
part_from_process(const fork_plan *plan) {
    const hfi_fork_request *request = plan->request;
    if (request->session && hf_session_fork_child(request->session, NULL) != HF_OK)
        _exit(1);
#ifndef __linux__
    if (arrange_descriptors(plan) < 0)
        _exit(1);
#endif
    die_with_frontend(plan);
    if (request->purpose == HFI_FORK_WORKER)
        begin_signals();
    if (request->purpose != HFI_FORK_SLEEPER)
        return;
    waking_state before;
    go_to_sleep(&before);
    if (!await_word(plan->descriptors.moves[0].to))
        _exit(0);
    wake_up(&before);
    hfi_descriptors_open_files(&plan->descriptors);
}

/* ---- the call ---- */

/* As fork() does, and with signals blocked until the fork goes on. */
static pid_t
make_fork(fork_plan *plan) {
    hf_session *session = plan->request->session;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork_aside(plan);
    int err = errno;
    if (pid == 0)
        part_from_process(plan);
    else if (session)
        hf_session_fork_parent(session, pid);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = err;
    return pid;
}

static hf_status
read_request(const hfi_fork_request *request, fork_plan *ret_plan, hf_error *error) {
    hfi_descriptors *at = &ret_plan->descriptors;
    if (request->move_count < 1 || request->move_count > HFI_DESCRIPTORS_MAX ||
        request->kept_count > HFI_DESCRIPTORS_MAX - 1)
        return hf_error_set(error, HF_E_INVALID,
                            "%zu descriptors can't be moved, and %zu kept: 1 to %d, "
                            "and %d at most",
                            request->move_count, request->kept_count,
                            HFI_DESCRIPTORS_MAX, HFI_DESCRIPTORS_MAX - 1);
    ret_plan->request = request;
    memcpy(at->moves, request->moves, request->move_count * sizeof *at->moves);
    at->move_count = request->move_count;
    if (request->kept_count > 0)
        memcpy(at->kept, request->kept, request->kept_count * sizeof *at->kept);
    at->kept_count = request->kept_count;
    if (request->session)
        at->kept[at->kept_count++] = hf_session_fd(request->session);
    if (request->purpose == HFI_FORK_SLEEPER && hfi_descriptors_note_places(at) < 0)
        return hf_error_set_errno(error, errno, "the open files can't be listed");
    return HF_OK;
}

hf_status
hfi_fork(const hfi_fork_request *request, pid_t *ret_pid, double *ret_seconds,
         hf_error *error) {
    const hfi_fork_hooks *hooks = &request->hooks;
    fork_plan plan = {0};
    hf_status status = read_request(request, &plan, error);
    if (status != HF_OK) {
        free(plan.descriptors.places);
        return status;
    }
    if (hooks->before)
        hooks->before(hooks->context);
    if (request->session)
        status = hf_session_fork_begin(request->session, error);
    pid_t pid = status == HF_OK ? make_fork(&plan) : -1;
    if (status == HF_OK && pid < 0)
        status = hf_error_set_errno(
            error, errno, "a fork can't be made%s",
            errno == EAGAIN ? ", by ulimit -u or the control group's pids.max" : "");
    if (hooks->after)
        hooks->after(hooks->context, pid);
    free(plan.descriptors.places);
    *ret_pid = pid;
    *ret_seconds = plan.seconds;
    return status;
}
