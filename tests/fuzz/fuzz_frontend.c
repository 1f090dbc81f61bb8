/* fuzz_frontend.c - whatever workers say, the frontend goes on.
 *
 * An input is one life of a kernel: byte 0 chooses the request that runs, and the rest
 * is cut at each 0xc1, which msgpack never uses, into what happens: a byte that says
 * which process speaks, and a frame of the control channel. A time passes where nobody
 * speaks. The kernel is a whole one, with sockets and a store, but without processes:
 * the linker puts stubs in the place of what starts and signals them (--wrap), and each
 * frame comes by a socket pair of its own.
 *
 * Checked beyond "doesn't crash": no signal goes to a process that isn't one, and what
 * was opened is closed (the leak sanitizer; descriptors are counted).
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/check.h"
#include "driver.h"
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

/* A new worker has 120 seconds by the real clock: with more it would be overdue at
 * once, and another one made, without end. */
enum { EVENTS_MAX = 64, PEERS_MAX = 2 * EVENTS_MAX, SECONDS_MAX = 100 };

enum {
    FORK_SERVER,
    MAIN,
    CELL,
    ASSISTANT,
    STANDBY,
    SLEEPER,
    NOBODY,  /* seconds pass; with a further 'i' a client interrupts */
    SILENCE, /* of the main worker: its channel ends */
    SPEAKERS,
};

const uint32_t fuzz_weight = 500; /* a kernel is made */

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

int
__wrap_kill(pid_t pid, int number) {
    CHECK(pid > 0 && number >= 0);
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
    hf_session_options changed = *options;
    changed.flags |= HF_SESSION_MEMFD;
    return __real_hf_session_create(&changed, ret_session, reterr);
}

/* ---- the kernel ---- */

static hfi_signer *signer;
static char directory[] = "/tmp/fuzz_frontend.XXXXXX", connection_file[64];

static void
remove_directory(void) {
    hfi_signer_close(signer);
    (void)unlink(connection_file);
    for (int port = 1; port <= 5; port++) {
        char path[64];
        snprintf(path, sizeof path, "%s/s-%d", directory, port);
        (void)unlink(path);
    }
    (void)rmdir(directory);
}

