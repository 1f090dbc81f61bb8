/* test_overlay.c - a commit's draft of the tree against a plain model: puts, puts again
 * and removals, within one commit and across many, keep entries, order and sums.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/extent.h"
#include "engine/attach.h"
#include "engine/slot.h"
#include "store_fixture.h"

#define NAMES 300

static int model[NAMES];       /* content, 0: not there */
static uint64_t places[NAMES]; /* sequence as first seen, 0: not known */
static uint32_t random_state = 7;

static uint32_t
random_below(uint32_t bound) {
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % bound;
}

static size_t
name_of(int i, char key[16]) {
    return (size_t)snprintf(key, 16, "name%d", i);
}

static void
change(hf_commit *commit, int i) {
    char key[16];
    size_t size = name_of(i, key);
    if (random_below(3)) {
        model[i] = 1 + (int)random_below(1000);
        hf_value value = {.struct_size = sizeof value,
                          .key = key,
                          .key_size = size,
                          .payload = &model[i],
                          .payload_size = sizeof model[i]};
        OK(hf_commit_put(commit, &value, NULL));
    } else {
        hf_status status = hf_commit_remove(commit, key, size, NULL);
        CHECK(status == (model[i] ? HF_OK : HF_NOT_FOUND));
        model[i] = 0;
        places[i] = 0;
    }
}

static void
compare(hf_session *session) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    uint64_t count = 0;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    for (int i = 0; i < NAMES; i++) {
        char key[16];
        size_t size = name_of(i, key);
        hf_status status = hf_snapshot_find(snapshot, key, size, &entry, NULL);
        CHECK(status == (model[i] ? HF_OK : HF_NOT_FOUND));
        if (status)
            continue;
        count++;
        CHECK(memcmp(entry.payload, &model[i], sizeof model[i]) == 0);
        if (!places[i])
            places[i] = entry.sequence + 1;
        CHECK(entry.sequence + 1 == places[i]); /* as in a dict: replacing keeps it */
    }
    CHECK(hf_snapshot_entry_count(snapshot) == count);
    hf_snapshot_release(snapshot);
}

/* What the commits counted is what a walk over the tree counts. */
static void
check_counts(hf_session *session) {
    uint32_t total = hfi_extent_count(session), *live = calloc(total, sizeof *live);
    uint64_t committed = session->super->bytes[HFI_COMMITTED];
    CHECK(live);
    OK(hfi_lock(session, NULL));
    for (uint32_t i = 0; i < total; i++)
        live[i] = session->extents[i].live;
    OK(hfi_recovery_run(session, NULL));
    for (uint32_t i = 0; i < total; i++)
        if (hfi_extent_state(&session->extents[i]) == HFI_COMMITTED)
            CHECK(session->extents[i].live == live[i]);
    CHECK(session->super->bytes[HFI_COMMITTED] == committed);
    hfi_unlock(session);
    free(live);
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    for (int round = 0; round < 200; round++) {
        hf_commit *commit;
        OK(hf_commit_begin(session, &commit, NULL));
        int changes = (int)random_below(round % 20 ? 12 : 2 * NAMES);
        int kept[NAMES];
        uint64_t kept_places[NAMES];
        memcpy(kept, model, sizeof kept);
        memcpy(kept_places, places, sizeof places);
        for (int k = 0; k < changes; k++)
            change(commit, (int)random_below(NAMES));
        if (round % 9 == 4) { /* nothing of it happened */
            hf_commit_abort(commit);
            memcpy(model, kept, sizeof model);
            memcpy(places, kept_places, sizeof places);
        } else
            OK(hf_commit_publish_consume(commit, NULL, NULL));
        compare(session);
        if (round % 20 == 0)
            check_counts(session);
    }
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    for (int i = 0; i < NAMES; i++) {
        char key[16];
        size_t size = name_of(i, key);
        if (model[i])
            OK(hf_commit_remove(commit, key, size, NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    hf_session_info info = info_of(session);
    CHECK(info.entry_count == 0 && info.committed_bytes == 0);
    end_session(session);
    return 0;
}
