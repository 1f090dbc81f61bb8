/* test_unshare.c - unsharing: addresses and contents stay, what was committed stays,
 * and the next commit copies nothing. If it fails, all is as before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/region.h"
#include "platform/fault.h"
#include "store_fixture.h"

#define PAGES 64

static hf_commit_stats
commit_stats(hf_session *session, const char *key, hf_region *region) {
    hf_commit *commit;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, key, NULL, 0, region, NULL));
    OK(hf_commit_get_stats(commit, &stats, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    return stats;
}

/* No free pages at all, or enough for a copy of what is committed here. */
static void
supply(hf_session *session, int recycled) {
    hf_region *region;
    hfi_cache_flush(session);
    OK(hf_session_reap(session, 1, NULL, NULL));
    if (recycled) {
        OK(hf_region_reserve(session, PAGES * session->page, 0, &region, NULL, NULL));
        memset(hf_region_address(region), '?', PAGES * session->page);
        hf_region_release(region);
    }
    if (recycled > 1)
        hfi_cache_flush(session); /* in the table of extents, not in the cache */
}

/* A committed buffer of PAGES pages less a few bytes, each page full of its number. */
static hf_region *
committed(hf_session *session, const char *key) {
    hf_region *own;
    size_t page = session->page;
    OK(hf_region_reserve(session, PAGES * page - 5, 0, &own, NULL, NULL));
    char *p = hf_region_address(own);
    for (size_t i = 0; i < PAGES; i++)
        memset(p + i * page, (int)i, page);
    commit_value(session, key, NULL, 0, own);
    OK(hf_session_privatize(session, 1, NULL));
    hf_region_release(own);
    return map_value(session, key);
}

/* Every page holds its number, but those of [first, last), which hold `other`. */
static void
check_pages(const hf_region *region, size_t first, size_t last, int other) {
    size_t page = region->session->page;
    const char *p = hf_region_address(region);
    for (size_t i = 0; i < hf_region_size(region); i++)
        CHECK(p[i] == (i / page >= first && i / page < last ? other : (int)(i / page)));
}

static void
check_committed(hf_session *session, const char *key, size_t first, size_t last,
                int other) {
    hf_region *seen = map_value(session, key);
    check_pages(seen, first, last, other);
    hf_region_release(seen);
}

static void
test_contents(hf_session *session, size_t first, size_t last, int recycled) {
    hf_region *region = committed(session, "c");
    char *p = hf_region_address(region);
    size_t page = session->page;
    uint64_t pages;
    memset(p + first * page, 'w', (last - first) * page); /* private pages */
    supply(session, recycled);
    OK(hf_region_unshare(region, NULL));
    CHECK(hf_region_address(region) == p && hf_region_is_own(region));
    CHECK(hf_region_size(region) == PAGES * page - 5);
    check_pages(region, first, last, 'w');
    check_committed(session, "c", 0, 0, 0);
    OK(hf_region_unshare(region, NULL)); /* own already */
    OK(hf_region_changed_pages(region, &pages, NULL));
    CHECK(pages == PAGES);
    memset(p + 7 * page, 'x', page);
    check_committed(session, "c", 0, 0, 0);
    memset(p + 7 * page, 7 >= first && 7 < last ? 'w' : 7, page);

    hf_commit_stats stats = commit_stats(session, "c", region);
    CHECK(stats.bytes_copied == 0 && stats.bytes_shared == PAGES * page - 5);
    OK(hf_session_privatize(session, 1, NULL)); /* and now it is one as all others */
    CHECK(!hf_region_is_own(region));
    OK(hf_region_changed_pages(region, &pages, NULL));
    CHECK(pages == 0);
    check_committed(session, "c", first, last, 'w');
    p[0] = 'y';
    OK(hf_region_changed_pages(region, &pages, NULL));
    CHECK(pages == 1);
    hf_region_release(region);
    remove_value(session, "c");
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).retired_bytes == 0); /* no pin was forgotten */
    CHECK(info_of(session).reserved_bytes == session->blocks->cache_bytes);
}

