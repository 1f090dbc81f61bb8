/* fork.c - forks that are children of the frontend: workers, the main worker's rollback,
 * and the process of a cell.
 *
 * All of them are made by a helper: a process that shares the caller's memory (CLONE_VM,
 * as vfork does, but has descriptors of its own), calls fork() and ends. The helper is
 * the caller's sibling (CLONE_PARENT), a child of the frontend, which waits for it as
 * for all orphans (kernel/workers/children.c). Its child belongs to the frontend, too,
 * once the helper has ended, since that is the nearest subreaper. So a worker outlives
 * the fork server, and dies with the frontend: PDEATHSIG is that of its parent. And the
 * notebook has no child that it didn't make: RUSAGE_CHILDREN would show the memory and
 * the time of a helper that it had waited for.
 *
 * _fork(session, moves, frontend, kept) makes the rollback. The parent goes on with the
 * fork's pid. The fork sleeps, with a memory that stays as it is now, until its control
 * channel has something to read; then the call returns 0 in it, and it goes on where
 * its parent stood. At the end of the channel it leaves.
 *
 * The parent's program must not notice it. The fork is no child of it, which wait()
 * would show, and no SIGCHLD comes. Nor do Python's hooks for forks run in it: see below.
 *
 * Nor may the sleeping fork hold what the program believes closed: the reader of a pipe
 * would wait for ever for its end, and a port would stay taken. So it gives up pipes,
 * sockets and the like at once; in their place is a descriptor that nothing can be done
 * with, so that their numbers aren't taken by something else: so do terminals. Of files
 * and directories it keeps only the places (O_PATH) while it sleeps: a file that is open
 * for writing can't be executed, and to open one is an event that a watch reports. When
 * it wakes it opens them again, at the offsets where they stood.
 *
 * _fork(session, moves, frontend), without `kept`, makes a fork that goes on at once, as a
 * worker or to run a cell: the call returns 0 in it. Its parent lives on, and all
 * descriptors are shared as after any fork(). The interpreter's calls are made around it
 * as os.fork() makes them: PyOS_BeforeFork, the fork, PyOS_AfterFork_Parent and
 * PyOS_AfterFork_Child.
 *
 * These calls run the hooks of os.register_at_fork, which may be anybody's: `random` is
 * reseeded, a lock is taken and released again. For a quiet fork (`hooks` is given) none
 * runs in the parent. In the fork all run when it goes on, as if it had made the fork
 * itself: `before` first, then `after_in_child`. _fork_child(hooks) makes an ordinary
 * child as quietly. There are three steps:
 *
 *   in the parent   The caller holds the import lock from before the fork until after it,
 *                   as PyOS_BeforeFork would, so no module is half entered.
 *   in the fork     PyOS_AfterFork_Child while the interpreter's list of hooks is empty.
 *                   Until then the fork calls nothing of the interpreter, whose locks
 *                   other threads may have held.
 *   in the fork     _run_fork_hooks(): PyOS_BeforeFork and PyOS_AfterFork_Child, with
 *                   the hooks.
 *
 * Hooks can't run in the fork without the second step: if another thread has asked for
 * the interpreter's lock, the first hook in Python gives it up and waits for ever until
 * that thread has taken it. (And without the first, Python 3.13 aborts.)
 *
 * Locks that the fork inherits:
 *
 *   the import lock          The forking thread has it. PyOS_AfterFork_Child releases it;
 *                            below Python 3.13 it makes it anew.
 *   the interpreter's own    (the GIL, the lists of threads and interpreters, pending
 *                            calls) PyOS_AfterFork_Child makes them anew.
 *   a module's lock          If another thread imports the module at the fork, nobody
 *                            ever releases it in the fork, as after os.fork().
 *   malloc's, and others     fork() itself and handlers of pthread_atfork.
 *   the user's, in Python    Hooks; see holdfast/base/fork_hooks.py for those that wait.
 *
 * The helper runs on a stack of its own. Its child goes back to the frame that the
 * caller waits in: the child's memory has a copy of it, as it was when the helper
 * began. Signals are blocked meanwhile, since the helper has no handlers of its own. It
 * ends after HELPER_SECONDS in any case: handlers of pthread_atfork wait for threads
 * (OpenBLAS does for its pool), and if the caller is killed just then, these are gone.
 *
 * If the helper is killed, the caller ends, too. fork() takes locks of malloc() and
 * others; a helper that dies with them never releases them, and the caller would wait
 * for them for ever. So it ends by SIGKILL, and is treated like any killed process.
 *
 * If there is no clone(), the fork is an ordinary child.
 */
