/* test_snapshot.c - generations: what is leased stays as it was, what is not is freed,
 * leases run out with an answer, and a difference is what differs.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/handle.h"
#include "store_fixture.h"

static int
content(hf_snapshot *snapshot, const char *key) {
    hf_entry entry = {.struct_size = sizeof entry};
    hf_status status = hf_snapshot_find(snapshot, key, strlen(key), &entry, NULL);
    if (status == HF_NOT_FOUND)
        return -1;
    OK(status);
    return *(const char *)entry.payload;
}

static void
test_kept(hf_session *session) {
    hf_snapshot *empty, *one, *again, *two;
    OK(hf_snapshot_acquire(session, &empty, NULL));
    CHECK(hf_snapshot_generation(empty) == 0 && hf_snapshot_entry_count(empty) == 0);
    commit_value(session, "x", "1", 1, NULL);
    OK(hf_snapshot_acquire(session, &one, NULL));
    OK(hf_snapshot_acquire(session, &again, NULL)); /* shares the lease */
    commit_value(session, "x", "2", 1, NULL);
    commit_value(session, "y", "3", 1, NULL);
    OK(hf_snapshot_acquire(session, &two, NULL));
    CHECK(content(empty, "x") == -1);
    CHECK(content(one, "x") == '1' && content(one, "y") == -1);
    CHECK(content(two, "x") == '2' && content(two, "y") == '3');
    CHECK(info_of(session).retired_bytes > 0);
    hf_snapshot_release(one);
    CHECK(content(again, "x") == '1'); /* still leased by the other */
    OK(hf_session_reap(session, 0, NULL, NULL));
    CHECK(info_of(session).retired_bytes > 0);
    hf_snapshot_release(again);
    hf_snapshot_release(empty);
    hf_snapshot_release(two);
    OK(hf_session_reap(session, 0, NULL, NULL));
    CHECK(info_of(session).retired_bytes == 0);
    hf_snapshot_release(NULL);
    remove_value(session, "y");
}

static void
commit_buffer(hf_session *session, hf_buffer buffer) {
    hf_commit *commit;
    hf_value value = {.struct_size = sizeof value,
                      .key = "b",
                      .key_size = 1,
                      .codec = 16,
                      .buffers = &buffer,
                      .buffer_count = 1};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

/* A buffer is distinguished from one with another byte, wherever, and from a longer
 * one; also where it is in several pieces. */
static void
test_holds(hf_session *session) {
    const size_t size = ((size_t)9 << 20) + 5;
    char *data = calloc(size + 1, 1);
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    CHECK(data != NULL);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 2654435761u >> 7);
    commit_buffer(session, (hf_buffer){sizeof(hf_buffer), data, size, NULL});
    for (int turn = 0; turn < 2; turn++) {
        OK(hf_snapshot_acquire(session, &snapshot, NULL));
        OK(hf_snapshot_find(snapshot, "b", 1, &entry, NULL));
        CHECK(hf_snapshot_holds(snapshot, &entry, 0, data, size));
        CHECK(!hf_snapshot_holds(snapshot, &entry, 0, data, size - 1));
        CHECK(!hf_snapshot_holds(snapshot, &entry, 0, data, size + 1));
        CHECK(!hf_snapshot_holds(snapshot, &entry, 1, data, size));
        const size_t places[] = {0, 4096, (size_t)5 << 20, size - 1};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            data[places[i]]++;
            CHECK(!hf_snapshot_holds(snapshot, &entry, 0, data, size));
            data[places[i]]--;
        }
        if (turn == 0) {
            OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
            ((char *)hf_region_address(region))[4096] = ++data[4096];
            commit_buffer(session, (hf_buffer){sizeof(hf_buffer), NULL, 0, region});
            hf_region_release(region);
        }
        hf_snapshot_release(snapshot);
    }
    free(data);
    remove_value(session, "b");
}

