/* test_privatize.c - privatizing: addresses and contents stay, later writes stay
 * private, and no write is lost of threads that write while it happens.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <errno.h>

#include "engine/region.h"
#include "platform/fault.h"
#include "store_fixture.h"

#define WORDS   (1 << 15) /* of each array */
#define ARRAYS  5
#define WRITERS 3
#define ROUNDS  10

static void
test_contents(hf_session *session) {
    hf_region *own, *seen;
    uint64_t pages;
    OK(hf_region_reserve(session, 300000, 1, &own, NULL, NULL));
    char *p = hf_region_address(own);
    p[100] = 'a';
    commit_value(session, "c", NULL, 0, own);
    OK(hf_session_privatize(session, 0, NULL));
    CHECK(hf_region_address(own) == p && p[100] == 'a');
    OK(hf_region_changed_pages(own, &pages, NULL));
    CHECK(pages == 0);
    p[100] = 'b';
    p[200000] = 'b';
    seen = map_value(session, "c");
    CHECK(((char *)hf_region_address(seen))[100] == 'a');
    hf_region_release(seen);

    commit_value(session, "c", NULL, 0, own); /* two pages, copied */
    OK(hf_session_privatize(session, 0,
                            NULL)); /* others may be writing: not replaced */
    OK(hf_region_changed_pages(own, &pages, NULL));
    CHECK(pages == 2);
    p[100] = 'c';
    commit_value(session, "c", NULL, 0, own);
    OK(hf_session_privatize(session, 1,
                            NULL)); /* nobody writes: replaced by the new ones */
    OK(hf_region_changed_pages(own, &pages, NULL));
    CHECK(pages == 0);
    CHECK(p[100] == 'c' && p[200000] == 'b' && p[0] == 0);
    hf_region_release(own);
}

/* What was prepared and not published yet is not privatized. */
static void
test_prepared(hf_session *session) {
    hf_region *own;
    hf_commit *commit;
    hf_prepared token;
    OK(hf_region_reserve(session, 5000, 1, &own, NULL, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "p", NULL, 0, own, NULL));
    OK(hf_commit_prepare_consume(commit, &token, NULL));
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(own->is_own);
    OK(hf_session_publish(session, &token, NULL, NULL));
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(!own->is_own);
    hf_region_release(own);
}

/* ---- what is written between the commit and the privatization ---- */

#define PAGES 40

/* A region of PAGES pages, committed in several pieces, with private copies of each
 * third page again. */
static hf_region *
mixed(hf_session *session, const char *key) {
    hf_region *region;
    size_t page = session->page;
    OK(hf_region_reserve(session, PAGES * page, 1, &region, NULL, NULL));
    char *p = hf_region_address(region);
    commit_value(session, key, NULL, 0, region);
    for (int round = 0; round < 2; round++) {
        OK(hf_session_privatize(session, 1, NULL));
        for (size_t i = 0; i < PAGES; i += 3)
            p[i * page] = (char)('a' + round);
        commit_value(session, key, NULL, 0, region);
    }
    return region;
}

/* Each page's first byte: of each third one `third`, else 0; but `other` at `at`. */
static void
check_mixed(const hf_region *region, int third, size_t at, int other) {
    const char *p = hf_region_address(region);
    for (size_t i = 0; i < PAGES; i++)
        CHECK(p[i * region->session->page] == (i == at      ? other
                                               : i % 3 == 0 ? third
                                                            : 0));
}

static void
check_in_store(hf_session *session, const char *key, int third, size_t at, int other) {
    hf_region *seen = map_value(session, key);
    check_mixed(seen, third, at, other);
    hf_region_release(seen);
}

/* A task or a signal handler wrote to a page of which the commit has a copy, and nobody
 * does now: the write stays, and the next commit has it. */
static void
test_written_since(hf_session *session, size_t at) {
    hf_region *region = mixed(session, "w");
    char *p = hf_region_address(region);
    uint64_t pages;
    p[at * session->page] = 'X';
    OK(hf_session_privatize(session, 1, NULL));
    check_mixed(region, 'b', at, 'X');
    check_in_store(session, "w", 'b', PAGES, 0);
    OK(hf_session_privatize(session, 1, NULL)); /* once more, without a commit */
    check_mixed(region, 'b', at, 'X');
    commit_value(session, "w", NULL, 0, region);
    check_in_store(session, "w", 'b', at, 'X');
    OK(hf_session_privatize(session, 1, NULL));
    OK(hf_region_changed_pages(region, &pages, NULL));
    CHECK(pages == 0);
    check_mixed(region, 'b', at, 'X');
    hf_region_release(region);
}

