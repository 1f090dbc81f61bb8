/* test_copies.c - what a sleeping fork makes its process copy: only pages that both had,
 * and that the process has written to since. */
#include "session/copies.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include "../support/check.h"

#define PAGES 2000
/* That this program and its library write to meanwhile, and by which Linux's count of
 * resident pages may be wrong. */
#define FEW 300

static size_t page;

static char *
take_memory(void) {
    char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    madvise(memory, PAGES * page, MADV_NOHUGEPAGE);
    return memory;
}

static void
write_pages(char *memory, size_t count) {
    for (size_t i = 0; i < count; i++)
        memory[i * page]++;
}

static pid_t
make_sleeper(void) {
    pid_t pid = fork();
    if (pid == 0) {
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        pause();
        _exit(0);
    }
    CHECK(pid > 0);
    return pid;
}

static void
end_sleeper(pid_t pid) {
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

static void
test_copies_are_counted(char *shared) {
    pid_t fork = make_sleeper();
    hfi_copies copies = HFI_COPIES_INIT;
    hfi_copies_begin(&copies, getpid(), fork);
    CHECK(hfi_copies_count(&copies, 1) < FEW);
    write_pages(shared, 1000);
    uint64_t count = hfi_copies_count(&copies, 1);
    CHECK(count >= 1000 - FEW && count < 1000 + FEW);
    write_pages(shared, 1000); /* copied once */
    CHECK(hfi_copies_count(&copies, 1) < 1000 + FEW);
    hfi_copies_restart(&copies);
    write_pages(shared + 1000 * page, 500);
    count = hfi_copies_count(&copies, 1);
    CHECK(count >= 500 - FEW && count < 500 + FEW);
    hfi_copies_end(&copies);
    end_sleeper(fork);
}

static void
test_new_and_old_memory_is_no_copy(char *shared) {
    pid_t fork = make_sleeper();
    hfi_copies copies = HFI_COPIES_INIT;
    hfi_copies_begin(&copies, getpid(), fork);
    char *kept = take_memory(), *given_back = take_memory();
    write_pages(kept, PAGES);
#ifndef __SANITIZE_THREAD__ /* which writes memory of its own, too */
    CHECK(hfi_copies_count(&copies, UINT64_MAX) < FEW); /* the process has grown */
#endif
    write_pages(given_back, PAGES);
    munmap(given_back, PAGES * page);
    /* Both are bounds: the fork has every page that it had. */
    CHECK(hfi_copies_count(&copies, UINT64_MAX) >= PAGES - FEW);
    CHECK(hfi_copies_count(&copies, 1) < FEW);
    munmap(kept, PAGES * page);
    munmap(shared, PAGES * page);
    hfi_copies_end(&copies);
    end_sleeper(fork);
}

static void
test_nothing_to_count(void) {
    hfi_copies copies = HFI_COPIES_INIT;
    CHECK(hfi_copies_count(&copies, 1) == 0);
    hfi_copies_begin(&copies, 1 << 29, 1 << 29); /* pids of no process */
    CHECK(hfi_copies_count(&copies, 1) == 0);
    hfi_copies_end(&copies);
    hfi_copies_end(&copies);
}

int
main(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    char *shared = take_memory();
    write_pages(shared, PAGES);
    test_nothing_to_count();
#ifdef __linux__
    test_copies_are_counted(shared);
    test_new_and_old_memory_is_no_copy(shared);
#else
    munmap(shared, PAGES * page);
#endif
    CHECK(hfi_copies_page_ns() >= 250 && hfi_copies_page_ns() <= 8000);
    CHECK(hfi_copies_page_ns() == hfi_copies_page_ns());
    return 0;
}