static void
test_limit(hf_session *session) {
    hf_snapshot *held[HFI_LEASE_COUNT], *one_more;
    hf_error error = HF_ERROR_INIT;
    for (unsigned i = 0; i < HFI_LEASE_COUNT; i++) {
        char value = (char)i;
        commit_value(session, "x", &value, 1, NULL);
        OK(hf_snapshot_acquire(session, &held[i], NULL));
    }
    OK(hf_snapshot_acquire(session, &one_more, NULL)); /* of the same generation */
    hf_snapshot_release(one_more);
    hf_snapshot_release(held[5]);
    commit_value(session, "x", "!", 1, NULL);
    OK(hf_snapshot_acquire(session, &held[5], NULL));
    hf_commit *commit; /* a commit leases its base, the current one: shared */
    OK(hf_commit_begin(session, &commit, NULL));
    hf_commit_abort(commit);
    remove_value(session, "x");
    CHECK(hf_snapshot_acquire(session, &one_more, &error) == HF_E_LIMIT);
    CHECK(error.message[0]);
    for (unsigned i = 0; i < HFI_LEASE_COUNT; i++) {
        if (i != 5)
            CHECK(content(held[i], "x") == (char)i);
        hf_snapshot_release(held[i]);
    }
}

typedef struct seen {
    int added, changed, removed, stop_after;
} seen;

static int
count_pair(void *context, const hf_entry *before, const hf_entry *after) {
    seen *s = context;
    CHECK(before || after);
    if (before && after)
        CHECK(before->key_size == after->key_size &&
              memcmp(before->key, after->key, before->key_size) == 0);
    s->changed += before && after;
    s->added += !before;
    s->removed += !after;
    return s->stop_after && s->added + s->changed + s->removed >= s->stop_after
               ? HF_STOP
               : 0;
}

static void
test_difference(hf_session *session) {
    hf_snapshot *before, *after;
    hf_commit *commit;
    char key[16];
    seen s = {0};
    OK(hf_commit_begin(session, &commit, NULL));
    for (int i = 0; i < 400; i++) {
        snprintf(key, sizeof key, "n%d", i);
        OK(put_value(commit, key, "1", 1, NULL, NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_snapshot_acquire(session, &before, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    for (int i = 0; i < 400; i += 4) {
        snprintf(key, sizeof key, "n%d", i);
        OK(put_value(commit, key, "2", 1, NULL, NULL));
        snprintf(key, sizeof key, "n%d", i + 1);
        OK(hf_commit_remove(commit, key, strlen(key), NULL));
        snprintf(key, sizeof key, "new%d", i);
        OK(put_value(commit, key, "2", 1, NULL, NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_snapshot_acquire(session, &after, NULL));
    OK(hf_snapshot_diff(before, after, count_pair, &s, NULL));
    CHECK(s.added == 100 && s.changed == 100 && s.removed == 100);
    s = (seen){0};
    OK(hf_snapshot_diff(NULL, after, count_pair, &s, NULL));
    CHECK(s.added == 400 && s.changed == 0 && s.removed == 0);
    s = (seen){0};
    OK(hf_snapshot_diff(after, after, count_pair, &s, NULL));
    CHECK(s.added + s.changed + s.removed == 0);
    s = (seen){.stop_after = 3};
    OK(hf_snapshot_diff(before, after, count_pair, &s, NULL));
    CHECK(s.added + s.changed + s.removed == 3);
    hf_snapshot_release(before);
    hf_snapshot_release(after);
}

/* What was met in order: numbers that stand in the keys. */
typedef struct walk {
    int last, count, stop_after;
} walk;

static int
check_next(void *context, const hf_entry *entry) {
    walk *at = context;
    int number = atoi(entry->key + 1);
    CHECK(entry->key[0] == 'o' && number > at->last && number != 7);
    at->last = number;
    return ++at->count == at->stop_after;
}

/* More than a byte is compared; one was removed, one put again, which keeps its
 * place. */
static void
test_order(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_snapshot *snapshot;
    hf_commit *commit;
    walk at = {.last = -1};
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_each_in_order(snapshot, check_next, &at, NULL));
    hf_snapshot_release(snapshot);
    OK(hf_commit_begin(session, &commit, NULL));
    for (int i = 0; i < 70000; i++) {
        char key[16];
        snprintf(key, sizeof key, "o%d", i);
        OK(put_value(commit, key, "1", 1, NULL, NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    commit_value(session, "o300", "2", 1, NULL);
    remove_value(session, "o7");
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_each_in_order(snapshot, check_next, &at, NULL));
    CHECK(at.count == 69999 && at.last == 69999);
    at = (walk){.last = -1, .stop_after = 5};
    OK(hf_snapshot_each_in_order(snapshot, check_next, &at, NULL));
    CHECK(at.count == 5);
    hf_snapshot_release(snapshot);
    end_session(session);
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    test_kept(session);
    test_holds(session);
    test_limit(session);
    test_difference(session);
    end_session(session);
    test_order();
    return 0;
}
