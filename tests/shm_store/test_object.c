/* test_object.c - objects of the system: exclusive names, memory that is really there,
 * limits that are errors, and locks that show whether somebody has one open.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/fault.h"
#include "platform/object.h"
#include "../support/check.h"

static uint64_t
memory_of(int fd) {
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    return (uint64_t)st.st_blocks * 512;
}

static int interruptions;

static int
interrupt(const char *call) {
    if (strcmp(call, "posix_fallocate") == 0 && interruptions > 0) {
        interruptions--;
        return EINTR;
    }
    return 0;
}

static int
count_name(void *context, const char *name) {
    const char *wanted = context;
    return strcmp(name, wanted) == 0;
}

static void
test_names(void) {
    char name[64];
    int fd, second;
    snprintf(name, sizeof name, "/holdfast-test-%ld", (long)getpid());
    CHECK(hfi_object_open(name, &fd) == ENOENT);
    CHECK(hfi_object_create(name, &fd) == 0);
    CHECK(hfi_object_create(name, &second) == EEXIST);
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(hfi_object_each("holdfast-test-", count_name, name + 1) == 0);

    CHECK(hfi_object_open(name, &second) == 0);
    hfi_object_hold(fd);
    CHECK(hfi_object_is_held(second) == 1);
    int copy = dup(fd);
    close(fd);
    CHECK(hfi_object_is_held(second) == 1); /* by the duplicate */
    close(copy);
    CHECK(hfi_object_is_held(second) == 0);
    close(second);
    CHECK(hfi_object_unlink(name) == 0);
    CHECK(hfi_object_unlink(name) == ENOENT);
}

/* Under any umask its owner alone may open it, and it never is where a program prints. */
static void
test_surroundings(void) {
    char name[64];
    int fd, second, third;
    struct stat st;
    snprintf(name, sizeof name, "/holdfast-test-%ld", (long)getpid());
    mode_t mask = umask(0777);
    int kept = dup(STDOUT_FILENO);
    CHECK(kept > STDERR_FILENO && close(STDOUT_FILENO) == 0);
    CHECK(hfi_object_create(name, &fd) == 0 && fd > STDERR_FILENO);
    CHECK(hfi_object_open(name, &second) == 0 && second > STDERR_FILENO);
    CHECK(hfi_object_create_anonymous("test", &third) == 0 && third > STDERR_FILENO);
    CHECK(dup2(kept, STDOUT_FILENO) == STDOUT_FILENO);
    umask(mask);
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(close(fd) == 0 && close(second) == 0 && close(third) == 0 &&
          close(kept) == 0);
    CHECK(hfi_object_unlink(name) == 0);
}

static void
test_memory(void) {
    int fd;
    void *p;
    CHECK(hfi_object_create_anonymous("test", &fd) == 0);
    interruptions = 5;
    hfi_fault_hook = interrupt;
    CHECK(hfi_object_allocate(fd, 1 << 20, 1 << 20) == 0); /* a profiler's signals */
    hfi_fault_hook = NULL;
    CHECK(interruptions == 0);
    CHECK(memory_of(fd) >= 1 << 20 && memory_of(fd) < 2 << 20);
    CHECK(hfi_object_write(fd, "abc", 3, 1 << 20) == 0);
    CHECK(hfi_object_map(fd, 1 << 20, 1 << 20, HFI_MAP_READ, NULL, &p) == 0);
    CHECK(memcmp(p, "abc", 3) == 0);
    hfi_object_unmap(p, 1 << 20);
#ifdef __linux__
    CHECK(hfi_object_punch(fd, 1 << 20, 1 << 20) == 0);
    CHECK(memory_of(fd) == 0);
#endif
    CHECK(hfi_object_truncate(fd, 4096) == 0);
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
        CHECK(hfi_object_create_anonymous("test", &fd) == 0);
        CHECK(hfi_object_allocate(fd, 0, 4 << 20) == 0);
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK(hfi_object_allocate(fd, 4 << 20, 4096) == EFBIG);
        CHECK(hfi_object_write(fd, "x", 1, 2 << 20) == EFBIG);
        CHECK(hfi_object_write(fd, "x", 1, 1000) == 0);
        _exit(0);
    }
    int how;
    CHECK(waitpid(pid, &how, 0) == pid && how == 0);
}

/* What is large lies so that huge pages of the object can be mapped. */
static void
test_place(void) {
    size_t huge = 2 << 20, size = 2 * huge, small = 64 << 10;
    void *address;
    int fd;
    CHECK(hfi_object_create_anonymous("test-object", &fd) == 0);
    CHECK(hfi_object_truncate(fd, 4 * huge) == 0);
    for (size_t offset = 0; offset < huge; offset += small) {
        CHECK(hfi_object_map(fd, offset, size, HFI_MAP_READ, NULL, &address) == 0);
        CHECK((uintptr_t)address % huge == offset);
        hfi_object_unmap(address, size);
    }
    CHECK(hfi_object_map_nothing(size, &address) == 0);
    CHECK((uintptr_t)address % huge == 0);
    hfi_object_unmap(address, size);
    close(fd);
}

/* The next large one lies right below the last, where that is free; and one that is
 * gone leaves its place, so that places don't wander down. */
static void
test_places_side_by_side(void) {
    size_t huge = 2 << 20, size = 3 * huge;
    void *first, *second, *third, *again, *taken;
    int fd;
    CHECK(hfi_object_create_anonymous("test-object", &fd) == 0);
    CHECK(hfi_object_truncate(fd, 8 * huge) == 0);
    CHECK(hfi_object_map(fd, 0, size, HFI_MAP_READ, NULL, &first) == 0);
    CHECK(hfi_object_map(fd, huge, size, HFI_MAP_PRIVATE, NULL, &second) == 0);
    CHECK((char *)second + size == first);
    hfi_object_unmap(second, size);
    CHECK(hfi_object_map(fd, 4096, size, HFI_MAP_PRIVATE, NULL, &again) == 0);
    CHECK((char *)again + size == (char *)first - (huge - 4096));
    hfi_object_unmap(again, size);
    taken =
        mmap((char *)again - huge, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(taken == (char *)again - huge);
    for (int i = 0; i < 3; i++) {
        CHECK(hfi_object_map(fd, 4096, size, HFI_MAP_PRIVATE, NULL, &third) == 0);
        CHECK((uintptr_t)third % huge == 4096);
        CHECK((char *)third + size <= (char *)taken ||
              (char *)third >= (char *)taken + size);
    }
    CHECK(munmap(taken, size) == 0);
    close(fd);
}

int
main(void) {
    test_names();
    test_surroundings();
    test_memory();
    test_place();
    test_places_side_by_side();
    test_limit();
    return 0;
}
