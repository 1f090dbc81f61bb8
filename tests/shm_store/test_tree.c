/* test_tree.c - the hash trie: keys whose hashes agree in many bits or in all, removal
 * down to the empty tree, and every flipped byte of the directory found.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "engine/region.h"
#include "engine/commit.h"
#include "engine/attach.h"
#include "engine/tree.h"
#include "platform/object.h"
#include "store_fixture.h"

#define EQUALS 40

/* FNV-1a of these eight bytes is 0, and stays 0 with every zero byte that follows. */
static const char zero_hash[8 + EQUALS] = {'\xd5', '\x6b', '\xb9', '\x53',
                                           '\x42', '\x87', '\x08', '\x36'};

static void
put_key(hf_commit *commit, const char *key, size_t size, uint32_t content) {
    hf_value value = {.struct_size = sizeof value,
                      .key = key,
                      .key_size = size,
                      .payload = &content,
                      .payload_size = sizeof content};
    OK(hf_commit_put(commit, &value, NULL));
}

static void
check_key(hf_snapshot *snapshot, const char *key, size_t size, uint32_t content) {
    hf_entry entry = {.struct_size = sizeof entry};
    OK(hf_snapshot_find(snapshot, key, size, &entry, NULL));
    CHECK(entry.key_size == size && memcmp(entry.key, key, size) == 0);
    CHECK(entry.payload_size == 4 && memcmp(entry.payload, &content, 4) == 0);
}

static int
count_pairs(void *context, const hf_entry *before, const hf_entry *after) {
    int *counts = context;
    counts[before && after ? 1 : after ? 0 : 2]++;
    return 0;
}

static int
count_one(void *context, const hf_entry *entry) {
    (void)context, (void)entry;
    return 0;
}

