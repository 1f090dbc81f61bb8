/* test_pages.c - every way of finding written pages gives the same answer, and
 * populated is every page.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/fault.h"
#include "platform/object.h"
#include "platform/pages.h"
#include "../support/check.h"

static void
check_way(enum hfi_pages_way way, int fd, size_t page) {
    void *address, *original;
    hfi_page_runs runs = {0};
    int pagemap = hfi_pages_open();
    CHECK(hfi_object_map(fd, 0, 64 * page, HFI_MAP_PRIVATE, NULL, &address) == 0);
    CHECK(hfi_object_map(fd, 0, 64 * page, HFI_MAP_READ, NULL, &original) == 0);
    char *p = address;
    hfi_pages_populate(p, 64 * page, 0);
    p[3 * page] = 1;
    p[4 * page + 7] = 1;
    p[63 * page] = 1;
    CHECK(hfi_pages_changed(way, pagemap, p, 64 * page, page, original, 100, &runs) ==
          0);
    CHECK(runs.count == 2 && runs.pages == 3);
    CHECK(runs.items[0].first == 103 && runs.items[0].count == 2);
    CHECK(runs.items[1].first == 163 && runs.items[1].count == 1);
    hfi_page_runs_fini(&runs);
    if (pagemap >= 0) { /* and without a descriptor: compared */
        close(pagemap);
        CHECK(hfi_pages_changed(way, -1, p, 64 * page, page, original, 0, &runs) == 0);
        CHECK(runs.count == 2 && runs.pages == 3);
        hfi_page_runs_fini(&runs);
    }
    hfi_object_unmap(address, 64 * page);
    hfi_object_unmap(original, 64 * page);
}

#define LONG  ((uint64_t)1 << 40)
#define SHORT ((uint64_t)1500000) /* most of the budget of 128 MiB */

static long
faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static uint64_t clock_ns, slow_ns;
static int collapses, slow_from, slow_until;

static uint64_t
tick(void) {
    return ++clock_ns;
}

/* Faults of reading each page of zeros, without those of a sanitizer's own memory. */
__attribute__((no_sanitize_address)) static long
faults_of_reading(const volatile char *data, size_t size) {
    long before = faults();
    int found = 0;
    for (size_t i = 0; i < size; i += 4096)
        found |= data[i];
    CHECK(found == 0);
    return faults() - before;
}

/* All of it has memory; and where there are huge pages, a reader takes a fault for each
 * of them, not for each 64 KiB. */
static void
test_allocate(int fd) {
    size_t huge = hfi_pages_huge(fd, 0), step = huge ? huge : 2u << 20, size = 8 * step;
    void *own, *seen;
    struct stat found;
    CHECK(hfi_object_truncate(fd, size) == 0);
    CHECK(hfi_object_map(fd, 0, size, HFI_MAP_SHARED, NULL, &own) == 0);
    CHECK(hfi_pages_allocate(own, size, step) == 0);
    CHECK(fstat(fd, &found) == 0 && (size_t)found.st_blocks * 512 >= size);
    CHECK(hfi_object_map(fd, 0, size, HFI_MAP_PRIVATE, NULL, &seen) == 0);
    long taken = faults_of_reading(seen, size);
#ifdef __SANITIZE_THREAD__
    taken = 0; /* its own memory is met, too */
#endif
    if (huge && hfi_pages_huge(fd, size)) /* not in pieces since */
        CHECK(taken <= 32);
    else
        printf("skipped: no huge pages\n");
    hfi_object_unmap(own, size);
    hfi_object_unmap(seen, size);
}

static int
collapse_slowly(const char *call) {
    if (strcmp(call, "collapse") == 0 && ++collapses >= slow_from &&
        collapses < slow_until)
        clock_ns += slow_ns;
    return 0;
}

/* The kernel isn't asked further for huge pages once they have taken too long, and all
 * has memory all the same. `count` of them, from the `slow_first`th on, are slow. */
