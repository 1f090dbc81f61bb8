/* thread.c - threads of the monitor, and waiting on its clock.
 *
 * The monitor has two threads: one samples (sampler.c), one asks the GPUs' driver
 * (gpus.c). Both block signals, which belong to the thread that runs the loop. They
 * wait for a time on the monotonic clock: on Linux by the condition's clock, on macOS
 * by the time that is left.
 */
#include "monitor/thread.h"

#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

int64_t
hfi_thread_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t
hfi_thread_now(void) {
    return hfi_thread_clock(CLOCK_MONOTONIC);
}

int
hfi_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(ret_thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

void
hfi_thread_name(const char *name) {
#ifdef __linux__
    prctl(PR_SET_TIMERSLACK, 1UL); /* else the kernel may wake us 50 us late */
    prctl(PR_SET_NAME, name);
#else
    (void)name;
#endif
}

void
hfi_thread_init_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void
hfi_thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock,
                      int64_t due_ns) {
    struct timespec due = {.tv_sec = due_ns / 1000000000,
                           .tv_nsec = due_ns % 1000000000};
#ifdef __APPLE__
    int64_t left = due_ns - hfi_thread_now();
    due.tv_sec = left > 0 ? left / 1000000000 : 0;
    due.tv_nsec = left > 0 ? left % 1000000000 : 0;
    pthread_cond_timedwait_relative_np(condition, lock, &due);
#else
    pthread_cond_timedwait(condition, lock, &due);
#endif
}
