/* fuzz_worker.c - whatever comes on its control channel, a worker of libholdfast-worker
 * goes on or ends in order.
 *
 * An input is one life of a worker: byte 0 says which role it has, whether it has a store,
 * how a fork goes, and whether descriptors ride on the stream behind it. The frames are handled in this process; the
 * linker puts stubs in the place of the fork and of what reads and writes files (--wrap).
 *
 * Checked beyond "doesn't crash" and "ends": what the worker sends are whole frames of the
 * table; its state has moved along the table (life.c asserts it); all that was opened is
 * closed (the leak sanitizer; descriptors are counted).
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/check.h"
#include "../support/open_files.h"
#include "asked.h"
#include "driver.h"
#include "fork.h"
#include "frames.h"
#include "holdfast/save.h"
#include "saving.h"
#include "workers/control.h"

const uint32_t fuzz_weight = 50; /* it opens a session */

enum { WITH_STORE = 4, FORK_GOES_ON = 8, FORK_FAILS = 16, WITH_FDS = 32 };

static uint8_t how;
static hf_session *base;
static hf_generation current;
static hfi_control *frontend;
static int64_t pending; /* the cell that goes on */

/* ---- stubs ----------------------------------------------------------------------- */

hf_status __wrap_hfi_fork(const hfi_fork_request *request, pid_t *ret_pid,
                          double *ret_seconds, hf_error *reterr);
void __wrap_hfi_self_complain(const char *what, const hf_error *error);
hf_status __real_hfi_self_send(hf_worker *worker, hfi_frame *frame, hf_error *reterr);
hf_status __wrap_hfi_self_send(hf_worker *worker, hfi_frame *frame, hf_error *reterr);
hf_status __wrap_hf_save_write(hf_snapshot *snapshot, const char *path,
                               hf_save_pause pause, void *context,
                               hf_save_info *ret_info, hf_error *reterr);
hf_status __wrap_hf_save_read(const char *path, hf_session *session,
                              hf_save_visit visit, void *context,
                              hf_save_info *ret_info, hf_error *reterr);

/* The fork is this process: it has what it was given. A sleeping one never wakes here. */
hf_status
__wrap_hfi_fork(const hfi_fork_request *request, pid_t *ret_pid, double *ret_seconds,
                hf_error *reterr) {
    if (how & FORK_FAILS)
        return hf_error_set(reterr, HF_E_SYSTEM, "no fork");
    bool is_fork = (how & FORK_GOES_ON) && request->purpose == HFI_FORK_CELL;
    for (size_t i = 0; is_fork && i < request->move_count; i++)
        close(request->moves[i].from);
    *ret_pid = is_fork ? 0 : 4711;
    *ret_seconds = 0;
    return HF_OK;
}

void
__wrap_hfi_self_complain(const char *what, const hf_error *error) {
    (void)what, (void)error;
}

hf_status
__wrap_hfi_self_send(hf_worker *worker, hfi_frame *frame, hf_error *reterr) {
    read_frames(frontend); /* else its channel would be full */
    return __real_hfi_self_send(worker, frame, reterr);
}

hf_status
__wrap_hf_save_write(hf_snapshot *snapshot, const char *path, hf_save_pause pause,
                     void *context, hf_save_info *ret_info, hf_error *reterr) {
    (void)snapshot, (void)path, (void)pause, (void)context, (void)ret_info;
    (void)reterr;
    return HF_OK;
}

hf_status
__wrap_hf_save_read(const char *path, hf_session *session, hf_save_visit visit,
                    void *context, hf_save_info *ret_info, hf_error *reterr) {
    (void)session, (void)visit, (void)context, (void)ret_info;
    return hf_error_set(reterr, HF_E_SYSTEM, "no file %s", path);
}

/* ---- a language ------------------------------------------------------------------ */

/* The code's first letter says what is done. */
static hf_status
run_cell(void *context, hf_worker *worker, const hf_worker_request *request,
         hf_error *reterr) {
    const hf_mime item = {"text/plain", request->code, request->code_size};
    char *text = NULL;
    (void)context;
    switch (request->code[0]) {
    case 'p':
        pending = request->id;
        return HF_PENDING;
    case 'i':
        if (hf_worker_input(worker, request->code, 0, &text, reterr) != HF_OK)
            return HF_E_GONE;
        free(text);
        return HF_OK;
    case 'd':
        return hf_worker_dispatch(worker, reterr);
    case 'w':
        return hf_worker_write(worker, 1, request->code, request->code_size, reterr);
    case 's':
        return hf_worker_show(worker, 1, &item, 1, reterr);
    default:
        return hf_worker_fail(worker, request->code, request->content, NULL, reterr);
    }
}

