/* test_commit_region.c - which pages of a region a commit copies: those that were
 * written, or those that differ, where the process wants it.
 */
#include <string.h>

#include "engine/region.h"
#include "store_fixture.h"

static hf_commit_stats
put(hf_session *session, const char *key, hf_region *region) {
    hf_commit *commit;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, key, NULL, 0, region, NULL));
    OK(hf_commit_get_stats(commit, &stats, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    return stats;
}

/* Pages that were written with what they had: of a region of several pieces. */
static void
test_same(hf_session *session) {
    hf_region *region, *seen;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    size_t page = session->page, size = 64 * page;
    OK(hf_region_reserve(session, size, 0, &region, NULL, NULL));
    char *bytes = hf_region_address(region);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i / page);
    (void)put(session, "a", region);
    OK(hf_session_privatize(session, 1, NULL));
    bytes[10 * page] = 'x';
    (void)put(session, "a", region);
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(region->piece_count == 3);

    for (size_t i = 5; i < 25; i++)
        memset(bytes + i * page + 1, (int)i, page - 1);
    stats = put(session, "b", region);
    CHECK(stats.pages_changed == 20 && stats.bytes_copied == 20 * page);
    hfi_session_compare_pages(session);
    bytes[12 * page + 7] = 'y';
    stats = put(session, "a", region);
    CHECK(stats.pages_changed == 20 && stats.bytes_copied == page);
    seen = map_value(session, "a");
    CHECK(memcmp(hf_region_address(seen), bytes, size) == 0);
    hf_region_release(seen);
    bytes[12 * page + 7] = 12; /* all of them are what was mapped here */
    stats = put(session, "a", region);
    CHECK(stats.pages_changed == 20 && stats.bytes_copied == 0);
    seen = map_value(session, "a");
    CHECK(memcmp(hf_region_address(seen), bytes, size) == 0);
    hf_region_release(seen);
    memset(bytes, 'z', size); /* and none */
    stats = put(session, "a", region);
    CHECK(stats.pages_changed == 64 && stats.bytes_copied == size);
    hf_region_release(region);
}

int
main(void) {
    hf_session *session = new_session(0, 0);
    test_same(session);
    end_session(session);
    return 0;
}
