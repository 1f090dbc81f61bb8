/* test_process.c - which processes live: a running process does, a zombie, a reused pid
 * and one of another boot don't, and of another pid namespace nobody knows. One that
 * has given its locks back because it ends is waited for.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/process.h"
#include "../support/check.h"

#ifdef __linux__
/* A child that is killed while it has a lock: when the lock is free, it is dead. */
static void
check_end_after_lock(int lock) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hfi_process child = hfi_process_self();
        CHECK(fcntl(lock, F_SETLK, &whole) == 0);
        CHECK(write(ends[1], &child, sizeof child) == sizeof child);
        pause();
    }
    hfi_process child;
    CHECK(read(ends[0], &child, sizeof child) == sizeof child);
    CHECK(hfi_process_await_end(&child) == 1);
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(fcntl(lock, F_SETLKW, &whole) == 0);
    CHECK(hfi_process_await_end(&child) == 0);
    whole.l_type = F_UNLCK;
    CHECK(fcntl(lock, F_SETLK, &whole) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    close(ends[0]);
    close(ends[1]);
}
#endif

/* One that can't open /proc any more doesn't take the living for dead. */
static void
check_without_descriptors(const hfi_process *process, int alive) {
    struct rlimit before, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = (struct rlimit){0, before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    int found = hfi_process_alive(process);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(found == alive);
}

int
main(void) {
    hfi_process self = hfi_process_self();
    CHECK((uint32_t)self.owner == (uint32_t)getpid());
    CHECK(hfi_process_alive(&self) == 1);

    hfi_process other = self;
    other.owner ^= 1ull << 40;
    CHECK(hfi_process_alive(&other) == -1);
    hfi_process nobody = {self.owner >> 32 << 32, 0, self.boot};
    CHECK(hfi_process_alive(&nobody) == 0);
#ifdef __linux__
    CHECK(self.start_time && self.boot);
    hfi_process reused = self;
    reused.start_time++;
    CHECK(hfi_process_alive(&reused) == 0);
    hfi_process before = self;
    before.boot ^= 1;
    CHECK(hfi_process_alive(&before) == 0);
#endif
    hfi_process half = self; /* its slot is just being written */
    half.start_time = 0;
    CHECK(hfi_process_alive(&half) == 1);

    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        hfi_process child = hfi_process_self();
        CHECK(write(ends[1], &child, sizeof child) == sizeof child);
        pause();
    }
    hfi_process child;
    CHECK(read(ends[0], &child, sizeof child) == sizeof child);
    CHECK((uint32_t)child.owner == (uint32_t)pid); /* read anew after the fork */
    CHECK(hfi_process_alive(&child) == 1);
    check_without_descriptors(&child, 1);
    CHECK(kill(pid, SIGKILL) == 0);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
#ifdef __linux__
    CHECK(hfi_process_alive(&child) == 0); /* a zombie: its memory is gone */
#endif
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(hfi_process_alive(&child) == 0);
    check_without_descriptors(&child, 0);
#ifdef __linux__
    char name[] = "/tmp/holdfast-lock-XXXXXX";
    int lock = mkstemp(name);
    CHECK(lock >= 0 && unlink(name) == 0);
    for (int i = 0; i < 50; i++)
        check_end_after_lock(lock);
    close(lock);
#endif
    return 0;
}
