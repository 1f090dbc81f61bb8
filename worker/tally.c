/* tally.c - counting all bytes that were ever written to a worker's fds 1 and 2.
 *
 * Frames of a worker that users see have these counts, and the frontend shows those bytes before them
 * (kernel/workers/worker.c). The system knows how many bytes are unread, and a tally in
 * shared memory how many were read. Its `turn` is odd while the frontend reads. The
 * count is valid if the turn was even, and the same before and after.
 *
 * A frame is sent for each line of a loop that prints. Mostly nothing is unread, which
 * takes two system calls. Then no count is needed: the frontend shows what it has read
 * before it looks at the next frame. To wait is rare: it happens if the frontend lost its
 * processor between two instructions.
 */
#include "tally.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "workers/control.h"

enum { LOOKS_MAX = 20000, SPINS = 100, TALLY = 2 };

void
hfi_pipes_init(hfi_pipes *pipes) {
    *pipes = (hfi_pipes){.fds = {-1, -1, -1}};
    pthread_mutex_init(&pipes->mutex, NULL);
}

void
hfi_pipes_fini(hfi_pipes *pipes) {
    hfi_pipes_forget(pipes);
    pthread_mutex_destroy(&pipes->mutex);
}

/* With the lock. */
static void
forget_pipes(hfi_pipes *pipes) {
    for (int i = 0; i < 3; i++) {
        if (pipes->fds[i] >= 0)
            close(pipes->fds[i]);
        pipes->fds[i] = -1;
    }
    if (pipes->tally != NULL)
        munmap(pipes->tally, sizeof *pipes->tally);
    pipes->tally = NULL;
}

void
hfi_pipes_forget(hfi_pipes *pipes) {
    pthread_mutex_lock(&pipes->mutex);
    forget_pipes(pipes);
    pthread_mutex_unlock(&pipes->mutex);
}

void
hfi_pipes_begin_anew(hfi_pipes *pipes) {
    pthread_mutex_init(&pipes->mutex, NULL);
    hfi_pipes_forget(pipes);
}

hf_status
hfi_pipes_watch_consume(hfi_pipes *pipes, int tally, const int fds[2],
                        hf_error *reterr) {
    void *address = mmap(NULL, sizeof(hfi_tally), PROT_READ, MAP_SHARED, tally, 0);
    hf_status status = HF_OK;
    pthread_mutex_lock(&pipes->mutex);
    forget_pipes(pipes);
    pipes->fds[TALLY] = tally;
    pipes->tally = address == MAP_FAILED ? NULL : address;
    for (int i = 0; i < 2; i++)
        pipes->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    if (!pipes->tally || pipes->fds[0] < 0 || pipes->fds[1] < 0) {
        status = hf_error_set_errno(reterr, errno, "the pipes can't be watched");
        forget_pipes(pipes);
    }
    pthread_mutex_unlock(&pipes->mutex);
    return status;
}

/* HF_NOT_FOUND: nothing is unread. HF_AGAIN: it must be tried again. */
static hf_status
look_once(hfi_pipes *pipes, int64_t ret_written[2]) {
    uint64_t before[2];
    int unread[2];
    if (pipes->tally == NULL)
        return HF_NOT_FOUND;
    uint32_t turn = atomic_load(&pipes->tally->turn);
    for (int i = 0; i < 2; i++) {
        before[i] = atomic_load(&pipes->tally->read[i]);
        if (ioctl(pipes->fds[i], FIONREAD, &unread[i]) != 0) {
            /* The user closed everything; the numbers may be another file's. */
            pipes->fds[0] = pipes->fds[1] = pipes->fds[TALLY] = -1;
            forget_pipes(pipes);
            return HF_NOT_FOUND;
        }
    }
    if (unread[0] == 0 && unread[1] == 0)
        return HF_NOT_FOUND;
    if (turn & 1 || turn != atomic_load(&pipes->tally->turn))
        return HF_AGAIN;
    for (int i = 0; i < 2; i++)
        ret_written[i] = (int64_t)(before[i] + (uint64_t)unread[i]);
    return HF_OK;
}

hf_status
hfi_pipes_count(hfi_pipes *pipes, bool waits, int64_t ret_written[2]) {
    const struct timespec pause = {0, 50000};
    hf_status status = HF_AGAIN;
    for (int looks = 0; status == HF_AGAIN && looks < (waits ? LOOKS_MAX : SPINS);
         looks++) {
        if (looks >= SPINS)
            nanosleep(&pause, NULL);
        pthread_mutex_lock(&pipes->mutex);
        status = look_once(pipes, ret_written);
        pthread_mutex_unlock(&pipes->mutex);
    }
    return status == HF_AGAIN && waits ? HF_NOT_FOUND : status;
}
