/* failing_count.c - counts the calls that may fail, and chooses (failing_calls.h). */
#include "failing_calls.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static hft_calls unseen;
hft_calls *hft_calls_seen = &unseen;

static _Atomic int is_armed;
static long fails_at;
static hft_fault fault;

void
hft_calls_arm(long at, hft_fault how) {
    fails_at = at;
    fault = how;
    atomic_store(&hft_calls_seen->counted, 0);
    atomic_store(&hft_calls_seen->failed, 0);
    hft_calls_seen->name[0] = 0;
    atomic_store(&is_armed, 1);
}

void
hft_calls_disarm(void) {
    atomic_store(&is_armed, 0);
}

void
hft_calls_resume(void) {
    atomic_store(&is_armed, 1);
}

int
hft_calls_pass(const char *name, int may_fail) {
    if (!atomic_load(&is_armed))
        return 0;
    long number = atomic_fetch_add(&hft_calls_seen->counted, 1) + 1;
    if (!fails_at || number < fails_at || (number > fails_at && !fault.ever))
        return 0;
    if (fault.err && !may_fail)
        return 0;
    if (atomic_fetch_add(&hft_calls_seen->failed, 1) == 0)
        strncpy(hft_calls_seen->name, name, sizeof hft_calls_seen->name - 1);
    if (!fault.err)
        raise(SIGKILL);
    return fault.err;
}
