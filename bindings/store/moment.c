/* moment.c - what this process has used until now, in one call.
 *
 * A worker says it when a cell's code begins and when it ends (base/usage.py). In Python
 * that took forty calls, a tenth of the shortest cell. The clocks are read at the edge of
 * the code: last when it begins, first when it ends, so that the reads of the other
 * counters aren't in the cell's time.
 *
 * Files of /proc are opened for each read. A descriptor that stays open could be closed
 * by the cell's code, or be another file then, and a fork's would still name its parent.
 */
#include "module_functions.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attachment.h"
#include "tuning/tuning.h"

#ifndef __WALL
#define __WALL 0
#endif

typedef struct {
    int64_t time_ns, cpu_ns, children_ns;
    char io[512], memory[128]; /* the texts of files in /proc */
    ssize_t io_size, memory_size;
    int64_t most; /* resident bytes */
    int childless;
} moment;

static int64_t
microseconds_of(struct timeval time) {
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

/* The time costs no system call. One call has the processor time, to the microsecond,
 * and the most memory. */
static void
read_clocks(moment *now, int brief) {
    struct timespec time;
    struct rusage own = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    now->time_ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    if (brief)
        return;
    getrusage(RUSAGE_SELF, &own);
    now->cpu_ns =
        1000 * (microseconds_of(own.ru_utime) + microseconds_of(own.ru_stime));
    now->most = (int64_t)own.ru_maxrss * 1024;
}

static ssize_t
read_text(const char *path, char *ret_text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, ret_text, room - 1) : 0;
    if (fd >= 0)
        close(fd);
    size = size > 0 ? size : 0;
    ret_text[size] = '\0';
    return size;
}

static void
read_children(moment *now, int brief) {
    struct rusage children = {0};
    siginfo_t info;
    if (!brief)
        getrusage(RUSAGE_CHILDREN, &children);
    now->children_ns = 1000 * (microseconds_of(children.ru_utime) +
                               microseconds_of(children.ru_stime));
    now->childless =
        waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 &&
        errno == ECHILD;
}

static void
read_files(moment *now) {
    now->io_size = read_text("/proc/self/io", now->io, sizeof now->io);
    now->memory_size = read_text("/proc/self/statm", now->memory, sizeof now->memory);
}

/* 0: done. Memory that is kept only for later isn't counted. */
static int
add_memory(const moment *now, int64_t unused, PyObject *said) {
    const char *at = strchr(now->memory, ' '); /* behind the size of the program */
    int64_t resident = at != NULL ? strtoll(at, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
    int64_t memory = resident - unused, peak = now->most - unused;
    if (memory <= 0)
        return 0;
    PyObject *found = Py_BuildValue("{s:L,s:L,s:L}", "memory", (long long)memory,
                                    "peak", (long long)(peak > memory ? peak : memory),
                                    "unused", (long long)unused);
    int failed = found == NULL || PyDict_Update(said, found) != 0;
    Py_XDECREF(found);
    return failed;
}

/* -1 with an exception. */
static int
leave_cache(PyObject *module, PyObject *session, int64_t *ret_unused) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    if (attachment == NULL)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    *ret_unused = (int64_t)hfi_session_leave_cache(attachment->session);
    Py_END_ALLOW_THREADS
    return 0;
}

static PyObject *
this_moment(PyObject *module, PyObject *args) {
    PyObject *session;
    int begins, brief;
    moment now = {0};
    int64_t unused = 0;
    if (!PyArg_ParseTuple(args, "Opp:_moment", &session, &begins, &brief))
        return NULL;
    if (!begins)
        read_clocks(&now, brief);
    if (session != Py_None && !brief && leave_cache(module, session, &unused) != 0)
        return NULL;
    if (!brief)
        read_files(&now);
    read_children(&now, brief);
    if (begins)
        read_clocks(&now, brief);
    PyObject *said = Py_BuildValue(
        "{s:L,s:L,s:L,s:O,s:y#}", "time_ns", (long long)now.time_ns, "cpu_ns",
        (long long)now.cpu_ns, "children_ns", (long long)now.children_ns, "childless",
        now.childless ? Py_True : Py_False, "io", now.io, (Py_ssize_t)now.io_size);
    if (said == NULL || add_memory(&now, unused, said) != 0) {
        Py_XDECREF(said);
        return NULL;
    }
    return Py_BuildValue("(Nn)", said, (Py_ssize_t)(now.io_size + now.memory_size));
}

PyMethodDef hfi_moment_functions[] = {
    {"_moment", this_moment, METH_VARARGS,
     "_moment(session, begins, brief) -> (moment, bytes): what this process has used "
     "until "
     "now, as the control protocol has it, and how many bytes were read for it. "
     "Memory that the session keeps for later arrays isn't counted; None: there is "
     "no session. The clocks are read last if the cell's code `begins`, else first. "
     "A brief one has the time, and whether there are children."},
    {NULL, NULL, 0, NULL},
};
