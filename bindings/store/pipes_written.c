/* pipes_written.c - counting all bytes that were ever written to a worker's fds 1 and
 * 2.
 *
 * Each frame of a worker has these counts, and the frontend shows those bytes before it
 * (kernel/workers/worker.c). The system knows how many bytes are unread, and a tally in
 * shared memory how many were read. Its `turn` is odd while the frontend reads. The
 * count is valid if the turn was even, and the same before and after.
 *
 * A frame is sent for each line of a loop that prints, so this is written in C. Mostly
 * nothing is unread, which takes two system calls. Then no count is needed: the
 * frontend shows what it has read before it looks at the next frame. The interpreter is
 * released only for waiting, which happens if the frontend lost its processor between
 * two instructions.
 */
#include "module_functions.h"
#include "module_state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <time.h>

enum { LOOKS_MAX = 20000, SPINS = 100 };

typedef struct tally { /* hfi_tally of kernel/workers/worker.h */
    _Atomic uint32_t turn;
    uint32_t reserved;
    _Atomic uint64_t read[2];
} tally;

static int
count_unread(const int fds[2], uint64_t ret_unread[2]) {
    for (int i = 0; i < 2; i++) {
        int count = 0;
        if (ioctl(fds[i], FIONREAD, &count) != 0)
            return -1;
        ret_unread[i] = (uint64_t)count;
    }
    return 0;
}

/* 0 with the counts; 1 if it must be tried again; -1 and errno. */
static int
count_written(tally *shared, const int fds[2], uint64_t ret_written[2]) {
    uint64_t waiting[2], before[2];
    uint32_t turn = atomic_load(&shared->turn);
    for (int i = 0; i < 2; i++)
        before[i] = atomic_load(&shared->read[i]);
    if (count_unread(fds, waiting) != 0)
        return -1;
    if (turn & 1 || turn != atomic_load(&shared->turn))
        return 1;
    for (int i = 0; i < 2; i++)
        ret_written[i] = before[i] + waiting[i];
    return 0;
}

static int
look_until_sure(tally *shared, const int fds[2], uint64_t ret_written[2]) {
    const struct timespec pause = {0, 50000};
    int found = 1;
    for (int looks = 0; found == 1 && looks < LOOKS_MAX; looks++) {
        if (looks >= SPINS) {
            Py_BEGIN_ALLOW_THREADS
            nanosleep(&pause, NULL);
            Py_END_ALLOW_THREADS
        }
        found = count_written(shared, fds, ret_written);
    }
    return found;
}

static PyObject *
pipes_written(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    Py_buffer view;
    int fds[2];
    uint64_t counts[2];
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "a tally and two descriptors are wanted");
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        long fd = PyLong_AsLong(arguments[i + 1]);
        if (fd == -1 && PyErr_Occurred())
            return NULL;
        fds[i] = (int)fd;
    }
    if (count_unread(fds, counts) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (counts[0] == 0 && counts[1] == 0)
        Py_RETURN_NONE;
    if (PyObject_GetBuffer(arguments[0], &view, PyBUF_SIMPLE) != 0)
        return NULL;
    int found = 1;
    if ((size_t)view.len >= sizeof(tally) && (uintptr_t)view.buf % _Alignof(tally) == 0)
        found = look_until_sure(view.buf, fds, counts);
    PyBuffer_Release(&view);
    if (found < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (found > 0)
        Py_RETURN_NONE;
    return Py_BuildValue("[KK]", (unsigned long long)counts[0],
                         (unsigned long long)counts[1]);
}

PyMethodDef hfi_pipes_written_functions[] = {
    {"_pipes_written", HFI_METHOD(pipes_written), METH_FASTCALL,
     "_pipes_written(tally, first, second): bytes ever written to each pipe, of which "
     "the tally has those that were read; None if all were."},
    {NULL, NULL, 0, NULL}};
