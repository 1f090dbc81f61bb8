/* test_slices.c - blocks for a screen: exact while there is room, joined below it, and
 * bounded whatever a program did.
 */
#include "support/check.h"
#include "views/slices.h"

#define SPAN (1u << 20) /* ticks */

static hfi_slices *
made(size_t slices_max) {
    hfi_slices *slices;
    CHECK(hfi_slices_create(0, SPAN, slices_max, &slices) == HF_OK);
    return slices;
}

static size_t
finished(hfi_slices *slices, const hfi_slice **ret_found, uint64_t *ret_pixel) {
    size_t count;
    CHECK(hfi_slices_finish(slices, ret_found, &count, ret_pixel) == HF_OK);
    return count;
}

/* `count` calls of region 1 + i % 2, each a tick long, within one call of region 0. */
static void
call_often(hfi_slices *slices, uint64_t count) {
    uint64_t step = SPAN / count;
    hfi_slices_enter(slices, 0, 0);
    for (uint64_t i = 0; i < count; i++) {
        hfi_slices_enter(slices, i * step, 1 + (uint32_t)(i % 2));
        hfi_slices_leave(slices, i * step + 1);
    }
    hfi_slices_leave(slices, SPAN);
}

static void
test_few_calls_stay_what_they_are(void) {
    hfi_slices *slices = made(1000);
    const hfi_slice *found;
    uint64_t pixel;
    call_often(slices, 100);
    CHECK(finished(slices, &found, &pixel) == 101);
    CHECK(pixel == 0 && hfi_slices_count_calls(slices) == 101);
    CHECK(found[0].depth == 0 && found[0].length == SPAN && found[0].region == 0);
    for (size_t i = 0; i < 100; i++) {
        const hfi_slice *one = &found[i + 1];
        CHECK(one->begin == i * (SPAN / 100) && one->length == 1 && one->calls == 1);
        CHECK(one->depth == 1 && one->region == 1 + i % 2);
    }
    hfi_slices_close(slices);
}

/* Every call is in one block, blocks of a depth don't overlap, and a joined one is no
 * wider than the resolution that is given. */
static void
check_joined(const hfi_slice *found, size_t count, uint64_t pixel, uint64_t calls) {
    uint64_t ends[2] = {0, 0}, sum = 0;
    for (size_t i = 0; i < count; i++) {
        const hfi_slice *one = &found[i];
        CHECK(one->depth < 2 && one->begin >= ends[one->depth]);
        ends[one->depth] = one->begin + one->length;
        CHECK(one->calls == 1 || one->length <= pixel);
        if (one->depth == 1) /* calls of a tick each */
            CHECK(one->busy == one->calls && one->longest == 1);
        CHECK(i == 0 || found[i - 1].begin <= one->begin);
        sum += one->calls;
    }
    CHECK(sum == calls);
}

static void
test_many_are_joined_and_none_is_lost(void) {
    static const size_t rooms[] = {600, 5000, 40000};
    uint64_t finer = SPAN;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        hfi_slices *slices = made(rooms[i]);
        const hfi_slice *found;
        uint64_t pixel;
        call_often(slices, SPAN / 4);
        size_t count = finished(slices, &found, &pixel);
        CHECK(count > 100 && count <= rooms[i]);
        CHECK(pixel > 0 && pixel < finer); /* more room shows more */
        finer = pixel;
        check_joined(found, count, pixel, SPAN / 4 + 1);
        hfi_slices_close(slices);
    }
}

static void
test_a_long_call_among_short_ones_is_seen(void) {
    hfi_slices *slices = made(600);
    const hfi_slice *found;
    uint64_t pixel, long_calls = 0;
    for (uint64_t time = 0; time < SPAN; time += 8) {
        uint64_t length = time == SPAN / 2 ? SPAN / 16 : 4;
        hfi_slices_enter(slices, time, length > 4 ? 7 : 3);
        hfi_slices_leave(slices, time + length);
        time += length > 4 ? length : 0;
    }
    size_t count = finished(slices, &found, &pixel);
    for (size_t i = 0; i < count; i++)
        if (found[i].region == 7) {
            CHECK(found[i].calls == 1 && found[i].length == SPAN / 16);
            long_calls++;
        }
    CHECK(long_calls == 1);
    hfi_slices_close(slices);
}

/* A joined block is named for the region with most of its time, not of its calls. */
static void
test_a_block_is_named_by_time(void) {
    hfi_slices *slices = made(300);
    const hfi_slice *found;
    uint64_t pixel;
    for (uint64_t time = 0; time + 16 <= SPAN; time += 16) {
        for (uint64_t i = 0; i < 3; i++) {
            hfi_slices_enter(slices, time + 2 * i, 1);
            hfi_slices_leave(slices, time + 2 * i + 1);
        }
        hfi_slices_enter(slices, time + 6, 2);
        hfi_slices_leave(slices, time + 16);
    }
    size_t count = finished(slices, &found, &pixel), named = 0;
    for (size_t i = 0; i < count; i++)
        named += found[i].region == 2;
    CHECK(pixel >= 64 && named == count);
    hfi_slices_close(slices);
}

static void
test_depth_is_bounded_and_reported(void) {
    hfi_slices *slices = made(100000);
    const hfi_slice *found;
    uint64_t pixel;
    for (uint64_t i = 0; i < 2000; i++)
        hfi_slices_enter(slices, i, (uint32_t)i);
    for (uint64_t i = 2000; i-- > 0;)
        hfi_slices_leave(slices, 4000 - i);
    size_t count = finished(slices, &found, &pixel);
    CHECK(hfi_slices_count_calls(slices) == 2000);
    CHECK(count + hfi_slices_count_hidden(slices) == 2000);
    CHECK(hfi_slices_count_levels(slices) == 2000);
    CHECK(found[count - 1].depth == count - 1);
    hfi_slices_close(slices);
}

static void
test_a_window_of_no_time(void) {
    hfi_slices *slices;
    const hfi_slice *found;
    uint64_t pixel;
    CHECK(hfi_slices_create(5, 5, 10, &slices) == HF_OK);
    CHECK(finished(slices, &found, &pixel) == 0 && pixel == 0);
    hfi_slices_enter(slices, 5, 1);
    hfi_slices_leave(slices, 5);
    CHECK(finished(slices, &found, &pixel) == 1 && found->length == 0);
    hfi_slices_close(slices);
}

int
main(void) {
    test_few_calls_stay_what_they_are();
    test_many_are_joined_and_none_is_lost();
    test_a_long_call_among_short_ones_is_seen();
    test_a_block_is_named_by_time();
    test_depth_is_bounded_and_reported();
    test_a_window_of_no_time();
    return 0;
}
