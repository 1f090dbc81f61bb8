/* self.c - what every part of a worker needs: sending a frame with its place among the
 * bytes at fds 1 and 2, waiting for a frame, and the public calls about interrupts.
 *
 * A child that a cell has forked has a copy of all this. It has another pid, and may not
 * send: two processes would write into one stream of frames.
 *
 * The handler of SIGINT counts interrupts. The code that ends a cell because of one tells
 * the frontend so; a process that doesn't is ended after a while. In the phases IDLE and
 * HANDING_BACK an interrupt is ignored.
 */
#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/argument.h"

hf_status
hfi_self_send(hf_worker *worker, hfi_frame *frame, hf_error *reterr) {
    int64_t written[2];
    if (getpid() != worker->pid)
        return hf_error_set(reterr, HF_E_GONE,
                            "a child that a cell has forked has no control channel");
    if (hfi_channel_has_place(frame) &&
        hfi_channel_count(worker->channel, true, written) == HF_OK)
        frame->raw = (hfi_ints){written, 2};
    return hfi_channel_send_frame(worker->channel, frame, reterr);
}

hf_status
hfi_self_check_thread(const hf_worker *worker, const char *what, hf_error *reterr) {
    if (pthread_equal(pthread_self(), worker->thread))
        return HF_OK;
    return hf_error_set(reterr, HF_E_INVALID,
                        "%s was called from a thread that the library doesn't call",
                        what);
}

hf_status
hfi_self_make_wake(int ret_wake[2], hf_error *reterr) {
    if (pipe(ret_wake) != 0)
        return hf_error_set_errno(reterr, errno, "no pipe for a worker");
    for (int i = 0; i < 2; i++)
        if (fcntl(ret_wake[i], F_SETFD, FD_CLOEXEC) != 0 ||
            fcntl(ret_wake[i], F_SETFL, O_NONBLOCK) != 0) {
            hf_status status = hf_error_set_errno(reterr, errno, "a worker's pipe");
            close(ret_wake[0]);
            close(ret_wake[1]);
            return status;
        }
    return HF_OK;
}

static int64_t
used_ns(int who) {
    struct rusage usage;
    if (getrusage(who, &usage) != 0)
        return 0;
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

void
hfi_self_moment(hfi_map_moment *ret_moment) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *ret_moment =
        (hfi_map_moment){.time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                         .cpu_ns = used_ns(RUSAGE_SELF),
                         .children_ns = used_ns(RUSAGE_CHILDREN)};
}

void
hfi_self_complain(const char *what, const hf_error *error) {
    char line[HF_ERROR_MESSAGE_SIZE + 200];
    int size = snprintf(line, sizeof line, "worker: %s: %s\n", what, error->message);
    if (size > 0) {
        ssize_t ignored =
            write(2, line, (size_t)size < sizeof line ? (size_t)size : sizeof line);
        (void)ignored;
    }
}

hf_status
hfi_self_await(hf_worker *worker, const char *op, bool ends_early,
               hfi_incoming **ret_incoming, hf_error *reterr) {
    while ((*ret_incoming = hfi_channel_next(worker->channel, op)) == NULL) {
        if (ends_early && hf_worker_is_interrupted(worker))
            return hf_error_set(reterr, HF_INTERRUPTED, "interrupted");
        if (hfi_channel_has_ended(worker->channel))
            return hf_error_set(reterr, HF_E_GONE, "the frontend is gone");
        hfi_channel_wait(worker->channel, -1);
        hf_status status = hfi_channel_fill(worker->channel, reterr);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- interrupts ------------------------------------------------------------------ */

hf_worker_phase
hf_worker_get_phase(const hf_worker *worker) {
    switch (worker != NULL ? hfi_life_get(&worker->life) : HFI_LIFE_IDLE) {
    case HFI_LIFE_PREPARING:
        return HF_PHASE_PREPARING;
    case HFI_LIFE_RUNNING:
        return HF_PHASE_RUNNING;
    case HFI_LIFE_HANDING_BACK:
        return HF_PHASE_HANDING_BACK;
    default:
        return HF_PHASE_IDLE;
    }
}

void
hf_worker_interrupt(hf_worker *worker) {
    int err = errno;
    hf_worker_phase phase = hf_worker_get_phase(worker);
    if (worker == NULL)
        return;
    if (phase == HF_PHASE_PREPARING || phase == HF_PHASE_RUNNING)
        worker->interrupts = 1;
    if (phase == HF_PHASE_RUNNING && worker->language.cancel != NULL)
        worker->language.cancel(worker->language.context);
    errno = err;
}

int
hf_worker_is_interrupted(hf_worker *worker) {
    hf_error error = HF_ERROR_INIT;
    if (worker == NULL || getpid() != worker->pid ||
        atomic_exchange(&worker->interrupts, 0) == 0)
        return 0;
    if (hfi_self_send(worker,
                      HFI_FRAME(from_worker_interrupted, .id = worker->asked.public.id),
                      &error) != HF_OK)
        hfi_self_complain("an interrupt can't be reported", &error);
    return 1;
}

hf_session *
hf_worker_session(const hf_worker *worker) {
    return worker != NULL ? worker->session : NULL;
}
