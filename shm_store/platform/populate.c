/* populate.c - page tables filled in bulk, before somebody's computation.
 *
 * For reading, one byte in 64 KiB is touched: that is the window which a fault of Linux
 * maps around itself. It takes 63 ms of CPU a GiB, where MADV_POPULATE_READ, which
 * visits each page, takes 82. A scan tells where it was not enough (another window, a
 * border between two mappings, pages never written or swapped out), and that step is
 * left to MADV_POPULATE_READ. For writing it is MADV_POPULATE_WRITE in any case: a byte
 * that is written back by hand might be somebody else's newer one.
 *
 * Faults of different threads in different tables don't meet: two cores need half the
 * time of one, and no more CPU. So helpers take part in what is large. They are there
 * for that long only, and have all signals blocked, which are the caller's. Where none
 * can be started, the caller does all of it.
 *
 * Rejected: helpers that stay, since a process with threads can't be forked as it is;
 * one for each core, since others compute here, too.
 */
#include "populate.h"

#include "fault.h"
#include "pages.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define AROUND      ((size_t)64 << 10) /* fault_around_bytes, which only root can read */
#define STEP        ((size_t)2 << 20)  /* touched, then scanned */
#define SHARE       ((size_t)16 << 20) /* taken by a thread at a time */
#define THREADS_MAX 4

typedef struct filling {
    char *address;
    size_t size;
    size_t page;
    int write;
    int pagemap; /* or -1 */
    atomic_size_t next;
} filling;

static void
touch(const volatile char *p, size_t size, size_t stride) {
    for (size_t i = 0; i < size; i += stride)
        (void)p[i];
    (void)p[size - 1]; /* its window begins between two of the others */
}

static int
advise(char *address, size_t size, int write) {
#ifdef __linux__
    return madvise(address, size, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
#else
    (void)address, (void)size, (void)write;
    return -1;
#endif
}

static void
fill_step(const filling *work, char *address, size_t size) {
    if (work->pagemap >= 0) {
        touch(address, size, AROUND);
        if (hfi_pages_all_present(work->pagemap, address, size))
            return;
    }
    if (advise(address, size, work->write) != 0)
        touch(address, size, work->page);
}

static void *
fill(void *context) {
    filling *work = context;
    size_t at;
    while ((at = atomic_fetch_add(&work->next, SHARE)) < work->size) {
        size_t end = work->size - at < SHARE ? work->size : at + SHARE;
        for (; at < end; at += STEP)
            fill_step(work, work->address + at, end - at < STEP ? end - at : STEP);
    }
    return NULL;
}

/* How many threads may run here, the caller's own among them. */
static size_t
threads_for(size_t size) {
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
    if (count > THREADS_MAX)
        count = THREADS_MAX;
    return count < size / SHARE ? count : size / SHARE;
}

static size_t
start_helpers(filling *work, pthread_t *helpers, size_t count) {
    sigset_t all, before;
    size_t started = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < count && !hfi_fault("pthread_create") &&
           pthread_create(&helpers[started], NULL, fill, work) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void
hfi_pages_populate(void *address, size_t size, int write) {
    filling work = {.address = address,
                    .size = size,
                    .page = (size_t)sysconf(_SC_PAGESIZE),
                    .write = write,
                    .pagemap = !write && size >= STEP ? hfi_pages_open() : -1};
    pthread_t helpers[THREADS_MAX];
    size_t count = threads_for(size), started = 0;
    if (count > 1)
        started = start_helpers(&work, helpers, count - 1);
    fill(&work);
    while (started > 0)
        pthread_join(helpers[--started], NULL);
    if (work.pagemap >= 0)
        close(work.pagemap);
}
