/* store_commit.c - what the store's own steps cost, each beside the machine's limit.
 *
 *   store_commit [SIZE_MIB] [REPEATS]      (1024 and 5)
 *
 * Measured over one buffer of that size: reserving it with fresh and with recycled
 * pages, committing it by reference, sealing it, committing it again with one page
 * changed (with few and with all of its pages mapped), and with all of it changed. The
 * limits of the same run are memcpy between present pages, and a first touch of fresh
 * private and shared pages. The best of the repeats counts: what a step needs, without
 * what else the machine did. One line a step: name, milliseconds, milliseconds per GiB.
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

#define STEPS_MAX 24

typedef struct step {
    const char *name;
    double best_ms;
} step;

static step steps[STEPS_MAX];
static size_t step_count, size, page;

static double
now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
note(const char *name, double since_ms) {
    double ms = now_ms() - since_ms;
    size_t i = 0;
    while (i < step_count && strcmp(steps[i].name, name) != 0)
        i++;
    if (i == step_count && step_count < STEPS_MAX)
        steps[step_count++] = (step){name, ms};
    else if (i < step_count && ms < steps[i].best_ms)
        steps[i].best_ms = ms;
}

static hf_error error;

static void
must(hf_status status) {
    if (status == HF_OK)
        return;
    fprintf(stderr, "store_commit: %s: %s\n", hf_status_name(status), error.message);
    exit(1);
}

/* The parts of a commit are told apart: put is where changed pages are found. */
static void
commit(hf_session *session, hf_region *region, const char *whole, const char *put) {
    hf_commit *c;
    hf_buffer buffer = {NULL, 0, region};
    hf_value value = {.key = "array",
                      .key_size = 5,
                      .codec = 16,
                      .buffers = &buffer,
                      .buffer_count = 1};
    double begin = now_ms();
    must(hf_commit_begin(session, &c, &error));
    double at_put = now_ms();
    must(hf_commit_put(c, &value, &error));
    if (put)
        note(put, at_put);
    must(hf_commit_publish_consume(c, NULL, &error));
    note(whole, begin);
}

static void
seal(hf_session *session, const char *name) {
    double begin = now_ms();
    must(hf_session_seal(session, 1, &error));
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
    double begin = now_ms();
    touch(a);
    note("limit: mmap and touch, private", begin);
    begin = now_ms();
    touch(b);
    note("limit: mmap and touch, shared", begin);
    begin = now_ms();
    memcpy(b, a, size);
    note("limit: memcpy, present pages", begin);
    munmap(a, size);
    munmap(b, size);
}

static hf_region *
map_again(hf_session *session) {
    hf_snapshot *snapshot;
    hf_entry entry;
    hf_region *region;
    must(hf_snapshot_acquire(session, &snapshot, &error));
    must(hf_snapshot_find(snapshot, "array", 5, &entry, &error));
    double begin = now_ms();
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
    seal(session, "seal: one page");
    double begin = now_ms();
    hf_region_populate(region, 0);
    note("populate for reading", begin);
    p[size / 2]++;
    commit(session, region, "commit: one page, all mapped", "  of it put, all mapped");
    seal(session, "seal: one page");
    begin = now_ms();
    touch(p);
    note("touch all, copy on write", begin);
    commit(session, region, "commit: all changed", NULL);
    seal(session, "seal: all changed");
    hf_region_release(region);
}

static void
measure(void) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .capacity_bytes = 5 * (uint64_t)size + (64u << 20),
                                  .flags = HF_SESSION_MEMFD};
    hf_session *session;
    hf_region *region;
    must(hf_session_create(&options, &session, &error));
    double begin = now_ms();
    must(hf_region_reserve(session, size, 0, &region, NULL, &error));
    note("reserve, fresh", begin);
    begin = now_ms();
    touch(hf_region_address(region));
    note("touch, reserved fresh", begin);
    hf_region_release(region);
    begin = now_ms();
    must(hf_region_reserve(session, size, 0, &region, NULL, &error));
    note("reserve, recycled", begin);
    begin = now_ms();
    touch(hf_region_address(region));
    note("touch, reserved recycled", begin);
    commit(session, region, "commit: by reference", NULL);
    seal(session, "seal: by reference");
    hf_region_release(region);
    measure_changes(session);
    begin = now_ms();
    must(hf_session_scrub(session, UINT64_MAX, NULL, &error));
    note("scrub (checksum all)", begin);
    must(hf_session_verify(session, &error));
    must(hf_session_destroy(session, &error));
    hf_session_close(session);
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
    }
    uname(&system);
    printf("%s %s, %ld cores, pages of %zu bytes; one buffer of %zu MiB, best of %d\n",
           system.sysname, system.release, sysconf(_SC_NPROCESSORS_ONLN), page,
           size >> 20, repeats);
    for (size_t i = 0; i < step_count; i++)
        printf("%-34s %10.3f ms %10.2f ms/GiB\n", steps[i].name, steps[i].best_ms,
               steps[i].best_ms / ((double)size / (double)(1u << 30)));
    return 0;
}
