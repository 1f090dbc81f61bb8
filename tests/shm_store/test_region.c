/* test_region.c - own and committed regions: found by address, recycled within bounds,
 * private to the process that maps them, and all of it from many threads at once.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "engine/region.h"
#include "platform/fault.h"
#include "store_fixture.h"

#define THREADS 4
#define HELD    16
#define ROUNDS  3000

static void
test_find(hf_session *session) {
    hf_region *regions[100];
    int local;
    for (int i = 0; i < 100; i++)
        OK(hf_region_reserve(session, 1 + (size_t)i * 5000, 0, &regions[i], NULL,
                             NULL));
    for (int i = 0; i < 100; i++) {
        char *at = hf_region_address(regions[i]);
        CHECK((uintptr_t)at % session->page == 0);
        CHECK(hf_region_size(regions[i]) == 1 + (size_t)i * 5000);
        CHECK(hf_region_is_own(regions[i]));
        for (int end = 0; end < 2; end++) {
            hf_region *found =
                hf_region_find(session, end ? at + hf_region_size(regions[i]) - 1 : at);
            CHECK(found == regions[i]);
            hf_region_release(found);
        }
    }
    CHECK(hf_region_find(session, &local) == NULL);
    CHECK(hf_region_find(session, NULL) == NULL);
    for (int i = 0; i < 100; i += 2) {
        char *at = hf_region_address(regions[i]);
        hf_region_release(regions[i]);
        CHECK(hf_region_find(session, at) == NULL); /* cached, but nobody's */
    }
    for (int i = 1; i < 100; i += 2)
        hf_region_release(regions[i]);
    hf_region_release(NULL);
}

static void
test_recycling(hf_session *session) {
    hf_region *region, *again;
    int zeroed;
    OK(hf_session_reap(session, 1, NULL, NULL));
    OK(hf_region_reserve(session, 1 << 20, 0, &region, &zeroed, NULL));
    CHECK(zeroed); /* fresh pages */
    char *at = hf_region_address(region);
    memset(at, 3, 1 << 20);
    hf_region_release(region);
    OK(hf_region_reserve(session, (1 << 20) - 5000, 0, &again, &zeroed, NULL));
    CHECK(hf_region_address(again) == at && !zeroed); /* with its pages */
    hf_region_release(again);
    OK(hf_region_reserve(session, 1 << 20, 1, &again, &zeroed, NULL));
    CHECK(zeroed && at[0] == 0 && at[(1 << 20) - 1] == 0);
    hf_region_release(again);
    OK(hf_region_reserve(session, 1 << 18, 0, &again, NULL, NULL));
    CHECK(hf_region_address(again) != at); /* four times as large would be a waste */
    hf_region_release(again);
}

static int
no_populate(const char *call) {
    return strcmp(call, "populate") == 0 ? ENOMEM : 0;
}

/* As if there were huge pages: large blocks begin where one may, and get their memory
 * through their mapping. Where that fails, it is allocated. */
static void
test_huge(hf_session *session, int fails) {
    hf_region *region;
    int zeroed;
    hfi_cache_flush(session);
    OK(hf_session_reap(session, 1, NULL, NULL));
    session->super->huge_page = 1 << 20;
    if (fails)
        hfi_fault_hook = no_populate;
    OK(hf_region_reserve(session, 3 << 20, 0, &region, &zeroed, NULL));
    hfi_fault_hook = NULL;
    const hfi_extent *extent = &session->extents[region->own_piece.extent];
    CHECK(zeroed == !fails && extent->offset % (1 << 20) == 0);
    CHECK(!(extent->flags & (HFI_EXTENT_HOLE | HFI_EXTENT_ZERO)));
    char *p = hf_region_address(region);
    for (size_t i = 0; i < 3 << 20; i++)
        CHECK(p[i] == 0);
    hf_region_release(region);
    hfi_cache_flush(session);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).allocated_bytes < 1 << 20); /* the padding is none */
    session->super->huge_page = 0;
}

static void
test_cache_bound(hf_session *session) {
    hf_region *regions[64];
    session->blocks->cache_limit = 8 << 20;
    hfi_cache_flush(session);
    CHECK(session->blocks->cache_bytes == 0);
    for (int i = 0; i < 64; i++)
        OK(hf_region_reserve(session, 1 << 20, 0, &regions[i], NULL, NULL));
    for (int i = 0; i < 64; i++) {
        hf_region_release(regions[i]);
        CHECK(session->blocks->cache_bytes <= session->blocks->cache_limit);
    }
    CHECK(session->blocks->cache_bytes == 8 << 20);
    CHECK(info_of(session).reserved_bytes == 8 << 20);
    hfi_cache_flush(session);
    CHECK(info_of(session).reserved_bytes == 0);
}

/* Blocks of all sizes come and go: what is kept is bounded by the most that was in use
 * at once, whatever it is that doesn't fit. */