/* A buffer of several pieces, and with copies that a commit wrote but no privatize
 * mapped. */
static void
test_pieces(hf_session *session) {
    hf_region *region = committed(session, "p");
    size_t page = session->page;
    char *p = hf_region_address(region);
    memset(p + 10 * page, 'q', 3 * page);
    commit_stats(session, "p", region);
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(region->piece_count == 3);
    memset(p + 13 * page, 'q', page);
    CHECK(commit_stats(session, "p", region).bytes_copied == page);
    OK(hf_session_privatize(session, 0, NULL)); /* the page stays a private copy */
    CHECK(region->next_count);
    OK(hf_region_unshare(region, NULL));
    check_pages(region, 10, 14, 'q');
    memset(p + 10 * page, 'r', 4 * page);
    check_committed(session, "p", 10, 14, 'q');
    CHECK(commit_stats(session, "p", region).bytes_copied == 0);
    check_committed(session, "p", 10, 14, 'r');
    hf_region_release(region);
}

/* Published and not privatized yet: still mapped shared, so a write would reach it. */
static void
test_published(hf_session *session) {
    hf_region *own;
    OK(hf_region_reserve(session, 9 * session->page, 1, &own, NULL, NULL));
    char *p = hf_region_address(own);
    p[0] = 'a';
    commit_value(session, "u", NULL, 0, own);
    CHECK(!hf_region_is_own(own));
    OK(hf_region_unshare(own, NULL));
    CHECK(hf_region_is_own(own) && p[0] == 'a');
    p[0] = 'b';
    hf_region *seen = map_value(session, "u");
    CHECK(((char *)hf_region_address(seen))[0] == 'a');
    hf_region_release(seen);
    hf_region_release(own);
}

/* A buffer of odd size that was copied to the very end of the object: there is nothing
 * to read behind its last byte. */
static void
test_end(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    size_t size = 2 * PAGES * session->page - 5; /* too large for a pack */
    char *bytes = malloc(size);
    hf_region *block, *region;
    hf_commit *commit;
    struct stat object;
    CHECK(bytes);
    for (int i = 0; i < 4; i++)
        commit_value(session, "small", &i, sizeof i, NULL); /* room for a directory */
    OK(hf_region_reserve(session, size, 0, &block, NULL, NULL));
    memset(bytes, 'e', size);
    hf_buffer buffer = {sizeof buffer, bytes, size, NULL};
    hf_value value = {.struct_size = sizeof value,
                      .key = "e",
                      .key_size = 1,
                      .buffers = &buffer,
                      .buffer_count = 1};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    CHECK(fstat(session->fd, &object) == 0);
    CHECK((size_t)object.st_size % session->page == session->page - 5);
    hf_region_release(block); /* recycled, so that committed pages are read */
    region = map_value(session, "e");
    OK(hf_region_unshare(region, NULL));
    CHECK(memcmp(hf_region_address(region), bytes, size) == 0);
    hf_region_release(region);
    free(bytes);
    end_session(session);
}

static void
test_busy(hf_session *session) {
    hf_region *region = committed(session, "b"), *empty;
    hf_commit *commit;
    hf_prepared token;
    hf_value value = {
        .struct_size = sizeof value, .key = "e", .key_size = 1, .buffer_count = 1};
    hf_buffer none = {.struct_size = sizeof none};
    value.buffers = &none;
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "b", NULL, 0, region, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    CHECK(hf_region_unshare(region, NULL) == HF_BUSY);
    OK(hf_commit_prepare_consume(commit, &token, NULL));
    CHECK(hf_region_unshare(region, NULL) == HF_BUSY);
    OK(hf_session_publish(session, &token, NULL, NULL));
    OK(hf_region_unshare(region, NULL));
    check_pages(region, 0, 0, 0);
    hf_region_release(region);
    empty = map_value(session, "e");
    OK(hf_region_unshare(empty, NULL)); /* nothing to do */
    CHECK(!hf_region_is_own(empty));
    hf_region_release(empty);
}

