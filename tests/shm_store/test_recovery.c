/* test_recovery.c - the extent table is rebuilt from facts alone: from any damage to
 * what is derived, and from a table that contradicts itself not at all.
 */
#include <string.h>

#include "engine/region.h"
#include "engine/extent.h"
#include "engine/attach.h"
#include "engine/slot.h"
#include "store_fixture.h"

static void
recover(hf_session *session) {
    OK(hfi_lock(session, NULL));
    OK(hfi_recovery_run(session, NULL));
    hfi_unlock(session);
}

/* Scribble over all that recovery derives. */
static void
ruin(hf_session *session) {
    hfi_superblock *super = session->super;
    for (unsigned i = 0; i < HFI_BIN_COUNT; i++)
        super->bins[i] = i * 77;
    super->unused = 5;
    super->retired = super->last = 3;
    memset(super->bytes, 0x55, sizeof super->bytes);
    super->hole_bytes = super->spare_bytes = super->log_bytes = super->log_live = 12345;
    for (uint32_t i = 0; i < hfi_extent_count(session); i++) {
        hfi_extent *extent = &session->extents[i];
        extent->before = extent->after = extent->previous = extent->next = i ^ 1;
        extent->live = 99;
        extent->live_bytes = 99;
    }
}

static void
test_rebuilt(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_region *region, *hole;
    OK(hf_region_reserve(session, 1 << 20, 0, &hole, NULL, NULL));
    OK(hf_region_reserve(session, 1 << 20, 0, &region, NULL, NULL));
    memset(hf_region_address(region), 4, 1 << 20);
    hf_region_release(hole);
    hfi_cache_flush(session);
    for (int i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof key, "n%d", i);
        commit_value(session, key, key, sizeof key, i == 7 ? region : NULL);
    }
    remove_value(session, "n3");
    OK(hf_region_reserve(session, 1 << 20, 0, &hole, NULL, NULL));
    OK(hf_session_reap(session, 0, NULL, NULL));
    hf_session_info before = info_of(session);
    CHECK(before.reserved_bytes == 1 << 20);
    OK(hfi_lock(session, NULL));
    ruin(session);
    hfi_unlock(session);
    recover(session);
    hf_session_info after = info_of(session);
    CHECK(after.committed_bytes == before.committed_bytes);
    CHECK(after.reserved_bytes == before.reserved_bytes);
    CHECK(after.retired_bytes == before.retired_bytes);
    CHECK(after.extent_count == before.extent_count);
    OK(hf_session_verify(session, NULL));
    hf_region *mapped = map_value(session, "n7");
    CHECK(((char *)hf_region_address(mapped))[12345] == 4);
    hf_region_release(mapped);
    for (int i = 0; i < 50; i++)
        commit_value(session, "again", &i, sizeof i, NULL);
    hf_region_release(region);
    hf_region_release(hole);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).reserved_bytes == 0);
    end_session(session);
}

static uint32_t
some_committed(hf_session *session) {
    for (uint32_t i = 0; i < hfi_extent_count(session); i++)
        if (hfi_extent_state(&session->extents[i]) == HFI_COMMITTED)
            return i;
    CHECK(!"nothing is committed");
    return HFI_NONE;
}

/* Extents that lie about their place: an error, and nothing is freed. */
static void
test_contradiction(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_error error = HF_ERROR_INIT;
    commit_value(session, "x", "1", 1, NULL);
    commit_value(session, "y", "2", 1, NULL);
    hfi_extent *extent = &session->extents[some_committed(session)];
    uint64_t offset = extent->offset, size = extent->size;
    uint64_t wrong[][2] = {{offset, 0},
                           {offset, size + 1},
                           {offset, UINT64_MAX - 4095},
                           {offset + (1ull << 40), size},
                           {0, size}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        OK(hfi_lock(session, NULL));
        extent->offset = wrong[i][0];
        extent->size = wrong[i][1];
        CHECK(hfi_recovery_run(session, &error) == HF_E_CORRUPT);
        CHECK(error.message[0]);
        extent->offset = offset;
        extent->size = size;
        hfi_unlock(session);
    }
    recover(session);
    OK(hf_session_verify(session, NULL));
    end_session(session);
}

int
main(void) {
    test_rebuilt();
    test_contradiction();
    return 0;
}
