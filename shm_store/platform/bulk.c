/* bulk.c - large blocks written to an object and read from it, by several threads.
 *
 * pwrite holds the file's lock, so that two of them into one object take as long as
 * one. Memory that is mapped needs no such lock: while the caller writes from the front
 * by pwrite, a helper maps the range and copies from the back, until they meet. It
 * takes 0.55 of the time of pwrite alone into recycled pages, and 0.7 into fresh ones.
 *
 * The helper copies where a missing page would be a signal and not an error. So it asks
 * first: MADV_POPULATE_READ tells whether the source is there, MADV_POPULATE_WRITE gets
 * memory for a hole. Where one of them says no, the helper leaves the rest to pwrite,
 * which knows what to answer. Its stores go past the cache, since nobody reads so much
 * again soon; and what it has copied it takes out of its page tables at once, where
 * unmapping all of it at the end would be work for one.
 *
 * Reading takes no lock, so it is divided among helpers as it is.
 *
 * Rejected: mapping on both sides, which is no faster into recycled pages, and a third
 * slower than pwrite alone into fresh ones: those are cleared first, which a write of
 * whole pages needn't. fallocate ahead of the copies: it takes the file's lock, too.
 */
#include "bulk.h"

#include "helpers.h"
#include "object.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define SHARE  ((size_t)2 << 20)  /* written at a time */
#define PART   ((size_t)16 << 20) /* read at a time */
#define MIN    ((size_t)16 << 20) /* from here on a helper is worth its start */
#define AROUND ((size_t)64 << 10) /* as in populate.c */

typedef struct writing {
    int fd;
    int is_hole;
    const char *data;
    size_t size;
    uint64_t offset;
    size_t shares;
    atomic_size_t taken;  /* from both ends together: so they can't pass each other */
    size_t from_the_back; /* that are done; the helper's until it was joined */
    int gave_up;          /* with one that was taken and isn't done */
} writing;

static size_t
share_size(const writing *work, size_t index) {
    size_t rest = work->size - index * SHARE;
    return rest < SHARE ? rest : SHARE;
}

static int
take(writing *work) {
    return atomic_fetch_add(&work->taken, 1) < work->shares;
}

static int
write_share(const writing *work, size_t index) {
    size_t at = index * SHARE;
    return hfi_object_write(work->fd, work->data + at, share_size(work, index),
                            work->offset + at);
}

#ifdef __linux__
/* `to` is page-aligned. */
static void
stream(char *to, const char *from, size_t size) {
    size_t at = 0;
#ifdef __SSE2__
    for (; at + 64 <= size; at += 64)
        for (size_t i = at; i < at + 64; i += 16)
            _mm_stream_si128(
                (__m128i *)(void *)(to + i),
                _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
#endif
    memcpy(to + at, from + at, size - at);
}

static int
copy_share(const writing *work, char *to, const char *from, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)from % page;
    if (madvise((char *)(uintptr_t)from - before, before + size, MADV_POPULATE_READ))
        return -1;
    if (work->is_hole && madvise(to, size, MADV_POPULATE_WRITE))
        return -1;
    for (size_t i = 0; !work->is_hole && i < size; i += AROUND)
        (void)*(volatile char *)(to + i); /* one fault maps all of its window */
    stream(to, from, size);
    madvise(to, size, MADV_DONTNEED);
    return 0;
}

static void *
copy_from_the_back(void *context) {
    writing *work = context;
    void *address;
    if (hfi_object_map(work->fd, work->offset, work->size, HFI_MAP_SHARED, NULL,
                       &address) != 0)
        return NULL;
    while (!work->gave_up && take(work)) {
        size_t index = work->shares - 1 - work->from_the_back, at = index * SHARE;
        if (copy_share(work, (char *)address + at, work->data + at,
                       share_size(work, index)) == 0)
            work->from_the_back++;
        else
            work->gave_up = 1;
    }
    hfi_object_unmap(address, work->size);
    return NULL;
}

/* What lies past the object's end can't be given memory through a mapping. */
static int
reach_the_end(const writing *work) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return !work->is_hole ||
           hfi_object_allocate(work->fd, work->offset + (work->size - 1) / page * page,
                               page) == 0;
}

static void
start_helper(writing *work, hfi_helpers *helpers) {
    helpers->count = 0;
    if (work->size >= MIN && reach_the_end(work))
        hfi_helpers_start(helpers, 1, copy_from_the_back, work);
}
#else
static void
start_helper(writing *work, hfi_helpers *helpers) {
    (void)work;
    helpers->count = 0;
}
#endif

int
hfi_bulk_write(int fd, const void *data, size_t size, uint64_t offset, int is_hole) {
    writing work = {.fd = fd,
                    .is_hole = is_hole,
                    .data = data,
                    .size = size,
                    .offset = offset,
                    .shares = (size + SHARE - 1) / SHARE};
    hfi_helpers helpers;
    int err = 0;
    start_helper(&work, &helpers);
    if (!helpers.count) /* in one go */
        return hfi_object_write(fd, data, size, offset);
    for (size_t front = 0; !err && take(&work); front++)
        err = write_share(&work, front);
    if (err) /* no share is left for the helper */
        atomic_store(&work.taken, work.shares);
    hfi_helpers_join(&helpers);
    if (!err && work.gave_up)
        err = write_share(&work, work.shares - 1 - work.from_the_back);
    return err;
}

typedef struct reading {
    int fd;
    char *data;
    uint64_t offset;
    atomic_int err;
} reading;

static void
read_part(void *context, size_t from, size_t to) {
    reading *work = context;
    int err =
        hfi_object_read(work->fd, work->data + from, to - from, work->offset + from);
    if (err)
        atomic_store(&work->err, err);
}

int
hfi_bulk_read(int fd, void *data, size_t size, uint64_t offset) {
    reading work = {.fd = fd, .data = data, .offset = offset};
    hfi_helpers_divide(size, PART, read_part, &work);
    return atomic_load(&work.err);
}
