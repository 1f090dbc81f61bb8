/* kernel_life.h - a whole kernel, with sockets and a store, but without processes.
 *
 * The linker puts stubs in the place of what starts and signals processes (--wrap: the
 * functions below that begin with __wrap_), and each frame of a worker comes by a
 * socket pair of its own. For one program's only source file.
 */
#ifndef HFT_KERNEL_LIFE_H
#define HFT_KERNEL_LIFE_H

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "open_files.h"
#include "commands/command.h"
#include "session/session.h"
#include "session/beside.h"
#include "session/workers.h"
#include "session/death.h"
#include "session/escalate.h"
#include "session/incoming.h"
#include "session/listeners.h"
#include "session/publish.h"
#include "session/rest.h"
#include "session/restart.h"
#include "workers/program.h"

enum { PEERS_MAX = 128 };

/* ---- what stands for processes ---- */

static int peers[PEERS_MAX]; /* the far ends that are open */
static int peer_count;

static void
keep_open(int fd) {
    if (fd >= 0 && peer_count < PEERS_MAX)
        peers[peer_count++] = fd;
    else if (fd >= 0)
        close(fd);
}

hf_status __wrap_hfi_program_spawn(char *const *argv, const int *keep, size_t count,
                                   pid_t *ret_pid, hf_error *reterr);
hf_status __wrap_hfi_program_detach(char *const *argv, hf_error *reterr);
void __wrap_hfi_program_end(pid_t pid, int timeout_ms);
int __wrap_hfi_program_lose(pid_t pid, int timeout_ms);
void __wrap_hfi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
int __wrap_kill(pid_t pid, int number);
hf_status __wrap_hf_session_collect(hf_session_visit visit, void *context,
                                    uint32_t *ret_count, hf_error *reterr);
hf_status __wrap_hf_session_create(const hf_session_options *options,
                                   hf_session **ret_session, hf_error *reterr);
hf_status __real_hf_session_create(const hf_session_options *options,
                                   hf_session **ret_session, hf_error *reterr);

hf_status
__wrap_hfi_program_spawn(char *const *argv, const int *keep, size_t count,
                         pid_t *ret_pid, hf_error *reterr) {
    CHECK(argv[0]);
    if (count < 2) /* the guardian: there is no such program */
        return hf_error_set(reterr, HF_E_SYSTEM, "%s", argv[0]);
    keep_open(fcntl(keep[0], F_DUPFD_CLOEXEC, 0));
    *ret_pid = 1 << 30;
    return HF_OK;
}

hf_status
__wrap_hfi_program_detach(char *const *argv, hf_error *reterr) {
    return hf_error_set(reterr, HF_E_SYSTEM, "%s", argv[0]);
}

void
__wrap_hfi_program_end(pid_t pid, int timeout_ms) {
    CHECK(pid == 1 << 30 && timeout_ms >= 0);
}

int
__wrap_hfi_program_lose(pid_t pid, int timeout_ms) {
    CHECK(pid == 1 << 30 && timeout_ms >= 0);
    return 0;
}

/* The descriptor of a session that the kernel takes for the one that it makes; or 0. */
static int session_made_before;
static void (*when_signalled)(pid_t pid, int number); /* or NULL */

int
__wrap_kill(pid_t pid, int number) {
    CHECK(pid > 0 && number >= 0);
    if (when_signalled)
        when_signalled(pid, number);
    return 0;
}

void
__wrap_hfi_log(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
}

hf_status
__wrap_hf_session_collect(hf_session_visit visit, void *context, uint32_t *ret_count,
                          hf_error *reterr) {
    (void)visit, (void)context, (void)reterr;
    *ret_count = 0;
    return HF_OK;
}

hf_status
__wrap_hf_session_create(const hf_session_options *options, hf_session **ret_session,
                         hf_error *reterr) {
    if (session_made_before > 0)
        return hf_session_open_fd(session_made_before, ret_session, reterr);
    hf_session_options changed = *options;
    changed.flags |= HF_SESSION_MEMFD;
    return __real_hf_session_create(&changed, ret_session, reterr);
}

/* ---- the kernel ---- */

static hfi_signer *signer;
static char directory[] = "/tmp/fuzz_frontend.XXXXXX", connection_file[64];
static pid_t directory_maker;