static hf_status
answer(void *context, hf_worker *worker, const hf_worker_request *request,
       hf_error *reterr) {
    const char *matches[] = {request->code};
    (void)context;
    if (strcmp(request->type, "comm_msg") == 0)
        return hf_worker_reply(worker, pending, HF_OK, NULL, reterr);
    if (strcmp(request->type, "complete_request") == 0)
        return hf_worker_complete(worker, request, matches, 1, request->cursor,
                                  request->code_size, reterr);
    if (strcmp(request->type, "inspect_request") == 0)
        return hf_worker_inspect(worker, request, request->code, reterr);
    return HF_NOT_FOUND;
}

static hf_status
put(hf_commit *commit, hf_worker *worker, const char *payload, hf_error *reterr) {
    const hf_value value = {.struct_size = sizeof value,
                            .key = "x",
                            .key_size = 1,
                            .codec = 1,
                            .payload = payload,
                            .payload_size = strlen(payload)};
    return commit != NULL ? hf_commit_put(commit, &value, reterr)
                          : hf_worker_put(worker, &value, reterr);
}

static hf_status
save(void *context, hf_worker *worker, hf_error *reterr) {
    (void)context;
    hf_status status = put(NULL, worker, pending % 2 ? "one" : "two", reterr);
    return status == HF_OK ? hf_worker_stays(worker, "y", "a reason", reterr) : status;
}

static hf_status
bind_value(void *context, hf_worker *worker, const hf_worker_binding *binding,
           hf_error *reterr) {
    hf_entry entry = {.struct_size = sizeof entry};
    (void)context, (void)worker;
    return hf_snapshot_find(binding->now, "x", 1, &entry, reterr);
}

static const hf_worker_language language = {.struct_size = sizeof language,
                                            .execute = run_cell,
                                            .answer = answer,
                                            .save = save,
                                            .bind = bind_value};

/* ---- what the frontend says as a rule ---------------------------------------------- */

static void
make_base(void) {
    const hf_session_options options = {.struct_size = sizeof options,
                                        .capacity_bytes = 1 << 20,
                                        .flags = HF_SESSION_MEMFD};
    hf_commit *commit;
    hf_snapshot *snapshot;
    if (base != NULL)
        return;
    CHECK(hf_session_create(&options, &base, NULL) == HF_OK);
    CHECK(hf_commit_begin(base, &commit, NULL) == HF_OK);
    CHECK(put(commit, NULL, "zero", NULL) == HF_OK);
    CHECK(hf_commit_publish_consume(commit, NULL, NULL) == HF_OK);
    CHECK(hf_snapshot_acquire(base, &snapshot, NULL) == HF_OK);
    hf_snapshot_export(snapshot, &current);
    hf_snapshot_release(snapshot);
}

