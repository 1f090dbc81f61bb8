/* test_restore.c - going back: every key as it was, nothing copied, accounts that add
 * up after any random walk through generations, and no mixture with other changes.
 */
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

#define KEYS  120
#define STEPS 24

typedef struct state {
    int value[KEYS]; /* -1: not there */
} state;

static void
key_of(int i, char ret_key[16]) {
    snprintf(ret_key, 16, "key%d", i);
}

static void
check_state(hf_session *session, const state *wanted) {
    hf_snapshot *snapshot;
    uint64_t count = 0;
    char key[16];
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    for (int i = 0; i < KEYS; i++) {
        hf_entry entry = {.struct_size = sizeof entry};
        key_of(i, key);
        hf_status status = hf_snapshot_find(snapshot, key, strlen(key), &entry, NULL);
        CHECK(status == (wanted->value[i] < 0 ? HF_NOT_FOUND : HF_OK));
        if (status == HF_NOT_FOUND)
            continue;
        const int *payload = entry.payload;
        CHECK(payload[0] == wanted->value[i]);
        count++;
        if (entry.buffer_count == 0)
            continue;
        hf_region *region;
        OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
        CHECK(((int *)hf_region_address(region))[1000] == wanted->value[i]);
        hf_region_release(region);
    }
    CHECK(hf_snapshot_entry_count(snapshot) == count);
    hf_snapshot_release(snapshot);
    OK(hf_session_verify(session, NULL));
}

static void
change(hf_session *session, state *now, unsigned *seed) {
    static int numbers = 1;
    hf_commit *commit;
    char key[16];
    OK(hf_commit_begin(session, &commit, NULL));
    for (int n = 1 + rand_r(seed) % 30; n > 0; n--) {
        int i = rand_r(seed) % KEYS, value = numbers++, large[2000];
        key_of(i, key);
        if (rand_r(seed) % 3 == 0) {
            CHECK(hf_commit_remove(commit, key, strlen(key), NULL) ==
                  (now->value[i] < 0 ? HF_NOT_FOUND : HF_OK));
            now->value[i] = -1;
            continue;
        }
        for (int k = 0; k < 2000; k++)
            large[k] = value;
        hf_buffer buffer = {sizeof buffer, large, sizeof large, NULL};
        hf_value put = {.struct_size = sizeof put,
                        .key = key,
                        .key_size = strlen(key),
                        .codec = 1,
                        .payload = &value,
                        .payload_size = sizeof value,
                        .buffers = &buffer,
                        .buffer_count = value % 3 == 0};
        OK(hf_commit_put(commit, &put, NULL));
        now->value[i] = value;
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

static void
restore(hf_session *session, hf_snapshot *snapshot) {
    hf_commit *commit;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_restore(commit, snapshot, NULL));
    OK(hf_commit_get_stats(commit, &stats, NULL));
    CHECK(stats.bytes_copied == 0);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

/* Changes and returns in turn; then everything is let go, and only what is there
 * counts. */
static void
test_walk(unsigned seed) {
    hf_session *session = new_session(0, 0);
    hf_snapshot *kept[STEPS];
    state now, states[STEPS];
    for (int i = 0; i < KEYS; i++)
        now.value[i] = -1;
    for (int step = 0; step < STEPS; step++) {
        if (step > 0 && rand_r(&seed) % 3 == 0) {
            int back = rand_r(&seed) % step;
            restore(session, kept[back]);
            now = states[back];
        } else if (step > 0) {
            change(session, &now, &seed);
        }
        check_state(session, &now);
        OK(hf_snapshot_acquire(session, &kept[step], NULL));
        states[step] = now;
    }
    restore(session, kept[0]); /* of nothing */
    for (int i = 0; i < KEYS; i++)
        CHECK(states[0].value[i] == -1);
    check_state(session, &states[0]);
    restore(session, kept[STEPS - 1]);
    for (int step = 0; step < STEPS; step++)
        hf_snapshot_release(kept[step]);
    check_state(session, &now);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).retired_bytes == 0);
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        key_of(i, key);
        if (now.value[i] >= 0)
            remove_value(session, key);
    }
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).entry_count == 0);
    CHECK(info_of(session).committed_bytes == 0); /* every object was counted out */
    end_session(session);
}

static void
test_alone(void) {
    hf_session *session = new_session(0, 0);
    hf_snapshot *snapshot;
    hf_commit *commit;
    hf_error error = HF_ERROR_INIT;
    commit_value(session, "x", "1", 1, NULL);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "y", "1", 1, NULL, NULL));
    CHECK(hf_commit_restore(commit, snapshot, &error) == HF_E_INVALID);
    CHECK(error.message[0]);
    hf_commit_abort(commit);
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_restore(commit, snapshot, NULL)); /* to where it is */
    hf_commit_abort(commit);
    CHECK(hf_session_generation(session) == 1);
    hf_snapshot_release(snapshot);
    end_session(session);
}

/* What differs is what the return changed, and names put later are new ones. */
static int
count_one(void *context, const hf_entry *before, const hf_entry *after) {
    int *count = context;
    CHECK(before && after && before->key_size == 1 && *before->key == 'x');
    CHECK(before->generation != after->generation);
    ++*count;
    return 0;
}

static void
test_difference(void) {
    hf_session *session = new_session(0, 0);
    hf_snapshot *first, *second, *third;
    int count = 0;
    commit_value(session, "x", "1", 1, NULL);
    commit_value(session, "y", "1", 1, NULL);
    OK(hf_snapshot_acquire(session, &first, NULL));
    commit_value(session, "x", "2", 1, NULL);
    OK(hf_snapshot_acquire(session, &second, NULL));
    restore(session, first);
    OK(hf_snapshot_acquire(session, &third, NULL));
    OK(hf_snapshot_diff(second, third, count_one, &count, NULL));
    CHECK(count == 1);
    count = 0;
    OK(hf_snapshot_diff(first, third, count_one, &count, NULL));
    CHECK(count == 0);
    commit_value(session, "z", "1", 1, NULL); /* its sequence is nobody else's */
    hf_snapshot_release(first);
    hf_snapshot_release(second);
    hf_snapshot_release(third);
    OK(hf_session_verify(session, NULL));
    end_session(session);
}

int
main(void) {
    for (unsigned seed = 1; seed <= 20; seed++)
        test_walk(seed);
    test_alone();
    test_difference();
    return 0;
}
