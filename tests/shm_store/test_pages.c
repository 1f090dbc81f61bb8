/* test_pages.c - every way of finding written pages gives the same answer, and
 * populated is every page. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "platform/fault.h"
#include "platform/object.h"
#include "platform/pages.h"
#include "../support/check.h"

static void
check_way(enum hfi_pages_way way, int fd, size_t page) {
    void *address, *original;
    hfi_runs runs = {0};
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
    hfi_runs_fini(&runs);
    if (pagemap >= 0) { /* and without a descriptor: compared */
        close(pagemap);
        CHECK(hfi_pages_changed(way, -1, p, 64 * page, page, original, 0, &runs) == 0);
        CHECK(runs.count == 2 && runs.pages == 3);
        hfi_runs_fini(&runs);
    }
    hfi_object_unmap(address, 64 * page);
    hfi_object_unmap(original, 64 * page);
}

/* How many pages of a range have page tables, as /proc/self/pagemap tells. */
static size_t
present(int pagemap, const char *address, size_t size, size_t page) {
    size_t found = 0;
    for (size_t i = 0; i < size / page; i++) {
        uint64_t word = 0;
        CHECK(pread(pagemap, &word, sizeof word,
                    (off_t)(((uintptr_t)address / page + i) * 8)) == sizeof word);
        found += word >> 63;
    }
    return found;
}

static int
no_scan(const char *call) {
    return strcmp(call, "pagemap_scan") == 0 ? ENOTTY : 0;
}

/* Populated is every page: with borders of mappings inside a window, an end inside of
 * one, and pages that were allocated and never written. */
static void
check_populate(int fd, size_t page, size_t begin, size_t border, int written) {
    size_t whole = 1280, size = whole * page;
    void *address, *there;
    int pagemap = hfi_pages_open();
    if (pagemap < 0)
        return;
    CHECK(hfi_object_allocate(fd, 0, 2 * size) == 0);
    CHECK(hfi_object_map(fd, 0, 2 * size, HFI_MAP_SHARED, NULL, &address) == 0);
    if (written)
        memset(address, 1, 2 * size);
    hfi_object_unmap(address, 2 * size);
    CHECK(hfi_object_map(fd, 0, size, HFI_MAP_PRIVATE, NULL, &address) == 0);
    char *p = address;
    if (border)
        CHECK(hfi_object_map(fd, size, size - border * page, HFI_MAP_PRIVATE,
                             p + border * page, &there) == 0);
    CHECK(present(pagemap, p, size, page) == 0);
    hfi_pages_populate(p + begin * page, size - begin * page, 0);
    CHECK(present(pagemap, p + begin * page, size - begin * page, page) ==
          whole - begin);
    hfi_runs runs = {0};
    CHECK(hfi_pages_changed(HFI_PAGES_PAGEMAP, pagemap, p, size, page, NULL, 0,
                            &runs) == 0);
    CHECK(runs.pages == 0); /* and no copy was made */
    hfi_runs_fini(&runs);
    hfi_object_unmap(address, size);
    close(pagemap);
}

static void
test_populate(size_t page) {
    for (int kind = 0; kind < 8; kind++) {
        int fd;
        hfi_fault_hook = kind & 4 ? no_scan : NULL;
        CHECK(hfi_object_create_anonymous("test-populate", &fd) == 0);
        check_populate(fd, page, kind & 1 ? 3 : 0, kind & 1 ? 131 : 0, !(kind & 2));
        close(fd);
    }
    hfi_fault_hook = NULL;
}

int
main(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd;
    test_populate(page);
    CHECK(hfi_object_create_anonymous("test-pages", &fd) == 0);
    CHECK(hfi_object_allocate(fd, 0, 64 * page) == 0);
    check_way(HFI_PAGES_COMPARE, fd, page);
    check_way(hfi_pages_best_way(), fd, page);
    check_way(HFI_PAGES_SCAN, fd, page); /* compares where the kernel can't scan */
    check_way(HFI_PAGES_PAGEMAP, fd, page);
    close(fd);
    return 0;
}
