/* test_descriptor.c - code that closes the session's descriptors and opens files of its
 * own, which get their numbers: nothing is written to these, and the session goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/handle.h"
#include "platform/object.h"
#include "store_fixture.h"

#define SIZE ((size_t)20 << 20) /* enough for each way of writing */

static char path[] = "/tmp/holdfast-descriptor-XXXXXX";

/* The user's file gets the number. */
static int
steal(int fd) {
    close(fd);
    int mine = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(mine >= 0);
    if (mine != fd) {
        CHECK(dup2(mine, fd) == fd);
        close(mine);
    }
    CHECK(write(fd, "mine", 4) == 4);
    return fd;
}

static void
check_untouched(int fd) {
    struct stat st;
    char text[5] = {0};
    CHECK(fstat(fd, &st) == 0 && st.st_size == 4 && st.st_blocks <= 8);
    CHECK(pread(fd, text, 4, 0) == 4 && strcmp(text, "mine") == 0);
}

static void
check_value(hf_session *session, const char *key, char wanted) {
    hf_region *region = map_value(session, key);
    const char *bytes = hf_region_address(region);
    for (size_t i = 0; i < SIZE; i += 1000)
        CHECK(bytes[i] == wanted);
    hf_region_release(region);
}

/* Everything that writes or maps: regions, copies, changed pages, privatizes, trims. */
static void
use(hf_session *session, char fill) {
    static char data[SIZE];
    hf_region *region;
    memset(data, fill, SIZE);
    hf_commit *commit;
    hf_buffer buffer = {sizeof buffer, data, SIZE, NULL};
    hf_value value = {.struct_size = sizeof value,
                      .key = "copied",
                      .key_size = 6,
                      .buffers = &buffer,
                      .buffer_count = 1};
    OK(hf_commit_begin(session, &commit, NULL));
    OK(hf_commit_put(commit, &value, NULL));
    OK(hf_commit_publish_consume(commit, NULL, NULL));
    OK(hf_region_reserve(session, SIZE, 1, &region, NULL, NULL));
    memset(hf_region_address(region), fill, SIZE);
    commit_value(session, "own", NULL, 0, region);
    OK(hf_session_privatize(session, 1, NULL));
    memset(hf_region_address(region), fill + 1, 3 * session->page);
    commit_value(session, "changed", "x", 1, region);
    OK(hf_session_privatize(session, 1, NULL));
    check_value(session, "own", fill);
    check_value(session, "copied", fill);
    CHECK(*(char *)hf_region_address(region) == fill + 1);
    hf_region_release(region);
    OK(hf_session_reap(session, 1, NULL, NULL));
}

static void
test_stolen(unsigned flags) {
    hf_session *session = new_session(1ull << 30, flags), *other;
    int holder =
        dup(hf_session_fd(session)); /* as another process of the session has */
    use(session, 'a');
    int fd = steal(hf_session_fd(session));
    use(session, 'b');
    check_untouched(fd);
    CHECK(hf_session_fd(session) != fd && hf_session_fd(session) >= 0);
    close(hf_session_fd(session)); /* closed, and nobody has the number */
    use(session, 'c');
    OK(hf_session_open_fd(hf_session_fd(session), &other, NULL));
    check_value(other, "own", 'c');
    hf_session_close(other);
    if (!flags) { /* held, as far as others see: nobody collects it */
        int look;
        CHECK(hfi_object_open(hf_session_name(session), &look) == 0);
        close(holder);
        CHECK(hfi_object_is_held(look) == 1);
        close(look);
    } else
        close(holder);
    int last = steal(hf_session_fd(session));
    end_session(session);
    check_untouched(last); /* open still */
    close(last);
    check_untouched(fd);
    close(fd);
}

/* The page map's number: what another file says of pages isn't believed. */
static void
test_stolen_page_map(void) {
    hf_session *session = new_session(1ull << 30, HF_SESSION_MEMFD);
    use(session, 'a');
    if (session->pagemap < 0) { /* not to be had here */
        end_session(session);
        return;
    }
    int fd = steal(session->pagemap);
    use(session, 'b');
    check_untouched(fd);
    end_session(session);
    check_untouched(fd);
    close(fd);
}

/* Where nobody has the object any more it is an error with a name. */
static void
test_lost(void) {
    hf_session *session = new_session(1ull << 30, HF_SESSION_MEMFD);
    hf_region *region;
    hf_error error = HF_ERROR_INIT;
    commit_value(session, "x", "1", 1, NULL);
    int fd = steal(hf_session_fd(session));
    CHECK(hf_session_fd(session) == -1);
    CHECK(hf_region_reserve(session, SIZE, 0, &region, NULL, &error) < 0);
    CHECK(error.sys_errno == EBADF);
    hf_commit *commit;
    static char data[SIZE];
    OK(hf_commit_begin(session, &commit, NULL));
    CHECK(put_value(commit, "y", data, SIZE, NULL, &error) < 0);
    CHECK(error.sys_errno == EBADF);
    hf_commit_abort(commit);
    hf_snapshot *snapshot;
    hf_entry entry = {.struct_size = sizeof entry};
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    OK(hf_snapshot_find(snapshot, "x", 1, &entry, NULL)); /* what was there is */
    hf_snapshot_release(snapshot);
    end_session(session);
    check_untouched(fd);
    close(fd);
}

int
main(void) {
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    test_stolen(0);
    test_stolen(HF_SESSION_MEMFD);
    test_stolen_page_map();
    test_lost();
    CHECK(unlink(path) == 0);
    return 0;
}
