/* store_commit.c - what the store's own steps cost, each beside the machine's limit.
 *
 *   store_commit [SIZE_MIB] [REPEATS]      (1024 and 5)
 *
 * Measured over one buffer of that size: reserving it with fresh and with recycled
 * pages, zeroed or not; committing it by reference, privatizing it, attaching and
 * mapping it as a new process does, committing it again with one page changed (with few
 * and with all of its pages mapped), and with all of it changed, twice, since the
 * second time there are pages to recycle; unsharing it before it is written; and saving
 * it from memory that was born elsewhere. Then a thousand small values: all new, and
 * all of them again. The limits of the same run are memcpy between present pages, a
 * first touch of fresh private and shared pages, memcpy into new shared ones, and
 * dropping the page tables of shared ones, which is most of privatizing. The best of
 * the repeats counts: what a step needs, without what else the machine did. One line a
 * step: name, time by the clock, and time of the CPU, which is what is left to compare
 * where others use the machine.
 *
 * Rejected: medians over a quiet machine, which this one never is.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "holdfast/store.h"

#define STEPS_MAX 64
#define SMALL     1000

typedef struct step {
    const char *name;
    double best_ms, best_cpu_ms;
} step;

typedef struct moment {
    double ms, cpu_ms;
} moment;

static step steps[STEPS_MAX];
static size_t step_count, size, page;

static double
clock_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static moment
now(void) {
    return (moment){clock_ms(CLOCK_MONOTONIC), clock_ms(CLOCK_THREAD_CPUTIME_ID)};
}

static void
note(const char *name, moment since) {
    moment end = now();
    double ms = end.ms - since.ms, cpu_ms = end.cpu_ms - since.cpu_ms;
    size_t i = 0;
    while (i < step_count && strcmp(steps[i].name, name) != 0)
        i++;
    if (i == step_count && step_count < STEPS_MAX)
        steps[step_count++] = (step){name, ms, cpu_ms};
    else if (i < step_count) {
        if (ms < steps[i].best_ms)
            steps[i].best_ms = ms;
        if (cpu_ms < steps[i].best_cpu_ms)
            steps[i].best_cpu_ms = cpu_ms;
    }
}

static hf_error error;

static void
must(hf_status status) {
    if (status == HF_OK)
        return;
    fprintf(stderr, "store_commit: %s: %s\n", hf_status_name(status), error.message);
    exit(1);
}

/* The parts of a commit are measured one by one: put is where changed pages are
 * found. */
static void
commit_buffer(hf_session *session, hf_buffer buffer, const char *whole,
              const char *put) {
    hf_commit *c;
    hf_value value = {.struct_size = sizeof value,
                      .key = "array",
                      .key_size = 5,
                      .codec = 16,
                      .buffers = &buffer,
                      .buffer_count = 1};
    moment begin = now();
    must(hf_commit_begin(session, &c, &error));
    moment at_put = now();
    must(hf_commit_put(c, &value, &error));
    if (put)
        note(put, at_put);
    must(hf_commit_publish_consume(c, NULL, &error));
    note(whole, begin);
}

static void
commit(hf_session *session, hf_region *region, const char *whole, const char *put) {
    commit_buffer(session, (hf_buffer){sizeof(hf_buffer), NULL, 0, region}, whole, put);
}

static void
privatize(hf_session *session, const char *name) {
    moment begin = now();
    must(hf_session_privatize(session, 1, &error));
    note(name, begin);
}

static void *
fresh_map(int flags) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("store_commit: mmap");
        exit(1);
    }
    return p;
}

static void
touch(char *p) {
    for (size_t i = 0; i < size; i += page)
        p[i] = 1;
}

