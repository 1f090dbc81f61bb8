/* clock.c - what a tick is, and how long it takes.
 *
 * On x86-64 a tick is one of the time stamp counter, which is read in a third of the
 * time of clock_gettime(). It is used on two conditions: the processor says that its
 * rate is constant in all states of sleep, and the operating system's kernel keeps time
 * by it (a kernel that has found the counters of several processors apart uses another
 * source). Otherwise a tick is a ns of a clock that NTP doesn't slew.
 *
 * Events are stored with raw ticks, and the trace's clock properties say how many ticks
 * make a second. This rate is measured when the recording is closed, over all the time
 * since the process loaded the recorder. So nothing has to be converted while the
 * program runs, and one rate holds for all locations.
 *
 * Rejected:
 * - The rate that the kernel or the processor reports: it isn't available everywhere,
 *   and the nominal rate is wrong by up to some ten ppm.
 * - A conversion piece by piece: times of two threads would disagree.
 */
#include "clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(CLOCK_MONOTONIC_RAW)
#define SYSTEM_CLOCK CLOCK_MONOTONIC_RAW
#else
#define SYSTEM_CLOCK CLOCK_MONOTONIC
#endif

enum { LEAST_NS = 5000000, LOOKS = 8 };

bool hfi_clock_counts;
static hfi_instant first; /* ns 0: not initialized */

static uint64_t
read_clock(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
hfi_clock_system(void) {
    return read_clock(SYSTEM_CLOCK);
}

uint64_t
hfi_clock_realtime(void) {
    return read_clock(CLOCK_REALTIME);
}

uint64_t
hfi_clock_thread_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t
hfi_clock_process_ns(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static bool
counter_is_constant(void) {
#if defined(__x86_64__)
    unsigned int a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
    return false;
#endif
}

static bool
kernel_trusts_counter(void) {
#if defined(__linux__)
    char name[32] = "";
    FILE *file =
        fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (!file)
        return false;
    bool read = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    return read && strcmp(name, "tsc\n") == 0;
#else
    return true;
#endif
}

/* Read both clocks at one time. Of several looks, take the one that took the fewest
 * ticks. */
hfi_instant
hfi_clock_look(void) {
    hfi_instant best = {0, 0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < LOOKS; i++) {
        uint64_t before = hfi_clock_ticks();
        uint64_t ns = hfi_clock_system();
        uint64_t took = hfi_clock_ticks() - before;
        if (took < least) {
            least = took;
            best = (hfi_instant){before + took / 2, ns};
        }
    }
    return best;
}

hfi_instant
hfi_clock_first(void) {
    return first;
}

void
hfi_clock_init(void) {
    if (first.ns)
        return;
    hfi_clock_counts = counter_is_constant() && kernel_trusts_counter();
    first = hfi_clock_look();
}

uint64_t
hfi_clock_rate(hfi_instant from, hfi_instant to) {
    if (to.ns <= from.ns || to.ticks <= from.ticks)
        return 1000000000u;
    double rate = (double)(to.ticks - from.ticks) / (double)(to.ns - from.ns) * 1e9;
    /* The looks may come from a file. With a higher rate to_ns() in profile.c would
     * overflow. */
    return rate >= 1 && rate < 1.8e10 ? (uint64_t)(rate + 0.5) : 1000000000u;
}

uint64_t
hfi_clock_frequency(void) {
    if (!hfi_clock_counts)
        return 1000000000u;
    hfi_instant now = hfi_clock_look();
    if (now.ns - first.ns < LEAST_NS) {
        struct timespec rest = {0, LEAST_NS};
        nanosleep(&rest, NULL);
        now = hfi_clock_look();
    }
    return hfi_clock_rate(first, now);
}

void
hfi_clock_name(char *name, size_t size) {
    name[0] = '\0';
#if defined(__linux__)
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(name, (int)size, file))
            name[0] = '\0';
        fclose(file);
    }
#endif
    name[size - 1] = '\0';
    if (!name[0] && gethostname(name, size - 1) != 0)
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}
