/* test_futex.c - sleeping on a word that another process changes, through a mapping that
 * can't be written to.
 */
#include "platform/futex.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/fault.h"
#include "platform/object.h"
#include "../support/check.h"

static int64_t
now_ns(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int
forbid(const char *call) {
    (void)call;
    return ENOSYS;
}

int
main(void) {
    int fd, how;
    void *writable, *readable;
    CHECK(hfi_object_create_anonymous("futex", &fd) == 0);
    CHECK(hfi_object_allocate(fd, 0, 4096) == 0);
    CHECK(hfi_object_map(fd, 0, 4096, HFI_MAP_SHARED, NULL, &writable) == 0);
    CHECK(hfi_object_map(fd, 0, 4096, HFI_MAP_READ, NULL, &readable) == 0);
    _Atomic uint32_t *word = writable;
    const _Atomic uint32_t *seen = readable;

    CHECK(hfi_futex_wait(seen, 1, -1) == 0); /* it is another one */
    CHECK(hfi_futex_wait(seen, 0, now_ns() + 1000000) == ETIMEDOUT);
    CHECK(hfi_futex_wait(seen, 0, 0) == ETIMEDOUT);
    hfi_fault_hook = forbid;
    CHECK(hfi_futex_wait(seen, 0, -1) == ENOSYS);
    hfi_fault_hook = NULL;

    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (uint32_t value = 0; value < 100; value++)
            while (atomic_load(seen) == value)
                CHECK(hfi_futex_wait(seen, value, -1) == 0);
        _exit(0);
    }
    for (uint32_t value = 0; value < 100; value++) {
        const struct timespec moment = {0, 100000};
        nanosleep(&moment, NULL); /* it may sleep by now, or not yet */
        atomic_fetch_add(word, 1);
        hfi_futex_wake(word);
    }
    CHECK(waitpid(pid, &how, 0) == pid && how == 0);
    close(fd);
    return 0;
}
