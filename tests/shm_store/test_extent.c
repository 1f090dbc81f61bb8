/* test_extent.c - the table of extents: free ones join, taken ones tile the arena, and
 * every byte is in exactly one sum, whatever comes and goes, with huge pages and
 * without.
 */
#include <stdlib.h>

#include "engine/extent.h"
#include "engine/reservation.h"
#include "engine/slot.h"
#include "store_fixture.h"

#define COUNT 200

static void
lock(hf_session *session) {
    OK(hfi_lock(session, NULL));
}

/* From the last extent back to the first: no gap, no overlap, sums as counted. */
static uint32_t
check_table(hf_session *session) {
    uint64_t at = atomic_load(&session->super->arena_end), sums[HFI_STATE_COUNT] = {0};
    uint32_t extents = 0, after = HFI_NONE;
    enum hfi_extent_state right = HFI_UNUSED;
    uint32_t right_flags = 0;
    for (uint32_t i = session->super->last; i != HFI_NONE;) {
        const hfi_extent *extent = hfi_extent_at(session, i);
        CHECK(extent && extent->after == after);
        CHECK(extent->offset + extent->size == at);
        enum hfi_extent_state state = hfi_extent_state(extent);
        /* Neighbours that could be one are one. */
        CHECK(!(state == HFI_FREE && right == HFI_FREE &&
                !((extent->flags ^ right_flags) & HFI_EXTENT_HOLE)));
        sums[state] += extent->size;
        at = extent->offset;
        right = state;
        right_flags = extent->flags;
        after = i;
        i = extent->before;
        extents++;
    }
    CHECK(at == HFI_ARENA_OFFSET);
    for (int i = HFI_FREE; i < HFI_STATE_COUNT; i++)
        CHECK(sums[i] == session->super->bytes[i]);
    return extents;
}

static uint32_t
reserve(hf_session *session, uint64_t size) {
    uint32_t index;
    OK(hfi_extent_reserve(session, size, 0, &index, NULL));
    uint64_t huge = session->super->huge_page;
    CHECK(!huge || size < huge || session->extents[index].offset % huge == 0);
    return index;
}

static void
test_random(hf_session *session) {
    uint32_t held[COUNT], state = 12345;
    size_t page = session->page;
    for (int i = 0; i < COUNT; i++)
        held[i] = reserve(session, page * (1 + (unsigned)i % 37));
    CHECK(session->super->huge_page ? check_table(session) > COUNT
                                    : check_table(session) == COUNT);
    for (int round = 0; round < 2000; round++) {
        state = state * 1664525 + 1013904223;
        int i = (int)(state >> 8) % COUNT;
        lock(session);
        hfi_extent_free(session, held[i]);
        hfi_unlock(session);
        held[i] = reserve(session, page * (1 + (state >> 16) % 60));
        if (round % 100 == 0)
            check_table(session);
    }
    lock(session);
    for (int i = 0; i < COUNT; i++)
        hfi_extent_free(session, held[i]);
    hfi_unlock(session);
    CHECK(session->super->huge_page ||
          check_table(session) <= 2); /* with memory, and perhaps without */
    CHECK(session->super->bytes[HFI_RESERVED] == 0);
}

/* Small ones leave a large one whole, for the next large one; where there is nothing
 * else they get a part of it. */
static void
test_large_stays(hf_session *session) {
    uint64_t large = 40u << 20;
    uint32_t first = reserve(session, large), small[8];
    uint64_t offset = session->extents[first].offset;
    for (int last = 0; last < 2; last++) {
        if (last == 0)
            small[7] =
                reserve(session, 1); /* the large one isn't the last, then it is */
        lock(session);
        hfi_extent_free(session, first);
        if (last)
            hfi_extent_free(session, small[7]);
        hfi_unlock(session);
        for (int i = 0; i < 4; i++)
            small[i] = reserve(session, (unsigned)(i + 1) * session->page);
        first = reserve(session, large);
        CHECK(session->extents[first].offset == offset);
        check_table(session);
        lock(session);
        for (int i = 0; i < 4; i++)
            hfi_extent_free(session, small[i]);
        hfi_unlock(session);
    }
    lock(session);
    hfi_extent_free(session, first);
    hfi_unlock(session);
    uint32_t half = reserve(session, session->super->capacity / 2 - (1 << 19));
    uint32_t rest = reserve(session, session->super->capacity / 2 - (1 << 19));
    lock(session);
    hfi_extent_free(session, half);
    hfi_unlock(session);
    uint32_t full[600];
    int n = 0;
    for (; n < 600; n++) /* past what is left beside the large one */
        full[n] = reserve(session, session->page);
    check_table(session);
    lock(session);
    while (n)
        hfi_extent_free(session, full[--n]);
    hfi_extent_free(session, rest);
    hfi_unlock(session);
    check_table(session);
}

static void
test_more_than_a_chunk(hf_session *session) {
    uint32_t before = hfi_extent_count(session);
    uint32_t *held = malloc(2 * HFI_EXTENT_CHUNK * sizeof *held);
    CHECK(held);
    for (uint32_t i = 0; i < 2 * HFI_EXTENT_CHUNK; i++)
        held[i] = reserve(session, 1);
    CHECK(hfi_extent_count(session) >= before + HFI_EXTENT_CHUNK);
    check_table(session);
    lock(session);
    for (uint32_t i = 0; i < 2 * HFI_EXTENT_CHUNK; i += 2)
        hfi_extent_free(session, held[i]);
    hfi_unlock(session);
    check_table(session);
    lock(session);
    for (uint32_t i = 1; i < 2 * HFI_EXTENT_CHUNK; i += 2)
        hfi_extent_free(session, held[i]);
    hfi_unlock(session);
    check_table(session);
    free(held);
}

int
main(void) {
    hf_session *session = new_session(64 << 20, HF_SESSION_MEMFD);
    session->super->huge_page = 0; /* as if it had none */
    CHECK(hfi_extent_at(session, HFI_NONE) == NULL);
    CHECK(hfi_extent_bin(session, session->page) == 0);
    CHECK(hfi_extent_bin(session, session->page * 1024) == 10);
    test_random(session);
    test_more_than_a_chunk(session);
    end_session(session);
    session = new_session(64 << 20, HF_SESSION_MEMFD);
    test_large_stays(session);
    end_session(session);
    session = new_session(64 << 20, HF_SESSION_MEMFD);
    session->super->huge_page = 16 * session->page; /* as if it had some */
    test_random(session);
    test_more_than_a_chunk(session);
    end_session(session);
    return 0;
}
