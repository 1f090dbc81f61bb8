/* test_helpers.c - every part is done once, with helpers, without, and where none
 * starts.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "platform/fault.h"
#include "platform/helpers.h"
#include "../support/check.h"

#define STEP   ((size_t)1000)
#define LENGTH (STEP * 7 + 3)

static atomic_int done[LENGTH];
static atomic_int started_threads;
static int starts, refused;

static int
hook(const char *call) {
    if (strcmp(call, "pthread_create") != 0)
        return 0;
    starts++;
    return refused ? EAGAIN : 0;
}

static void
part(void *context, size_t from, size_t to) {
    pthread_t *caller = context;
    sigset_t mask;
    CHECK(from % STEP == 0 && (to - from == STEP || to % STEP == LENGTH % STEP));
    for (size_t i = from; i < to; i++)
        atomic_fetch_add(&done[i], 1);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    if (!pthread_equal(*caller, pthread_self()))
        CHECK(sigismember(&mask, SIGINT)); /* it is the caller's */
    else
        CHECK(!sigismember(&mask, SIGINT));
}

static size_t
cores(void) {
    cpu_set_t cpus;
    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    return (size_t)CPU_COUNT(&cpus);
}

static void
test_divide(void) {
    pthread_t self = pthread_self();
    size_t others = cores() - 1 < HFI_HELPERS_MAX ? cores() - 1 : HFI_HELPERS_MAX;
    for (refused = 0; refused < 2; refused++) {
        starts = 0;
        hfi_helpers_divide(LENGTH, STEP, part, &self);
        for (size_t i = 0; i < LENGTH; i++)
            CHECK(atomic_exchange(&done[i], 0) == 1);
        CHECK(starts == (int)(refused && others ? 1 : others));
    }
    refused = starts = 0;
    hfi_helpers_divide(LENGTH % STEP, STEP, part, &(pthread_t){self});
    CHECK(starts == 0); /* one part: not worth it */
}

static void *
count(void *context) {
    atomic_fetch_add((atomic_int *)context, 1);
    return NULL;
}

static void
test_join(void) {
    hfi_helpers helpers;
    hfi_helpers_start(&helpers, 100, count, &started_threads);
    CHECK(helpers.count <= HFI_HELPERS_MAX);
    int started = (int)helpers.count;
    hfi_helpers_join(&helpers);
    CHECK(helpers.count == 0 && atomic_load(&started_threads) == started);
    hfi_helpers_start(&helpers, 0, count, &started_threads);
    CHECK(helpers.count == 0);
}

int
main(void) {
    hfi_fault_hook = hook;
    test_divide();
    test_join();
    hfi_fault_hook = NULL;
    return 0;
}
