/* test_unused.c - blocks that a process keeps and doesn't use are given back, by it or by
 * another process: not too early, in stretches, and never one that is in use again.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/extent.h"
#include "engine/region.h"
#include "store_fixture.h"

#define MIB ((size_t)1 << 20)

static uint32_t now_ms = 1000;

static uint32_t
clock_of_test(void) {
    return now_ms;
}

static uint64_t
object_bytes(hf_session *session) {
    struct stat st;
    CHECK(fstat(hfi_session_fd(session), &st) == 0);
    return (uint64_t)st.st_blocks * 512;
}

static uint64_t
give_back(hf_session *session, uint64_t budget, int *ret_waits) {
    uint64_t bytes;
    OK(hf_session_give_back(session, 750, budget, &bytes, ret_waits, NULL));
    return bytes;
}

static hf_region *
reserve(hf_session *session, size_t size, int fill) {
    hf_region *region;
    OK(hf_region_reserve(session, size, 0, &region, NULL, NULL));
    memset(hf_region_address(region), fill, size);
    return region;
}

static int
is_filled(const hf_region *region, int fill) {
    const char *bytes = hf_region_address(region);
    for (size_t i = 0; i < hf_region_size(region); i += 512)
        if (bytes[i] != (char)fill)
            return 0;
    return 1;
}

/* Pages of a range that are in this process's page tables. */
static size_t
mapped_pages(const void *address, size_t size) {
    int fd = hfi_pages_open();
    size_t pages = 0;
    uint64_t word;
    for (size_t at = 0; at < size; at += 4096)
        if (pread(fd, &word, 8, (off_t)(((uintptr_t)address + at) / 4096 * 8)) == 8)
            pages += word >> 63;
    close(fd);
    return pages;
}

static void
test_what_is_unused_is_given_back(hf_session *session) {
    int waits;
    hf_region *kept = reserve(session, 4 * MIB, 7),
              *freed = reserve(session, 8 * MIB, 1);
    uint64_t before = object_bytes(session), reserved = info_of(session).reserved_bytes;
    char *address = hf_region_address(freed);
    hf_region_release(freed);
    now_ms += 749;
    CHECK(give_back(session, 64 * MIB, &waits) == 0 && waits);
    CHECK(mapped_pages(address, 8 * MIB) == 8 * MIB / 4096);
    now_ms += 1;
    CHECK(give_back(session, 64 * MIB, &waits) == 8 * MIB && !waits);
    CHECK(mapped_pages(address, 8 * MIB) == 0);
    CHECK(before - object_bytes(session) == 8 * MIB);
    CHECK(reserved - info_of(session).reserved_bytes == 8 * MIB);
    CHECK(give_back(session, 64 * MIB, &waits) == 0 && !waits);
    CHECK(is_filled(kept, 7));
    freed = reserve(session, 8 * MIB, 2); /* and there is memory again */
    CHECK(is_filled(freed, 2) && object_bytes(session) == before);
    hf_region_release(freed);
    hf_region_release(kept);
    OK(hf_session_reap(session, 1, NULL, NULL));
}

static void
test_what_is_used_again_begins_anew(hf_session *session) {
    int waits;
    hf_region_release(reserve(session, 8 * MIB, 1));
    now_ms += 700;
    hf_region *again = reserve(session, 8 * MIB, 2);
    now_ms += 700;
    CHECK(give_back(session, 64 * MIB, &waits) == 0 && !waits);
    CHECK(is_filled(again, 2));
    hf_region_release(again);
    now_ms += 700;
    CHECK(give_back(session, 64 * MIB, &waits) == 0 && waits);
    OK(hf_session_reap(session, 1, NULL, NULL));
}

/* A block that is taken between two stretches is another one. */
static void
test_stretches(hf_session *session) {
    int waits;
    uint64_t before = object_bytes(session);
    hf_region_release(reserve(session, 10 * MIB, 1));
    now_ms += 800;
    CHECK(give_back(session, 4 * MIB, &waits) == 4 * MIB && waits);
    CHECK(give_back(session, 4 * MIB, &waits) == 4 * MIB && waits);
    hf_region *other = reserve(session, 10 * MIB, 3);
    CHECK(give_back(session, 4 * MIB, &waits) == 0 && !waits);
    CHECK(is_filled(other, 3));
    CHECK(object_bytes(session) - before <= 11 * MIB);
    hf_region_release(other);
    OK(hf_session_reap(session, 1, NULL, NULL));
}

static void
put_filled(hf_session *session, size_t size) {
    char *bytes = malloc(size);
    CHECK(bytes);
    memset(bytes, 1, size);
    commit_value(session, "value", bytes, size, NULL);
    free(bytes);
}