#include "module_functions.h"
#include "attachment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#endif

#define MOVES_MAX 16
#define KEPT_MAX  16

typedef struct descriptor_move {
    int from, to;
} descriptor_move;

/* The fate of the process's descriptors in the fork. */
typedef struct file_place {
    int fd;
    int flags; /* with which it was opened */
    off_t offset;
} file_place;

typedef struct fork_plan {
    descriptor_move moves[MOVES_MAX]; /* the control channel first */
    size_t move_count;
    int kept[KEPT_MAX]; /* its own machinery's, shared with the dead */
    size_t kept_count;
    file_place
        *places; /* of files, as they are at the fork: soon the parent moves on */
    size_t place_count;
    pid_t frontend;
    pid_t helper;    /* written by it, */
    double seconds;  /* and how much of a processor it used */
    int sleeps;      /* until it is needed */
    PyObject *hooks; /* the interpreter's list of those that run in the fork; NULL: they
                        run as after os.fork() */
} fork_plan;

/* ---- descriptors ---- */

static int
is_kept(const fork_plan *plan, int fd) {
    for (size_t i = 0; i < plan->move_count; i++)
        if (plan->moves[i].to == fd)
            return 1;
    for (size_t i = 0; i < plan->kept_count; i++)
        if (plan->kept[i] == fd)
            return 1;
    return 0;
}

/* Put another descriptor in the place of this one, and take it. -1 if it can't be. */
static int
replace(int fd, int other) {
    int closes = fcntl(fd, F_GETFD);
    if (dup2(other, fd) < 0)
        return -1;
    if (closes >= 0)
        fcntl(fd, F_SETFD, closes);
    return 0;
}

#ifdef __linux__
/* The same file by a description of the fork's own; -1. */
static int
open_anew(int fd, int flags) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

static const file_place *
place_of(const fork_plan *plan, int fd) {
    for (size_t i = 0; i < plan->place_count; i++)
        if (plan->places[i].fd == fd)
            return &plan->places[i];
    return NULL;
}

/* -1 if it is held still, whatever it is. */
static int
settle_descriptor(const fork_plan *plan, int fd, int nothing) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno == EBADF ? 0 : -1;
    if (S_ISCHR(st.st_mode) && !isatty(fd))
        return 0;
    int path = place_of(plan, fd) ? open_anew(fd, O_PATH) : -1;
    int failed = replace(fd, path >= 0 ? path : nothing);
    int err = errno;
    if (path >= 0)
        close(path);
    errno = err;
    return failed;
}
#endif

/* In a fork that wakes: files as they were. */
static void
open_files(const fork_plan *plan) {
#ifdef __linux__
    for (size_t i = 0; i < plan->place_count; i++) {
        const file_place *place = &plan->places[i];
        if (is_kept(plan, place->fd) || (place->flags & O_PATH))
            continue;
        int fd = open_anew(place->fd, place->flags);
        if (fd < 0)
            continue; /* nothing can be done with it, as with a pipe */
        lseek(fd, place->offset, SEEK_SET);
        (void)replace(place->fd, fd); /* as above */
        close(fd);
    }
#else
    (void)plan;
#endif
}

/* Give up what others may wait for the end of; see above. -1 if it can't be. */
static int
settle_descriptors(const fork_plan *plan) {
#ifdef __linux__
    int nothing = open("/dev/null", O_PATH | O_CLOEXEC);
    DIR *list = opendir("/proc/self/fd");
    struct dirent *entry;
    int failed = nothing < 0 || !list;
    while (!failed && (entry = readdir(list)) != NULL) {
        int fd = *entry->d_name == '.' ? -1 : atoi(entry->d_name);
        if (fd > 2 && fd != nothing && fd != dirfd(list) && !is_kept(plan, fd))
            failed = settle_descriptor(plan, fd, nothing) < 0;
    }
    int err = errno;
    if (list)
        closedir(list);
    if (nothing >= 0)
        close(nothing);
    errno = err;
    return failed ? -1 : 0;
#else
    (void)plan;
    return 0;
#endif
}

/* The fork's table of descriptors. The parent must not go on before: it may close a file
 * and execute it. */
static int
arrange_descriptors(const fork_plan *plan) {
    for (size_t i = 0; i < plan->move_count; i++)
        if (dup2(plan->moves[i].from, plan->moves[i].to) < 0)
            return -1;
    fcntl(plan->moves[0].to, F_SETFD, FD_CLOEXEC);
    if (plan->sleeps && settle_descriptors(plan) < 0)
        return -1;
    for (size_t i = 0; i < plan->move_count; i++)
        if (!is_kept(plan, plan->moves[i].from))
            close(plan->moves[i].from);
    return 0;
}

