/* test_program.c - starting, failing to start, ending, and the words for an end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "../support/check.h"
#include "workers/program.h"

static void
expect(int known, int status, const char *wanted) {
    char text[128];
    hfi_program_exit_reason(known, status, text, sizeof text);
    CHECK_TEXT(text, wanted);
}

static void
test_spawn(void) {
    int out[2], other[2];
    char script[128], text[64] = {0};
    pid_t pid;
    CHECK(hfi_program_pipe(out, NULL) == HF_OK);
    CHECK(hfi_program_pipe(other, NULL) == HF_OK);
    snprintf(script, sizeof script,
             "echo kept >&%d; (echo leaked >&%d) 2>/dev/null; exec sleep 100", out[1],
             other[1]);
    char *const argv[] = {"sh", "-c", script, NULL};
    CHECK(hfi_program_spawn(argv, &out[1], 1, &pid, NULL) == HF_OK);
    CHECK(fcntl(out[0], F_SETFL, 0) == 0);
    CHECK(read(out[0], text, sizeof text) == 5);
    CHECK_TEXT(text, "kept\n");
    CHECK(getsid(pid) == pid);
    hfi_program_end(pid, 0);
    CHECK(kill(pid, 0) != 0 && errno == ESRCH);
    CHECK(read(other[0], text, sizeof text) < 0 && errno == EAGAIN);
}

int
main(void) {
    hf_error error = HF_ERROR_INIT;
    pid_t pid;
    char *const missing[] = {"/nonexistent/program", NULL};
    expect(1, SIGSEGV, "was ended by signal 11 (SIGSEGV)");
    expect(1, SIGKILL,
           "was ended by signal 9 (SIGKILL), perhaps because memory ran out");
    expect(1, 63, "was ended by signal 63");
    expect(1, 3 << 8, "left with exit status 3");
    expect(0, 0, "ended, or closed its channel to the kernel");
    CHECK(hfi_program_spawn(missing, NULL, 0, &pid, &error) == HF_E_SYSTEM);
    CHECK(error.sys_errno == ENOENT);
    test_spawn();
    return 0;
}
