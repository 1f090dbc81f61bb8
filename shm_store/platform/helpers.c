/* helpers.c - threads that help with one large piece of work, and end with it.
 *
 * The store's work on gigabytes is page tables and copies, and threads that work on
 * different ranges rarely disturb each other: two cores need half the time of one. The
 * threads exist only for that time, with all signals blocked, so that the caller gets
 * them. If none can be started, the caller does all of the work.
 *
 * Rejected: helpers that stay, since a process with threads can't be forked safely; one
 * for each core, since other processes compute, too.
 */
#include "helpers.h"

#include "fault.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct division {
    size_t size, step;
    void (*part)(void *context, size_t from, size_t to);
    void *context;
    atomic_size_t next;
} division;

/* Cores that this process may use beside the caller's. */
static size_t
free_cores(void) {
    size_t count = 1;
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        count = (size_t)CPU_COUNT(&set);
#else
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0)
        count = (size_t)online;
#endif
    return count - 1 < HFI_HELPERS_MAX ? count - 1 : HFI_HELPERS_MAX;
}

void
hfi_helpers_start(hfi_helpers *helpers, size_t count, void *(*work)(void *context),
                  void *context) {
    sigset_t all, before;
    size_t cores = count ? free_cores() : 0;
    helpers->count = 0;
    if (count > cores)
        count = cores;
    if (!count)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (helpers->count < count && !hfi_fault("pthread_create") &&
           pthread_create(&helpers->threads[helpers->count], NULL, work, context) == 0)
        helpers->count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void
hfi_helpers_join(hfi_helpers *helpers) {
    while (helpers->count > 0)
        pthread_join(helpers->threads[--helpers->count], NULL);
}

static void *
take_parts(void *context) {
    division *work = context;
    size_t at;
    while ((at = atomic_fetch_add(&work->next, work->step)) < work->size)
        work->part(work->context, at,
                   work->size - at < work->step ? work->size : at + work->step);
    return NULL;
}

void
hfi_helpers_divide(size_t size, size_t step,
                   void (*part)(void *context, size_t from, size_t to), void *context) {
    division work = {.size = size, .step = step, .part = part, .context = context};
    hfi_helpers helpers;
    size_t parts = size / step; /* for a last, short one no helper is started */
    hfi_helpers_start(&helpers, parts > 1 ? parts - 1 : 0, take_parts, &work);
    take_parts(&work);
    hfi_helpers_join(&helpers);
}
