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
