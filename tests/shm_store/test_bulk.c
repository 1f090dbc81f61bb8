/* test_bulk.c - what was written from both ends is all there, and what fails says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/bulk.h"
#include "platform/fault.h"
#include "platform/object.h"
#include "../support/check.h"

#define MIB ((size_t)1 << 20)

static int starts, refused;
static atomic_int writes, reads;
static const char *failing; /* a call that fails from its second time on */

static int
hook(const char *call) {
    int before = 0;
    if (strcmp(call, "pthread_create") == 0 && ++starts && refused)
        return EAGAIN;
    if (strcmp(call, "pwrite") == 0)
        before = atomic_fetch_add(&writes, 1);
    if (strcmp(call, "pread") == 0)
        before = atomic_fetch_add(&reads, 1);
    return before && failing && strcmp(call, failing) == 0 ? EIO : 0;
}

static int
has_helpers(void) {
    cpu_set_t cpus;
    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    return CPU_COUNT(&cpus) > 1;
}

static uint32_t *
make_words(size_t size, uint32_t seed) {
    uint32_t *words = malloc(size);
    CHECK(words);
    for (size_t i = 0; i < size / 4; i++)
        words[i] = (uint32_t)i * 2654435761u + seed;
    return words;
}

static int
write_block(int fd, const void *data, size_t size, uint64_t offset, int is_hole) {
    hfi_block_write block = {
        .data = data, .size = size, .offset = offset, .is_hole = is_hole};
    return hfi_bulk_write(fd, &block);
}

/* Into a hole past the end, and over what is there; read back both ways. */
static void
check_write(size_t size, int refuse) {
    int fd;
    uint64_t offset = 3 * 4096;
    char *back = malloc(size);
    CHECK(back && hfi_object_create_anonymous("test-bulk", &fd) == 0);
    refused = refuse;
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint32_t *words = make_words(size + 4, turn);
        const char *data = (const char *)words + turn; /* and unaligned */
        CHECK(write_block(fd, data, size, offset, turn == 0) == 0);
        CHECK(hfi_object_read(fd, back, size, offset) == 0);
        CHECK(memcmp(back, data, size) == 0);
        memset(back, 0, size);
        CHECK(hfi_bulk_read(fd, back, size, offset) == 0);
        CHECK(memcmp(back, data, size) == 0);
        free(words);
    }
    free(back);
    close(fd);
}

/* A small one is one write. Of a large hole the caller writes what no helper copies;
 * into what has memory both copy. */
static void
test_counts(void) {
    atomic_store(&writes, 0);
    starts = 0;
    check_write(15 * MIB, 0);
    CHECK(atomic_load(&writes) == 2 && starts == 0);
    check_write(40 * MIB + 5, 1);
    CHECK(atomic_load(&writes) == 2 + 21 && starts >= 2 * has_helpers());
    check_write(40 * MIB + 5, 0);
    CHECK(atomic_load(&writes) >= 2 + 21 && atomic_load(&writes) <= 2 + 21 + 21);
}

/* Whoever copied which part, to pages of whatever size: the digest is that of the data,
 * and all of it is there. */
static void
check_digest(size_t size, int is_hole, size_t huge) {
    uint32_t *words = make_words(size + 4, 3);
    char *back = malloc(size);
    hf_digest found, expected = {{0, 0}};
    hfi_block_write block = {.data = words,
                             .size = size,
                             .is_hole = is_hole,
                             .huge = huge,
                             .ret_digest = &found};
    int fd;
    CHECK(back && hfi_object_create_anonymous("test-bulk", &fd) == 0);
    CHECK(is_hole || hfi_object_allocate(fd, 0, size) == 0);
    CHECK(hfi_bulk_write(fd, &block) == 0);
    hf_digest_add(&expected, words, size);
    CHECK(memcmp(&found, &expected, sizeof found) == 0);
    CHECK(hfi_object_read(fd, back, size, 0) == 0 && memcmp(back, words, size) == 0);
    close(fd);
    free(back);
    free(words);
}

static void
test_digests(void) {
    const size_t sizes[] = {5, 3 * MIB, 40 * MIB + 5};
    refused = 0;
    for (size_t i = 0; i < 3; i++) {
        check_digest(sizes[i], 0, 0);
        check_digest(sizes[i], 1, 0);
        check_digest(sizes[i], 1, 2 * MIB);
        check_digest(sizes[i], 1, 4 * MIB);
    }
}

/* A source that isn't there is EFAULT, and no signal, whoever meets it. */
static void
test_missing_source(void) {
    int fd;
    for (size_t at = 0; at < 40; at += 13) {
        char *data = mmap(NULL, 40 * MIB, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(data != MAP_FAILED);
        CHECK(hfi_object_create_anonymous("test-bulk", &fd) == 0);
        CHECK(at % 2 == 0 || hfi_object_allocate(fd, 0, 40 * MIB) == 0);
        CHECK(mprotect(data + at * MIB, MIB, PROT_NONE) == 0);
        CHECK(write_block(fd, data, 40 * MIB, 0, at % 2 == 0) == EFAULT);
        close(fd);
        munmap(data, 40 * MIB);
    }
}

static void
test_failures(void) {
    int fd;
    uint32_t *words = make_words(64 * MIB, 1);
    CHECK(hfi_object_create_anonymous("test-bulk", &fd) == 0);
    failing = "pwrite";
    atomic_store(&writes, 0);
    int err = write_block(fd, words, 64 * MIB, 0, 1);
    CHECK(err == EIO || (has_helpers() ? err == 0 && atomic_load(&writes) < 2 : !err));
    failing = NULL;
    CHECK(write_block(fd, words, 64 * MIB, 0, 1) == 0);
    failing = "pread";
    atomic_store(&reads, 0);
    CHECK(hfi_bulk_read(fd, words, 64 * MIB, 0) == EIO);
    failing = NULL;
    free(words);
    close(fd);
}

/* In a child: the limit stays. Where it were not looked at, SIGXFSZ would kill it. */
static void
test_limit(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd;
        struct rlimit limit = {1 << 20, 1 << 20};
        char *data = calloc(1, 20 * MIB);
        CHECK(data && hfi_object_create_anonymous("test-bulk", &fd) == 0);
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK(write_block(fd, data, 20 * MIB, 0, 1) == EFBIG);
        _exit(0);
    }
    int how;
    CHECK(waitpid(pid, &how, 0) == pid && how == 0);
}

int
main(void) {
    hfi_fault_hook = hook;
    test_counts();
    test_digests();
    test_missing_source();
    test_failures();
    test_limit();
    hfi_fault_hook = NULL;
    return 0;
}