static const char *failing;

static int
fail(const char *call) {
    return strcmp(call, failing) == 0 ? EIO : 0;
}

static void
test_failure(hf_session *session, const char *call, int recycled) {
    hf_region *region = committed(session, "f");
    memset((char *)hf_region_address(region) + 2 * session->page, 's', session->page);
    supply(session, recycled);
    failing = call;
    hfi_fault_hook = fail;
    CHECK(hf_region_unshare(region, NULL) == HF_E_SYSTEM);
    hfi_fault_hook = NULL;
    CHECK(!hf_region_is_own(region));
    check_pages(region, 2, 3, 's');
    CHECK(info_of(session).reserved_bytes == 0);
    hf_region_release(region);
}

/* Where a mapping can't be moved, the block is mapped anew. */
static void
test_no_move(hf_session *session) {
    hf_region *region = committed(session, "f");
    supply(session, 1);
    failing = "mremap";
    hfi_fault_hook = fail;
    OK(hf_region_unshare(region, NULL));
    hfi_fault_hook = NULL;
    CHECK(hf_region_is_own(region));
    memset(hf_region_address(region), 't', session->page);
    check_pages(region, 0, 1, 't');
    check_committed(session, "f", 0, 0, 0);
    hf_region_release(region);
}

static void
test_no_space(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    hf_session *session = new_session((PAGES + 8) * page, HF_SESSION_MEMFD);
    hf_region *region = committed(session, "n");
    CHECK(hf_region_unshare(region, NULL) == HF_E_NOSPACE);
    CHECK(!hf_region_is_own(region));
    check_pages(region, 0, 0, 0);
    hf_region_release(region);
    end_session(session);
}

#ifdef __linux__
/* What it is for: writing all over meets no page fault. */
static void
test_faults(hf_session *session, int recycled) {
    hf_region *region = committed(session, "z");
    supply(session, recycled);
    OK(hf_region_unshare(region, NULL));
    long before = faults();
    memset(hf_region_address(region), 1, hf_region_size(region));
    CHECK(faults() - before < PAGES / 4 + FAULTS_BESIDE(PAGES * 4096));
    hf_region_release(region);
}
#endif

/* Undone where nothing was written: the commit finds no change, the copy is free
 * again. */
static void
test_reshare(hf_session *session) {
    hf_region *region = committed(session, "r");
    char *p = hf_region_address(region);
    uint64_t pages;
    CHECK(hf_region_reshare(region, NULL) == HF_BUSY); /* nothing to undo */
    uint64_t reserved = info_of(session).reserved_bytes;
    OK(hf_region_unshare(region, NULL));
    CHECK(hf_region_is_own(region));
    OK(hf_region_reshare(region, NULL));
    CHECK(!hf_region_is_own(region) && hf_region_address(region) == p);
    CHECK(info_of(session).reserved_bytes == reserved);
    OK(hf_region_changed_pages(region, &pages, NULL));
    CHECK(pages == 0);
    check_pages(region, 0, 0, 0);
    hf_commit_stats stats = commit_stats(session, "r", region);
    CHECK(stats.bytes_copied == 0 && stats.pages_changed == 0);

    OK(hf_region_unshare(region, NULL));
    p[(PAGES - 1) * session->page] = 'x'; /* the last of the samples */
    CHECK(hf_region_reshare(region, NULL) == HF_BUSY && hf_region_is_own(region));
    p[(PAGES - 1) * session->page] = (char)(PAGES - 1);
    p[session->page + 5] = 'x';
    CHECK(hf_region_reshare(region, NULL) == HF_BUSY && hf_region_is_own(region));
    p[session->page + 5] = 1;
    OK(hf_region_reshare(region, NULL));
    check_pages(region, 0, 0, 0);

    memset(p, 'y', session->page); /* written before it was unshared: is a change */
    OK(hf_region_unshare(region, NULL));
    CHECK(hf_region_reshare(region, NULL) == HF_BUSY);
    check_pages(region, 0, 1, 'y');
    OK(hf_session_privatize(session, 1, NULL)); /* not published: stays as it is */
    CHECK(hf_region_is_own(region));
    commit_value(session, "r", NULL, 0, region);
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(!region->was_pieces);
    hf_region_release(region);
}