static void
measure_limits(void) {
    char *a = fresh_map(MAP_PRIVATE), *b = fresh_map(MAP_SHARED);
    moment begin = now();
    touch(a);
    note("limit: mmap and touch, private", begin);
    begin = now();
    touch(b);
    note("limit: mmap and touch, shared", begin);
    begin = now();
    memcpy(b, a, size);
    note("limit: memcpy, present pages", begin);
    begin = now();
    madvise(b, size, MADV_DONTNEED); /* the pages are the object's and stay */
    note("limit: drop page tables", begin);
    munmap(b, size);
    b = fresh_map(MAP_SHARED);
    begin = now();
    memcpy(b, a, size);
    note("limit: memcpy, new shared pages", begin);
    munmap(a, size);
    munmap(b, size);
}

static hf_region *
map_again(hf_session *session) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    must(hf_snapshot_acquire(session, &snapshot, &error));
    must(hf_snapshot_find(snapshot, "array", 5, &entry, &error));
    moment begin = now();
    must(hf_region_map(snapshot, &entry, 0, &region, &error));
    note("map", begin);
    hf_snapshot_release(snapshot);
    return region;
}

static void
measure_changes(hf_session *session) {
    hf_region *region = map_again(session);
    char *p = hf_region_address(region);
    p[size / 2]++;
    commit(session, region, "commit: one page, little mapped", "  of it put");
    privatize(session, "privatize: one page");
    moment begin = now();
    hf_region_populate(region, 0);
    note("populate for reading", begin);
    p[size / 2]++;
    commit(session, region, "commit: one page, all mapped", "  of it put, all mapped");
    privatize(session, "privatize: one page");
    for (int again = 0; again < 3; again++) {
        begin = now();
        touch(p);
        note("touch all, copy on write", begin);
        commit(session, region,
               again ? "commit: all changed, recycled" : "commit: all changed, fresh",
               NULL);
        privatize(session, "privatize: all changed");
    }
    hf_region_release(region);
}

static hf_session *
new_session(void) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .capacity_bytes = 5 * (uint64_t)size + (64u << 20),
                                  .label = "store_commit"};
    hf_session *session;
    must(hf_session_create(&options, &session, &error));
    return session;
}

static void
end_session(hf_session *session) {
    must(hf_session_verify(session, &error));
    must(hf_session_destroy(session, &error));
    hf_session_close(session);
}

static void
measure_unshare(void) {
    hf_session *session = new_session();
    hf_region *region;
    must(hf_region_reserve(session, size, 0, &region, NULL, &error));
    touch(hf_region_address(region));
    commit(session, region, "commit: by reference", NULL);
    privatize(session, "privatize: by reference");
    hf_region_release(region);
    for (int again = 0; again < 3; again++) {
        region = map_again(session);
        moment begin = now();
        must(hf_region_unshare(region, &error));
        note(again ? "unshare, recycled" : "unshare, fresh", begin);
        begin = now();
        touch(hf_region_address(region));
        note("touch, unshared", begin);
        commit(session, region, "commit: unshared", NULL);
        privatize(session, "privatize: unshared");
        hf_region_release(region);
    }
    end_session(session);
}

/* Of memory that the store doesn't know: the first time into fresh pages, and from the
 * third on into those of the first. */
static void
measure_elsewhere(void) {
    hf_session *session = new_session();
    char *elsewhere = fresh_map(MAP_PRIVATE);
    touch(elsewhere);
    for (int again = 0; again < 4; again++)
        commit_buffer(session, (hf_buffer){sizeof(hf_buffer), elsewhere, size, NULL},
                      again < 2 ? "save: born elsewhere, fresh"
                                : "save: born elsewhere, recycled",
                      NULL);
    munmap(elsewhere, size);
    hf_region *region;
    moment begin = now();
    must(hf_region_reserve(session, size, 1, &region, NULL, &error));
    note("reserve zeroed, recycled", begin);
    begin = now();
    touch(hf_region_address(region));
    note("touch, zeroed recycled", begin);
    hf_region_release(region);
    end_session(session);
}

static void
measure_zeroed(void) {
    hf_session *session = new_session();
    hf_region *region;
    for (int again = 0; again < 2; again++) {
        moment begin = now();
        must(hf_region_reserve(session, size, 1, &region, NULL, &error));
        note(again ? "reserve zeroed, cached" : "reserve zeroed, fresh", begin);
        begin = now();
        touch(hf_region_address(region));
        note(again ? "touch, zeroed cached" : "touch, zeroed fresh", begin);
        hf_region_release(region);
    }
    end_session(session);
}

