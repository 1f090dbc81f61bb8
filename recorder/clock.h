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

/* Decide between ticks and ns, and note the time. To be called before the first tick is
 * taken; a second call does nothing. */
void hfi_clock_init(void);

/* How many ticks a second has, from the time since init. Within 5 ms of that it waits,
 * since two looks at the clock that are too close together give no exact rate. */
uint64_t hfi_clock_frequency(void);

/* The same for another process's ticks, of this boot: from its first look until the
 * last one that we have. */
hfi_instant hfi_clock_first(void);
hfi_instant hfi_clock_look(void);
uint64_t hfi_clock_rate(hfi_instant from, hfi_instant to);

/* ns since 1970, for the trace's place in history only. */
uint64_t hfi_clock_realtime(void);

/* A name that is equal in all processes that count the same ticks: that of the system's
 * boot, or else of the host. */
void hfi_clock_name(char *name, size_t size);

/* clock.c's own. */
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
