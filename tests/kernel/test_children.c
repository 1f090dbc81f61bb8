/* test_children.c - orphans come to the process that asks for them, and say how they
 * ended; who isn't a child is left alone.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support/check.h"
#include "workers/children.h"

static void
await(pid_t pid) {
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
}

static void
test_child(void) {
    hfi_exit ended;
    int gate[2];
    char byte;
    CHECK(pipe(gate) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        clock_t until = clock() + CLOCKS_PER_SEC / 20;
        while (clock() < until)
            continue;
        close(gate[1]);
        _exit(read(gate[0], &byte, 1) == 0 ? 3 : 4);
    }
    CHECK(!hfi_child_has_ended(pid) && !hfi_child_wait(pid, &ended));
    close(gate[1]);
    await(pid);
    CHECK(hfi_child_has_ended(pid));
    CHECK(hfi_child_wait(pid, &ended) && ended.pid == pid);
    CHECK(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 3);
    CHECK(ended.cpu_seconds >= 0.04 && ended.cpu_seconds < 10);
#ifdef __linux__
    CHECK(strstr(ended.io, "read_bytes:") != NULL ||
          access("/proc/self/io", R_OK) != 0);
#endif
    CHECK(!hfi_child_has_ended(pid) && !hfi_child_wait(pid, &ended));
    close(gate[0]);
}

static void
test_strangers(void) {
    hfi_exit ended;
    CHECK(!hfi_child_has_ended(getppid()) && !hfi_child_wait(getppid(), &ended));
    CHECK(!hfi_child_has_ended(0) && !hfi_child_wait(0, &ended));
    hfi_child_end(getppid(), 1000);
    hfi_child_end(0, 1000);
}

/* The grandchild's pid; its parent has ended. */
static pid_t
make_orphan(int gate) {
    int told[2];
    pid_t orphan = 0;
    CHECK(pipe(told) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t pid = fork();
        char byte;
        if (pid == 0)
            _exit(read(gate, &byte, 1) == 1 ? 5 : 6);
        _exit(write(told[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    }
    CHECK(read(told[0], &orphan, sizeof orphan) == sizeof orphan);
    CHECK(waitpid(parent, NULL, 0) == parent);
    close(told[0]);
    close(told[1]);
    return orphan;
}

static void
test_orphans(void) {
#ifdef __linux__
    hfi_exit ended;
    int gate[2];
    CHECK(pipe(gate) == 0);
    CHECK(hfi_children_ended() == 0);
    hfi_children_adopt();
    pid_t orphan = make_orphan(gate[0]);
    CHECK(hfi_children_ended() == 0);
    CHECK(write(gate[1], "x", 1) == 1);
    await(orphan);
    CHECK(hfi_children_ended() == orphan && hfi_child_has_ended(orphan));
    CHECK(hfi_child_wait(orphan, &ended) && WEXITSTATUS(ended.status) == 5);
    CHECK(hfi_children_ended() == 0);
    pid_t killed = make_orphan(gate[0]);
    CHECK(kill(killed, SIGKILL) == 0);
    hfi_child_end(killed, 60000);
    CHECK(kill(killed, 0) != 0);
    hfi_children_end();
    close(gate[0]);
    close(gate[1]);
#endif
}

int
main(void) {
    test_child();
    test_strangers();
    test_orphans();
    return 0;
}