/* What a process pays that comes to data that is there: flat in its size. */
static void
measure_restore(hf_session *session) {
    hf_session *other;
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    moment begin = now();
    must(hf_session_open_fd(hf_session_fd(session), &other, &error));
    note("attach", begin);
    begin = now();
    must(hf_snapshot_acquire(other, &snapshot, &error));
    must(hf_snapshot_find(snapshot, "array", 5, &entry, &error));
    must(hf_region_map(snapshot, &entry, 0, &region, &error));
    ((char *)hf_region_address(region))[size / 2]++;
    note("find, map and touch", begin);
    hf_region_release(region);
    hf_snapshot_release(snapshot);
    hf_session_close(other);
}

static void
commit_small(hf_session *session, int turn, const char *whole, const char *prepare) {
    hf_commit *c;
    hf_prepared token;
    char key[32], payload[64];
    moment begin = now();
    must(hf_commit_begin(session, &c, &error));
    for (int i = 0; i < SMALL; i++) {
        hf_value value = {.struct_size = sizeof value,
                          .key = key,
                          .key_size = (size_t)snprintf(key, sizeof key, "name%d", i),
                          .codec = 1,
                          .meta = "meta",
                          .meta_size = 4,
                          .payload = payload,
                          .payload_size = (size_t)(8 + i % 50)};
        memset(payload, turn, sizeof payload);
        must(hf_commit_put(c, &value, &error));
    }
    moment put = now();
    must(hf_commit_prepare_consume(c, &token, &error));
    note(prepare, put);
    must(hf_session_publish(session, &token, NULL, &error));
    note(whole, begin);
}

static void
measure_small(void) {
    hf_session *session = new_session();
    for (int turn = 0; turn < 20; turn++)
        commit_small(session, turn,
                     turn ? "commit: 1000 small, again" : "commit: 1000 small, new",
                     turn ? "  prepare, again" : "  prepare, new");
    end_session(session);
}

static void
measure(void) {
    hf_session *session = new_session();
    hf_region *region;
    moment begin = now();
    must(hf_region_reserve(session, size, 0, &region, NULL, &error));
    note("reserve, fresh", begin);
    begin = now();
    touch(hf_region_address(region));
    note("touch, reserved fresh", begin);
    hf_region_release(region);
    begin = now();
    must(hf_region_reserve(session, size, 0, &region, NULL, &error));
    note("reserve, recycled", begin);
    begin = now();
    touch(hf_region_address(region));
    note("touch, reserved recycled", begin);
    commit(session, region, "commit: by reference", NULL);
    privatize(session, "privatize: by reference");
    hf_region_release(region);
    measure_restore(session);
    measure_changes(session);
    begin = now();
    must(hf_session_scrub(session, UINT64_MAX, NULL, &error));
    note("scrub (checksum all)", begin);
    end_session(session);
}

int
main(int argc, char **argv) {
    struct utsname system;
    size = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1024) << 20;
    int repeats = argc > 2 ? atoi(argv[2]) : 5;
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (size == 0 || repeats < 1) {
        fputs("usage: store_commit [SIZE_MIB] [REPEATS]\n", stderr);
        return 2;
    }
    for (int i = 0; i < repeats; i++) {
        measure_limits();
        measure();
        measure_unshare();
        measure_elsewhere();
        measure_zeroed();
        measure_small();
    }
    uname(&system);
    printf("%s %s, %ld cores, pages of %zu bytes; one buffer of %zu MiB, best of %d\n",
           system.sysname, system.release, sysconf(_SC_NPROCESSORS_ONLN), page,
           size >> 20, repeats);
    for (size_t i = 0; i < step_count; i++)
        printf("%-34s %10.3f ms %10.3f ms of CPU\n", steps[i].name, steps[i].best_ms,
               steps[i].best_cpu_ms);
    return 0;
}
