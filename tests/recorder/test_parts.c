/* test_parts.c - a process that comes while the last one removes what was recorded with
 * finds nothing half of it, and has a place of its own, which stays.
 */
#include "support/check.h"
#include "recorder/parts.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 4, PLACES = 150 };

static char directory[] = "/tmp/holdfast-parts-XXXXXX";
static char parts_path[sizeof directory + 16], lock_path[sizeof directory + 16];

typedef struct late {
    hfi_trace_part part;
    uint64_t lock_inode; /* of those that were there before */
    bool visits;
} late;

/* What many processes have left. Files are removed in the order in which the file system
 * lists them: the lock file is the newest one or the oldest. */
static void
fill(bool lock_is_newest) {
    char path[sizeof directory + 32];
    for (int i = 0; i < PLACES; i++) {
        snprintf(path, sizeof path, "%s/%d", parts_path, 1000 + i);
        CHECK(mkdir(path, 0777) == 0);
    }
    snprintf(path, sizeof path, "%s/moved", parts_path);
    if (lock_is_newest)
        CHECK(rename(lock_path, path) == 0 && rename(path, lock_path) == 0);
}

static bool
has_places(void) {
    DIR *entries = opendir(parts_path);
    bool found = false;
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        found = found || atoi(entry->d_name) >= 1000;
    if (entries)
        closedir(entries);
    return found;
}

/* Begins at the moment at which the lock file of the others is gone. */
static void *
come_late(void *given) {
    late *self = given;
    struct stat now;
    while (stat(lock_path, &now) == 0 && now.st_ino == self->lock_inode)
        ;
    CHECK(!has_places());
    if (self->visits)
        CHECK(hfi_trace_part_visit(directory, &self->part, NULL) == HF_OK);
    else
        CHECK(hfi_trace_part_join(directory, true, 0, &self->part, NULL) == HF_OK);
    return NULL;
}

static bool
is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static void
test_late(bool visits, bool lock_is_newest) {
    hfi_trace_part last;
    pthread_t thread;
    CHECK(hfi_trace_part_join(directory, true, 0, &last, NULL) == HF_OK);
    late other = {.lock_inode = last.lock_inode, .visits = visits};
    fill(lock_is_newest);
    CHECK(pthread_create(&thread, NULL, come_late, &other) == 0);
    CHECK(hfi_trace_part_finish(&last, NULL) == HF_OK);
    CHECK(hfi_trace_part_is_last(&last));
    hfi_trace_part_leave(&last, true);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(is_there(lock_path));
    CHECK(visits || is_there(other.part.own));
    if (!visits)
        CHECK(hfi_trace_part_finish(&other.part, NULL) == HF_OK);
    hfi_trace_part_leave(&other.part, true);
    CHECK(!is_there(parts_path));
}

/* A process was killed while it removed what many have left. */
static void
test_removal_that_was_cut_off(void) {
    hfi_trace_part last, other;
    char done_path[sizeof parts_path + 8];
    CHECK(hfi_trace_part_join(directory, true, 0, &last, NULL) == HF_OK);
    fill(false);
    snprintf(done_path, sizeof done_path, "%s/done", parts_path);
    CHECK(fclose(fopen(done_path, "w")) == 0);
    hfi_trace_part_leave(&last, false);
    CHECK(hfi_trace_part_join(directory, false, 0, &other, NULL) == HF_NOT_FOUND);
    CHECK(!is_there(parts_path));
    CHECK(hfi_trace_part_visit(directory, &other, NULL) == HF_OK);
    hfi_trace_part_leave(&other, true);
}

int
main(void) {
    CHECK(mkdtemp(directory));
    snprintf(parts_path, sizeof parts_path, "%s/parts", directory);
    snprintf(lock_path, sizeof lock_path, "%s/parts/lock", directory);
    for (int round = 0; round < ROUNDS; round++)
        test_late(round & 1, round & 2);
    test_removal_that_was_cut_off();
    CHECK(rmdir(directory) == 0);
    return 0;
}
