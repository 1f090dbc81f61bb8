/* pages.c - finding the pages that a process wrote in its private mappings, and filling
 * page tables.
 *
 * A page of a private file mapping that was written has been replaced by an anonymous
 * page. Linux reports these in two ways. PAGEMAP_SCAN (6.7) walks a range in the kernel
 * and returns runs. /proc/self/pagemap has a word per page. A private copy is present
 * or swapped, and isn't a page of the file. (Swapped ones count: a copy that went to
 * swap is still a change.) If neither works (other systems, gVisor, a hardened /proc),
 * the bytes are compared with the committed ones. That costs memory bandwidth but is
 * always right.
 *
 * Which way works is found by trying it once on a small mapping of our own, and not
 * from a version number: kernels are patched, and sandboxes report wrong versions.
 *
 * A scan costs almost nothing without page tables, and 2 to 8 ms for each GiB that is
 * mapped (bench/store_commit.c). To distinguish a page of the file from a copy, the
 * kernel must look at its struct page: 16 MiB of them. All other categories take 0.5
 * ms, but none of them distinguishes the two. So a large range is divided among
 * helpers, if a sample of its pages shows that much of it is mapped.
 *
 * Huge pages save much time: a fresh GiB takes 65 ms and not 700, filling its page
 * tables 2 and not 63, and scanning it nothing. For shared memory they are off on many
 * systems. They may be on for /dev/shm but not for a memfd, or the other way round.
 * MADV_COLLAPSE (Linux 6.1) makes huge pages of small ones at once, also if the setting
 * is off. It needs a small page to begin with, and finds no huge page if memory is
 * fragmented: then small ones are used. The size of huge pages is found by trying. One
 * takes 0.1 ms, but 4 to 8 ms if the kernel must first move other memory away, or if a
 * host must find memory for its guest (which gives large free blocks back to it). So
 * huge pages are requested in stretches. The first small pages of a stretch show what
 * small ones would cost. Their minimum counts, since a first page may also have to be
 * found. No more huge pages are requested once they took longer than that by a fiftieth
 * of the time for the whole range. A single slow stretch, which the first often is,
 * means nothing for the rest of a large block.
 *
 * Rejected: soft-dirty bits, which need /proc/self/clear_refs; that walks the whole
 * process, is absent in many kernels, and may be used by another program. Userfaultfd's
 * asynchronous write protection: every mapping must be registered and marked before it
 * is written, and it is often forbidden. mprotect and SIGSEGV: a signal handler in the
 * user's process. The kernel's header may be older than the running kernel, so the
 * structures of PAGEMAP_SCAN are declared here.
 */
#include "pages.h"

#include "fault.h"
#include "helpers.h"
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HUGE_MAX (32u << 20)        /* larger ones would waste too much */
#define PART     ((size_t)64 << 20) /* least share of a thread that scans */
#define SAMPLES  16
#define STRETCH  ((size_t)4 << 20) /* made huge at once */
#define ALONE    4  /* the cost of a single page, in units of one of many pages */
#define LEEWAY   64 /* bytes for each ns that huge pages may take longer */

/* Processor time: if other programs compute, that is no reason for small pages. */
static uint64_t
thread_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t (*hfi_pages_clock)(void) = thread_ns;

void
hfi_page_runs_fini(hfi_page_runs *runs) {
    free(runs->items);
    memset(runs, 0, sizeof *runs);
}

int
hfi_page_runs_add(hfi_page_runs *runs, size_t first, size_t count) {
    runs->pages += count;
    if (runs->count) {
        hfi_run *last = &runs->items[runs->count - 1];
        if (last->first + last->count == first) {
            last->count += count;
            return 0;
        }
    }
    if (runs->count == runs->capacity) {
        size_t capacity = runs->capacity ? runs->capacity * 2 : 16;
        hfi_run *items = realloc(runs->items, capacity * sizeof *items);
        if (!items)
            return ENOMEM;
        runs->items = items;
        runs->capacity = capacity;
    }
    runs->items[runs->count++] = (hfi_run){first, count};
    return 0;
}