/* With an older generation that is kept, free pages are no more than a bound, once nobody
 * has taken any for as long. */
static void
test_free_pages_have_a_bound(hf_session *session) {
    int waits;
    hf_snapshot *older;
    put_filled(session, 64 * MIB);
    OK(hf_snapshot_acquire(session, &older, NULL));
    put_filled(session, 64 * MIB);
    hf_region_release(reserve(session, 128 * MIB, 1)); /* 192 MiB were in use at once */
    hfi_cache_flush(session);
    CHECK(info_of(session).free_bytes == 128 * MIB);
    CHECK(info_of(session).retired_bytes >= 64 * MIB);
    now_ms += 749;
    CHECK(give_back(session, MIB, &waits) == 0 && waits);
    now_ms += 1;
    CHECK(give_back(session, 4 * MIB, &waits) == 4 * MIB && waits);
    CHECK(give_back(session, 64 * MIB, &waits) >= 12 * MIB && !waits);
    CHECK(info_of(session).free_bytes >= 111 * MIB);
    CHECK(object_bytes(session) <= (192 + 48 + 1) * MIB);
    hf_snapshot_release(older);
    CHECK(give_back(session, 64 * MIB, &waits) == 0 && !waits);
    OK(hf_session_reap(session, 1, NULL, NULL));
    remove_value(session, "value");
    OK(hf_session_reap(session, 1, NULL, NULL));
}

/* Blocks whose memory is gone count no more, so that the cache isn't full of them. */
static void
test_the_cache_has_room_again(hf_session *session) {
    hfi_blocks *blocks = session->blocks;
    uint64_t limit = blocks->cache_limit;
    int waits;
    blocks->cache_limit = 16 * MIB;
    hf_region_release(reserve(session, 12 * MIB, 1));
    now_ms += 800;
    CHECK(give_back(session, 64 * MIB, &waits) == 12 * MIB);
    hf_region_release(reserve(session, 6 * MIB, 1));
    CHECK(blocks->cache_bytes == 6 * MIB);
    blocks->cache_limit = limit;
    OK(hf_session_reap(session, 1, NULL, NULL));
}

/* Page tables don't show what the cache has; the bytes are taken again as any. */
static void
test_the_cache_leaves_the_page_tables(hf_session *session) {
    hf_region *block = reserve(session, 8 * MIB, 1);
    char *address = hf_region_address(block);
    const size_t ready = 2 * MIB;
    uint64_t bytes;
    hf_region_release(block);
    OK(hfi_session_preallocate(session, &ready, 1, &bytes, NULL));
    CHECK(hfi_session_leave_cache(session) == 2 * MIB); /* and those stay */
    CHECK(mapped_pages(address, 8 * MIB) == 0);
    CHECK(hfi_session_leave_cache(session) == 2 * MIB);
    OK(hf_region_reserve(session, 8 * MIB, 0, &block, NULL, NULL));
    CHECK(hf_region_address(block) == address);
    CHECK(mapped_pages(address, 8 * MIB) == 8 * MIB / 4096); /* at once */
    hf_region_release(block);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(hfi_session_leave_cache(session) == 0);
}

/* One process fills and frees blocks as fast as it can; another one gives all back that
 * isn't in use at the moment. */
static void
test_another_process_gives_it_back(hf_session *session) {
    uint64_t bytes;
    int status = 0;
    atomic_bool *has_given = mmap(NULL, sizeof *has_given, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(has_given != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        hf_session *own;
        if (hf_session_open_fd(hf_session_fd(session), &own, NULL) != HF_OK)
            _exit(2);
        for (int i = 0; i < 300 || !atomic_load(has_given); i++) {
            size_t size = (1 + (size_t)i % 3) * MIB / 4;
            hf_region *one = reserve(own, size, i), *two = reserve(own, size, i + 1);
            if (!is_filled(one, i) || !is_filled(two, i + 1))
                _exit(1);
            hf_region_release(one);
            hf_region_release(two);
        }
        hf_session_close(own);
        _exit(0);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        OK(hf_session_give_back(session, 0, MIB, &bytes, NULL, NULL));
        if (bytes > 0)
            atomic_store(has_given, true);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(munmap(has_given, sizeof *has_given) == 0);
}

int
main(void) {
    hf_session *session = new_session(512 * MIB, HF_SESSION_MEMFD);
    hfi_idle_now = clock_of_test;
    test_what_is_unused_is_given_back(session);
    test_what_is_used_again_begins_anew(session);
    test_stretches(session);
    test_free_pages_have_a_bound(session);
    test_the_cache_has_room_again(session);
    test_the_cache_leaves_the_page_tables(session);
    test_another_process_gives_it_back(session);
    end_session(session);
    return 0;
}
