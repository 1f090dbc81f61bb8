/* test_seal.c - sealing: addresses and contents stay, later writes stay private, and no
 * write is lost of threads that write while it happens. */
#include <pthread.h>
#include <sched.h>

#include "engine/internal.h"
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
    OK(hf_session_seal(session, 0, NULL));
    CHECK(hf_region_address(own) == p && p[100] == 'a');
    OK(hf_region_changed_pages(own, &pages, NULL));
    CHECK(pages == 0);
    p[100] = 'b';
    p[200000] = 'b';
    seen = map_value(session, "c");
    CHECK(((char *)hf_region_address(seen))[100] == 'a');
    hf_region_release(seen);

    commit_value(session, "c", NULL, 0, own); /* two pages, copied */
    OK(hf_session_seal(session, 0, NULL));    /* others may be writing: not replaced */
    OK(hf_region_changed_pages(own, &pages, NULL));
    CHECK(pages == 2);
    p[100] = 'c';
    commit_value(session, "c", NULL, 0, own);
    OK(hf_session_seal(session, 1, NULL)); /* nobody writes: replaced by the new ones */
    OK(hf_region_changed_pages(own, &pages, NULL));
    CHECK(pages == 0);
    CHECK(p[100] == 'c' && p[200000] == 'b' && p[0] == 0);
    hf_region_release(own);
}

/* What was prepared and not published yet is not sealed. */
static void
test_prepared(hf_session *session) {
    hf_region *own;
    hf_commit *commit;
    hf_prepared token;
    OK(hf_region_reserve(session, 5000, 1, &own, NULL, NULL));
    OK(hf_commit_begin(session, &commit, NULL));
    OK(put_value(commit, "p", NULL, 0, own, NULL));
    OK(hf_commit_prepare_consume(commit, &token, NULL));
    OK(hf_session_seal(session, 1, NULL));
    CHECK(own->is_own);
    OK(hf_session_publish(session, &token, NULL, NULL));
    OK(hf_session_seal(session, 1, NULL));
    CHECK(!own->is_own);
    hf_region_release(own);
}

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

static void *
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
 * published, but not sealed; one that is mapped whole; one of several pieces with
 * private pages among them; and one that was unsealed. */
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
        OK(hf_session_seal(session, 1, NULL));
        hf_region_release(own);
        arrays[k] = map_value(session, key);
    }
    char *p = hf_region_address(arrays[3]);
    for (size_t i = 1; i < WORDS * 8; i += 9 * session->page)
        ((volatile char *)p)[i] = 0; /* a private page, with nothing new */
    commit_value(session, "3", NULL, 0, arrays[3]);
    OK(hf_session_seal(session, 1, NULL));
    CHECK(arrays[3]->piece_count > 10);
    ((volatile char *)p)[session->page] = 0;
    OK(hf_region_unseal(arrays[4], NULL));
    hf_region_release(arrays[1]); /* seal took it: once more */
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
 * seals, and every write of theirs is there in the end, here and in the store. */
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
        OK(hf_session_seal(session, 0, NULL));
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
    OK(hf_session_seal(session, 1, NULL)); /* now the pages may be replaced */
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
    for (int again = 0; again < 4; again++)
        test_hostile(session);
    OK(hf_session_verify(session, NULL));
    end_session(session);
    return 0;
}
