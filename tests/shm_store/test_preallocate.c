/* test_preallocate.c - blocks that are ready before they are asked for: taken without a
 * fault, listed as fresh ones are, zero until they are taken, and from spare room only.
 */
#include <string.h>

#include "engine/region.h"
#include "store_fixture.h"

#define MIB ((size_t)1 << 20)

static size_t
taken(hf_session *session, size_t at) {
    size_t sizes[HFI_TAKEN_MAX];
    size_t count = hfi_session_taken(session, sizes);
    return at < count ? sizes[at] : 0;
}

static uint64_t
preallocate(hf_session *session, const size_t *sizes, size_t count) {
    uint64_t bytes;
    OK(hfi_session_preallocate(session, sizes, count, &bytes, NULL));
    return bytes;
}

static void
forget(hf_session *session) {
    hfi_cache_flush(session);
    OK(hf_session_reap(session, 1, NULL, NULL));
    (void)taken(session, 0);
}

/* Of the same size, and a small one. */
static void
test_what_was_new_is_listed(hf_session *session) {
    hf_region *one, *two, *small;
    size_t sizes[HFI_TAKEN_MAX];
    OK(hf_region_reserve(session, 8 * MIB, 0, &one, NULL, NULL));
    OK(hf_region_reserve(session, MIB / 2, 0, &small, NULL, NULL));
    hf_region_release(one);
    OK(hf_region_reserve(session, 8 * MIB, 0, &one, NULL, NULL)); /* the same block */
    OK(hf_region_reserve(session, 8 * MIB - 100, 0, &two, NULL, NULL));
    CHECK(hfi_session_taken(session, sizes) == 2);
    CHECK(sizes[0] == 8 * MIB && sizes[1] == 8 * MIB);
    CHECK(hfi_session_taken(session, sizes) == 0);
    hf_region_release(one);
    hf_region_release(two);
    hf_region_release(small);
    forget(session);
}

/* Cached blocks don't count, and what is asked for does. */
static void
test_large_regions_are_known(hf_session *session) {
    hf_region *one, *two, *small;
    CHECK(!hfi_session_has_large_regions(session));
    OK(hf_region_reserve(session, MIB - 1, 0, &small, NULL, NULL));
    CHECK(!hfi_session_has_large_regions(session));
    OK(hf_region_reserve(session, MIB, 0, &one, NULL, NULL));
    OK(hf_region_reserve(session, 9 * MIB, 0, &two, NULL, NULL));
    hf_region_release(one);
    CHECK(hfi_session_has_large_regions(session));
    hf_region_release(two);
    CHECK(!hfi_session_has_large_regions(session));
    OK(hf_region_reserve(session, MIB, 0, &one, NULL, NULL)); /* of a cached block */
    CHECK(hfi_session_has_large_regions(session));
    hf_region_release(one);
    hf_region_release(small);
    CHECK(!hfi_session_has_large_regions(session));
    forget(session);
}

static void
test_a_stock_is_taken_without_faults(hf_session *session) {
    const size_t sizes[] = {16 * MIB, 4 * MIB, 16 * MIB};
    hf_region *region[3];
    CHECK(preallocate(session, sizes, 3) == 36 * MIB);
    CHECK(info_of(session).reserved_bytes == 36 * MIB);
    CHECK(taken(session, 0) == 0);
    for (int round = 0; round < 2; round++) { /* what is used once is there again */
        long before = faults();
        for (size_t i = 0; i < 3; i++) {
            OK(hf_region_reserve(session, sizes[i], 0, &region[i], NULL, NULL));
            memset(hf_region_address(region[i]), 1, sizes[i]);
        }
        CHECK(faults() - before < 64 + FAULTS_BESIDE(36 * MIB)); /* of 9216 pages */
        for (size_t i = 0; i < 3; i++)
            hf_region_release(region[i]);
        size_t list[HFI_TAKEN_MAX];
        CHECK(hfi_session_taken(session, list) == (round ? 0 : 3));
    }
    CHECK(info_of(session).reserved_bytes == 36 * MIB);
    forget(session);
}

static void
test_zero_until_it_is_taken(hf_session *session) {
    const size_t size = 4 * MIB;
    hf_region *region;
    int zeroed;
    CHECK(preallocate(session, &size, 1) == size);
    OK(hf_region_reserve(session, size, 0, &region, &zeroed, NULL));
    char *bytes = hf_region_address(region);
    CHECK(zeroed && !bytes[0] && !bytes[size - 1]);
    memset(bytes, 3, size);
    hf_region_release(region);
    OK(hf_region_reserve(session, size, 0, &region, &zeroed, NULL));
    CHECK(!zeroed && ((char *)hf_region_address(region))[5] == 3);
    hf_region_release(region);
    hfi_cache_flush(session);
    CHECK(preallocate(session, &size, 1) == size); /* of a used extent */
    OK(hf_region_reserve(session, size, 0, &region, &zeroed, NULL));
    CHECK(!zeroed);
    hf_region_release(region);
    forget(session);
}

/* An old generation, which whoever needs room may take, stays. */
static void
test_nobody_gives_way(void) {
    hf_session *session = new_session(64 * MIB, HF_SESSION_MEMFD);
    const size_t sizes[] = {16 * MIB, 40 * MIB};
    hf_region *region;
    hf_snapshot *old;
    OK(hf_region_reserve(session, 24 * MIB, 1, &region, NULL, NULL));
    commit_value(session, "a", NULL, 0, region);
    hf_region_release(region);
    OK(hf_snapshot_acquire(session, &old, NULL));
    hf_snapshot_yield(old);
    remove_value(session, "a");
    CHECK(preallocate(session, sizes, 2) == 16 * MIB);
    CHECK(preallocate(session, &sizes[1], 1) == 0);
    OK(hf_snapshot_hold(old, NULL));
    hf_snapshot_yield(old);
    OK(hf_region_reserve(session, 40 * MIB, 0, &region, NULL, NULL));
    CHECK(hf_snapshot_hold(old, NULL) == HF_NOT_FOUND);
    hf_region_release(region);
    hf_snapshot_release(old);
    end_session(session);
}

int
main(void) {
    hf_session *session = new_session(1ull << 30, HF_SESSION_MEMFD);
    test_large_regions_are_known(session);
    test_what_was_new_is_listed(session);
    test_a_stock_is_taken_without_faults(session);
    test_zero_until_it_is_taken(session);
    end_session(session);
    test_nobody_gives_way();
    return 0;
}