/* The same of a buffer that the commit copied whole. */
static void
test_whole_written_since(hf_session *session) {
    hf_region *region;
    size_t page = session->page;
    OK(hf_region_reserve(session, PAGES * page, 1, &region, NULL, NULL));
    char *p = hf_region_address(region);
    commit_value(session, "v", NULL, 0, region);
    OK(hf_session_privatize(session, 1, NULL));
    memset(p, 'a', (PAGES - 2) * page);
    commit_value(session, "v", NULL, 0, region);
    p[(PAGES - 1) * page] = 'X'; /* on a page that wasn't private at the commit */
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(p[0] == 'a' && p[(PAGES - 1) * page] == 'X');
    commit_value(session, "v", NULL, 0, region);
    hf_region *seen = map_value(session, "v");
    CHECK(memcmp(hf_region_address(seen), p, PAGES * page) == 0);
    hf_region_release(seen);
    hf_region_release(region);
}

/* ---- mappings that fail ---- */

static int mappings_left;

static int
fail_mapping(const char *call) {
    return strcmp(call, "mmap") == 0 && mappings_left-- <= 0 ? ENOMEM : 0;
}

/* After each number of mappings: no byte changes, here or in the next commit, and
 * privatizing again does the rest. */
static void
test_failing_pieces(hf_session *session) {
    int failed = 1;
    for (int count = 0; failed; count++) {
        hf_region *region = mixed(session, "f");
        char *p = hf_region_address(region);
        hf_error error = HF_ERROR_INIT;
        uint64_t pages;
        mappings_left = count;
        hfi_fault_hook = fail_mapping;
        failed = hf_session_privatize(session, 1, &error) != HF_OK;
        hfi_fault_hook = NULL;
        CHECK(!failed || (error.status == HF_E_SYSTEM && error.sys_errno == ENOMEM));
        check_mixed(region, 'b', PAGES, 0);
        p[3 * session->page] = 'X';
        p[(PAGES - 1) * session->page] = 'X';
        commit_value(session, "f", NULL, 0, region);
        hf_region *seen = map_value(session, "f");
        CHECK(memcmp(hf_region_address(seen), p, PAGES * session->page) == 0);
        hf_region_release(seen);
        OK(hf_session_privatize(session, 1, NULL));
        CHECK(p[0] == 'b' && p[3 * session->page] == 'X');
        OK(hf_region_changed_pages(region, &pages, NULL));
        CHECK(pages == 0);
        hf_region_release(region);
        CHECK(count <= PAGES && (failed || count > PAGES / 3));
    }
}

/* Own regions that were published: one that can't be made private doesn't keep the
 * others shared, and is tried again. */
static void
test_failing_own(hf_session *session) {
    hf_region *own[3];
    for (int count = 0; count < 3; count++) {
        hf_commit *commit;
        OK(hf_commit_begin(session, &commit, NULL));
        for (int i = 0; i < 3; i++) {
            char key[2] = {(char)('0' + i), 0};
            OK(hf_region_reserve(session, 5 * session->page, 1, &own[i], NULL, NULL));
            OK(put_value(commit, key, NULL, 0, own[i], NULL));
        }
        OK(hf_commit_publish_consume(commit, NULL, NULL));
        mappings_left = count;
        hfi_fault_hook = fail_mapping;
        CHECK(hf_session_privatize(session, 0, NULL) == HF_E_SYSTEM);
        hfi_fault_hook = NULL;
        int shared = 0;
        for (int i = 0; i < 3; i++)
            shared += own[i]->is_own;
        CHECK(shared == 3 - count);
        OK(hf_session_privatize(session, 0, NULL));
        for (int i = 0; i < 3; i++) {
            char key[2] = {(char)('0' + i), 0};
            CHECK(!own[i]->is_own);
            *(char *)hf_region_address(own[i]) = 'X';
            hf_region *seen = map_value(session, key);
            CHECK(*(char *)hf_region_address(seen) == 0);
            hf_region_release(seen);
            hf_region_release(own[i]);
        }
    }
}

/* What a thread writes to an own region after its publication and before its
 * privatization is in the store at once, since both are the same page: it is in the
 * next commit, too. */
static void
test_written_before_own_privatize(hf_session *session) {
    hf_region *own;
    OK(hf_region_reserve(session, 5 * session->page, 1, &own, NULL, NULL));
    char *p = hf_region_address(own);
    commit_value(session, "b", NULL, 0, own);
    p[session->page] = 'X';
    OK(hf_session_privatize(session, 0, NULL));
    CHECK(p[session->page] == 'X');
    p[2 * session->page] = 'Y';
    commit_value(session, "b", NULL, 0, own);
    hf_region *seen = map_value(session, "b");
    CHECK(memcmp(hf_region_address(seen), p, 5 * session->page) == 0);
    hf_region_release(seen);
    hf_region_release(own);
}

/* ---- threads that write all the time ---- */

/* Somebody else's arrays, and loops over them as NumPy's: each writer has every
 * WRITERS-th word of every array, and counts it up by one a pass. A word that is not as
 * large as its writer's passes in the end was lost. */
typedef struct writer {
    pthread_t thread;
    _Atomic int *stop;
    volatile uint64_t *arrays[ARRAYS];
    unsigned number;
    _Atomic uint64_t passes;
} writer;