static void
add_request(uint8_t *input, size_t *size, int64_t id, uint32_t number) {
    static const char *const types[] = {
        "execute_request", "execute_request", "complete_request", "comm_msg",
        "inspect_request", "debug_request",   "history_request"};
    static const char *const codes[] = {"print", "write",    "show",
                                        "input", "dispatch", "é fail"};
    static const hfi_text none = {{"", 0}, {"", 0}};
    static const hfi_part argument = {"", 0};
    const hfi_part name = hfi_part_of(&current, sizeof current);
    char content[100];
    const hfi_map_instrument instrument = {.arguments = {&argument, 1},
                                           .unserializable = {&none, 1},
                                           .isolated = true,
                                           .run_reason = argument,
                                           .name = name};
    const char *code = codes[number % 6];
    snprintf(content, sizeof content,
             "{\"code\": \"%s\", \"cursor_pos\": 2, \"allow_stdin\": true}", code);
    add_frame(input, size,
              HFI_FRAME(to_worker_request, .id = id,
                        .type = hfi_part_text(types[number % 7]),
                        .header = hfi_part_text("{}"), .parent = hfi_part_text("{}"),
                        .metadata = hfi_part_text("{}"),
                        .content = hfi_part_text(content), .buffers = {&argument, 1},
                        .code = number % 3 ? hfi_part_text(code) : hfi_part_of(NULL, 0),
                        .instrument = number % 4 ? NULL : &instrument));
}

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    size_t size = 1;
    make_base();
    const hfi_part name = hfi_part_of(&current, sizeof current);
    const hfi_part word = hfi_part_text("forked");
    const hfi_text value = {hfi_part_text("HOLDFAST_FUZZ"), word};
    const hfi_frame *const others[] = {
        HFI_FRAME(to_main_commit, .id = 1, .durable = true, .code = word,
                  .cell_run = word, .run = word),
        HFI_FRAME(to_main_commit, .id = 2),
        HFI_FRAME(to_main_published, .generation = 1, .name = name),
        HFI_FRAME(to_main_adopt, .generation = 1, .name = name, .code = word, .id = 3,
                  .header = hfi_part_text("{}")),
        HFI_FRAME(to_main_checkout, .generation = 1, .name = name),
        HFI_FRAME(to_main_protect, .id = 4),
        HFI_FRAME(to_main_fork, .id = 5),
        HFI_FRAME_BARE(to_main_rest),
        HFI_FRAME(to_main_want_handle, .handle = 6),
        HFI_FRAME(to_main_perfreport, .id = 7, .header = word, .level = word),
        HFI_FRAME(to_main_environment, .values = {&value, 1}),
        HFI_FRAME(to_worker_input_reply, .value = word),
        HFI_FRAME_BARE(to_worker_output),
        HFI_FRAME_BARE(to_main_exit)};
    size_t count = sizeof others / sizeof *others;
    ret_input[0] = (uint8_t)(number * 5);
    for (uint32_t i = 0; i < 6; i++)
        if ((number + i) % 2)
            add_frame(ret_input, &size, others[(number / 3 + i * 5) % count]);
        else
            add_request(ret_input, &size, i + 1, number / 2 + i);
    return size;
}

/* ---- one life -------------------------------------------------------------------- */

static void
end_worker(hf_worker *worker) {
    hfi_asked_close(worker);
    for (hfi_incoming *one; (one = worker->waiting) != NULL;) {
        worker->waiting = one->next;
        hfi_incoming_free(one);
    }
    hfi_saving_fini(worker);
    hfi_channel_destroy(worker->channel);
    hf_session_close(worker->session);
    close(worker->wake[0]);
    close(worker->wake[1]);
    pthread_mutex_destroy(&worker->mutex);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const hf_worker_role roles[] = {HF_WORKER_MAIN, HF_WORKER_MAIN,
                                           HF_WORKER_CELL, HF_WORKER_ASSISTANT};
    if (size < 2 || size > FUZZ_INPUT_MAX)
        return 0;
    make_base();
    int fds[2], before = count_descriptors();
    how = data[0];
    pending = how >> 6;
    hf_worker worker = {.language = language,
                        .role = roles[how % 4],
                        .frontend = getppid(),
                        .pid = getpid(),
                        .thread = pthread_self(),
                        .mutex = PTHREAD_MUTEX_INITIALIZER,
                        .way = how % 4 == 2 ? HFI_WAY_ISOLATED : HFI_WAY_IN_PROCESS};
    worker.last_waiting = &worker.waiting;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(hfi_control_create_consume(fds[0], &frontend, NULL) == HF_OK);
    send_bytes(fds[0], data + 1, size - 1, how & WITH_FDS ? hf_session_fd(base) : -1);
    CHECK(shutdown(fds[0], SHUT_WR) == 0);
    CHECK(hfi_channel_create_consume(fds[1], &worker.channel, NULL) == HF_OK);
    CHECK(hfi_self_make_wake(worker.wake, NULL) == HF_OK);
    if (how & WITH_STORE)
        CHECK(hf_session_open_fd(hf_session_fd(base), &worker.session, NULL) == HF_OK);
    hfi_life_move(&worker.life, HFI_LIFE_IDLE);
    while (hf_worker_dispatch(&worker, NULL) == HF_OK)
        continue;
    read_frames(frontend);
    end_worker(&worker);
    hfi_control_close(frontend);
    CHECK(count_descriptors() == before);
    return 0;
}