static void
test_kept(hf_session *session) {
    enum { COUNT = 24 };
    hf_region *held[COUNT] = {0};
    uint64_t alive = 0, peak = 0, kept = 0;
    uint32_t state = 1;
    hfi_cache_flush(session);
    OK(hf_session_reap(session, 1, NULL, NULL));
    session->blocks->cache_limit = 1ull << 30;
    for (int round = 0; round < 600; round++) {
        state = state * 1664525 + 1013904223;
        hf_region **one = &held[(state >> 8) % COUNT];
        if (*one) {
            alive -= (*one)->mapped;
            hf_region_release(*one);
            *one = NULL;
        } else {
            OK(hf_region_reserve(session,
                                 1 + (size_t)((uint64_t)state * (12u << 20) >> 32), 0,
                                 one, NULL, NULL));
            alive += (*one)->mapped;
        }
        CHECK(session->blocks->own_bytes == alive);
        peak = alive > peak ? alive : peak;
        uint64_t all = info_of(session).allocated_bytes;
        kept = all - alive > kept ? all - alive : kept;
        CHECK(all <= peak + peak / 4 + (52u << 20));
    }
    for (int i = 0; i < COUNT; i++)
        hf_region_release(held[i]);
    CHECK(peak > 50u << 20 && kept > peak / 2); /* what fits again is kept */
    CHECK(session->blocks->own_bytes == 0);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).allocated_bytes < 1 << 20 && session->super->peak == 0);
}

static void
test_private(hf_session *session) {
    hf_region *own, *one, *two;
    uint64_t pages;
    OK(hf_region_reserve(session, 50000, 1, &own, NULL, NULL));
    ((char *)hf_region_address(own))[10] = 'a';
    OK(hf_region_changed_pages(own, &pages, NULL));
    CHECK(pages * session->page >= 50000); /* all of an own one */
    commit_value(session, "b", NULL, 0, own);
    OK(hf_session_privatize(session, 1, NULL));
    one = map_value(session, "b");
    two = map_value(session, "b");
    char *p = hf_region_address(one), *q = hf_region_address(two);
    CHECK(p != q && p[10] == 'a' && !hf_region_is_own(one));
    OK(hf_region_changed_pages(one, &pages, NULL));
    CHECK(pages == 0);
    hf_region_populate(one, 0);
    OK(hf_region_changed_pages(one, &pages, NULL));
    CHECK(pages == 0); /* populated without copies */
    p[10] = 'b';
    CHECK(q[10] == 'a' && ((char *)hf_region_address(own))[10] == 'a');
    OK(hf_region_changed_pages(one, &pages, NULL));
    CHECK(pages == 1);

    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *none;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, "b", 1, &entry, NULL));
    CHECK(hf_region_map(snapshot, &entry, 1, &none, NULL) == HF_E_INVALID);
    hf_snapshot_release(snapshot);
    remove_value(session, "b");
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(q[10] == 'a'); /* pinned: gone from the namespace, not from here */
    CHECK(info_of(session).retired_bytes > 0);
    hf_region_release(own);
    hf_region_release(one);
    hf_region_release(two);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).retired_bytes == 0);
}

typedef struct worker {
    hf_session *session;
    unsigned number;
} worker;

/* Each block holds its own address and owner: a thread that gets another's memory sees
 * it. */
static void *
churn(void *context) {
    const worker *w = context;
    hf_region *held[HELD] = {0};
    uint32_t state = w->number * 7919 + 1;
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 1664525 + 1013904223;
        unsigned i = (state >> 8) % HELD;
        if (held[i]) {
            uintptr_t *words = hf_region_address(held[i]);
            CHECK(words[0] == (uintptr_t)words && words[1] == w->number);
            hf_region *found = hf_region_find(w->session, (char *)words + 8);
            CHECK(found == held[i]);
            hf_region_release(found);
            hf_region_release(held[i]);
            held[i] = NULL;
        } else {
            OK(hf_region_reserve(w->session, 64 + (state >> 12) % 200000, 0, &held[i],
                                 NULL, NULL));
            uintptr_t *words = hf_region_address(held[i]);
            words[0] = (uintptr_t)words;
            words[1] = w->number;
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        hf_region_release(held[i]);
    return NULL;
}

static void
test_threads(hf_session *session) {
    pthread_t threads[THREADS];
    worker workers[THREADS];
    session->blocks->cache_limit = 2 << 20; /* so that the cache overflows, too */
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){session, i};
        CHECK(pthread_create(&threads[i], NULL, churn, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < 30; i++) { /* commits and snapshots go on meanwhile */
        char value = (char)i;
        commit_value(session, "x", &value, 1, NULL);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(session->regions->root == NULL);
    hfi_cache_flush(session);
    CHECK(info_of(session).reserved_bytes == 0);
    OK(hf_session_verify(session, NULL));
}

int
main(void) {
    hf_session *session = new_session(1ull << 30, HF_SESSION_MEMFD);
    hf_region *region;
    CHECK(hf_region_reserve(session, SIZE_MAX, 0, &region, NULL, NULL) == HF_E_NOSPACE);
    test_find(session);
    test_recycling(session);
    test_huge(session, 0);
    test_huge(session, 1);
    test_cache_bound(session);
    test_kept(session);
    test_private(session);
    test_threads(session);
    end_session(session);
    return 0;
}