/* ---- forking ---- */

#ifdef __linux__
#define STACK_SIZE     (256u << 10) /* for the handlers of pthread_atfork, too */
#define HELPER_SECONDS 10

typedef struct forking {
    void *frame[5]; /* of __builtin_setjmp */
    fork_plan *plan;
    struct sigaction on_alarm; /* the program's */
    volatile pid_t pid;
    volatile int error;
} forking;

static forking the_fork; /* the caller holds the GIL */

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

/* ---- in the fork ---- */

/* Out of memory, the fork is to be ended before the process that it protects. */
static void
give_way_first(const char *score) {
#ifdef __linux__
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t ignored = write(fd, score, strlen(score));
        (void)ignored;
        close(fd);
    }
#else
    (void)score;
#endif
}

/* The helper ends at once, and the frontend becomes the parent: die with that. Any other
 * parent means that it is dead already. */
static void
die_with_frontend(const fork_plan *plan) {
#ifdef __linux__
    const struct timespec moment = {0, 100000};
    while (getppid() == plan->helper)
        nanosleep(&moment, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->frontend)
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

/* Be a process of its own. */
static void
part_from_parent(hf_session *session, const fork_plan *plan) {
    if (session && hf_session_fork_child(session, NULL) != HF_OK)
        _exit(1);
#ifndef __linux__
    if (arrange_descriptors(plan) < 0)
        _exit(1);
#endif
    die_with_frontend(plan);
}

static void
sleep_until_needed(const fork_plan *plan) {
    give_way_first("500");
    if (!await_word(plan->moves[0].to))
        _exit(0);
    give_way_first("0");
    open_files(plan);
}

/* ---- the call ---- */

static int
read_plan(PyObject *moves, PyObject *kept, fork_plan *ret_plan) {
    Py_ssize_t count = PyTuple_GET_SIZE(moves);
    Py_ssize_t kept_count = kept ? PyTuple_GET_SIZE(kept) : 0;
    if (count < 1 || count > MOVES_MAX || kept_count > KEPT_MAX) {
        PyErr_SetString(PyExc_ValueError, "so many descriptors can't be moved or kept");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(moves, i), "ii",
                              &ret_plan->moves[i].from, &ret_plan->moves[i].to))
            return -1;
    for (Py_ssize_t i = 0; i < kept_count; i++) {
        ret_plan->kept[i] = PyObject_AsFileDescriptor(PyTuple_GET_ITEM(kept, i));
        if (ret_plan->kept[i] < 0)
            return -1;
    }
    ret_plan->move_count = (size_t)count;
    ret_plan->kept_count = (size_t)kept_count;
    return 0;
}

#ifdef __linux__
/* To open a file again by the link that /proc has: it needn't have a name any more. */
static int
flags_of(int fd) {
    return fcntl(fd, F_GETFL) & ~(O_NOFOLLOW | O_TMPFILE);
}
#endif

