/* thread.h - threads of the monitor, and waiting on its clock.
 *
 * Threads: any.
 */
#ifndef HFI_MONITOR_THREAD_H
#define HFI_MONITOR_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Now, in ns; the first on CLOCK_MONOTONIC. */
int64_t hfi_thread_now(void);
int64_t hfi_thread_clock(clockid_t clock);

/* An errno, or 0. Signals are for others. */
int hfi_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *context);
/* Of the calling thread, for debuggers: 15 letters. */
void hfi_thread_name(const char *name);

/* A condition that is waited for until a time on CLOCK_MONOTONIC. */
void hfi_thread_init_condition(pthread_cond_t *condition);
void hfi_thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock,
                           int64_t due_ns);

#endif
