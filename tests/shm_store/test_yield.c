/* test_yield.c - generations that give way: kept while there is room, taken oldest
 * first by whoever finds none, reported to their holder; and those that are handed
 * over.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store_fixture.h"

#define MIB (1u << 20)

static hf_region *
large(hf_session *session, size_t size, int fill) {
    hf_region *region;
    OK(hf_region_reserve(session, size, 0, &region, NULL, NULL));
    memset(hf_region_address(region), fill, size);
    return region;
}

static hf_snapshot *
commit_large(hf_session *session, size_t size, int fill) {
    hf_snapshot *snapshot;
    hf_region *region = large(session, size, fill);
    commit_value(session, "x", "", 0, region);
    OK(hf_session_privatize(session, 1, NULL));
    hf_region_release(region);
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    return snapshot;
}

static int
first_byte(hf_snapshot *snapshot) {
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    OK(hf_snapshot_find(snapshot, "x", 1, &entry, NULL));
    OK(hf_region_map(snapshot, &entry, 0, &region, NULL));
    int byte = *(unsigned char *)hf_region_address(region);
    hf_region_release(region);
    return byte;
}

/* Five generations of 1 MiB in 6: what needs the room of two takes the oldest two. */
static void
test_oldest_first(void) {
    hf_session *session = new_session(6 * MIB, 0);
    hf_snapshot *kept[5];
    uint64_t bytes;
    for (int i = 0; i < 5; i++) {
        kept[i] = commit_large(session, MIB, i + 1);
        hf_snapshot_yield(kept[i]);
        hf_snapshot_yield(kept[i]); /* twice is once */
    }
    OK(hf_session_yielded_bytes(session, &bytes, NULL));
    CHECK(bytes >= 4 * MIB && bytes < 4 * MIB + 100000);
    OK(hf_session_reap(session, 1, NULL, NULL)); /* takes none of them */
    hf_region *region = large(session, MIB * 3 / 2, 9), *other;
    CHECK(hf_snapshot_hold(kept[0], NULL) == HF_NOT_FOUND);
    CHECK(hf_snapshot_hold(kept[1], NULL) == HF_NOT_FOUND);
    for (int i = 2; i < 5; i++) {
        OK(hf_snapshot_hold(kept[i], NULL));
        CHECK(first_byte(kept[i]) == i + 1);
    }
    OK(hf_session_yielded_bytes(session, &bytes, NULL));
    CHECK(bytes == 0);
    CHECK(hf_region_reserve(session, 3 * MIB, 0, &other, NULL, NULL) == HF_E_NOSPACE);
    OK(hf_snapshot_hold(kept[2], NULL)); /* what is held wasn't taken */
    CHECK(first_byte(kept[2]) == 3);
    for (int i = 0; i < 5; i++)
        hf_snapshot_release(kept[i]);
    hf_region_release(region);
    OK(hf_session_verify(session, NULL));
    end_session(session);
}

/* Two snapshots of one generation: the one that isn't yielded keeps it. */
static void
test_shared(void) {
    hf_session *session = new_session(4 * MIB, 0);
    hf_snapshot *yielded = commit_large(session, MIB, 1), *held;
    OK(hf_snapshot_acquire(session, &held, NULL));
    hf_snapshot_yield(yielded);
    hf_snapshot *next = commit_large(session, MIB, 2);
    hf_region *region;
    CHECK(hf_region_reserve(session, 3 * MIB, 0, &region, NULL, NULL) == HF_E_NOSPACE);
    CHECK(hf_snapshot_hold(yielded, NULL) == HF_NOT_FOUND);
    CHECK(first_byte(held) == 1 && first_byte(next) == 2);
    hf_snapshot_release(yielded);
    CHECK(first_byte(held) == 1);
    hf_snapshot_release(held);
    hf_snapshot_release(next);
    end_session(session);
}

/* Another process maps a generation that was handed to it, and keeps it alive. */
static void
test_hand_over(void) {
    hf_session *session = new_session(0, 0);
    hf_snapshot *old = commit_large(session, MIB, 7), *copy;
    hf_generation name;
    hf_error error = HF_ERROR_INIT;
    hf_snapshot_export(old, &name);
    hf_snapshot_release(commit_large(session, MIB, 8));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hf_session *own;
        OK(hf_session_open_fd(hf_session_fd(session), &own, NULL));
        OK(hf_snapshot_import(own, &name, &copy, NULL));
        CHECK(hf_snapshot_generation(copy) == 1 && first_byte(copy) == 7);
        hf_snapshot_release(copy);
        hf_session_close(own);
        _exit(0);
    }
    int how;
    CHECK(waitpid(pid, &how, 0) == pid && how == 0);
    OK(hf_snapshot_import(session, &name, &copy, NULL));
    hf_snapshot_release(old);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(first_byte(copy) == 7);
    hf_snapshot_release(copy);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).retired_bytes == 0);
    name.bytes[2] ^= 1;
    CHECK(hf_snapshot_import(session, &name, &copy, &error) == HF_E_CORRUPT);
    CHECK(error.message[0]);
    end_session(session);
}

int
main(void) {
    test_oldest_first();
    test_shared();
    test_hand_over();
    return 0;
}
