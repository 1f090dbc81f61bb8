/* clock.h - the recorder's clock: ticks of the processor, or ns if it has none.
 *
 * Reading ticks costs a few nanoseconds; their rate is found by comparing them with the
 * system's clock.
 *
 * Threads: call hfi_clock_init in one; all others may be called by any thread after it.
 */
#ifndef HOLDFAST_RECORDER_CLOCK_H
#define HOLDFAST_RECORDER_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A look at both clocks. */
typedef struct hfi_instant {
    uint64_t ticks;
    uint64_t ns;
} hfi_instant;

/* Decide between ticks and ns, and note the time. Call it before the first tick is
 * taken; a second call does nothing. */
void hfi_clock_init(void);

/* Ticks per second, measured since init. Waits until 5 ms have passed since then: two
 * looks that are closer together give no exact rate. */
uint64_t hfi_clock_frequency(void);

/* The same for the ticks of another process of this boot: from its first look to the
 * last one that we have. */
hfi_instant hfi_clock_first(void);
hfi_instant hfi_clock_look(void);
uint64_t hfi_clock_rate(hfi_instant from, hfi_instant to);

/* ns since 1970, only to date the trace. */
uint64_t hfi_clock_realtime(void);
/* ns of processor time of this thread; a system call. */
uint64_t hfi_clock_thread_ns(void);
/* The same of all threads of this process. */
uint64_t hfi_clock_process_ns(void);

/* A name that is the same in all processes that count the same ticks: of this boot of
 * the system, or else of the host. */
void hfi_clock_name(char *name, size_t size);

/* Private to clock.c and the inline functions. */
extern bool hfi_clock_counts;
uint64_t hfi_clock_system(void);

/* Whether ticks are read without a call. */
static inline bool
hfi_clock_is_near(void) {
#if defined(__x86_64__)
    return hfi_clock_counts;
#else
    return false;
#endif
}

static inline uint64_t
hfi_clock_ticks(void) {
#if defined(__x86_64__)
    if (__builtin_expect(hfi_clock_counts, 1))
        return __builtin_ia32_rdtsc();
#endif
    return hfi_clock_system();
}

#endif