static void
test_equal_hashes(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_commit *commit;
    hf_snapshot *full, *half;
    hf_entry entry = {.struct_size = sizeof entry};
    int counts[3] = {0};
    for (size_t i = 1; i < EQUALS; i++)
        CHECK(hfi_key_hash(zero_hash, 8 + i) == hfi_key_hash(zero_hash, 8));
    OK(hf_commit_begin(session, &commit, NULL));
    for (uint32_t i = 0; i < EQUALS / 2; i++)
        put_key(commit, zero_hash, 8 + i, i);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_commit_begin(session, &commit, NULL)); /* onto a committed list */
    for (uint32_t i = EQUALS / 2; i < EQUALS; i++)
        put_key(commit, zero_hash, 8 + i, i);
    put_key(commit, zero_hash, 8, 1000);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_snapshot_acquire(session, &full, NULL));
    CHECK(hf_snapshot_entry_count(full) == EQUALS);
    check_key(full, zero_hash, 8, 1000);
    for (uint32_t i = 1; i < EQUALS; i++)
        check_key(full, zero_hash, 8 + i, i);
    CHECK(hf_snapshot_find(full, zero_hash, 7, &entry, NULL) == HF_NOT_FOUND);

    OK(hf_commit_begin(session, &commit, NULL));
    for (size_t i = 0; i < EQUALS; i += 2)
        OK(hf_commit_remove(commit, zero_hash, 8 + i, NULL));
    CHECK(hf_commit_remove(commit, zero_hash, 8, NULL) == HF_NOT_FOUND);
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_snapshot_acquire(session, &half, NULL));
    CHECK(hf_snapshot_entry_count(half) == EQUALS / 2);
    CHECK(hf_snapshot_find(half, zero_hash, 8, &entry, NULL) == HF_NOT_FOUND);
    check_key(half, zero_hash, 9, 1);
    OK(hf_snapshot_diff(full, half, count_pairs, counts, NULL));
    CHECK(counts[0] == 0 && counts[1] == 0 && counts[2] == EQUALS / 2);
    hf_snapshot_release(full);
    hf_snapshot_release(half);

    OK(hf_commit_begin(session, &commit, NULL));
    for (size_t i = 1; i < EQUALS; i += 2)
        OK(hf_commit_remove(commit, zero_hash, 8 + i, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    CHECK(info_of(session).entry_count == 0);
    CHECK(info_of(session).committed_bytes == 0);
    OK(hf_session_verify(session, NULL));
    end_session(session);
}

/* Two keys whose hashes agree in the lowest `bits`. */
static void
find_pair(unsigned bits, char first[16], char second[16]) {
    enum { TABLE = 1 << 20 };
    uint32_t *seen = calloc(TABLE, sizeof *seen);
    uint64_t mask = (1ull << bits) - 1;
    CHECK(seen);
    for (uint32_t i = 1;; i++) {
        CHECK(i < 50000000);
        snprintf(first, 16, "k%u", i);
        uint64_t hash = hfi_key_hash(first, strlen(first));
        uint32_t *other = &seen[(hash & mask) % TABLE];
        if (*other) {
            snprintf(second, 16, "k%u", *other);
            if (((hfi_key_hash(second, strlen(second)) ^ hash) & mask) == 0)
                break;
        }
        *other = i;
    }
    free(seen);
}

static uint32_t
depth_of(hf_session *session, const char *key) {
    hf_snapshot *snapshot;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    hfi_ref ref = snapshot->root.tree;
    uint64_t hash = hfi_key_hash(key, strlen(key));
    uint32_t depth = 0;
    for (; ref.kind == HFI_KIND_NODE; depth++) {
        const hfi_node *node;
        OK(hfi_node_load(session, &ref, depth * 5, &node, NULL));
        uint32_t bit = 1u << hfi_hash_digit(hash, depth * 5);
        CHECK(node->bitmap & bit);
        ref = node->children[__builtin_popcount(node->bitmap & (bit - 1))];
    }
    hf_snapshot_release(snapshot);
    return depth;
}

static void
test_deep_path(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    char first[16], second[16];
    find_pair(30, first, second);
    commit_value(session, first, "1", 1, NULL);
    CHECK(depth_of(session, first) == 0);
    commit_value(session, second, "2", 1, NULL);
    CHECK(depth_of(session, first) >= 7); /* they part after six digits */
    CHECK(depth_of(session, second) == depth_of(session, first));
    remove_value(session, second);
    CHECK(depth_of(session, first) == 0); /* the path collapsed */
    CHECK(info_of(session).entry_count == 1);
    OK(hf_session_verify(session, NULL));
    end_session(session);
}

static hf_status
note_ref(void *context, const hfi_ref *ref, const hfi_entry_record *record,
         hf_error *reterr) {
    hfi_ref **next = context;
    (void)record, (void)reterr;
    *(*next)++ = *ref;
    return HF_OK;
}

static void
test_damage(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_commit *commit;
    hf_snapshot *snapshot;
    hfi_ref refs[200], *next = refs;
    OK(hf_commit_begin(session, &commit, NULL));
    for (uint32_t i = 0; i < 50; i++) {
        char key[8];
        put_key(commit, key, (size_t)snprintf(key, sizeof key, "d%u", i), i);
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hfi_tree_each(session, &snapshot->root.tree, note_ref, &next, NULL));
    CHECK(next - refs > 50);
    for (hfi_ref *ref = refs; ref < next; ref++)
        for (uint32_t i = 0; i < ref->length; i += 7) {
            char byte, wrong;
            byte = (char)session->window[ref->offset + i];
            wrong = (char)(byte ^ 16);
            CHECK(hfi_object_write(session->fd, &wrong, 1, ref->offset + i) == 0);
            CHECK(hf_session_verify(session, NULL) == HF_E_CORRUPT);
            CHECK(hfi_object_write(session->fd, &byte, 1, ref->offset + i) == 0);
        }
    OK(hf_session_verify(session, NULL));

    /* References that point elsewhere. */
    const hfi_node *node;
    hfi_ref lie = refs[0];
    lie.offset = UINT64_MAX - 7;
    CHECK(hfi_node_load(session, &lie, 0, &node, NULL) == HF_E_CORRUPT);
    lie = refs[0];
    lie.length = 8;
    CHECK(hfi_node_load(session, &lie, 0, &node, NULL) == HF_E_CORRUPT);
    CHECK(hfi_node_load(session, &refs[0], 5, &node, NULL) == HF_E_CORRUPT);
    CHECK(hfi_window_at(session, HFI_ARENA_OFFSET - 1, 1) == NULL);
    CHECK(hfi_window_at(session, HFI_ARENA_OFFSET, UINT64_MAX) == NULL);
    hf_snapshot_release(snapshot);
    end_session(session);
}

/* A list below a list, and so on, each with a right checksum: no walk follows it. */
static void
test_endless(void) {
    enum { DEPTH = 1 << 20, SIZE = 64 };
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    hf_region *region;
    hf_commit *commit;
    hf_snapshot *snapshot;
    hfi_ref ref = {0};
    uint32_t top = HFI_LIST_SHIFT / 5;
    commit_value(session, "x", "1", 1, NULL);
    OK(hf_region_reserve(session, (size_t)DEPTH * SIZE, 1, &region, NULL, NULL));
    char *bytes = hf_region_address(region);
    for (uint32_t i = DEPTH; i-- > 0;) {
        hfi_node *node = (hfi_node *)(void *)(bytes + (size_t)i * SIZE);
        *node = (hfi_node){HFI_NODE_MAGIC, i * 5, 1, 1};
        node->children[0] = ref;
        uint32_t length = sizeof *node + sizeof ref;
        CHECK(length <= SIZE);
        ref = (hfi_ref){region->own_piece.offset + (uint64_t)i * SIZE, length,
                        hfi_crc32c(0, node, length), region->own_piece.extent,
                        HFI_KIND_NODE};
    }
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    hfi_root *root = &session->super->roots[snapshot->root.generation % 2],
             good = *root;
    root->tree = ref;
    hfi_root_privatize(root);
    CHECK(hf_session_verify(session, NULL) == HF_E_CORRUPT);
    CHECK(hfi_recovery_run(session, NULL) == HF_E_CORRUPT);
    snapshot->root.tree = ref;
    CHECK(hf_snapshot_each(snapshot, count_one, NULL, NULL) == HF_E_CORRUPT);
    CHECK(hf_snapshot_diff(NULL, snapshot, count_pairs, NULL, NULL) == HF_E_CORRUPT);
    CHECK(hf_commit_restore(commit, snapshot, NULL) == HF_E_CORRUPT);
    hfi_child child = {.as.ref = &ref, .kind = HFI_CHILD_REF};
    for (uint32_t i = 0; i <= top; i++) {
        OK(hfi_overlay_open(commit, &child, i * 5, NULL));
        child = child.as.node->children[0];
    }
    CHECK(hfi_overlay_open(commit, &child, (top + 1) * 5, NULL) == HF_E_CORRUPT);
    hf_commit_abort(commit);
    *root = good;
    hf_snapshot_release(snapshot);
    hf_region_release(region);
    end_session(session);
}

int
main(void) {
    test_equal_hashes();
    test_deep_path();
    test_damage();
    test_endless();
    return 0;
}