/* Where each open file and directory stands; -1 without memory. */
static int
note_places(fork_plan *plan) {
#ifdef __linux__
    DIR *list = opendir("/proc/self/fd");
    struct dirent *entry;
    size_t room = 0;
    while (list && (entry = readdir(list)) != NULL) {
        int fd = *entry->d_name == '.' ? -1 : atoi(entry->d_name);
        struct stat st;
        if (fd <= 2 || fd == dirfd(list) || fstat(fd, &st) != 0 ||
            !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
            continue;
        if (plan->place_count == room) {
            room = room * 2 + 32;
            file_place *places = realloc(plan->places, room * sizeof *places);
            if (!places) {
                closedir(list);
                errno = ENOMEM;
                return -1;
            }
            plan->places = places;
        }
        plan->places[plan->place_count++] =
            (file_place){fd, flags_of(fd), lseek(fd, 0, SEEK_CUR)};
    }
    if (list)
        closedir(list);
    return list ? 0 : -1;
#else
    (void)plan;
    return 0;
#endif
}

/* ---- the interpreter ---- */

/* In a fork, or in its parent if `pid` isn't 0. */
static void
enter_interpreter(PyObject *hooks, pid_t pid) {
    if (pid != 0) {
        if (!hooks)
            PyOS_AfterFork_Parent();
        return;
    }
    if (hooks)
        PyList_SetSlice(hooks, 0, PY_SSIZE_T_MAX, NULL); /* allocates nothing */
    PyOS_AfterFork_Child();
}

static PyObject *
run_fork_hooks(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyOS_BeforeFork();
    PyOS_AfterFork_Child();
    Py_RETURN_NONE;
}

/* As fork() does, and with signals blocked until the fork goes on. */
static pid_t
make_fork(hf_session *session, fork_plan *plan) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork_aside(plan);
    int err = errno;
    if (pid == 0) {
        part_from_parent(session, plan);
        if (plan->sleeps)
            sleep_until_needed(plan);
    } else if (session) {
        hf_session_fork_parent(session, pid);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = err;
    return pid;
}

/* The fork's pid, 0 in it, and the helper's seconds. `object`: a session, or None. */
static PyObject *
fork_session(PyObject *module, PyObject *object, fork_plan *plan) {
    hf_session *session = NULL;
    if (object != Py_None) {
        hfi_attachment *attachment = hfi_attachment_of(module, object);
        if (!attachment)
            return NULL;
        session = attachment->session;
        if (plan->kept_count == KEPT_MAX)
            return PyErr_Format(PyExc_ValueError, "too many descriptors to keep");
        plan->kept[plan->kept_count++] = hf_session_fd(session);
    }
    if (plan->sleeps && note_places(plan) < 0) {
        free(plan->places);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    hf_error error = HF_ERROR_INIT;
    if (!plan->hooks)
        PyOS_BeforeFork();
    hf_status status = session ? hf_session_fork_begin(session, &error) : HF_OK;
    pid_t pid = status == HF_OK ? make_fork(session, plan) : -1;
    int err = errno;
    enter_interpreter(plan->hooks, pid);
    free(plan->places);
    errno = err;
    if (status != HF_OK)
        return hfi_raise(PyModule_GetState(module), status, &error);
    return pid < 0 ? PyErr_SetFromErrno(PyExc_OSError)
                   : Py_BuildValue("id", (int)pid, plan->seconds);
}

static PyObject *
fork_process(PyObject *module, PyObject *args) {
    PyObject *object, *moves, *kept = NULL;
    fork_plan plan = {0};
    int frontend;
    if (!PyArg_ParseTuple(args, "OO!i|O!O!:_fork", &object, &PyTuple_Type, &moves,
                          &frontend, &PyTuple_Type, &kept, &PyList_Type, &plan.hooks) ||
        read_plan(moves, kept, &plan) < 0)
        return NULL;
    plan.sleeps = kept != NULL;
    plan.frontend = (pid_t)frontend;
    return fork_session(module, object, &plan);
}

static PyObject *
fork_child(PyObject *module, PyObject *hooks) {
    (void)module;
    if (!PyList_CheckExact(hooks))
        return PyErr_Format(PyExc_TypeError, "a list of hooks is needed");
    pid_t pid = fork();
    int err = errno;
    enter_interpreter(hooks, pid);
    errno = err;
    return pid < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromPid(pid);
}

static PyObject *
succeed(PyObject *module, PyObject *object) {
    hfi_attachment *attachment = hfi_attachment_of(module, object);
    if (!attachment)
        return NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_session_fork_succeed(attachment->session, &error);
    if (status != HF_OK)
        return hfi_raise(PyModule_GetState(module), status, &error);
    Py_RETURN_NONE;
}

PyMethodDef hfi_fork_functions[] = {
    {"_fork", fork_process, METH_VARARGS,
     "_fork(session, moves, frontend, kept=None, hooks=None): fork; the fork's pid, or "
     "0 in it, and the processor time of the process that made it. `moves`: pairs of "
     "descriptors, each to be moved from the first to the second in the fork, its "
     "control channel's first; `frontend`: the process that becomes its parent. With "
     "`kept`, it sleeps until it is needed, and of the other descriptors keeps only "
     "these. With `hooks`, the interpreter's list of those that run in a fork, none "
     "runs: the list is empty in the fork. The caller holds the import lock then."},
    {"_fork_child", fork_child, METH_O,
     "_fork_child(hooks): fork a child of this process; its pid, or 0 in it. `hooks`, "
     "and the import lock: as above."},
    {"_run_fork_hooks", run_fork_hooks, METH_NOARGS,
     "_run_fork_hooks(): in a fork whose hooks have not run, run those that os.fork() "
     "runs before it and in it."},
    {"_succeed", succeed, METH_O,
     "_succeed(session): in a fork, go on in the dead parent's place; GoneError where "
     "it can't."},
    {NULL, NULL, 0, NULL}};
