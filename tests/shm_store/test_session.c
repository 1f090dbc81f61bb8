/* test_session.c - creating and attaching, and everything that must not be attached to:
 * strangers' objects, open modes, other versions, garbage, ends of files, the dead.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/handle.h"
#include "platform/object.h"
#include "platform/pages.h"
#include "store_fixture.h"
#include "tuning/tuning.h"

static hf_status
try_open(hf_session *session) {
    hf_session *other = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_session_open_fd(hf_session_fd(session), &other, &error);
    if (status) {
        CHECK(other == NULL && error.status == status && error.message[0]);
        return status;
    }
    hf_session_close(other);
    return HF_OK;
}

static void
test_attach(void) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .label = "notes.ipynb"};
    hf_session *session, *other;
    OK(hf_session_create(&options, &session, NULL));
    const char *name = hf_session_name(session);
    CHECK(name[0] == '/');
    struct stat st;
    CHECK(fstat(hf_session_fd(session), &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(fcntl(hf_session_fd(session), F_GETFD) & FD_CLOEXEC);
    commit_value(session, "x", "7", 1, NULL);
    OK(hf_session_open(name + 1, &other, NULL)); /* with or without the slash */
    CHECK(hf_session_generation(other) == 1);
    CHECK_TEXT(info_of(other).label, "notes.ipynb");
    CHECK_TEXT(info_of(other).name, name);
    CHECK(info_of(other).owner_pid == getpid() && info_of(other).owner_alive == 1);
    CHECK(info_of(other).process_count == 2);
    uint64_t huge_size = 1;
    int way = 0;
    hfi_session_means(other, &huge_size, &way);
    CHECK((huge_size & (huge_size - 1)) == 0 && way == (int)hfi_pages_best_way());
    OK(hf_session_destroy(session, NULL));
    hf_region *region;
    hf_snapshot *snapshot;
    hf_session *late;
    CHECK(hf_region_reserve(other, 1, 0, &region, NULL, NULL) == HF_E_GONE);
    CHECK(hf_snapshot_acquire(other, &snapshot, NULL) == HF_E_GONE);
    CHECK(hf_session_open(name, &late, NULL) == HF_NOT_FOUND);
    CHECK(try_open(other) == HF_E_GONE);
    hf_session_close(other);
    hf_session_close(session);
    hf_session_close(NULL);
}

static void
test_names(void) {
    hf_session *session;
    hf_error error = HF_ERROR_INIT;
    char longer[200];
    memset(longer, 'n', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    CHECK(hf_session_open("holdfast-0-none", &session, &error) == HF_NOT_FOUND);
    CHECK(error.message[0]);
    CHECK(hf_session_open(longer, &session, NULL) == HF_NOT_FOUND);
    CHECK(hf_session_open("", &session, NULL) == HF_NOT_FOUND);
    CHECK(hf_session_open_fd(-1, &session, NULL) == HF_E_SYSTEM);
    hf_session_options options = {.struct_size = 3};
    CHECK(hf_session_create(&options, &session, NULL) == HF_E_INVALID);
    options = (hf_session_options){.struct_size = sizeof options,
                                   .capacity_bytes = UINT64_MAX};
    CHECK(hf_session_create(&options, &session, NULL) == HF_E_INVALID);
}

static void
test_strangers(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD);
    int fd = hf_session_fd(session);
    CHECK(fchmod(fd, 0640) == 0);
    CHECK(try_open(session) == HF_E_ACCESS);
    CHECK(fchmod(fd, 0600) == 0);
    OK(try_open(session));
    if (geteuid() == 0) { /* only root can give a file away */
        CHECK(fchown(fd, 12345, (gid_t)-1) == 0);
        CHECK(try_open(session) == HF_E_ACCESS);
        CHECK(fchown(fd, 0, (gid_t)-1) == 0);
    }
    end_session(session);
}

static void
test_lies(void) {
    hf_session *session = new_session(0, HF_SESSION_MEMFD), *other;
    hfi_superblock *super = session->super;
    OK(try_open(session));
    atomic_store(&super->magic, 0x6567616272616721ull);
    CHECK(try_open(session) == HF_E_CORRUPT);
    atomic_store(&super->magic, HFI_MAGIC);
    super->version++;
    CHECK(try_open(session) == HF_E_VERSION);
    super->version--;
    super->page_size *= 2;
    CHECK(try_open(session) == HF_E_VERSION);
    super->page_size /= 2;
    uint64_t capacity = super->capacity;
    super->capacity = UINT64_MAX;
    CHECK(try_open(session) == HF_E_CORRUPT);
    super->capacity = capacity;
    OK(try_open(session));

    /* A root that was damaged is seen by the reader, not believed. */
    hf_snapshot *snapshot;
    super->roots[0].entry_count++;
    CHECK(hf_snapshot_acquire(session, &snapshot, NULL) == HF_E_CORRUPT);
    super->roots[0].entry_count--;
    OK(hf_snapshot_acquire(session, &snapshot, NULL));
    hf_snapshot_release(snapshot);

    int fd, pipes[2];
    CHECK(hfi_object_create_anonymous("short", &fd) == 0);
    CHECK(hf_session_open_fd(fd, &other, NULL) == HF_E_CORRUPT); /* empty */
    CHECK(ftruncate(fd, 5000) == 0);
    CHECK(hf_session_open_fd(fd, &other, NULL) == HF_E_CORRUPT); /* cut off */
    CHECK(ftruncate(fd, 1 << 20) == 0);
    CHECK(hf_session_open_fd(fd, &other, NULL) == HF_E_CORRUPT); /* zeros */
    close(fd);
    CHECK(pipe(pipes) == 0);
    CHECK(hf_session_open_fd(pipes[0], &other, NULL) < 0); /* no file at all */
    end_session(session);
}

int
main(void) {
    test_attach();
    test_names();
    test_strangers();
    test_lies();
    return 0;
}
