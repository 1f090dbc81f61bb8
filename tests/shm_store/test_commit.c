/* test_commit.c - commits, regions and snapshots, through the public header. */
#include <sys/wait.h>
#include <unistd.h>

#include "platform/fault.h"
#include "store_fixture.h"

static uint64_t
put_one(hf_session *session, const char *key, const void *payload, size_t size,
        hf_region *region, hf_commit_stats *stats) {
    hf_commit *commit;
    uint64_t generation;
    hf_buffer buffer = {sizeof buffer, NULL, 0, region};
    hf_value value = {.struct_size = sizeof value,
                      .key = key,
                      .key_size = strlen(key),
                      .codec = 1,
                      .meta = "m",
                      .meta_size = 1,
                      .payload = payload,
                      .payload_size = size,
                      .buffers = &buffer,
                      .buffer_count = region != NULL};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    if (stats)
        OK(hf_commit_get_stats(commit, stats, NULL));
    OK(hf_commit_publish_consume(commit, &generation, NULL));
    return generation;
}

static void
test_shared_and_changed(hf_session *session) {
    hf_region *region, *other;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    hf_snapshot *old, *now;
    hf_entry entry = {.struct_size = sizeof entry};
    uint64_t pages;
    OK(hf_region_reserve(session, 1 << 20, 1, &region, NULL, NULL));
    char *bytes = hf_region_address(region);
    bytes[0] = 1;
    put_one(session, "a", NULL, 0, region, &stats);
    CHECK(stats.bytes_copied == 0 && stats.bytes_shared == 1 << 20);
    CHECK(!hf_region_is_own(region));
    OK(hf_session_privatize(session, 0, NULL));
    OK(hf_snapshot_acquire(session, &old, NULL));
    bytes[0] = 2;
    bytes[70000] = 3;
    OK(hf_region_changed_pages(region, &pages, NULL));
    CHECK(pages == 2);
    put_one(session, "a", NULL, 0, region, &stats);
    CHECK(stats.pages_changed == 2 && stats.bytes_copied == 2 * (size_t)getpagesize());
    OK(hf_session_privatize(session, 1, NULL));
    OK(hf_region_changed_pages(region, &pages, NULL));
    CHECK(pages == 0 && bytes[0] == 2 && bytes[70000] == 3);
    OK(hf_snapshot_find(old, "a", 1, &entry, NULL));
    OK(hf_region_map(old, &entry, 0, &other, NULL));
    CHECK(((char *)hf_region_address(other))[0] == 1);
    hf_region_release(other);
    OK(hf_snapshot_acquire(session, &now, NULL));
    OK(hf_snapshot_find(now, "a", 1, &entry, NULL));
    OK(hf_region_map(now, &entry, 0, &other, NULL));
    CHECK(memcmp(hf_region_address(other), bytes, 1 << 20) == 0);
    CHECK(hf_region_find(session, bytes + 100) == region);
    hf_region_release(region);
    hf_region_release(other);
    hf_region_release(region);
    hf_snapshot_release(old);
    hf_snapshot_release(now);
}

static int
count_diff(void *context, const hf_entry *before, const hf_entry *after) {
    int *counts = context;
    counts[before && after ? 1 : after ? 0 : 2]++;
    return 0;
}

static void
test_many_names(hf_session *session) {
    hf_commit *commit;
    hf_snapshot *before, *after;
    hf_entry entry = {.struct_size = sizeof entry};
    char key[16];
    int counts[3] = {0, 0, 0};
    OK(hf_snapshot_acquire(session, &before, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    for (int i = 0; i < 5000; i++) {
        hf_value value = {.struct_size = sizeof value,
                          .key = key,
                          .key_size = (size_t)snprintf(key, sizeof key, "n%d", i),
                          .payload = key,
                          .payload_size = sizeof key};
        OK(hf_commit_put(commit, &value, NULL));
    }
    OK(hf_commit_remove(commit, "a", 1, NULL));
    CHECK(hf_commit_remove(commit, "a", 1, NULL) == HF_NOT_FOUND);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_snapshot_acquire(session, &after, NULL));
    CHECK(hf_snapshot_entry_count(after) == 5000);
    for (int i = 0; i < 5000; i++) {
        size_t n = (size_t)snprintf(key, sizeof key, "n%d", i);
        OK(hf_snapshot_find(after, key, n, &entry, NULL));
        CHECK(memcmp(entry.payload, key, n) == 0);
    }
    OK(hf_snapshot_diff(before, after, count_diff, counts, NULL));
    CHECK(counts[0] == 5000 && counts[1] == 0 && counts[2] == 1);
    hf_snapshot_release(before);
    hf_snapshot_release(after);
    put_one(session, "n7", "x", 1, NULL, NULL); /* one path, not the tree */
    OK(hf_session_verify(session, NULL));
}

/* A commit that can't be prepared or published is gone all the same: the next one
 * begins. */
static void
test_consumed_on_failure(hf_session *session) {
    hf_commit *commit;
    hf_prepared token;
    hf_session *other;
    hf_session_info before, after;
    hf_value wrong = {.struct_size = sizeof wrong, .key = "k", .key_size = 1};
    hf_buffer forgotten = {.data = "x", .size = 1};
    wrong.buffers = &forgotten;
    wrong.buffer_count = 1;
    OK(hf_session_open_fd(hf_session_fd(session), &other, NULL));
    before = info_of(session);
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "mine", "1", 1, NULL, NULL));
    put_one(other, "between", "2", 1, NULL, NULL);
    CHECK(hf_commit_publish_consume(commit, NULL, NULL) == HF_CONFLICT);
    for (int publishes = 0; publishes < 2; publishes++) {
        OK(hf_commit_begin(session, &commit, NULL));
        CHECK(hf_commit_put(commit, &wrong, NULL) == HF_E_INVALID);
        CHECK((publishes
                   ? hf_commit_publish_consume(commit, NULL, NULL)
                   : hf_commit_prepare_consume(commit, &token, NULL)) == HF_E_INVALID);
    }
    OK(hf_commit_begin(session, &commit, NULL));
    hf_commit_abort(commit);
    after = info_of(session);
    CHECK(after.generation == before.generation + 1);
    CHECK(after.reserved_bytes == before.reserved_bytes);
    hf_session_close(other);
}