static void
clean_up(void) {
    hfi_signer_close(signer);
    if (getpid() != directory_maker)
        return;
    (void)unlink(connection_file);
    for (int port = 1; port <= 5; port++) {
        char path[64];
        snprintf(path, sizeof path, "%s/s-%d", directory, port);
        (void)unlink(path);
    }
    (void)rmdir(directory);
}

/* Its maker removes it, whichever of its children are killed. */
static void
make_directory(void) {
    CHECK(mkdtemp(directory));
    directory_maker = getpid();
    snprintf(connection_file, sizeof connection_file, "%s/c.json", directory);
    CHECK(atexit(clean_up) == 0);
}

/* There is a directory. */
static void
prepare(void) {
    CHECK(hfi_signer_create(hfi_part_text(""), &signer, NULL) == HF_OK);
    FILE *file = fopen(connection_file, "w");
    CHECK(file && fchmod(fileno(file), 0600) == 0);
    fprintf(file,
            "{\"transport\":\"ipc\",\"ip\":\"%s/s\",\"key\":\"\",\"shell_port\":1,"
            "\"iopub_port\":2,\"stdin_port\":3,\"control_port\":4,\"hb_port\":5,"
            "\"signature_scheme\":\"hmac-sha256\"}",
            directory);
    CHECK(fclose(file) == 0);
    CHECK(unsetenv("JPY_PARENT_PID") == 0);
}

static hf_kernel *
make_kernel(void) {
    static const char *const argv[] = {"worker", NULL};
    hf_kernel_options options = {.struct_size = sizeof options,
                                 .connection_file = connection_file,
                                 .worker_argv = argv,
                                 .capacity_bytes = 1 << 20,
                                 .commands = &hfi_python_commands};
    hf_kernel *kernel;
    CHECK(hf_kernel_create(&options, &kernel, NULL) == HF_OK);
    return kernel;
}

/* A client's request, in the queue. */
static void
ask(hf_kernel *kernel, uint8_t which) {
    static const char *const requests[][2] = {
        {"execute_request", "{\"code\":\"x = 1\",\"allow_stdin\":true}"},
        {"execute_request", "{\"code\":\"%%isolated --run=isolated\\nx = 1\"}"},
        {"execute_request", "{\"code\":\"%%execute_with_scorep\\nx\"}"},
        {"execute_request", "{\"code\":\"%holdfast history\"}"},
        {"execute_request", "{\"code\":\"%holdfast undo\",\"silent\":false}"},
        {"complete_request", "{\"code\":\"x\",\"cursor_pos\":1}"},
        {"comm_open", "{\"comm_id\":\"1\",\"target_name\":\"t\",\"data\":{}}"},
        {"inspect_request", "{\"code\":\"x\",\"cursor_pos\":1}"},
    };
    const char *const *one = requests[which % (sizeof requests / sizeof *requests)];
    char header[128];
    hfi_message message;
    snprintf(header, sizeof header, "{\"msg_id\":\"1\",\"msg_type\":\"%s\"}", one[0]);
    const hfi_part parts[] = {hfi_part_text("client"), hfi_part_text("<IDS|MSG>"),
                              hfi_part_text(""),       hfi_part_text(header),
                              hfi_part_text("{}"),     hfi_part_text("{}"),
                              hfi_part_text(one[1])};
    CHECK(hfi_message_parse(parts, 7, signer, &message, NULL) == HF_OK);
    hfi_request *request = hfi_request_create_consume(&message, HFI_SHELL);
    CHECK(request);
    request->begin_ns = hfi_clock_ns();
    hfi_queue_push(&kernel->queue, request);
}

static void
pass_time(hf_kernel *kernel, long long seconds) {
    long long now_ns = hfi_clock_ns() + seconds * 1000000000LL;
    hfi_publish_missed(kernel);
    hfi_escalate_tick(kernel, now_ns);
    hfi_quarantine_tick(kernel, now_ns);
    hfi_death_tick(kernel, now_ns);
    hfi_progress_tick(kernel, now_ns);
    if (!kernel->stopping) {
        hfi_execute_next(kernel);
        hfi_subshell_next(kernel, hfi_execute_answer);
    }
    hfi_standby_tick(kernel, now_ns);
    hfi_assistant_tick(kernel, now_ns);
    hfi_rest_moment_tick(kernel, now_ns);
    hfi_rest_tick(kernel, now_ns);
}

#endif
