/* test_damaged.c - objects that were cut off or written over: whoever lists, collects
 * or opens them gets an error or what was there, and never dies of it.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/handle.h"
#include "own_user.h"
#include "store_fixture.h"

#define PAYLOAD (300u << 10)
#define BUFFER  (100u << 10)

static void
name_of(unsigned number, char name[HF_SESSION_NAME_SIZE]) {
    snprintf(name, HF_SESSION_NAME_SIZE, "/holdfast-%lu-%08x%08x", (unsigned long)user,
             (unsigned)getpid(), number);
}

static char *good; /* the bytes of a whole one */
static size_t good_size;

/* By a process that dies, so that it is to be collected. */
static void
make_good(void) {
    char name[HF_SESSION_NAME_SIZE];
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        static char large[PAYLOAD];
        hf_region *region;
        hf_session *session = new_session(1ull << 30, 0);
        memset(large, 'p', sizeof large);
        OK(hf_region_reserve(session, BUFFER, 1, &region, NULL, NULL));
        memset(hf_region_address(region), 'b', BUFFER);
        for (int i = 0; i < 40; i++) {
            char key[8];
            snprintf(key, sizeof key, "k%d", i);
            commit_value(session, key, key, strlen(key), NULL);
        }
        commit_value(session, "large", large, sizeof large, NULL);
        commit_value(session, "buffer", "x", 1, region);
        CHECK(write(ends[1], hf_session_name(session), sizeof name) == sizeof name);
        _exit(0);
    }
    CHECK(read(ends[0], name, sizeof name) == sizeof name);
    CHECK(waitpid(pid, NULL, 0) == pid);
    int fd = shm_open(name, O_RDONLY, 0);
    struct stat st;
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    good_size = (size_t)st.st_size;
    good = mmap(NULL, good_size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(good != MAP_FAILED && shm_unlink(name) == 0);
    close(fd);
}

/* ---- looking, in a child ---- */

static int
count_one(void *context, const hf_session_info *info) {
    (void)info;
    ++*(int *)context;
    return 0;
}

static int
check_entry(void *context, const hf_entry *entry) {
    hf_snapshot *snapshot = context;
    const char *payload = entry->payload;
    if (strcmp(entry->key, "large") == 0) { /* not checked before a scrub */
        for (size_t i = 0; i < entry->payload_size; i++)
            CHECK(strchr("p\1\x20\xff", payload[i]));
    } else if (entry->key[0] == 'k')
        CHECK(strlen(entry->key) == entry->payload_size &&
              memcmp(payload, entry->key, entry->payload_size) == 0);
    hf_region *region;
    if (entry->buffer_count &&
        hf_region_map(snapshot, entry, 0, &region, NULL) == HF_OK) {
        volatile const char *bytes = hf_region_address(region);
        for (size_t i = 0; i < hf_region_size(region); i += 512)
            (void)bytes[i];
        hf_region_release(region);
    }
    return 0;
}

static void
look(const char *name) {
    hf_session *session;
    hf_snapshot *snapshot;
    int count = 0;
    alarm(60);
    OK(hf_session_list(count_one, &count, NULL));
    if (hf_session_open(name, &session, NULL) == HF_OK) {
        if (hf_snapshot_acquire(session, &snapshot, NULL) == HF_OK) {
            if (hf_snapshot_each(snapshot, check_entry, snapshot, NULL)) {
            }
            hf_snapshot_release(snapshot);
        }
        if (hf_session_verify(session, NULL)) {
        }
        hf_session_close(session);
    }
    OK(hf_session_collect(count_one, &count, NULL, NULL));
    _exit(0);
}

/* An object with these bytes, looked at by a process of its own, which must not die. */
static void
try_object(const char *bytes, size_t size, const char *what, size_t where) {
    static unsigned number;
    char name[HF_SESSION_NAME_SIZE];
    name_of(++number, name);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    /* The control area is mostly a hole. */
    size_t head = size < 1u << 20 ? size : 1u << 20;
    CHECK(pwrite(fd, bytes, head, 0) == (ssize_t)head);
    if (size > HFI_ARENA_OFFSET)
        CHECK(pwrite(fd, bytes + HFI_ARENA_OFFSET, size - HFI_ARENA_OFFSET,
                     HFI_ARENA_OFFSET) == (ssize_t)(size - HFI_ARENA_OFFSET));
    if (size > offsetof(hfi_superblock, name) + sizeof name &&
        strcmp(what, "name") != 0)
        CHECK(pwrite(fd, name, sizeof name, offsetof(hfi_superblock, name)) ==
              sizeof name);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        look(name);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fprintf(stderr, "%s at %zu: status %x\n", what, where, status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    shm_unlink(name);
    close(fd);
}

static void
test_cut_off(void) {
    static const size_t sizes[] = {
        0,
        1,
        4095,
        4096,
        HFI_TABLE_OFFSET,
        HFI_TABLE_OFFSET + 4096,
        HFI_TABLE_OFFSET + HFI_EXTENT_CHUNK * sizeof(hfi_extent) - 1,
        HFI_TABLE_OFFSET + HFI_EXTENT_CHUNK * sizeof(hfi_extent),
        HFI_ARENA_OFFSET,
        HFI_ARENA_OFFSET + 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        try_object(good, sizes[i], "cut", sizes[i]);
    for (size_t size = good_size; size > HFI_ARENA_OFFSET + 8192; size -= 40960)
        try_object(good, size - 1, "cut", size);
}

/* Each word of the superblock, and any of slots, records and commits. */
static void
test_written_over(void) {
    static const uint64_t values[] = {0, 1, UINT32_MAX, UINT64_MAX, 1ull << 45};
    char *bytes = mmap(NULL, good_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(bytes != MAP_FAILED);
    memcpy(bytes, good, 1u << 20);
    memcpy(bytes + HFI_ARENA_OFFSET, good + HFI_ARENA_OFFSET,
           good_size - HFI_ARENA_OFFSET);
    uint32_t state = 7;
    for (size_t i = 0; i < 260; i++) {
        size_t at = i * 4; /* the head of the superblock first, all values in turn */
        state = state * 1664525 + 1013904223;
        if (i >= 130)
            at = i % 2
                     ? HFI_SLOTS_OFFSET + (state >> 8) % (HFI_TABLE_OFFSET - 4096)
                     : HFI_ARENA_OFFSET + (state >> 8) % (good_size - HFI_ARENA_OFFSET);
        at &= ~(size_t)3;
        uint64_t value = values[(i + (state >> 16)) % 5];
        size_t size = at + 8 <= good_size ? 8 : 4;
        memcpy(bytes + at, &value, size);
        try_object(bytes, good_size, "word", at);
        memcpy(bytes + at, good + at, size);
    }
    munmap(bytes, good_size);
}

/* One that says that it is another one doesn't have that one removed. */
static void
test_name_of_another(void) {
    hf_session *session = new_session(1 << 20, 0);
    char *bytes = mmap(NULL, good_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(bytes != MAP_FAILED);
    memcpy(bytes, good, 1u << 20);
    memcpy(bytes + offsetof(hfi_superblock, name), hf_session_name(session),
           HF_SESSION_NAME_SIZE);
    try_object(bytes, good_size, "name", 0);
    hf_session *again;
    OK(hf_session_open(hf_session_name(session), &again, NULL));
    hf_session_close(again);
    munmap(bytes, good_size);
    end_session(session);
}

int
main(void) {
    make_good();
    try_object(good, good_size, "whole", 0);
    test_cut_off();
    test_written_over();
    test_name_of_another();
    return 0;
}
