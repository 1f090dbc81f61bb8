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
#include "../support/kernel_life.h"
#include "driver.h"

/* A new worker has 120 seconds by the real clock: with more it would be overdue at
 * once, and another one made, without end. */
enum { EVENTS_MAX = 64, SECONDS_MAX = 100 };

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

/* ---- events ---- */

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
add(text *input, unsigned who, const hfi_frame *frame) {
    msgpack_sbuffer buffer;
    CHECK(hfi_frame_write(frame, &buffer, NULL) == HF_OK);
    size_t size = buffer.size - 4;
    CHECK(input->size + size + 2 <= FUZZ_INPUT_MAX);
    input->bytes[input->size++] = (uint8_t)who;
    memcpy(input->bytes + input->size, buffer.data + 4, size);
    input->size += size;
    input->bytes[input->size++] = 0xc1;
    msgpack_sbuffer_destroy(&buffer);
}

enum { PID = 1 << 30 };

static void
add_ready(text *input) {
    const hfi_part module = hfi_part_text("numpy");
    add(input, FORK_SERVER,
        HFI_FRAME(from_fork_server_ready, .version = HFI_CONTROL_VERSION, .pid = PID,
                  .modules = {&module, 1}));
    add(input, FORK_SERVER,
        HFI_FRAME(from_fork_server_forked, .pid = PID + 1,
                  .role = hfi_part_text("main")));
    add(input, MAIN,
        HFI_FRAME(from_worker_ready, .version = HFI_CONTROL_VERSION, .pid = PID + 1));
    add(input, NOBODY, HFI_FRAME(from_main_settled, .generation = 0));
}

static void
add_reply(text *input, unsigned who, long long id, const char *status) {
    char content[64];
    snprintf(content, sizeof content, "{\"status\":\"%s\"}", status);
    add(input, who,
        HFI_FRAME(from_worker_reply, .id = id, .content = hfi_part_text(content),
                  .run = hfi_part_text("in-process"),
                  .report = &(hfi_map_report){
                      .bytes_copied = 10, .seconds = 1, .reason = hfi_part_text("")}));
}

static void
add_cell(text *input, unsigned who, long long id) {
    static const int64_t raw[] = {0, 0};
    const hfi_part buffer = hfi_part_text("bytes");
    add(input, who,
        HFI_FRAME(from_worker_started, .id = id, .trace = hfi_part_text("/tmp/none"),
                  .begin = &(hfi_map_moment){.time_ns = 5}));
    add(input, who,
        HFI_FRAME(from_worker_stream, .head.raw = {raw, 2},
                  .name = hfi_part_text("stdout"),
                  .text = hfi_part_text("a line\nanother")));
    add(input, who,
        HFI_FRAME(from_worker_message, .channel = hfi_part_text("iopub"),
                  .type = hfi_part_text("comm_open"),
                  .content = hfi_part_text("{\"comm_id\":\"1\"}"),
                  .metadata = hfi_part_text("{}"), .buffers = {&buffer, 1}));
    add(input, who,
        HFI_FRAME(from_worker_input_request, .prompt = hfi_part_text("?"),
                  .password = true));
}

/* Some of the other frames, from whom each may come. */
static void
add_others(text *input, uint32_t number) {
    const hfi_part module = hfi_part_text("numpy");
    const struct {
        unsigned who;
        const hfi_frame *frame;
    } others[] = {
        {MAIN, HFI_FRAME(from_main_settled, .generation = 1)},
        {MAIN, HFI_FRAME_BARE(from_main_owes)},
        {MAIN, HFI_FRAME(from_main_protected, .id = 1, .pid = PID + 1)},
        {MAIN, HFI_FRAME(from_main_forked, .id = 1, .pid = PID + 1)},
        {MAIN, HFI_FRAME(from_worker_importing, .modules = {&module, 1})},
        {MAIN, HFI_FRAME(from_worker_monitor, .action = hfi_part_text("open"))},
        {MAIN, HFI_FRAME(from_worker_interrupted, .id = 1)},
        {MAIN, HFI_FRAME(from_worker_want_handle, .handle = PID)},
        {MAIN, HFI_FRAME(from_worker_handle, .handle = PID)},
        {MAIN, HFI_FRAME(from_worker_perfreports, .on = true)},
        {CELL, HFI_FRAME(from_worker_want_handle, .handle = PID)},
        {CELL, HFI_FRAME(from_worker_handle, .handle = PID)},
        {CELL, HFI_FRAME(from_cell_refused, .reason = module)},
        {ASSISTANT, HFI_FRAME(from_assistant_debug, .waits = 1)},
        {ASSISTANT, HFI_FRAME(from_worker_ready, .pid = PID + 1)},
        {ASSISTANT, HFI_FRAME(from_assistant_debugging, .active = 1)},
        {FORK_SERVER, HFI_FRAME(from_fork_server_exited, .pid = PID + 1)},
        {FORK_SERVER, HFI_FRAME(from_fork_server_imported, .modules = {&module, 1})},
        {SLEEPER, HFI_FRAME(from_worker_ready, .pid = PID + 1)},
        {SILENCE, HFI_FRAME(from_worker_stream, .text = module)},
        {STANDBY, HFI_FRAME(from_worker_ready, .pid = PID + 1)},
        {NOBODY, HFI_FRAME(from_main_settled, .generation = 1)}};
    for (uint32_t i = 0; i < 3; i++) {
        size_t which = (number + i * 7) % (sizeof others / sizeof *others);
        add(input, others[which].who, others[which].frame);
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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > FUZZ_INPUT_MAX)
        return 0;
    if (!signer) {
        make_directory();
        prepare();
    }
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