static void
prepare(void) {
    CHECK(mkdtemp(directory));
    CHECK(hfi_signer_create(hfi_part_text(""), &signer, NULL) == HF_OK);
    snprintf(connection_file, sizeof connection_file, "%s/c.json", directory);
    FILE *file = fopen(connection_file, "w");
    CHECK(file && fchmod(fileno(file), 0600) == 0);
    fprintf(file,
            "{\"transport\":\"ipc\",\"ip\":\"%s/s\",\"key\":\"\",\"shell_port\":1,"
            "\"iopub_port\":2,\"stdin_port\":3,\"control_port\":4,\"hb_port\":5,"
            "\"signature_scheme\":\"hmac-sha256\"}",
            directory);
    CHECK(fclose(file) == 0 && atexit(remove_directory) == 0);
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

static hfi_worker *
speaker(hf_kernel *kernel, unsigned who) {
    switch (who) {
    case MAIN:
    case SILENCE:
        return hfi_workers_main(kernel);
    case CELL:
        return hfi_workers_cell(kernel);
    case ASSISTANT:
        return hfi_assistant_worker(kernel);
    case STANDBY:
        return hfi_standby_oldest(kernel);
    default:
        return hfi_rollback_worker(kernel);
    }
}

/* The frame waits in the channel of `at`, which is another one than before. */
static void
say(hfi_control **at, const uint8_t *frame, size_t size) {
    const uint8_t length[] = {0, 0, (uint8_t)(size >> 8), (uint8_t)size};
    int fds[2];
    hfi_control *control;
    CHECK(hfi_program_pair(fds, NULL) == HF_OK);
    CHECK(write(fds[1], length, sizeof length) == sizeof length);
    CHECK(write(fds[1], frame, size) == (ssize_t)size);
    CHECK(hfi_control_create_consume(fds[0], &control, NULL) == HF_OK);
    hfi_control_close(*at);
    *at = control;
    keep_open(fds[1]);
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

static void
happen(hf_kernel *kernel, const uint8_t *event, size_t size) {
    unsigned who = event[0] % SPEAKERS;
    hfi_worker *worker = speaker(kernel, who);
    if (who == NOBODY) {
        pass_time(kernel, size > 1 ? event[1] % SECONDS_MAX : 0);
        if (size > 2 && event[2] == 'i')
            hfi_execute_interrupt(kernel);
    } else if (who == FORK_SERVER && hfi_workers_server(kernel)->control) {
        say(&hfi_workers_server(kernel)->control, event + 1, size - 1);
        hfi_inbox_read_fork_server(kernel);
    } else if (who != FORK_SERVER && worker && hfi_worker_is_heard(worker)) {
        say(&worker->control, event + 1, size - 1);
        if (who == SILENCE)
            close(peers[--peer_count]);
        hfi_inbox_read(kernel, worker);
    }
    pass_time(kernel, 0);
}

/* ---- what workers say as a rule ---- */

typedef struct text {
    uint8_t *bytes;
    size_t size;
} text;

static void
add(text *input, unsigned who, hfi_frame *frame) {
    CHECK(hfi_frame_finish(frame, NULL) == HF_OK);
    size_t size = frame->buffer.size - 4;
    CHECK(input->size + size + 2 <= FUZZ_INPUT_MAX);
    input->bytes[input->size++] = (uint8_t)who;
    memcpy(input->bytes + input->size, frame->buffer.data + 4, size);
    input->size += size;
    input->bytes[input->size++] = 0xc1;
    hfi_frame_fini(frame);
}

static void
add_ready(text *input) {
    hfi_frame frame;
    hfi_frame_init(&frame, "ready", 3);
    hfi_frame_add_integer(&frame, "version", HFI_CONTROL_VERSION);
    hfi_frame_add_integer(&frame, "pid", 1 << 30);
    hfi_frame_add_array(&frame, "modules", 1);
    hfi_frame_put_text(&frame, hfi_part_text("numpy"));
    add(input, FORK_SERVER, &frame);
    hfi_frame_init(&frame, "forked", 2);
    hfi_frame_add_integer(&frame, "pid", (1 << 30) + 1);
    hfi_frame_add_text(&frame, "role", hfi_part_text("main"));
    add(input, FORK_SERVER, &frame);
    hfi_frame_init(&frame, "ready", 2);
    hfi_frame_add_integer(&frame, "version", HFI_CONTROL_VERSION);
    hfi_frame_add_integer(&frame, "pid", (1 << 30) + 1);
    add(input, MAIN, &frame);
    hfi_frame_init(&frame, "x", 0);
    add(input, NOBODY, &frame);
}

static void
add_reply(text *input, unsigned who, long long id, const char *status) {
    char content[64];
    hfi_frame frame;
    hfi_frame_init(&frame, "reply", 4);
    snprintf(content, sizeof content, "{\"status\":\"%s\"}", status);
    hfi_frame_add_integer(&frame, "id", id);
    hfi_frame_add_bytes(&frame, "content", hfi_part_text(content));
    hfi_frame_add_text(&frame, "run", hfi_part_text("in-process"));
    hfi_frame_add_map(&frame, "report", 3);
    hfi_frame_add_integer(&frame, "bytes_copied", 10);
    hfi_frame_add_text(&frame, "reason", hfi_part_text(""));
    hfi_frame_add_integer(&frame, "seconds", 1);
    add(input, who, &frame);
}

static void
add_cell(text *input, unsigned who, long long id) {
    hfi_frame frame;
    hfi_frame_init(&frame, "started", 3);
    hfi_frame_add_integer(&frame, "id", id);
    hfi_frame_add_text(&frame, "trace", hfi_part_text("/tmp/none"));
    hfi_frame_add_map(&frame, "begin", 1);
    hfi_frame_add_integer(&frame, "time_ns", 5);
    add(input, who, &frame);
    hfi_frame_init(&frame, "stream", 3);
    hfi_frame_add_text(&frame, "name", hfi_part_text("stdout"));
    hfi_frame_add_text(&frame, "text", hfi_part_text("a line\nanother"));
    hfi_frame_add_array(&frame, "raw", 2);
    msgpack_pack_int(&frame.packer, 0);
    msgpack_pack_int(&frame.packer, 0);
    add(input, who, &frame);
    hfi_frame_init(&frame, "message", 5);
    hfi_frame_add_text(&frame, "channel", hfi_part_text("iopub"));
    hfi_frame_add_text(&frame, "type", hfi_part_text("comm_open"));
    hfi_frame_add_bytes(&frame, "content", hfi_part_text("{\"comm_id\":\"1\"}"));
    hfi_frame_add_bytes(&frame, "metadata", hfi_part_text("{}"));
    hfi_frame_add_array(&frame, "buffers", 1);
    hfi_frame_put_bytes(&frame, hfi_part_text("bytes"));
    add(input, who, &frame);
    hfi_frame_init(&frame, "input_request", 2);
    hfi_frame_add_text(&frame, "prompt", hfi_part_text("?"));
    hfi_frame_add_flag(&frame, "password", 1);
    add(input, who, &frame);
}

/* Each of the other frames, from whom it may come. */
static void
add_others(text *input, uint32_t number) {
    static const struct {
        unsigned who;
        const char *op, *key;
    } others[] = {
        {MAIN, "settled", "generation"},  {MAIN, "owes", "id"},
        {MAIN, "protected", "pid"},       {MAIN, "importing", "modules"},
        {MAIN, "monitor", "interval_ns"}, {MAIN, "interrupted", "id"},
        {MAIN, "want_handle", "handle"},  {MAIN, "handle", "handle"},
        {MAIN, "perfreports", "on"},      {CELL, "want_handle", "handle"},
        {CELL, "handle", "handle"},       {ASSISTANT, "debug", "waits"},
        {ASSISTANT, "ready", "pid"},      {ASSISTANT, "debugging", "active"},
        {FORK_SERVER, "exited", "pid"},   {FORK_SERVER, "imported", "modules"},
        {SLEEPER, "ready", "pid"},        {SILENCE, "stream", "text"},
        {STANDBY, "ready", "pid"},        {NOBODY, "x", "id"}};
    for (uint32_t i = 0; i < 3; i++) {
        size_t which = (number + i * 7) % (sizeof others / sizeof *others);
        hfi_frame frame;
        hfi_frame_init(&frame, others[which].op, 2);
        hfi_frame_add_integer(&frame, others[which].key, (1 << 30) + 1);
        hfi_frame_add_text(&frame, "action", hfi_part_text("open"));
        add(input, others[which].who, &frame);
    }
}

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    text input = {ret_input, 1};
    unsigned who = number % 8 == 1 ? CELL : MAIN;
    ret_input[0] = (uint8_t)(number % 8);
    if (number % 16 < 12)
        add_ready(&input);
    if (number % 8 == 1)
        add_reply(&input, MAIN, 2, "ok");
    if (number % 3)
        add_cell(&input, who, 1);
    add_others(&input, number / 8);
    if (number % 5)
        add_reply(&input, who, 1 + number / 16 % 3, number % 7 ? "ok" : "error");
    return input.size;
}

/* ---- one life ---- */

static int
count_descriptors(void) {
    DIR *files = opendir("/proc/self/fd");
    int count = 0;
    CHECK(files);
    while (readdir(files))
        count++;
    closedir(files);
    return count;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > FUZZ_INPUT_MAX)
        return 0;
    if (!connection_file[0])
        prepare();
    int before = count_descriptors(), events = 0;
    hf_kernel *kernel = make_kernel();
    ask(kernel, data[0]);
    hfi_execute_next(kernel);
    for (size_t from = 1, at = 1; at <= size && events < EVENTS_MAX; at++) {
        if (at < size && data[at] != 0xc1)
            continue;
        if (at > from) {
            happen(kernel, data + from, at - from);
            events++;
        }
        from = at + 1;
    }
    while (peer_count > 0)
        close(peers[--peer_count]);
    hf_kernel_close(kernel);
    CHECK(count_descriptors() == before);
    return 0;
}
