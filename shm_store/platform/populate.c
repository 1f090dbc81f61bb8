/* populate.c - page tables filled and emptied in bulk.
 *
 * They are filled before a user's computation. For reading, one byte in 64 KiB is
 * touched: a fault of Linux maps a window of that size around itself. It takes 63 ms of
 * CPU a GiB. MADV_POPULATE_READ, which visits each page, takes 82. A scan shows where
 * it wasn't enough (a smaller window, a border between two mappings, pages never
 * written or swapped out), and that step is left to MADV_POPULATE_READ. For writing it
 * is always MADV_POPULATE_WRITE: to write a byte back by hand could overwrite a newer
 * one of another thread.
 *
 * They are emptied before other pages are mapped in their place. munmap does that, too,
 * but in one thread, with the address space locked.
 *
 * Threads that work on different tables don't disturb each other. So helpers do a part
 * of a large range: half the time on two cores, and no more CPU.
 */
#include "pages.h"

#include "helpers.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define AROUND ((size_t)64 << 10) /* fault_around_bytes: only root can read it */
#define STEP   ((size_t)2 << 20)  /* touched, then scanned */
#define SHARE  ((size_t)16 << 20) /* so many bytes a thread takes at a time */

typedef struct filling {
    char *address;
    size_t page;
    int write;
    int pagemap; /* or -1 */
} filling;

static void
touch_range(const volatile char *p, size_t size, size_t stride) {
    for (size_t i = 0; i < size; i += stride)
        (void)p[i];
    (void)p[size - 1]; /* the last window begins between two of the others */
}

static int
advise_range(char *address, size_t size, int write) {
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
        touch_range(address, size, AROUND);
        if (hfi_pages_all_present(work->pagemap, address, size))
            return;
    }
    if (advise_range(address, size, work->write) != 0)
        touch_range(address, size, work->page);
}

static void
fill_range(void *context, size_t from, size_t to) {
    const filling *work = context;
    for (size_t at = from; at < to; at += STEP)
        fill_step(work, work->address + at, to - at < STEP ? to - at : STEP);
}

void
hfi_pages_populate(void *address, size_t size, int write) {
    filling work = {.address = address,
                    .page = (size_t)sysconf(_SC_PAGESIZE),
                    .write = write,
                    .pagemap = !write && size >= STEP ? hfi_pages_open() : -1};
    hfi_helpers_divide(size, SHARE, fill_range, &work);
    if (work.pagemap >= 0)
        close(work.pagemap);
}

static void
drop_range(void *context, size_t from, size_t to) {
#ifdef __linux__
    madvise((char *)context + from, to - from, MADV_DONTNEED);
#else
    (void)context, (void)from, (void)to;
#endif
}

void
hfi_pages_drop(void *address, size_t size) {
    hfi_helpers_divide(size, SHARE, drop_range, address);
}