static int mappings_left;

static int
fail_mapping(const char *call) {
    return strcmp(call, "mmap") == 0 && mappings_left-- == 0 ? ENOMEM : 0;
}

static int
fail_mappings(const char *call) {
    return strcmp(call, "mmap") == 0 && mappings_left-- <= 0 ? ENOMEM : 0;
}

/* A mapping fails while it is undone, once or from there on: what is written from then
 * on is in the next commit, and what was committed stays. */
static void
test_failing_reshare(hf_session *session, hfi_fault_hook_fn hook) {
    size_t page = session->page;
    hf_status status = HF_E_SYSTEM;
    for (int count = 0; status; count++) {
        hf_region *region = committed(session, "g");
        char *p = hf_region_address(region);
        for (size_t i = 0; i < PAGES; i += 16) { /* several pieces */
            p[i * page] = 'm';
            p[i * page + 1] = 'm';
        }
        commit_value(session, "g", NULL, 0, region);
        OK(hf_session_privatize(session, 1, NULL));
        CHECK(region->piece_count > 4 && region->piece_count < 12);
        OK(hf_region_unshare(region, NULL));
        mappings_left = count;
        hfi_fault_hook = hook;
        status = hf_region_reshare(region, NULL);
        CHECK(status == HF_OK || status == HF_E_SYSTEM);
        p[0] = 'x';
        p[(PAGES - 1) * page] = 'y';
        int is_mixed = region->private_below != 0;
        if (is_mixed) { /* it can't be published before it is all private */
            hf_commit *commit;
            mappings_left = 0;
            OK(hf_commit_begin(session, &commit, NULL));
            CHECK(put_value(commit, "g", NULL, 0, region, NULL) == HF_E_SYSTEM);
            hf_commit_abort(commit);
            CHECK(p[0] == 'x' && p[(PAGES - 1) * page] == 'y');
        }
        hfi_fault_hook = NULL;
        CHECK(is_mixed == (hook == fail_mappings && status && count > 0));
        commit_value(session, "g", NULL, 0, region);
        hf_region *seen = map_value(session, "g");
        const char *stored = hf_region_address(seen);
        for (size_t i = 0; i < PAGES * page - 5; i++)
            CHECK(stored[i] == p[i]);
        CHECK(p[0] == 'x' && p[1] == 'm' && p[page] == 1 &&
              p[(PAGES - 1) * page] == 'y');
        OK(hf_session_privatize(session, 1, NULL));
        CHECK(!region->is_own && memcmp(p, stored, PAGES * page - 5) == 0);
        p[0] = 'z';
        CHECK(stored[0] == 'x');
        hf_region_release(seen);
        hf_region_release(region);
        CHECK(count < 20);
    }
    remove_value(session, "g");
    hfi_cache_flush(session);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).retired_bytes == 0 && info_of(session).reserved_bytes == 0);
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    for (int recycled = 0; recycled < 3; recycled++) {
        test_contents(session, 0, 0, recycled);
        test_contents(session, 3, 5, recycled);
        test_contents(session, 0, PAGES, recycled);
        test_contents(session, PAGES - 1, PAGES, recycled);
    }
    test_pieces(session);
    test_published(session);
    test_busy(session);
    test_reshare(session);
    test_failure(session, "pread", 2);
    test_failure(session, "mmap", 2);
    test_failure(session, "pwrite", 0);
    test_failure(session, "mmap", 0);
    test_no_move(session);
    test_failing_reshare(session, fail_mapping);
    test_failing_reshare(session, fail_mappings);
    test_end();
    test_no_space();
#ifdef __linux__
    for (int recycled = 0; recycled < 3; recycled++)
        test_faults(session, recycled);
#endif
    OK(hf_session_verify(session, NULL));
    end_session(session);
    return 0;
}
