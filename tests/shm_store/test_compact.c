/* test_compact.c - what lives long among garbage is moved, unchanged, and the garbage
 * goes: a thousand commits that each leave one small name behind don't keep theirs.
 */
#include <string.h>

#include "engine/slot.h"
#include "store_fixture.h"

#define ROUNDS 600
#define KEPT   40

static int
never(void *context, const hf_entry *before, const hf_entry *after) {
    int *count = context;
    (void)before, (void)after;
    ++*count;
    return 0;
}

static void
commit_round(hf_session *session, int i, char *noise, size_t size) {
    hf_commit *commit;
    char key[16], small[9000];
    OK(hf_commit_begin(session, &commit, NULL));
    memset(noise, i, size);
    OK(put_value(commit, "noise", noise, size, NULL, NULL));
    if (i < KEPT) { /* a name that stays, with a packed buffer */
        memset(small, i, sizeof small);
        hf_buffer buffer = {sizeof buffer, small, sizeof small, NULL};
        hf_value value = {.struct_size = sizeof value,
                          .key = key,
                          .key_size = (size_t)snprintf(key, sizeof key, "kept%d", i),
                          .meta = &i,
                          .meta_size = sizeof i,
                          .buffers = &buffer,
                          .buffer_count = 1};
        OK(hf_commit_put(commit, &value, NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    static char noise[60000];
    uint64_t sequences[KEPT], generations[KEPT], most = 0;
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    char key[16];
    for (int i = 0; i < ROUNDS; i++) {
        commit_round(session, i, noise, sizeof noise);
        if (i == KEPT - 1) {
            OK(hf_snapshot_acquire(session, &snapshot, NULL));
            for (int k = 0; k < KEPT; k++) {
                size_t n = (size_t)snprintf(key, sizeof key, "kept%d", k);
                OK(hf_snapshot_find(snapshot, key, n, &entry, NULL));
                sequences[k] = entry.sequence;
                generations[k] = entry.generation;
            }
            hf_snapshot_release(snapshot);
        }
        uint64_t committed = info_of(session).committed_bytes;
        most = committed > most ? committed : most;
    }
    /* Live: 40 buffers of three pages and one payload. Garbage:
     * twice that, or 4 MiB. */
    CHECK(most < 8u << 20);
    OK(hf_session_verify(session, NULL));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    for (int k = 0; k < KEPT; k++) {
        size_t n = (size_t)snprintf(key, sizeof key, "kept%d", k);
        OK(hf_snapshot_find(snapshot, key, n, &entry, NULL));
        CHECK(entry.sequence == sequences[k] && entry.generation == generations[k]);
        CHECK(entry.meta_size == sizeof k && memcmp(entry.meta, &k, sizeof k) == 0);
        hf_region *region;
        OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
        const char *p = hf_region_address(region);
        for (size_t b = 0; b < hf_region_size(region); b++)
            CHECK(p[b] == (char)k);
        hf_region_release(region);
    }

    /* A commit that only moves is no difference. */
    hf_commit *commit;
    hf_snapshot *after;
    int differences = 0;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hfi_lock(session, NULL));
    session->super->log_bytes = session->super->log_live + (64u << 20);
    hfi_unlock(session);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_snapshot_acquire(session, &after, NULL));
    OK(hf_snapshot_diff(snapshot, after, never, &differences, NULL));
    CHECK(differences == 0);
    hf_snapshot_release(snapshot);
    hf_snapshot_release(after);
    end_session(session);
    return 0;
}