static void
test_allocate_slowly(int fd, int slow_first, int count, uint64_t ns, int expected) {
    size_t size = (size_t)128 << 20;
    void *own;
    struct stat found;
    collapses = 0, slow_from = slow_first, slow_until = slow_first + count;
    slow_ns = ns;
    CHECK(hfi_object_truncate(fd, 0) == 0 && hfi_object_truncate(fd, size) == 0);
    CHECK(hfi_object_map(fd, 0, size, HFI_MAP_SHARED, NULL, &own) == 0);
    CHECK(hfi_pages_allocate(own, size, (size_t)2 << 20) == 0);
    CHECK(collapses == expected);
    CHECK(fstat(fd, &found) == 0 && (size_t)found.st_blocks * 512 >= size);
    hfi_object_unmap(own, size);
}

/* Stretches of 4 MiB of a fresh object that were made huge. */
static int
make_huge(int fd, size_t size) {
    size_t stretch = (size_t)4 << 20;
    hfi_huge_budget budget = hfi_pages_budget(size);
    void *own;
    int made = 0;
    CHECK(hfi_object_truncate(fd, 0) == 0 && hfi_object_truncate(fd, size) == 0);
    CHECK(hfi_object_map(fd, 0, size, HFI_MAP_SHARED, NULL, &own) == 0);
    for (size_t at = 0; at < size; at += stretch)
        made +=
            hfi_pages_make_huge((char *)own + at, stretch, (size_t)2 << 20, &budget);
    hfi_object_unmap(own, size);
    return made;
}

/* What is about to be written gets no small pages, but for those that are tried
 * with. */
static void
test_make_huge_slowly(int fd) {
    size_t size = (size_t)128 << 20;
    struct stat found;
    collapses = 0, slow_from = 1, slow_until = 99, slow_ns = LONG;
    CHECK(make_huge(fd, size) <= 1 && collapses == 1);
    CHECK(fstat(fd, &found) == 0 && (size_t)found.st_blocks * 512 <= size / 4);
}

static int
refuse_to_collapse(const char *call) {
    return strcmp(call, "collapse") == 0 ? EAGAIN : 0;
}

static void
test_bound(void) {
    uint64_t (*clock)(void) = hfi_pages_clock;
    int fd;
    CHECK(hfi_object_create_anonymous("test-pages", &fd) == 0);
    hfi_pages_clock = tick, hfi_fault_hook = collapse_slowly;
    test_allocate_slowly(fd, 99, 0, 0, 32);
    test_allocate_slowly(fd, 1, 99, LONG, 1);
    test_allocate_slowly(fd, 3, 99, LONG, 3);
    test_allocate_slowly(fd, 1, 1, SHORT, 32); /* one alone says nothing */
    test_allocate_slowly(fd, 1, 99, SHORT, 2);
    test_make_huge_slowly(fd);
    hfi_fault_hook = refuse_to_collapse;
    CHECK(make_huge(fd, (size_t)64 << 20) == 0); /* and none is said to be there */
    hfi_pages_clock = clock, hfi_fault_hook = NULL;
    close(fd);
}

int
main(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t (*clock)(void) = hfi_pages_clock;
    int fd;
    CHECK(hfi_object_create_anonymous("test-pages", &fd) == 0);
    CHECK(hfi_object_allocate(fd, 0, 64 * page) == 0);
    check_way(HFI_PAGES_COMPARE, fd, page);
    check_way(hfi_pages_best_way(), fd, page);
    check_way(HFI_PAGES_SCAN, fd, page); /* compares where the kernel can't scan */
    check_way(HFI_PAGES_PAGEMAP, fd, page);
    close(fd);
    CHECK(hfi_object_create_anonymous("test-pages", &fd) == 0);
    hfi_pages_clock = tick; /* so that nothing takes too long */
    test_allocate(fd);
    hfi_pages_clock = clock;
    close(fd);
    test_bound();
    return 0;
}