#ifdef __linux__
struct scan_region {
    uint64_t start, end, categories;
};
struct scan_arguments {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_CALL    _IOWR('f', 16, struct scan_arguments)
#define SCAN_FILE    (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)

int
hfi_pages_open(void) {
    return open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

static int
by_scan(int fd, const void *address, size_t size, size_t page, size_t base,
        hfi_page_runs *runs) {
    int err = hfi_fault("pagemap_scan");
    if (err)
        return err;
    struct scan_region regions[512];
    uint64_t start = (uint64_t)(uintptr_t)address, end = start + size;
    for (uint64_t at = start; at < end && !err;) {
        struct scan_arguments a = {.size = sizeof a,
                                   .start = at,
                                   .end = end,
                                   .vec = (uint64_t)(uintptr_t)regions,
                                   .vec_len = 512,
                                   .category_inverted = SCAN_FILE,
                                   .category_mask = SCAN_FILE,
                                   .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
                                   .return_mask = SCAN_PRESENT | SCAN_SWAPPED};
        int n = ioctl(fd, SCAN_CALL, &a);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err = errno;
        for (int i = 0; i < n && !err; i++)
            err = hfi_page_runs_add(runs,
                                    base + (size_t)(regions[i].start - start) / page,
                                    (size_t)(regions[i].end - regions[i].start) / page);
        if (!err && a.walk_end <= at)
            err = EIO;
        at = a.walk_end;
    }
    return err;
}

int
hfi_pages_all_present(int fd, const void *address, size_t size) {
    struct scan_region absent;
    struct scan_arguments a = {.size = sizeof a,
                               .start = (uint64_t)(uintptr_t)address,
                               .end = (uint64_t)(uintptr_t)address + size,
                               .vec = (uint64_t)(uintptr_t)&absent,
                               .vec_len = 1,
                               .category_inverted = SCAN_PRESENT,
                               .category_mask = SCAN_PRESENT,
                               .return_mask = SCAN_PRESENT};
    return !hfi_fault("pagemap_scan") && ioctl(fd, SCAN_CALL, &a) == 0;
}

static int
by_pagemap(int fd, const void *address, size_t size, size_t page, size_t base,
           hfi_page_runs *runs) {
    int err = hfi_fault("pagemap");
    if (err)
        return err;
    uint64_t words[512];
    size_t first = (uintptr_t)address / page, pages = size / page;
    for (size_t i = 0; i < pages && !err;) {
        size_t want = pages - i < 512 ? pages - i : 512;
        ssize_t n = pread(fd, words, want * 8, (off_t)((first + i) * 8));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 8) {
            err = n < 0 ? errno : EIO;
            break;
        }
        for (size_t k = 0; k < (size_t)n / 8 && !err; k++) {
            int there = (words[k] >> 62) != 0, of_file = (words[k] >> 61) & 1;
            if (there && !of_file)
                err = hfi_page_runs_add(runs, base + i + k, 1);
        }
        i += (size_t)n / 8;
    }
    return err;
}
#else
int
hfi_pages_open(void) {
    return -1;
}

int
hfi_pages_all_present(int fd, const void *address, size_t size) {
    (void)fd, (void)address, (void)size;
    return 0;
}

static int
by_scan(int fd, const void *address, size_t size, size_t page, size_t base,
        hfi_page_runs *runs) {
    (void)fd, (void)address, (void)size, (void)page, (void)base, (void)runs;
    return ENOTSUP;
}

static int
by_pagemap(int fd, const void *address, size_t size, size_t page, size_t base,
           hfi_page_runs *runs) {
    return by_scan(fd, address, size, page, base, runs);
}
#endif

static int
by_comparison(const void *address, size_t size, size_t page, const void *original,
              size_t base, hfi_page_runs *runs) {
    const char *now = address, *then = original;
    for (size_t i = 0; i < size / page; i++)
        if (memcmp(now + i * page, then + i * page, page) != 0) {
            int err = hfi_page_runs_add(runs, base + i, 1);
            if (err)
                return err;
        }
    return 0;
}

static int
scan_pages(enum hfi_pages_way way, int fd, const void *address, size_t size,
           size_t page, size_t base, hfi_page_runs *runs) {
    if (way == HFI_PAGES_SCAN)
        return by_scan(fd, address, size, page, base, runs);
    if (way == HFI_PAGES_PAGEMAP)
        return by_pagemap(fd, address, size, page, base, runs);
    return ENOTSUP;
}

/* ---- by several threads ---- */

typedef struct scanning {
    enum hfi_pages_way way;
    int fd;
    const char *address;
    size_t page, base;
    struct {
        hfi_page_runs runs;
        int err;
    } * parts;
} scanning;

static void
scan_part(void *context, size_t from, size_t to) {
    scanning *work = context;
    work->parts[from / PART].err =
        scan_pages(work->way, work->fd, work->address + from, to - from, work->page,
                   work->base + from / work->page, &work->parts[from / PART].runs);
}

static int
scan_divided(scanning *work, size_t size, hfi_page_runs *runs) {
    size_t count = (size + PART - 1) / PART;
    int err = 0;
    work->parts = calloc(count, sizeof *work->parts);
    if (!work->parts)
        return ENOMEM;
    hfi_helpers_divide(size, PART, scan_part, work);
    for (size_t i = 0; i < count; i++) {
        const hfi_page_runs *part = &work->parts[i].runs;
        if (!err)
            err = work->parts[i].err;
        for (size_t k = 0; !err && k < part->count; k++)
            err = hfi_page_runs_add(runs, part->items[k].first, part->items[k].count);
        hfi_page_runs_fini(&work->parts[i].runs);
    }
    free(work->parts);
    return err;
}

/* Is a good part of a large range in the page tables? */
static int
is_long_work(int fd, const char *address, size_t size, size_t page) {
    int present = 0;
    for (size_t i = 0; size >= 2 * PART && i < SAMPLES; i++)
        present += hfi_pages_all_present(
            fd, address + i * (size / SAMPLES) / page * page, page);
    return present >= SAMPLES / 4;
}

int
hfi_pages_changed(enum hfi_pages_way way, int fd, const void *address, size_t size,
                  size_t page, const void *original, size_t base, hfi_page_runs *runs) {
    size_t count = runs->count, pages = runs->pages;
    hfi_run last = count ? runs->items[count - 1] : (hfi_run){0, 0};
    scanning work = {way, fd, address, page, base, NULL};
    int err = is_long_work(fd, address, size, page)
                  ? scan_divided(&work, size, runs)
                  : scan_pages(way, fd, address, size, page, base, runs);
    if (err == 0 || err == ENOMEM || !original)
        return err;
    runs->count = count; /* it failed half-way: begin again, by comparing */
    runs->pages = pages;
    if (count)
        runs->items[count - 1] = last;
    return by_comparison(address, size, page, original, base, runs);
}

/* Eight pages of a file, mapped privately: 1 is read, 2 and 5 are written. */
static int
way_works(enum hfi_pages_way way, int fd, size_t page) {
    void *address;
    if (hfi_object_map(fd, 0, 8 * page, HFI_MAP_PRIVATE, NULL, &address) != 0)
        return 0;
    volatile char *p = address;
    (void)p[page];
    p[2 * page] = 1;
    p[5 * page] = 1;
    hfi_page_runs runs = {0};
    int pagemap = hfi_pages_open();
    int err = hfi_pages_changed(way, pagemap, address, 8 * page, page, NULL, 0, &runs);
    int works = err == 0 && runs.count == 2 && runs.pages == 2 &&
                runs.items[0].first == 2 && runs.items[1].first == 5;
    hfi_page_runs_fini(&runs);
    hfi_object_unmap(address, 8 * page);
    if (pagemap >= 0)
        close(pagemap);
    return works;
}

enum hfi_pages_way
hfi_pages_best_way(void) {
    static atomic_int known;
    int way = atomic_load(&known);
    if (way)
        return (enum hfi_pages_way)way;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd;
    way = HFI_PAGES_COMPARE;
    if (hfi_object_create_anonymous("holdfast-trial", &fd) == 0) {
        if (hfi_object_allocate(fd, 0, 8 * page) == 0) {
            if (way_works(HFI_PAGES_SCAN, fd, page))
                way = HFI_PAGES_SCAN;
            else if (way_works(HFI_PAGES_PAGEMAP, fd, page))
                way = HFI_PAGES_PAGEMAP;
        }
        close(fd);
    }
    atomic_store(&known, way);
    return (enum hfi_pages_way)way;
}

#ifdef __linux__
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static size_t
huge_size(void) {
    char text[32] = {0};
    int fd = open("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    size_t size = n > 0 ? (size_t)strtoull(text, NULL, 10) : 0;
    return size & (size - 1) || size > HUGE_MAX ? 0 : size;
}

/* Memory for the holes of a shared mapping, and page tables; 0 or an errno. */
static int
populate_holes(void *address, size_t size) {
    while (madvise(address, size, MADV_POPULATE_WRITE) != 0)
        if (errno != EINTR && errno != EAGAIN)
            return errno;
    return 0;
}

/* Try it, and count the time. 1 if there are huge pages now. */
static int
collapse_range(char *address, size_t size, size_t huge, hfi_huge_budget *budget) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t started = hfi_pages_clock();
    for (size_t at = 0; at + huge <= size; at += huge)
        if (populate_holes(address + at, page) != 0)
            return 0;
    uint64_t first = hfi_pages_clock();
    int is_huge =
        hfi_fault("collapse") == 0 && madvise(address, size, MADV_COLLAPSE) == 0;
    int64_t took = (int64_t)(hfi_pages_clock() - first);
    int64_t one = (int64_t)((first - started) / (size / huge));
    if (one < atomic_load(&budget->page_ns))
        atomic_store(&budget->page_ns, one); /* two threads: or nearly */
    int64_t small = atomic_load(&budget->page_ns) * (int64_t)(size / page / ALONE);
    int64_t left = atomic_load(&budget->left_ns) + small - took;
    atomic_store(&budget->left_ns, left < budget->most_ns ? left : budget->most_ns);
    return is_huge;
}

hfi_huge_budget
hfi_pages_budget(size_t size) {
    int64_t ns = (int64_t)(size / LEEWAY);
    return (hfi_huge_budget){ns, ns, INT64_MAX};
}

int
hfi_pages_make_huge(void *address, size_t size, size_t huge, hfi_huge_budget *budget) {
    if (atomic_load(&budget->left_ns) < 0)
        return 0;
    if (collapse_range(address, size, huge, budget))
        return 1;
    atomic_store(&budget->left_ns, -1);
    return 0;
}

int
hfi_pages_allocate(void *address, size_t size, size_t huge) {
    int err = hfi_fault("populate");
    size_t stretch = huge > STRETCH ? huge : STRETCH, made = 0;
    hfi_huge_budget budget = hfi_pages_budget(size);
    madvise(address, size, MADV_HUGEPAGE);
    while (!err && size - made >= huge) {
        size_t left = size - made;
        size_t part = left < stretch ? left / huge * huge : stretch;
        if (!hfi_pages_make_huge((char *)address + made, part, huge, &budget))
            break;
        made += part;
    }
    return err ? err : populate_holes((char *)address + made, size - made);
}

/* Touch one byte. If that makes a huge page, the system gives them. */
size_t
hfi_pages_huge(int fd, uint64_t offset) {
    size_t size = huge_size(), found = 0;
    hfi_huge_budget budget = hfi_pages_budget(size);
    struct stat before, after;
    void *address;
    if (!size || offset % size || fstat(fd, &before) != 0 ||
        hfi_object_truncate(fd, offset + size) != 0)
        return 0;
    if (hfi_object_map(fd, offset, size, HFI_MAP_SHARED, NULL, &address) == 0) {
        madvise(address, size, MADV_HUGEPAGE);
        hfi_pages_make_huge(address, size, size, &budget);
        if (fstat(fd, &after) == 0 &&
            (uint64_t)(after.st_blocks - before.st_blocks) * 512 >= size)
            found = size;
        hfi_object_unmap(address, size);
    }
    if (hfi_object_punch(fd, offset, size) != 0 ||
        hfi_object_truncate(fd, (uint64_t)before.st_size) != 0)
        return 0;
    return found;
}
#else
int
hfi_pages_allocate(void *address, size_t size, size_t huge) {
    (void)address, (void)size, (void)huge;
    return ENOTSUP;
}

hfi_huge_budget
hfi_pages_budget(size_t size) {
    (void)size;
    return (hfi_huge_budget){-1, -1, 0};
}

int
hfi_pages_make_huge(void *address, size_t size, size_t huge, hfi_huge_budget *budget) {
    (void)address, (void)size, (void)huge, (void)budget;
    return 0;
}

size_t
hfi_pages_huge(int fd, uint64_t offset) {
    (void)fd, (void)offset;
    return 0;
}
#endif
