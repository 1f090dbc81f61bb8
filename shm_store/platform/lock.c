/* lock.c - the writer lock.
 *
 * One word has the holder's slot, so that others can find out which process it is and
 * whether it lives. Waiting is a short spin, then sleeps that grow to a millisecond.
 * Critical sections take microseconds. A sleeper needs no wake-up from the holder, so
 * after a kill no process waits for one.
 *
 * Rejected: a robust pthread mutex (its state is the C library's, differs between
 * versions and containers, and its robust list is in the dead process's memory, which a
 * hostile peer could forge); futexes (Linux only, and a lost wake-up after a kill needs
 * time-outs anyway); flock (a system call on each allocation).
 */
#include "lock.h"

#include <time.h>

#define SPINS      200
#define NAP_MIN_NS 20000
#define NAP_MAX_NS 1000000
#define ASK_NAPS   8 /* naps between two looks at whether the holder lives */

int hfi_lock_patience_ms = 30000;

static int64_t
now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int
hfi_lock_acquire(_Atomic uint64_t *word, uint64_t me,
                 int (*is_dead)(void *context, uint64_t holder), void *context) {
    long nap_ns = NAP_MIN_NS;
    uint64_t unknown = 0; /* a holder of which it is unknown whether it lives */
    int64_t since_ms = 0;
    for (unsigned round = 0;; round++) {
        uint64_t holder = 0;
        if (atomic_compare_exchange_strong(word, &holder, me))
            return 0;
        if (round < SPINS)
            continue;
        int dead = round % ASK_NAPS == 0 ? is_dead(context, holder) : 0;
        if (dead > 0 && atomic_compare_exchange_strong(word, &holder, me))
            return 1;
        if (dead < 0 && holder != unknown) {
            unknown = holder;
            since_ms = now_ms();
        } else if (dead < 0 && now_ms() - since_ms > hfi_lock_patience_ms) {
            return -1;
        }
        struct timespec nap = {0, nap_ns};
        nanosleep(&nap, NULL);
        if (nap_ns < NAP_MAX_NS)
            nap_ns += nap_ns / 2;
    }
}

void
hfi_lock_release(_Atomic uint64_t *word) {
    atomic_store_explicit(word, 0, memory_order_release);
}