static void
test_conflict_and_abort(hf_session *session) {
    hf_commit *commit;
    hf_prepared first;
    hf_session *other;
    OK(hf_session_open_fd(hf_session_fd(session), &other, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_prepare_consume(commit, &first, NULL));
    put_one(other, "between", "1", 1, NULL, NULL);
    CHECK(hf_session_publish(other, &first, NULL, NULL) == HF_CONFLICT);
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_prepare_consume(commit, &first, NULL));
    hf_prepared lie = first;
    lie.checksum++;
    CHECK(hf_session_publish(other, &lie, NULL, NULL) == HF_E_CORRUPT);
    OK(hf_session_publish(other, &first, NULL,
                          NULL)); /* by another than its preparer */
    hf_session_close(other);
}

static int
fail_allocation(const char *call) {
    return strcmp(call, "posix_fallocate") == 0 ? 28 /* ENOSPC */ : 0;
}

static void
test_full(void) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .capacity_bytes = 4 << 20,
                                  .flags = HF_SESSION_MEMFD};
    hf_session *session;
    hf_region *region, *second;
    OK(hf_session_create(&options, &session, NULL));
    CHECK(hf_session_name(session)[0] == 0);
    CHECK(hf_region_reserve(session, 8 << 20, 0, &region, NULL, NULL) == HF_E_NOSPACE);
    OK(hf_region_reserve(session, 3 << 20, 0, &region, NULL, NULL));
    CHECK(hf_region_reserve(session, 2 << 20, 0, &second, NULL, NULL) == HF_E_NOSPACE);
    hf_region_release(region); /* to the cache, which gives way */
    OK(hf_region_reserve(session, 2 << 20, 0, &region, NULL, NULL));
    hfi_fault_hook = fail_allocation;
    CHECK(hf_region_reserve(session, 1 << 20, 0, &second, NULL, NULL) == HF_E_NOSPACE);
    hfi_fault_hook = NULL;
    OK(hf_region_reserve(session, 1 << 20, 0, &second, NULL, NULL));
    hf_region_release(region);
    hf_region_release(second);
    OK(hf_session_destroy(session, NULL));
    CHECK(hf_region_reserve(session, 4096, 0, &region, NULL, NULL) == HF_E_GONE);
    hf_session_close(session);
}

/* A thousand commits of one name and one that stays: garbage is compacted. */
static void
test_compaction(hf_session *session) {
    char payload[20000];
    hf_session_info info = {.struct_size = sizeof info};
    memset(payload, 5, sizeof payload);
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i % 7 ? 0 : i);
        put_one(session, key, payload, i % 7 ? 20000 : 20, NULL, NULL);
    }
    OK(hf_session_reap(session, 1, NULL, NULL));
    OK(hf_session_describe(session, &info, NULL));
    CHECK(info.committed_bytes < 16u << 20);
    CHECK(info.retired_bytes == 0);
    OK(hf_session_verify(session, NULL));
}

/* Readers in other processes see whole generations while one writes. */
static void
test_readers(hf_session *session) {
    pid_t readers[3];
    for (int r = 0; r < 3; r++) {
        if ((readers[r] = fork()) != 0)
            continue;
        hf_session *mine;
        OK(hf_session_open_fd(hf_session_fd(session), &mine, NULL));
        for (uint64_t last = 0; last < 300;) {
            hf_snapshot *snapshot;
            hf_entry x = {.struct_size = sizeof x}, y = {.struct_size = sizeof y};
            OK(hf_snapshot_acquire(mine, &snapshot, NULL));
            if (hf_snapshot_find(snapshot, "x", 1, &x, NULL) == HF_OK) {
                OK(hf_snapshot_find(snapshot, "y", 1, &y, NULL));
                CHECK(memcmp(x.payload, y.payload, sizeof last) == 0);
                uint64_t now;
                memcpy(&now, x.payload, sizeof now);
                CHECK(now >= last);
                last = now;
            }
            hf_snapshot_release(snapshot);
        }
        hf_session_close(mine);
        _exit(0);
    }
    for (uint64_t i = 1; i <= 300; i++) {
        hf_commit *commit;
        OK(hf_commit_begin(session, &commit, NULL));
        for (int k = 0; k < 2; k++) {
            hf_value value = {.struct_size = sizeof value,
                              .key = k ? "x" : "y",
                              .key_size = 1,
                              .payload = &i,
                              .payload_size = sizeof i};
            OK(hf_commit_put(commit, &value, NULL));
        }
        OK(hf_commit_publish_consume(commit, NULL, NULL));
    }
    for (int r = 0; r < 3; r++) {
        int how;
        CHECK(waitpid(readers[r], &how, 0) == readers[r] && how == 0);
    }
}

int
main(void) {
    hf_session *session;
    OK(hf_session_create(NULL, &session, NULL));
    test_shared_and_changed(session);
    test_many_names(session);
    test_conflict_and_abort(session);
    test_consumed_on_failure(session);
    test_compaction(session);
    test_readers(session);
    OK(hf_session_destroy(session, NULL));
    hf_session_close(session);
    test_full();
    return 0;
}
