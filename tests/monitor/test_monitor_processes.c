/* test_monitor_processes.c - processes whose children come and go, and what /proc says
 * of them.
 */
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support/check.h"
#include "monitor/usage.h"
#include "monitor/procfile.h"

static void
test_numbers(void) {
    hfi_usage usage = {0};
    uint64_t number = 0;
    const char *next;
    CHECK(hfi_procfile_number(" 42 7", &next) == 42 && *next == ' ');
    CHECK(hfi_procfile_number("none", NULL) == 0);
    CHECK(hfi_procfile_find("a: 1\nMemAvailable:   77 kB\n", "MemAvailable:", &number));
    CHECK(number == 77 && !hfi_procfile_find("a: 1\n", "b:", &number));
    hfi_usage_parse_io("rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\n"
                       "write_bytes: 6\ncancelled_write_bytes: 7\n",
                       &usage);
    CHECK(usage.read == 1 && usage.write == 2 && usage.read_count == 3 &&
          usage.write_count == 4 && usage.disk_read == 5 && usage.disk_write == 6);
    hfi_usage_parse_io("rchar: 9\nwch", &usage); /* cut */
    CHECK(usage.read == 9);
}

static void
burn(double seconds) {
    struct timespec now;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < seconds);
}

static pid_t
start_child(double seconds, const int fds[2]) {
    int byte, wait_for = fds[0];
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[1]);
        burn(seconds);
        byte = (int)read(wait_for, &byte, 1); /* until the end is closed */
        _exit(byte);
    }
    return pid;
}

