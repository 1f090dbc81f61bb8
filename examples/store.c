/* store.c - two processes and one array, in plain C.
 *
 *   cc store.c $(pkg-config --cflags --libs holdfast) -o store && ./store
 *
 * The parent creates a session, fills an array in the arena and publishes it by
 * reference. The child attaches, maps it copy-on-write, changes one element and
 * publishes that: one page is copied, whatever the array's size. The parent then sees
 * the new generation.
 */
#include <holdfast/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static hf_error error = HF_ERROR_INIT;

static void
check(hf_status status, const char *what) {
    if (status == HF_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), error.message);
    exit(1);
}

static void
publish(hf_session *session, hf_region *region) {
    hf_commit *commit;
    hf_commit_stats stats = {.struct_size = sizeof stats};
    hf_buffer buffer = {.struct_size = sizeof buffer, .region = region};
    hf_value value = {.struct_size = sizeof value,
                      .key = "numbers",
                      .key_size = 7,
                      .codec = 256,
                      .meta = "double",
                      .meta_size = 6,
                      .buffers = &buffer,
                      .buffer_count = 1};
    uint64_t generation;
    check(hf_commit_begin(session, &commit, &error), "begin");
    check(hf_commit_put(commit, &value, &error), "put");
    check(hf_commit_get_stats(commit, &stats, &error), "stats");
    check(hf_commit_publish_consume(commit, &generation, &error), "publish");
    printf("generation %llu: %llu bytes copied, %llu shared\n",
           (unsigned long long)generation, (unsigned long long)stats.bytes_copied,
           (unsigned long long)stats.bytes_shared);
    fflush(stdout);
}

static hf_region *
map_numbers(hf_session *session) {
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    hf_region *region;
    check(hf_snapshot_acquire(session, &snapshot, &error), "snapshot");
    check(hf_snapshot_find(snapshot, "numbers", 7, &entry, &error), "find");
    check(hf_region_map(snapshot, &entry, 0, &region, &error), "map");
    hf_snapshot_release(snapshot);
    return region;
}

static void
child(int fd) {
    hf_session *session;
    check(hf_session_open_fd(fd, &session, &error), "attach");
    hf_region *region = map_numbers(session);
    double *numbers = hf_region_address(region);
    numbers[1000] = -1;
    publish(session, region);
    hf_region_release(region);
    hf_session_close(session);
}

int
main(void) {
    hf_session *session;
    hf_region *region;
    size_t count = 1 << 20;
    check(hf_session_create(NULL, &session, &error), "create");
    check(hf_region_reserve(session, count * sizeof(double), 0, &region, NULL, &error),
          "reserve");
    double *numbers = hf_region_address(region);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (double)i;
    publish(session, region);
    check(hf_session_privatize(session, 1, &error), "privatize");

    pid_t pid = fork();
    if (pid == 0) {
        child(hf_session_fd(session));
        _exit(0);
    }
    int how = 1;
    waitpid(pid, &how, 0);

    hf_region *changed = map_numbers(session);
    printf("element 1000 was %g, is %g\n", numbers[1000],
           ((double *)hf_region_address(changed))[1000]);
    hf_region_release(changed);
    hf_region_release(region);
    check(hf_session_destroy(session, &error), "destroy");
    hf_session_close(session);
    return how != 0;
}
