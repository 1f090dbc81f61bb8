/* clock.h - the recorder's clock: ticks of the processor, or ns where it has none. */
#ifndef HOLDFAST_RECORDER_CLOCK_H
#define HOLDFAST_RECORDER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Decide what to count, and note the time. To be called before the first tick is taken;
 * a second call does nothing. */
void hfi_clock_init(void);

/* How many ticks a second has, from the time since init. Within 5 ms of that it waits,
 * since two looks at the clock that are too close together tell little. */
uint64_t hfi_clock_frequency(void);

/* ns since 1970, for the trace's place in history only. */
uint64_t hfi_clock_realtime(void);

/* clock.c's own. */
extern bool hfi_clock_counts;
uint64_t hfi_clock_system(void);

static inline uint64_t
hfi_clock_ticks(void) {
#if defined(__x86_64__)
    if (__builtin_expect(hfi_clock_counts, 1))
        return __builtin_ia32_rdtsc();
#endif
    return hfi_clock_system();
}

#endif