static double
used_by_all(double *ret_children) {
    struct timespec own;
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    *ret_children =
        (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
        (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6;
    return *ret_children + (double)own.tv_sec + (double)own.tv_nsec / 1e9;
}

/* Processor time is neither lost nor counted twice, whether a child was seen or not. */
static void
test_children(void) {
    hf_monitor_reading before, now = {0};
    int fds[2];
    hfi_family *family = hfi_family_create();
    CHECK(pipe(fds) == 0);
    burn(0.05); /* used before it joins: doesn't count */
    hfi_family_add(family, getpid());
    hfi_family_read(family, &before);
    CHECK(before.cpu_seconds < 0.02);
    double children, used = used_by_all(&children);
    pid_t seen = start_child(0.2, fds), unseen;
    int32_t pids[4] = {0};
    for (int i = 0; i < 60000 && now.cpu_seconds < 0.2; i++) {
        usleep(1000); /* what this loop uses counts, too */
        hfi_family_search(family, 0);
        hfi_family_read(family, &now);
    }
    CHECK(now.cpu_seconds >= 0.2);
    CHECK(hfi_family_pids(family, pids, 4) == 2 && pids[1] == seen);
    close(fds[1]);
    CHECK(waitpid(seen, NULL, 0) == seen);
    hfi_family_read(family, &now);
    double first = now.cpu_seconds;
    hfi_family_read(family, &now);
    hfi_family_read(family, &now);
    CHECK(now.cpu_seconds - first < 0.02);
    used = used_by_all(&children) - used;
    CHECK(fabs(now.cpu_seconds - used) < 0.03);
    CHECK(hfi_family_pids(family, pids, 4) == 1);
    close(fds[0]);
    CHECK(pipe(fds) == 0);
    close(fds[1]);
    unseen = start_child(0.1, fds);
    CHECK(waitpid(unseen, NULL, 0) == unseen);
    hfi_family_read(family, &before);
    CHECK(before.cpu_seconds - now.cpu_seconds >= 0.09);
    CHECK(before.cpu_seconds - now.cpu_seconds < 0.15);
    hfi_family_remove(family, getpid());
    hfi_family_read(family, &now);
    CHECK(now.cpu_seconds >= before.cpu_seconds); /* what was used stays used */
    burn(0.5);
    hfi_family_read(family, &before);
    CHECK(before.cpu_seconds == now.cpu_seconds);
    close(fds[0]);
    hfi_family_close(family);
}

/* A process says what its children have used: others learn it in ticks. */
static void
test_a_word(void) {
    hf_monitor_reading before, now = {0};
    double children, used;
    int fds[2];
    hfi_family *family = hfi_family_create();
    hfi_family_add(family, getpid());
    used = used_by_all(&children);
    hfi_family_set_children(family, getpid(), children * 1e9);
    hfi_family_read(family, &before);
    for (int i = 0; i < 4; i++) {
        CHECK(pipe(fds) == 0);
        pid_t child = start_child(0.017, fds);
        for (int look = 0; look < (i % 2) * 20; look++) { /* half of them are seen */
            usleep(1000);
            hfi_family_search(family, 1);
            hfi_family_read(family, &now);
        }
        close(fds[0]);
        close(fds[1]);
        CHECK(waitpid(child, NULL, 0) == child);
        for (int look = 0; look < 3; look++)
            hfi_family_read(family, &now);
    }
    used = used_by_all(&children) - used;
    hfi_family_set_children(family, getpid(), children * 1e9);
    hfi_family_read(family, &now);
    CHECK(fabs(now.cpu_seconds - before.cpu_seconds - used) < used / 50 + 0.002);
    CHECK(hfi_family_usage_of(family, getpid()).cpu > 0);
    CHECK(hfi_family_usage_of(family, 1).cpu == 0);
    hfi_family_close(family);
}

/* One that somebody else waits for, as the fork server does for a worker. */
static void
test_a_burial(void) {
    hf_monitor_reading now;
    int fds[2];
    CHECK(pipe(fds) == 0);
    close(fds[1]);
    for (int vanishes = 0; vanishes < 2; vanishes++) {
        hfi_family *family = hfi_family_create();
        pid_t pid = start_child(0.01, fds);
        hfi_family_add(family, pid);
        CHECK(waitpid(pid, NULL, 0) == pid);
        if (vanishes) { /* it is read before its burial */
            hfi_family_read(family, &now);
            CHECK(now.cpu_seconds < 1);
        }
        hfi_family_note_end(family, pid, 5, "rchar: 1\nwchar: 1000\n");
        hfi_family_note_end(family, pid, 9, NULL); /* an end is noted once */
        hfi_family_read(family, &now);
        hfi_family_read(family, &now);
        CHECK(now.cpu_seconds > 4.9 && now.cpu_seconds <= 5.1);
        CHECK(now.io_write_bytes == 1000);
        hfi_family_close(family);
    }
    close(fds[0]);
}

/* A Slurm job without a control group is known by what its processes have in their
 * environment. */
static void
test_processes_with_a_variable(void) {
    char name[] = "HOLDFAST_TEST=4242", other[] = "HOLDFAST_TEST=42421";
    char *const environments[][2] = {{name, NULL}, {other, NULL}};
    char *const command[] = {"/bin/sh", "-c", "echo; read x", NULL};
    int32_t found[4];
    int out[2], in[2], byte;
    pid_t pids[2];
    CHECK(pipe(out) == 0 && pipe(in) == 0);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            dup2(in[0], 0);
            dup2(out[1], 1);
            close(in[1]);
            execve(command[0], command, environments[i]);
            _exit(1);
        }
        CHECK(read(out[0], &byte, 1) == 1); /* it has its environment */
    }
    hfi_family *family = hfi_family_create_of_user(getuid(), name);
    hfi_family_search(family, 1);
    CHECK(hfi_family_pids(family, found, 4) == 1 && found[0] == pids[0]);
    hfi_family_close(family);
    close(in[0]);
    close(in[1]);
    for (int i = 0; i < 2; i++)
        CHECK(waitpid(pids[i], NULL, 0) == pids[i]);
    close(out[0]);
    close(out[1]);
}

int
main(void) {
    test_numbers();
    test_children();
    test_a_word();
    test_a_burial();
    test_processes_with_a_variable();
    return 0;
}
