/* test_neighbours.c - who counts as another person. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/check.h"
#include "session/neighbours.h"

static int
found_with(const char *directory, const char *name, uid_t owner, uid_t self) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    CHECK(mkdir(path, 0700) == 0 && chown(path, owner, (gid_t)-1) == 0);
    int found = hfi_neighbours_in(directory, self);
    CHECK(rmdir(path) == 0);
    return found;
}

int
main(void) {
    char directory[] = "/tmp/holdfast-neighbours-XXXXXX";
    uid_t me = getuid();
    CHECK(mkdtemp(directory) != NULL);
    CHECK(hfi_neighbours_in(directory, 1000) == 0);
    CHECK(hfi_neighbours_in("/nowhere", 1000) == 0);
    CHECK(found_with(directory, "17", me, me) == 0);
    if (me == 0) { /* only root may give a directory away */
        CHECK(found_with(directory, "17", 1000, 1001) == 1);
        CHECK(found_with(directory, "17", 1000, 0) == 1);
        CHECK(found_with(directory, "17", 1000, 1000) == 0);
        CHECK(found_with(directory, "17", 999, 0) == 0);
        CHECK(found_with(directory, "17", 65534, 0) == 0);
        CHECK(found_with(directory, "self", 1000, 0) == 0);
    } else if (me >= 1000 && me != 65534) {
        CHECK(found_with(directory, "17", me, me + 1) == 1);
        CHECK(found_with(directory, "self", me, me + 1) == 0);
    }
    CHECK(rmdir(directory) == 0);
    (void)hfi_neighbours_present();
    return 0;
}
