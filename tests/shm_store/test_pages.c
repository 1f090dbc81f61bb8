/* test_pages.c - every way of finding written pages gives the same answer, and
 * populated is every page. */
#include <unistd.h>

#include "platform/object.h"
#include "platform/pages.h"
#include "platform/populate.h"
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

int
main(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd;
    CHECK(hfi_object_create_anonymous("test-pages", &fd) == 0);
    CHECK(hfi_object_allocate(fd, 0, 64 * page) == 0);
    check_way(HFI_PAGES_COMPARE, fd, page);
    check_way(hfi_pages_best_way(), fd, page);
    check_way(HFI_PAGES_SCAN, fd, page); /* compares where the kernel can't scan */
    check_way(HFI_PAGES_PAGEMAP, fd, page);
    close(fd);
    return 0;
}
