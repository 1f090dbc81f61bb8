/* failing_stage.c - a session in one of two versions (failing_stage.h). */
#include "failing_stage.h"

#include <unistd.h>

#include "engine/extent.h"

enum { SMALL = 64, LARGE = 100000, COPIED_SMALL = 5000, COPIED_LARGE = 300000 };

static unsigned char bytes[COPIED_LARGE];

static size_t
page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static int
is_changed_page(size_t page) {
    return page == 3 || page == 7 || page == 8 || page == STAGE_PAGES - 1;
}

/* ---- regions ---- */

/* As it is committed; before there is anything, a new one. */
static hf_region *
open_region(hf_session *session, const char *key, size_t size) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    if (hf_snapshot_find(snapshot, key, strlen(key), &entry, NULL) == HF_OK)
        OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
    else
        OK(hf_region_reserve(session, size, 1, &region, NULL, NULL));
    hf_snapshot_release(snapshot);
    return region;
}

void
stage_write_regions(stage *s, int version) {
    size_t page = page_size();
    char *mixed = hf_region_address(s->mixed), *whole = hf_region_address(s->whole);
    for (size_t i = 0; i < STAGE_PAGES; i++)
        if (is_changed_page(i))
            memset(mixed + i * page, version, page);
    memset(whole, version, STAGE_WHOLE_PAGES * page);
    if (s->born)
        memset(hf_region_address(s->born), version, STAGE_BORN_PAGES * page);
    s->live = version;
}

void
stage_open_regions(stage *s, int version) {
    s->mixed = open_region(s->session, "mixed", STAGE_PAGES * page_size());
    s->whole = open_region(s->session, "whole", STAGE_WHOLE_PAGES * page_size());
    OK(hf_region_reserve(s->session, STAGE_BORN_PAGES * page_size(), 0, &s->born, NULL,
                         NULL));
    stage_write_regions(s, version);
}

static void
check_bytes(const void *data, size_t size, int version) {
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++)
        CHECK(p[i] == version);
}

static void
check_mixed(const char *p, int version) {
    size_t page = page_size();
    for (size_t i = 0; i < STAGE_PAGES; i++)
        check_bytes(p + i * page, page, is_changed_page(i) ? version : 0);
}

void
stage_check_regions(const stage *s) {
    size_t page = page_size();
    check_mixed(hf_region_address(s->mixed), s->live);
    check_bytes(hf_region_address(s->whole), STAGE_WHOLE_PAGES * page, s->live);
    if (s->born)
        check_bytes(hf_region_address(s->born), STAGE_BORN_PAGES * page, s->live);
}

void
stage_release_regions(stage *s) {
    hf_region_release(s->mixed);
    hf_region_release(s->whole);
    hf_region_release(s->born);
    s->mixed = s->whole = s->born = NULL;
}

/* ---- committing ---- */

static hf_status
put(hf_commit *commit, const char *key, size_t payload_size, size_t size,
    hf_region *region, hf_error *reterr) {
    hf_buffer buffer = {sizeof buffer, bytes, size, region};
    hf_value value = {.struct_size = sizeof value,
                      .key = key,
                      .key_size = strlen(key),
                      .codec = 1,
                      .payload = bytes,
                      .payload_size = payload_size,
                      .buffers = &buffer,
                      .buffer_count = size || region};
    return hf_commit_put(commit, &value, reterr);
}

hf_status
stage_commit(stage *s, int version, hf_prepared *ret_token, hf_error *reterr) {
    hf_commit *commit;
    hf_status status = hf_commit_begin(s->session, &commit, reterr);
    if (status)
        return status;
    memset(bytes, version, sizeof bytes);
    if ((status = put(commit, "small", SMALL, 0, NULL, reterr)) ||
        (status = put(commit, "large", LARGE, 0, NULL, reterr)) ||
        (status = put(commit, "packed", SMALL, COPIED_SMALL, NULL, reterr)) ||
        (status = put(commit, "copied", SMALL, COPIED_LARGE, NULL, reterr)) ||
        (status = put(commit, "mixed", SMALL, 0, s->mixed, reterr)) ||
        (status = put(commit, "whole", SMALL, 0, s->whole, reterr)) ||
        (status = put(commit, "born", SMALL, 0, s->born, reterr))) {
        hf_commit_abort(commit);
        return status;
    }
    return ret_token ? hf_commit_prepare_consume(commit, ret_token, reterr)
                     : hf_commit_publish_consume(commit, NULL, reterr);
}

/* ---- checking ---- */

typedef struct look {
    hf_snapshot *snapshot;
    int version;
} look;

static int
check_entry(void *context, const hf_entry *entry) {
    look *l = context;
    const unsigned char *payload = entry->payload;
    if (!l->version)
        l->version = payload[0];
    check_bytes(payload, entry->payload_size, l->version);
    if (entry->buffer_count == 0)
        return 0;
    hf_region *region;
    OK(hf_region_map(l->snapshot, entry, 0, &region, NULL));
    if (strcmp(entry->key, "mixed") == 0)
        check_mixed(hf_region_address(region), l->version);
    else
        check_bytes(hf_region_address(region), hf_region_size(region), l->version);
    hf_region_release(region);
    return 0;
}

int
stage_version_of(hf_snapshot *snapshot) {
    look l = {snapshot, 0};
    CHECK(hf_snapshot_entry_count(snapshot) == 7);
    OK(hf_snapshot_each(snapshot, check_entry, &l, NULL));
    return l.version;
}

int
stage_version(hf_session *session) {
    hf_snapshot *snapshot;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    int version = stage_version_of(snapshot);
    hf_snapshot_release(snapshot);
    return version;
}

/* From the last extent back to the first: no gap, no overlap, sums as counted. */
static void
check_table(hf_session *session) {
    const hfi_superblock *super = session->super;
    uint64_t at = atomic_load(&super->arena_end), sums[HFI_STATE_COUNT] = {0};
    uint32_t after = HFI_NONE;
    for (uint32_t i = super->last; i != HFI_NONE;) {
        CHECK(i < hfi_extent_count(session));
        const hfi_extent *extent = &session->extents[i];
        CHECK(extent->after == after && extent->offset + extent->size == at);
        CHECK(!hfi_extent_is_pinned(extent));
        sums[hfi_extent_state(extent)] += extent->size;
        at = extent->offset;
        after = i;
        i = extent->before;
    }
    CHECK(at == HFI_ARENA_OFFSET);
    for (int i = HFI_FREE; i < HFI_STATE_COUNT; i++)
        CHECK(sums[i] == super->bytes[i]);
}

void
stage_check_accounts(hf_session *session) {
    hf_session_info info = {.struct_size = sizeof info};
    OK(hf_session_reap(session, 1, NULL, NULL));
    OK(hf_session_verify(session, NULL));
    info = info_of(session);
    CHECK(info.process_count == 1);
    CHECK(info.reserved_bytes == 0 && info.retired_bytes == 0);
    CHECK(info.free_bytes == 0);
    CHECK(info.allocated_bytes - info.committed_bytes < 1u << 20);
    check_table(session);
}
