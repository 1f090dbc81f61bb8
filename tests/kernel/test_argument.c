/* test_argument.c - the public functions of libholdfast-kernel with NULL for each
 * pointer that they need; and where the lines of its log go.
 *
 * tests/test_exports.py checks that no function is missing here.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/needs.h"
#include "holdfast/kernel.h"
#include "holdfast/monitor.h"

/* Nothing of it is looked at before all pointers are known to be there. */
static max_align_t memory[8];

static void
test_kernel(void) {
    static const char *const argv[] = {"worker", NULL};
    static const char *const nothing[] = {NULL};
    hf_kernel_options options = {.struct_size = sizeof options,
                                 .connection_file = "/none.json",
                                 .worker_argv = argv,
                                 .run_mode = "sideways"};
    hf_kernel *kernel;
    NEEDS("options", hf_kernel_create(NULL, &kernel, &error));
    NEEDS("ret_kernel", hf_kernel_create(&options, NULL, &error));
    CHECK(hf_kernel_create(&options, &kernel, &error) == HF_E_INVALID);
    CHECK_TEXT(error.message, "no run mode is called sideways");
    options.worker_argv = nothing;
    NEEDS("worker_argv", hf_kernel_create(&options, &kernel, &error));
    options.worker_argv = NULL;
    NEEDS("worker_argv", hf_kernel_create(&options, &kernel, &error));
    options.connection_file = NULL;
    NEEDS("connection_file", hf_kernel_create(&options, &kernel, &error));
    NEEDS("kernel", hf_kernel_run(NULL, &error));
    hf_kernel_stop(NULL);
    hf_kernel_interrupt(NULL);
    hf_kernel_close(NULL);
}

static void
test_monitor(void) {
    hf_monitor_view *view = (hf_monitor_view *)(void *)memory;
    hf_monitor_state state = {.struct_size = sizeof state};
    hf_monitor_facts facts = {.struct_size = sizeof facts};
    hf_monitor_rows rows = {.struct_size = sizeof rows};
    hf_monitor_cell cell = {.struct_size = sizeof cell};
    hf_monitor_level level = 0;
    int64_t first = -1;
    int fd = open("/dev/null", O_RDONLY);
    NEEDS("ret_view", hf_monitor_view_open_consume(fd, NULL, &error));
    CHECK(fcntl(fd, F_GETFD) == -1); /* consumed */
    NEEDS("view", hf_monitor_view_rows(NULL, level, 0, 1, &rows, &error));
    NEEDS("ret_rows", hf_monitor_view_rows(view, level, 0, 1, NULL, &error));
    CHECK(hf_monitor_view_state(NULL, &state, &facts) == HF_E_INVALID);
    CHECK(hf_monitor_view_state(view, NULL, &facts) == HF_E_INVALID);
    CHECK(hf_monitor_view_state(view, &state, NULL) == HF_E_INVALID);
    CHECK(hf_monitor_view_cell(NULL, 0, &cell, NULL) == HF_E_INVALID);
    CHECK(hf_monitor_view_cell(view, 0, NULL, NULL) == HF_E_INVALID);
    hf_monitor_view_cells(NULL, &first, &first);
    hf_monitor_view_cells(view, NULL, &first);
    hf_monitor_view_cells(view, &first, NULL);
    CHECK(first == -1);
    hf_monitor_rows_fini(NULL);
    hf_monitor_view_close(NULL);
}

/* ---- the log ---- */

static char heard[1024];

static void
hear(void *context, const char *line) {
    CHECK(context == heard && strchr(line, '\n') == NULL);
    if (strstr(line, "others could read") != NULL)
        snprintf(heard, sizeof heard, "%s", line);
}

/* A kernel whose connection file anybody may read logs that. */
static void
make_kernel(hf_kernel_log log) {
    static const char *const argv[] = {"/no/such/worker", NULL};
    char path[] = "/tmp/holdfast-log-XXXXXX";
    int fd = mkstemp(path);
    static const char content[] =
        "{\"transport\":\"tcp\",\"ip\":\"127.0.0.1\",\"key\":\"\",\"shell_port\":0,"
        "\"iopub_port\":0,\"stdin_port\":0,\"control_port\":0,\"hb_port\":0,"
        "\"signature_scheme\":\"hmac-sha256\"}";
    CHECK(fd >= 0 && fchmod(fd, 0644) == 0);
    CHECK(write(fd, content, sizeof content - 1) == (ssize_t)sizeof content - 1);
    hf_kernel_options options = {.struct_size = sizeof options,
                                 .connection_file = path,
                                 .worker_argv = argv,
                                 .log = log,
                                 .log_context = heard};
    hf_kernel *kernel = NULL;
    if (hf_kernel_create(&options, &kernel, &error) == HF_OK)
        hf_kernel_close(kernel);
    close(fd);
    unlink(path);
}

static void
test_log(void) {
    char text[4096] = "";
    int ends[2], saved = dup(STDERR_FILENO);
    CHECK(pipe(ends) == 0 && saved >= 0);
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    make_kernel(hear);
    CHECK(strncmp(heard, "others could read", 17) == 0);
    *heard = '\0';
    make_kernel(NULL); /* the callback is no longer called */
    CHECK(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
    close(ends[1]);
    ssize_t size = read(ends[0], text, sizeof text - 1);
    CHECK(size > 0 && *heard == '\0');
    /* The program's own name, and once: by the second kernel. */
    const char *at = strstr(text, "others could read");
    CHECK(at != NULL && strstr(at + 1, "others could read") == NULL);
    CHECK(strstr(text, "test_kernel_argument: others") != NULL);
    CHECK(strstr(text, "holdfast-kernel:") == NULL);
    close(ends[0]);
    close(saved);
}

int
main(void) {
    test_kernel();
    test_monitor();
    test_log();
    return 0;
}
