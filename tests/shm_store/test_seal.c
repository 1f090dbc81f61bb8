/* test_seal.c - sealing: addresses and contents stay, later writes stay private, and no
 * write is lost of threads that write while it happens. */
#include <pthread.h>
#include <sched.h>

#include "engine/internal.h"
#include "store_fixture.h"

#define WORDS   (1 << 16)
#define WRITERS 2

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

typedef struct writer {
    _Atomic int *stop;
    volatile uint64_t *words;
    unsigned number;
    uint64_t passes;
} writer;

/* Each thread has every WRITERS-th word, and counts it up by one a pass. */
static void *
write_on(void *context) {
    writer *w = context;
    while (!atomic_load(w->stop)) {
        w->passes++;
        for (size_t i = w->number; i < WORDS; i += WRITERS)
            w->words[i] = w->words[i] + 1;
    }
    return NULL;
}

static void
test_hammer(hf_session *session) {
    for (int round = 0; round < 12; round++) {
        hf_region *own;
        pthread_t threads[WRITERS];
        writer writers[WRITERS];
        _Atomic int stop = 0;
        OK(hf_region_reserve(session, WORDS * 8, 1, &own, NULL, NULL));
        uint64_t *words = hf_region_address(own);
        for (unsigned i = 0; i < WRITERS; i++) {
            writers[i] = (writer){&stop, words, i, 0};
            CHECK(pthread_create(&threads[i], NULL, write_on, &writers[i]) == 0);
        }
        for (int k = 0; k < 3; k++) { /* shared to private, then on with copies */
            commit_value(session, "h", NULL, 0, own);
            OK(hf_session_seal(session, 0, NULL));
            sched_yield();
        }
        atomic_store(&stop, 1);
        for (unsigned i = 0; i < WRITERS; i++)
            pthread_join(threads[i], NULL);
        for (size_t i = 0; i < WORDS; i++)
            CHECK(words[i] == writers[i % WRITERS].passes);
        hf_region_release(own);
    }
}

int
main(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    test_contents(session);
    test_prepared(session);
    test_hammer(session);
    OK(hf_session_verify(session, NULL));
    end_session(session);
    return 0;
}
