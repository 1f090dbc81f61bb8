/* test_prefill.c - free space is given memory in steps: what is missing and no more,
 * zero, for everybody, and whatever was made is there when it is left off.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/region.h"
#include "store_fixture.h"

#define MIB  ((size_t)1 << 20)
#define STEP (4 * MIB)

static const size_t sizes[] = {16 * MIB, 8 * MIB, 16 * MIB};

/* In how many steps it is done; no more than `most` of them. */
static int
provide(hf_session *session, int most) {
    int steps = 0, more = 1;
    hfi_session_prefill(session, sizes, 3);
    while (more && steps < most) {
        OK(hfi_session_prefill_some(session, STEP, &more, NULL));
        steps++;
    }
    hfi_session_prefill_end(session);
    CHECK(info_of(session).reserved_bytes == 0);
    return steps;
}

static void
trim(hf_session *session) {
    hfi_cache_flush(session);
    OK(hf_session_reap(session, 1, NULL, NULL));
    CHECK(info_of(session).free_bytes == 0);
}

static void
test_all_of_it_is_there_once(hf_session *session) {
    hf_region *region[3];
    CHECK(provide(session, 100) >= 10);
    CHECK(info_of(session).free_bytes == 40 * MIB);
    CHECK(provide(session, 100) == 1); /* nothing is missing */
    CHECK(info_of(session).free_bytes == 40 * MIB);
    long before = faults();
    for (int i = 0; i < 3; i++) {
        int zeroed;
        OK(hf_region_reserve(session, sizes[i], 1, &region[i], &zeroed, NULL));
        char *bytes = hf_region_address(region[i]);
        CHECK(zeroed && !bytes[0] && !bytes[sizes[i] - 1]);
        memset(bytes, 1, sizes[i]);
    }
    /* One for 16 pages, of 10240. */
    CHECK(faults() - before < 1500 + FAULTS_BESIDE(40 * MIB));
    CHECK(info_of(session).free_bytes == 0);
    for (int i = 0; i < 3; i++)
        hf_region_release(region[i]);
    hfi_cache_flush(session);
    CHECK(provide(session, 100) == 1); /* used pages do as well */
    trim(session);
}

static void
test_it_is_left_off(hf_session *session) {
    hf_region *region;
    int zeroed;
    for (int steps = 0; steps < 9; steps++) {
        CHECK(provide(session, steps) == steps);
        CHECK(info_of(session).free_bytes == (size_t)steps * STEP);
        OK(hf_region_reserve(session, 3 * MIB, 0, &region, &zeroed, NULL));
        char *bytes = hf_region_address(region);
        for (size_t i = 0; i < 3 * MIB; i += session->page)
            CHECK(bytes[i] == 0);
        CHECK(zeroed || !session->super->huge_page);
        hf_region_release(region);
        trim(session);
    }
}

/* What a process leaves that is killed in the middle of it. */
static void
test_death(hf_session *session) {
    pid_t child = fork();
    if (child == 0) {
        hf_session *own;
        int more;
        OK(hf_session_open_fd(hf_session_fd(session), &own, NULL));
        hfi_session_prefill(own, sizes, 3);
        for (int i = 0; i < 5; i++)
            OK(hfi_session_prefill_some(own, STEP, &more, NULL));
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(info_of(session).reserved_bytes == 24 * MIB);
    OK(hf_session_reap(session, 0, NULL, NULL));
    CHECK(info_of(session).reserved_bytes == 0);
    CHECK(info_of(session).free_bytes == 16 * MIB); /* the first is done */
    CHECK(provide(session, 100) >= 6);
    commit_value(session, "x", "1", 1, NULL);
    OK(hf_session_verify(session, NULL));
    remove_value(session, "x");
    trim(session);
    CHECK(info_of(session).allocated_bytes < MIB);
}

/* It stops where others would have to give way, and keeps what it made. */
static void
test_a_full_arena(void) {
    hf_session *session = new_session(20 * MIB, HF_SESSION_MEMFD);
    hf_region *region;
    provide(session, 100);
    CHECK(info_of(session).free_bytes == 16 * MIB);
    OK(hf_region_reserve(session, 19 * MIB, 0, &region, NULL, NULL));
    hf_region_release(region);
    end_session(session);
}

int
main(void) {
    hf_session *session = new_session(1ull << 30, HF_SESSION_MEMFD);
    test_all_of_it_is_there_once(session);
    test_it_is_left_off(session);
    test_death(session);
    session->super->huge_page = 0; /* page by page */
    test_all_of_it_is_there_once(session);
    test_it_is_left_off(session);
    end_session(session);
    test_a_full_arena();
    return 0;
}
