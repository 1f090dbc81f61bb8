/* test_populate.c - what was populated is every page, whoever filled it, and no copy.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "platform/fault.h"
#include "platform/object.h"
#include "platform/pages.h"
#include "../support/check.h"

static int calls, refused, scans;

/* Helpers are counted, and refused; scans fail. */
static int
hook(const char *call) {
    if (strcmp(call, "pthread_create") == 0) {
        calls++;
        return refused ? EAGAIN : 0;
    }
    return !scans && strcmp(call, "pagemap_scan") == 0 ? ENOTTY : 0;
}

/* How many pages of a range have page tables, as /proc/self/pagemap shows. */
static size_t
present(int pagemap, const char *address, size_t size, size_t page) {
    size_t found = 0, first = (uintptr_t)address / page;
    uint64_t words[256];
    for (size_t i = 0; i < size / page;) {
        size_t want = size / page - i < 256 ? size / page - i : 256;
        CHECK(pread(pagemap, words, want * 8, (off_t)((first + i) * 8)) ==
              (ssize_t)(want * 8));
        for (size_t k = 0; k < want; k++)
            found += words[k] >> 63;
        i += want;
    }
    return found;
}

static size_t
copies(int pagemap, const char *address, size_t size, size_t page) {
    hfi_page_runs runs = {0};
    CHECK(hfi_pages_changed(HFI_PAGES_PAGEMAP, pagemap, address, size, page, NULL, 0,
                            &runs) == 0);
    size_t pages = runs.pages;
    hfi_page_runs_fini(&runs);
    return pages;
}

/* A private mapping of `size` bytes; from page `border` on, of another part of the
 * object. */
static char *
map(int fd, size_t size, size_t border, int written) {
    void *address, *there;
    CHECK(hfi_object_allocate(fd, 0, 2 * size) == 0);
    CHECK(hfi_object_map(fd, 0, 2 * size, HFI_MAP_SHARED, NULL, &address) == 0);
    if (written)
        memset(address, 1, 2 * size);
    hfi_object_unmap(address, 2 * size);
    CHECK(hfi_object_map(fd, 0, size, HFI_MAP_PRIVATE, NULL, &address) == 0);
    if (border)
        CHECK(hfi_object_map(fd, size, size - border, HFI_MAP_PRIVATE,
                             (char *)address + border, &there) == 0);
    return address;
}

/* Whether every page of a range is present. The kernel takes the entry of a page away
 * while it moves that page: a page that is missing once may be there. */
static int
all_present(int pagemap, const char *address, size_t size, size_t page) {
    for (int tries = 0; tries < 100; tries++) {
        if (present(pagemap, address, size, page) == size / page)
            return 1;
        usleep(1000);
    }
    return 0;
}

/* With a border of mappings inside a window, a beginning inside of one, and pages that
 * were allocated and never written. */
static void
check_populate(size_t size, size_t page, int odd, int written) {
    int fd, pagemap = hfi_pages_open();
    if (pagemap < 0)
        return;
    CHECK(hfi_object_create_anonymous("test-populate", &fd) == 0);
    char *p = map(fd, size, odd ? 131 * page : 0, written);
    size_t begin = odd ? 3 * page : 0, rest = size - begin;
    CHECK(present(pagemap, p, size, page) == 0);
    hfi_pages_populate(p + begin, rest, 0);
    CHECK(all_present(pagemap, p + begin, rest, page));
    CHECK(copies(pagemap, p, size, page) == 0);
    hfi_pages_populate(p + begin, rest, 1);
    CHECK(copies(pagemap, p, size, page) == rest / page);
    hfi_object_unmap(p, size);
    close(pagemap);
    close(fd);
}

static void
test_helpers(size_t page) {
    size_t size = (size_t)34 << 20; /* two shares, and a part of one */
    sigset_t before, after;
    cpu_set_t cpus;
    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    for (refused = 0; refused < 2; refused++) {
        calls = 0;
        check_populate(size, page, 1, 1);
        CHECK(calls == (CPU_COUNT(&cpus) > 1 ? 2 : 0)); /* reading, writing */
    }
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    CHECK(sigismember(&after, SIGINT) == sigismember(&before, SIGINT));
}

int
main(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    hfi_fault_hook = hook;
    for (int kind = 0; kind < 8; kind++) {
        scans = kind & 4;
        check_populate(1280 * page, page, kind & 1, kind & 2);
    }
    scans = 1;
    test_helpers(page);
    hfi_fault_hook = NULL;
    return 0;
}
