/* clock.h - the recorder's clock: ns, never stepping back, not slewed by NTP. */
#ifndef HOLDFAST_RECORDER_CLOCK_H
#define HOLDFAST_RECORDER_CLOCK_H

#include <stdint.h>
#include <time.h>

#if defined(CLOCK_MONOTONIC_RAW)
#define HFI_CLOCK CLOCK_MONOTONIC_RAW
#else
#define HFI_CLOCK CLOCK_MONOTONIC
#endif

static inline uint64_t
hfi_clock_now(void) {
    struct timespec now;
    clock_gettime(HFI_CLOCK, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ns since 1970, for the trace's place in history only. */
static inline uint64_t
hfi_clock_realtime(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
