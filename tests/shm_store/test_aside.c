/* test_aside.c - page tables that a fork or a commit leaves behind: set aside within
 * bounds, without a change to what anybody reads or writes, and given up in pieces.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/region.h"
#include "platform/fault.h"
#include "store_fixture.h"

#define SIZE ((size_t)32 << 20)

static const char *failing;

static int
fail(const char *name) {
    return failing && strcmp(name, failing) == 0 ? ENOMEM : 0;
}

/* An own region that is full of `byte`. */
static hf_region *
full(hf_session *session, size_t size, int byte) {
    hf_region *region;
    OK(hf_region_reserve(session, size, 0, &region, NULL, NULL));
    memset(hf_region_address(region), byte, size);
    return region;
}

static void
privatize(hf_session *session, hf_region *region) {
    pthread_mutex_lock(&session->mutex);
    CHECK(hfi_region_privatize(region) == 0);
    pthread_mutex_unlock(&session->mutex);
}

static void
check_all(const hf_region *region, int byte) {
    const char *bytes = hf_region_address(region);
    for (size_t i = 0; i < SIZE; i += 512)
        CHECK(bytes[i] == byte);
}

static int
has_tables(const char *address, size_t size) {
    int fd = hfi_pages_open();
    int all = fd < 0 || hfi_pages_best_way() != HFI_PAGES_SCAN ||
              hfi_pages_all_present(fd, address, size);
    if (fd >= 0)
        close(fd);
    return all;
}

static void
test_moved(hf_session *session) {
    hf_region *region = full(session, SIZE, 'a');
    char *bytes = hf_region_address(region);
    privatize(session, region);
    CHECK(session->aside->count == 1 && session->aside->items[0].size == SIZE);
    char *aside = session->aside->items[0].address;
    CHECK(aside != bytes && has_tables(aside, SIZE));
    check_all(region, 'a');
    bytes[0] = 'b';
    CHECK(aside[0] == 'a'); /* it is private */
    CHECK(hfi_session_drop_aside(session, SIZE / 4) == 1);
    CHECK(session->aside->items[0].size == SIZE / 4 * 3);
    CHECK(hfi_session_drop_aside(session, SIZE) == 0 && session->aside->count == 0);
    CHECK(hfi_session_drop_aside(session, SIZE) == 0);
    CHECK(bytes[0] == 'b' && bytes[SIZE - 1] == 'a');
    hf_region_release(region);
}

static void
test_not_moved(hf_session *session) {
    hf_region *small = full(session, SIZE / 2, 's'), *large = full(session, SIZE, 'l');
    privatize(session, small);
    failing = "mremap";
    privatize(session, large);
    failing = NULL;
    CHECK(session->aside->count == 0);
    check_all(large, 'l');
    hf_region_release(small);
    hf_region_release(large);
}

static void
test_bounds(hf_session *session) {
    for (int i = 0; i < HFI_ASIDE_MAX + 1; i++) {
        hf_region *region = full(session, SIZE, i);
        privatize(session, region);
        check_all(region, i);
        hf_region_release(region);
    }
    CHECK(session->aside->count == HFI_ASIDE_MAX);
    hfi_cache_flush(session); /* also at the session's end */
    CHECK(session->aside->count == 0);
    hf_region *last = full(session, SIZE, 'z');
    privatize(session, last);
    CHECK(session->aside->count == 1);
    hf_region_release(last);
}

int
main(void) {
    hf_session *session = new_session(0, 0);
    hfi_fault_hook = fail;
    test_moved(session);
    test_not_moved(session);
    test_bounds(session);
    end_session(session);
    return 0;
}
