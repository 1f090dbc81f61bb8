/* test_scrub.c - idle checksums: taken in stretches, kept with their extents, and one
 * flipped bit in a payload or a buffer is found and named.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/region.h"
#include "platform/object.h"
#include "store_fixture.h"

#define SIZE ((size_t)3 << 20)

static void
flip(hf_session *session, uint64_t offset) {
    char byte = (char)(session->window[offset] ^ 4);
    CHECK(hfi_object_write(session->fd, &byte, 1, offset) == 0);
}

static void
check_found(hf_session *session, uint64_t offset, const char *name) {
    hf_error error = HF_ERROR_INIT;
    OK(hf_session_verify(session, NULL));
    flip(session, offset);
    CHECK(hf_session_verify(session, &error) == HF_E_CORRUPT);
    CHECK(strstr(error.message, name));
    flip(session, offset);
    OK(hf_session_verify(session, NULL));
}

static uint64_t
scrub_all(hf_session *session, uint64_t budget) {
    uint64_t all = 0, done;
    do {
        OK(hf_session_scrub(session, budget, &done, NULL));
        CHECK(done <= budget);
        all += done;
    } while (done);
    return all;
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_region *region;
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    CHECK(scrub_all(session, SIZE) == 0);
    char *payload = malloc(SIZE);
    CHECK(payload);
    memset(payload, 5, SIZE);
    OK(hf_region_reserve(session, SIZE, 0, &region, NULL, NULL));
    memset(hf_region_address(region), 6, SIZE);
    commit_value(session, "array", NULL, 0, region);
    commit_value(session, "text", payload, SIZE, NULL);
    OK(hf_session_privatize(session, 1, NULL));

    uint64_t all = scrub_all(session, 700001); /* in odd stretches */
    CHECK(all == info_of(session).committed_bytes);
    CHECK(scrub_all(session, SIZE) == 0); /* each once */
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, "text", 4, &entry, NULL));
    uint64_t text = (uint64_t)((const unsigned char *)entry.payload - session->window);
    hf_snapshot_release(snapshot);
    check_found(session, text, "text");
    check_found(session, text + SIZE - 1, "text");
    check_found(session, region->own_piece.offset + 1000001, "array");

    /* A new generation of it: what is new has no checksum yet, what is old keeps
     * its. */
    ((char *)hf_region_address(region))[0] = 7;
    commit_value(session, "array", NULL, 0, region);
    OK(hf_session_privatize(session, 1, NULL));
    check_found(session, region->own_piece.offset + 1000001, "array");
    all = scrub_all(session, SIZE);
    CHECK(all > 0 && all < SIZE);

    /* An extent that goes in the middle of it, and comes back as another. */
    commit_value(session, "text", payload, SIZE - 10, NULL);
    OK(hf_session_scrub(session, 100000, NULL, NULL));
    remove_value(session, "text");
    OK(hf_session_reap(session, 0, NULL, NULL));
    commit_value(session, "other", payload, SIZE - 20, NULL);
    scrub_all(session, SIZE);
    OK(hf_session_verify(session, NULL));
    hf_region_release(region);
    free(payload);
    end_session(session);
    return 0;
}