/* It races with what copies and maps, which is what is tested. */
__attribute__((no_sanitize_thread)) static void *
write_on(void *context) {
    writer *w = context;
    while (!atomic_load(w->stop)) {
        for (unsigned k = 0; k < ARRAYS; k++)
            for (size_t i = w->number; i < WORDS; i += WRITERS)
                w->arrays[k][i] = w->arrays[k][i] + 1;
        atomic_fetch_add(&w->passes, 1);
    }
    return NULL;
}

static void
check_words(const writer *writers, const uint64_t *words) {
    for (size_t i = 0; i < WORDS; i++)
        CHECK(words[i] == atomic_load(&writers[i % WRITERS].passes));
}

/* Every kind of region, all zero: one that was born here; one that was and is
 * published, but not privatized; one that is mapped whole; one of several pieces with
 * private pages among them; and one that was unshared. */
static void
make_arrays(hf_session *session, hf_region **arrays) {
    for (int k = 0; k < ARRAYS; k++) {
        hf_region *own;
        char key[2] = {(char)('0' + k), 0};
        OK(hf_region_reserve(session, WORDS * 8, 1, &own, NULL, NULL));
        arrays[k] = own;
        if (k == 0)
            continue;
        commit_value(session, key, NULL, 0, own);
        if (k == 1)
            continue;
        OK(hf_session_privatize(session, 1, NULL));
        hf_region_release(own);
        arrays[k] = map_value(session, key);
    }
    char *p = hf_region_address(arrays[3]);
    for (size_t i = 1; i < WORDS * 8; i += 9 * session->page)
        ((volatile char *)p)[i] = 0; /* a private page, with nothing new */
    commit_value(session, "3", NULL, 0, arrays[3]);
    OK(hf_session_privatize(session, 1, NULL));
    CHECK(arrays[3]->piece_count > 10);
    ((volatile char *)p)[session->page] = 0;
    OK(hf_region_unshare(arrays[4], NULL));
    hf_region_release(arrays[1]); /* privatize took it: once more */
    OK(hf_region_reserve(session, WORDS * 8, 1, &arrays[1], NULL, NULL));
    commit_value(session, "1", NULL, 0, arrays[1]);
}

/* Blocks of all ages come and go, written all over: a page of an array that was given
 * away too soon would be written by two. */
static void
churn(hf_session *session) {
    hf_region *region;
    OK(hf_region_reserve(session, WORDS * 8, 0, &region, NULL, NULL));
    memset(hf_region_address(region), 0xff, WORDS * 8);
    hf_region_release(region);
    hfi_cache_flush(session);
}

/* Wait until each writer has been once around. */
static void
let_write(writer *writers) {
    for (int i = 0; i < WRITERS; i++) {
        uint64_t passes = atomic_load(&writers[i].passes);
        while (atomic_load(&writers[i].passes) < passes + 2)
            sched_yield();
    }
}

static void
commit_arrays(hf_session *session, hf_region **arrays) {
    hf_commit *commit;
    OK(hf_commit_begin(session, &commit, NULL));
    for (int k = 0; k < ARRAYS; k++) {
        char key[2] = {(char)('0' + k), 0};
        OK(put_value(commit, key, NULL, 0, arrays[k], NULL));
    }
    OK(hf_commit_publish_consume(commit, NULL, NULL));
}

/* No page is ever replaced under a running thread: writers go on through commits and
 * privatizes, and every write of theirs is there in the end, here and in the store. */
static void
test_hostile(hf_session *session) {
    hf_region *arrays[ARRAYS];
    writer writers[WRITERS];
    _Atomic int stop = 0;
    make_arrays(session, arrays);
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (writer){.stop = &stop, .number = i};
        for (int k = 0; k < ARRAYS; k++)
            writers[i].arrays[k] = hf_region_address(arrays[k]);
        CHECK(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 2)
            let_write(writers); /* between the commits, and else through them */
        commit_arrays(session, arrays);
        OK(hf_session_privatize(session, 0, NULL));
        churn(session);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        CHECK(atomic_load(&writers[i].passes) >= ROUNDS);
    }
    for (int k = 0; k < ARRAYS; k++)
        check_words(writers, hf_region_address(arrays[k]));
    commit_arrays(session, arrays);
    OK(hf_session_privatize(session, 1, NULL)); /* now the pages may be replaced */
    for (int k = 0; k < ARRAYS; k++) {
        char key[2] = {(char)('0' + k), 0};
        uint64_t pages;
        hf_region *seen = map_value(session, key);
        check_words(writers, hf_region_address(seen));
        check_words(writers, hf_region_address(arrays[k]));
        OK(hf_region_changed_pages(arrays[k], &pages, NULL));
        CHECK(pages == 0);
        hf_region_release(seen);
        hf_region_release(arrays[k]);
    }
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    test_contents(session);
    test_prepared(session);
    test_written_since(session, 0);
    test_written_since(session, 3 * (PAGES / 3));
    test_written_since(session, 1); /* a page that was mapped at the commit */
    test_whole_written_since(session);
    test_failing_pieces(session);
    test_failing_own(session);
    test_written_before_own_privatize(session);
    for (int again = 0; again < 4; again++)
        test_hostile(session);
    OK(hf_session_verify(session, NULL));
    end_session(session);
    return 0;
}
