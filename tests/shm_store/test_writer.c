/* test_writer.c - a commit as it is written: one manifest that says all, small buffers
 * packed, and a failure at any system call or any point leaves nothing behind.
 */
#include <errno.h>
#include <string.h>

#include "engine/region.h"
#include "engine/tree.h"
#include "platform/fault.h"
#include "store_fixture.h"

static int calls_left, to_fail, failures;

static int
fail_at(const char *call) {
    if (strcmp(call, "posix_fallocate") && strcmp(call, "pwrite"))
        return 0;
    int number = -calls_left--;
    if (number < 0 || number >= to_fail)
        return 0;
    failures++;
    return ENOSPC;
}

static hf_status
try_commit(hf_session *session, hf_region *region) {
    hf_commit *commit;
    char payload[3000], large[100000] = {1};
    memset(payload, 3, sizeof payload);
    OK(hf_commit_begin(session, &commit, NULL));
    hf_status status = put_value(commit, "region", NULL, 0, region, NULL);
    for (int i = 0; i < 10 && !status; i++) {
        char key[16];
        snprintf(key, sizeof key, "w%d", i);
        hf_buffer buffer = {sizeof buffer, payload, sizeof payload, NULL};
        hf_value value = {.struct_size = sizeof value,
                          .key = key,
                          .key_size = strlen(key),
                          .payload = large,
                          .payload_size = sizeof large,
                          .buffers = &buffer,
                          .buffer_count = 1};
        status = hf_commit_put(commit, &value, NULL);
    }
    if (!status)
        return hf_commit_publish_consume(commit, NULL, NULL);
    hf_commit_abort(commit);
    return status;
}

/* Fail the first call, then the second, and so on until none is left to fail. The store
 * makes room and tries again once: a single failure is none, two in a row are. */
static void
test_every_failure(int in_a_row) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    int failed = 0, passed = 0;
    commit_value(session, "before", "1", 1, NULL);
    for (int n = 0;; n++) {
        hf_region *region;
        OK(hf_region_reserve(session, 1 << 20, 0, &region, NULL, NULL));
        hfi_cache_flush(session);
        OK(hf_session_reap(session, 1, NULL, NULL)); /* so that calls are made */
        uint64_t generation = hf_session_generation(session);
        failures = 0;
        calls_left = n;
        to_fail = in_a_row;
        hfi_fault_hook = fail_at;
        hf_status status = try_commit(session, region);
        hfi_fault_hook = NULL;
        CHECK(status == HF_OK || (failures && status == HF_E_NOSPACE));
        CHECK(hf_session_generation(session) == generation + (status == HF_OK));
        CHECK(hf_region_is_own(region) == (status != HF_OK)); /* it came back */
        CHECK(info_of(session).reserved_bytes == (status ? 1u << 20 : 0));
        OK(hf_session_verify(session, NULL));
        hf_region_release(region);
        failed += status != HF_OK;
        passed += status == HF_OK;
        if (!failures)
            break;
    }
    CHECK(in_a_row == 1 ? failed == 0 && passed > 5 : failed > 5 && passed == 1);
    CHECK(info_of(session).entry_count == 12);
    end_session(session);
}

static void
test_packs(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_commit *commit;
    char bytes[200];
    OK(hf_commit_begin(session, &commit, NULL));
    uint32_t before = info_of(session).extent_count;
    for (int i = 0; i < 500; i++) {
        memset(bytes, i, sizeof bytes);
        hf_buffer buffer = {sizeof buffer, bytes, sizeof bytes, NULL};
        hf_value value = {
            .struct_size = sizeof value, .buffers = &buffer, .buffer_count = 1};
        char key[16];
        value.key = key;
        value.key_size = (size_t)snprintf(key, sizeof key, "p%d", i);
        OK(hf_commit_put(commit, &value, NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    /* 500 pages in packs, and the directory: not an extent for each. */
    CHECK(info_of(session).extent_count <= before + 3);
    for (int i = 0; i < 500; i += 17) {
        char key[16];
        snprintf(key, sizeof key, "p%d", i);
        hf_region *region = map_value(session, key);
        CHECK(hf_region_size(region) == sizeof bytes);
        CHECK(*(char *)hf_region_address(region) == (char)i);
        hf_region_release(region);
    }
    end_session(session);
}

/* Deltas, root and counts of a manifest agree with what publishing them makes. */
static void
test_manifest(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_commit *commit;
    hf_prepared token;
    commit_value(session, "x", "1", 1, NULL);
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "x", "2", 1, NULL, NULL));
    OK(put_value(commit, "y", "3", 1, NULL, NULL));
    OK(hf_commit_prepare_consume(commit, &token, NULL));
    const hfi_manifest *m = hfi_window_at(session, token.commit_extent, sizeof *m);
    CHECK(m && m->magic == HFI_MANIFEST_MAGIC && m->slot == session->slot);
    CHECK(m->base_generation == 1 && m->entry_count == 2);
    CHECK(m->delta_count == 2); /* the old entry's extent, and this one */
    const hfi_delta *deltas = (const hfi_delta *)(m + 1);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(deltas[i].live == (deltas[i].extent == m->extent ? 3 : -1));
    OK(hf_session_publish(session, &token, NULL, NULL));
    hfi_root root;
    OK(hfi_root_read(session, &root, NULL));
    CHECK(root.generation == 2 && root.entry_count == 2);
    CHECK(root.tree.offset == m->root.offset && root.tree.crc == m->root.crc);
    end_session(session);
}

int
main(void) {
    test_every_failure(1);
    test_every_failure(2);
    test_packs();
    test_manifest();
    return 0;
}
