/* test_failing_lives.c - every call of libholdfast-worker that can fail does, in turn, or
 * kills the process.
 *
 * This program is the frontend of a fork server, which runs a small language. A life has
 * a cell in each way: in-process, isolated, forked, and in a sleeping fork that wakes; and
 * a question to the assistant. The language has one number, in two variables. First the
 * first call of any of these processes fails, then the second; for each errno, once and
 * from there on, and by SIGKILL. After each
 *
 * - all that was sent is whole frames, which the table allows there
 * - a cell whose reply is "ok" has run, and the next one has its number. Else there is
 *   an error, a message, or a process that has ended, which says why on stderr
 * - the store has the number that was published last, in both variables
 * - all processes have ended
 *
 *     test_failing_lives            a sample, in some seconds
 *     test_failing_lives all        every point
 *     test_failing_lives AT ERRNO EVER   one point
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "holdfast/worker.h"
#include "support/check.h"
#include "support/failing_calls.h"
#include "support/wrap.h"
#include "workers/control.h"

/* One call of so many, in the short version. */
/* A sanitizer makes each fork slow. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define SAMPLE_STRIDE 251
#else
#define SAMPLE_STRIDE 61
#endif

enum { PATIENCE_SECONDS = 60 };

/* ---- more wrappers ---- */

/* clang-format off */
WRAP(int, dup2, (int from, int to), (from, to), -1)
WRAP(pid_t, fork, (void), (), -1)
WRAP(int, clone, (int (*begin)(void *), void *stack, int flags, void *context), (begin, stack, flags, context), -1)
WRAP(int, waitid, (idtype_t kind, id_t id, siginfo_t *info, int options), (kind, id, info, options), -1)
WRAP(int, setenv, (const char *name, const char *value, int replace), (name, value, replace), -1)
WRAP(json_t *, json_loads, (const char *text, size_t flags, json_error_t *error), (text, flags, error), NULL)
/* clang-format on */

/* It says why: the caller tells no memory from bad text. */
json_t *__real_json_loadb(const char *text, size_t size, size_t flags,
                          json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t size, size_t flags,
                          json_error_t *error);

json_t *
__wrap_json_loadb(const char *text, size_t size, size_t flags, json_error_t *error) {
    if (!hft_calls_pass("json_loadb", 1))
        return __real_json_loadb(text, size, flags, error);
    if (error != NULL) {
        memset(error, 0, sizeof *error);
        error->text[sizeof error->text - 1] = json_error_out_of_memory;
    }
    return NULL;
}

/* ---- the language ---- */

static const char *const KEYS[] = {"one", "two"};
static int64_t number;

/* "set N", "add N", "show" or "die". */
static hf_status
run_cell(void *context, hf_worker *worker, const hf_worker_request *request,
         hf_error *reterr) {
    char text[32];
    int64_t operand = atoi(request->code + 3);
    (void)context;
    if (strcmp(request->code, "die") == 0)
        kill(getpid(), SIGKILL);
    if (strncmp(request->code, "set", 3) != 0 &&
        strncmp(request->code, "add", 3) != 0 && strcmp(request->code, "show") != 0)
        return hf_error_set(reterr, HF_E_INVALID, "no code");
    int size = snprintf(text, sizeof text, "%lld", (long long)number);
    hf_status status = hf_worker_write(worker, 0, text, (size_t)size, reterr);
    if (status != HF_OK)
        return status;
    number = strncmp(request->code, "set", 3) == 0 ? operand : number + operand;
    return HF_OK;
}

static hf_status
answer(void *context, hf_worker *worker, const hf_worker_request *request,
       hf_error *reterr) {
    char text[32];
    const char *matches[] = {text};
    (void)context;
    snprintf(text, sizeof text, "%lld", (long long)number);
    return hf_worker_complete(worker, request, matches, 1, 0, 0, reterr);
}

static hf_status
save(void *context, hf_worker *worker, hf_error *reterr) {
    hf_status status = HF_OK;
    (void)context;
    for (int i = 0; i < 2 && status == HF_OK; i++) {
        const hf_value value = {.struct_size = sizeof value,
                                .key = KEYS[i],
                                .key_size = 3,
                                .codec = 1,
                                .payload = &number,
                                .payload_size = sizeof number};
        status = hf_worker_put(worker, &value, reterr);
    }
    return status == HF_OK ? hf_worker_stays(worker, "open", "it is a file", reterr)
                           : status;
}

static hf_status
bind_number(void *context, hf_worker *worker, const hf_worker_binding *binding,
            hf_error *reterr) {
    int64_t numbers[2];
    (void)context, (void)worker;
    for (int i = 0; i < 2; i++) {
        hf_entry entry = {.struct_size = sizeof entry};
        hf_status status = hf_snapshot_find(binding->now, KEYS[i], 3, &entry, reterr);
        if (status != HF_OK)
            return status;
        memcpy(&numbers[i], entry.payload, sizeof *numbers);
    }
    CHECK(numbers[0] == numbers[1]);
    number = numbers[0];
    return HF_OK;
}

static const hf_worker_language language = {.struct_size = sizeof language,
                                            .execute = run_cell,
                                            .answer = answer,
                                            .save = save,
                                            .bind = bind_number};

/* ---- processes, seen from the frontend ---- */

typedef struct peer {
    hfi_control *control; /* NULL: it has ended */
    hfi_received received;
} peer;

typedef struct life {
    peer server, main;
    hf_session *session;
    int said[2]; /* a pipe: what the processes write to stdout and stderr */
    int tally;
    int64_t id;
    int64_t published, held; /* the number in the store, and that of the main worker */
    char shown[64];          /* by the cell that ran last, on stdout */
} life;

static void
end_peer(peer *at) {
    hfi_received_fini(&at->received);
    hfi_control_close(at->control);
    *at = (peer){0};
}

static bool
tell(peer *at, const hfi_frame *frame) {
    if (at->control == NULL) {
        for (int i = 0; i < frame->row->fds; i++)
            close(frame->fds[i]);
        return false;
    }
    (void)!hfi_control_send_consume(at->control, frame, NULL);
    return true;
}

/* Wait for a frame of this row. False: the process has ended before. What a cell says is
 * read meanwhile, and nothing else may come. */
static bool
await(life *at, peer *from, const hfi_row *row, hfi_any_frame *ret_frame) {
    static const hfi_row *const others[] = {
        &hfi_row_from_worker_stream, &hfi_row_from_worker_message,
        &hfi_row_from_worker_started, &hfi_row_from_worker_ended};
    while (from->control != NULL) {
        hf_status status = hfi_control_next(from->control, &from->received, NULL);
        if (status == HF_OK) {
            hfi_part op = hfi_received_op(&from->received);
            bool is_it = hfi_part_is(op, row->op);
            const hfi_row *read = row;
            for (size_t i = 0; i < sizeof others / sizeof *others && !is_it; i++)
                if (hfi_part_is(op, others[i]->op))
                    read = others[i];
            if (!is_it && read == row)
                fprintf(stderr, "%.*s came, not %s\n", (int)op.size, op.data, row->op);
            CHECK(is_it || read != row);
            CHECK(hfi_control_read(from->control, &from->received, read,
                                   &ret_frame->head, NULL) == HF_OK);
            if (is_it)
                return true;
            if (read == others[0] &&
                hfi_part_is(ret_frame->from_worker_stream.name, "stdout"))
                snprintf(at->shown, sizeof at->shown, "%.*s",
                         (int)ret_frame->from_worker_stream.text.size,
                         ret_frame->from_worker_stream.text.data);
            continue;
        }
        CHECK(status == HF_AGAIN);
        struct pollfd fd = {.fd = hfi_control_fd(from->control), .events = POLLIN};
        if (poll(&fd, 1, PATIENCE_SECONDS * 1000) == 0)
            fprintf(stderr, "no %s came\n", row->op);
        CHECK(fd.revents != 0);
        status = hfi_control_fill(from->control, NULL);
        if (status == HF_E_GONE)
            end_peer(from);
        else
            CHECK(status == HF_OK);
    }
    return false;
}

/* The descriptors of a new process, which are sent; and what is heard of it. */
static void
make_channel(life *at, int ret_fds[3], peer *ret_peer) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    CHECK(hfi_control_create_consume(fds[0], &ret_peer->control, NULL) == HF_OK);
    ret_fds[0] = fds[1];
    ret_fds[1] = dup(at->said[1]);
    ret_fds[2] = dup(at->said[1]);
}

static void
fork_worker(life *at, const char *role, peer *ret_peer) {
    int fds[3];
    hfi_any_frame frame;
    *ret_peer = (peer){0};
    if (at->server.control == NULL)
        return;
    make_channel(at, fds, ret_peer);
    tell(&at->server,
         HFI_FRAME(to_fork_server_fork, .head.fds = {fds[0], fds[1], fds[2]},
                   .role = hfi_part_text(role)));
    if (await(at, &at->server, &hfi_row_from_fork_server_forked, &frame))
        tell(ret_peer, HFI_FRAME(to_worker_output, .head.fds = {dup(at->tally)}));
    (void)await(at, ret_peer, &hfi_row_from_worker_ready, &frame);
}

static hf_generation
current(life *at) {
    hf_generation name;
    hf_snapshot *snapshot;
    CHECK(hf_snapshot_acquire(at->session, &snapshot, NULL) == HF_OK);
    hf_snapshot_export(snapshot, &name);
    hf_snapshot_release(snapshot);
    return name;
}

/* Publish what was prepared; the number is this one from now on. */
static hfi_part
publish(life *at, hfi_part prepared, int64_t value, hf_generation *ret_name) {
    hf_prepared token;
    CHECK(prepared.size == sizeof token);
    memcpy(&token, prepared.data, sizeof token);
    CHECK(hf_session_publish(at->session, &token, NULL, NULL) == HF_OK);
    at->published = value;
    *ret_name = current(at);
    return hfi_part_of(ret_name, sizeof *ret_name);
}

static const hfi_part none[1] = {{"", 0}};
static const hfi_text no_texts[1] = {{{"", 0}, {"", 0}}};

static void
ask(life *at, peer *worker, const char *type, const char *code,
    const hfi_map_instrument *instrument) {
    char content[100];
    snprintf(content, sizeof content, "{\"code\": \"%s\", \"cursor_pos\": 0}", code);
    at->shown[0] = '\0';
    tell(worker,
         HFI_FRAME(to_worker_request, .id = ++at->id, .type = hfi_part_text(type),
                   .header = hfi_part_text("{}"), .parent = hfi_part_text("{}"),
                   .metadata = hfi_part_text("{}"), .content = hfi_part_text(content),
                   .buffers = {none, 0}, .instrument = instrument));
}

/* Whether the cell has run: its reply is "ok". It had this number before. */
static bool
await_cell(life *at, peer *worker, int64_t before, hfi_any_frame *ret_frame) {
    char wanted[32];
    if (!await(at, worker, &hfi_row_from_worker_reply, ret_frame))
        return false;
    hfi_part content = ret_frame->from_worker_reply.content;
    json_t *outcome = __real_json_loadb(content.data, content.size, 0, NULL);
    const char *status = json_string_value(json_object_get(outcome, "status"));
    CHECK(ret_frame->from_worker_reply.id == at->id && status != NULL);
    bool has_run = strcmp(status, "ok") == 0;
    if (!has_run)
        CHECK(json_string_length(json_object_get(outcome, "ename")) > 0);
    json_decref(outcome);
    snprintf(wanted, sizeof wanted, "%lld", (long long)before);
    if (has_run)
        CHECK_TEXT(at->shown, wanted);
    return has_run;
}

/* A main worker, if there is none: with what was published. */
static bool
need_main(life *at) {
    if (at->main.control != NULL)
        return true;
    fork_worker(at, "main", &at->main);
    at->held = at->published;
    return at->main.control != NULL;
}

static void
run_plain(life *at, const char *code) {
    hfi_any_frame frame;
    if (!need_main(at))
        return;
    bool is_set = strncmp(code, "set", 3) == 0;
    int64_t after = is_set ? atoi(code + 3) : at->held;
    ask(at, &at->main, "execute_request", code, NULL);
    if (await_cell(at, &at->main, at->held, &frame))
        at->held = after;
}

/* What the main worker has is in the store. */
static bool
commit(life *at, const char *run) {
    hfi_any_frame frame;
    hf_generation name;
    if (!need_main(at))
        return false;
    tell(&at->main,
         HFI_FRAME(to_main_commit, .id = ++at->id, .durable = true,
                   .code = hfi_part_text("x"), .cell_run = hfi_part_text(run)));
    if (!await(at, &at->main, &hfi_row_from_worker_reply, &frame))
        return false;
    const hfi_from_worker_reply *reply = &frame.from_worker_reply;
    CHECK(reply->id == at->id && reply->report != NULL);
    if (reply->report->error.size > 0)
        return false;
    if (reply->prepared.size == 0) {
        CHECK(at->held == at->published);
        return true;
    }
    hfi_part bytes = publish(at, reply->prepared, at->held, &name);
    tell(&at->main, HFI_FRAME(to_main_published, .generation = 1, .name = bytes));
    return await(at, &at->main, &hfi_row_from_main_settled, &frame);
}

/* The cell of another process: what it has changed is published, and adopted. */
static void
take_over(life *at, peer *worker, int64_t after) {
    hfi_any_frame frame;
    hf_generation name;
    bool has_run = await_cell(at, worker, at->published, &frame);
    const hfi_from_worker_reply *reply = &frame.from_worker_reply;
    if (has_run && reply->report != NULL && reply->report->error.size == 0) {
        hfi_part bytes = publish(at, reply->prepared, after, &name);
        tell(&at->main, HFI_FRAME(to_main_adopt, .generation = 2, .name = bytes,
                                  .code = hfi_part_text("x"), .id = ++at->id,
                                  .header = hfi_part_text("{}")));
        at->held = after;
        (void)await(at, &at->main, &hfi_row_from_worker_reply, &frame);
    } else if (has_run) {
        CHECK(reply->report != NULL);
    }
    end_peer(worker);
}

static void
run_isolated(life *at, const char *code, int64_t more) {
    peer cell;
    if (!commit(at, "isolated"))
        return;
    fork_worker(at, "cell", &cell);
    hf_generation name = current(at);
    const hfi_map_instrument instrument = {.arguments = {none, 0},
                                           .unserializable = {no_texts, 0},
                                           .isolated = true,
                                           .run_reason = none[0],
                                           .name = hfi_part_of(&name, sizeof name)};
    ask(at, &cell, "execute_request", code, &instrument);
    take_over(at, &cell, at->published + more);
}

static void
run_forked(life *at, const char *code, int64_t more) {
    int fds[3];
    peer cell = {0};
    hfi_any_frame frame;
    if (!commit(at, "forked"))
        return;
    make_channel(at, fds, &cell);
    tell(&at->main,
         HFI_FRAME(to_main_fork, .id = ++at->id, .head.fds = {fds[0], fds[1], fds[2]}));
    if (!await(at, &at->main, &hfi_row_from_main_forked, &frame) ||
        frame.from_main_forked.pid == 0) {
        CHECK(at->main.control == NULL || frame.from_main_forked.error.size > 0);
        end_peer(&cell);
        return;
    }
    ask(at, &cell, "execute_request", code, NULL);
    take_over(at, &cell, at->published + more);
}

/* The main worker dies, and its sleeping fork goes on with the number. */
static void
run_protected(life *at) {
    int fds[3];
    peer sleeper = {0};
    hfi_any_frame frame;
    if (!need_main(at))
        return;
    make_channel(at, fds, &sleeper);
    tell(&at->main, HFI_FRAME(to_main_protect, .id = ++at->id,
                              .head.fds = {fds[0], fds[1], fds[2]}));
    bool is_made = await(at, &at->main, &hfi_row_from_main_protected, &frame) &&
                   frame.from_main_protected.pid != 0;
    if (is_made && frame.from_main_protected.obstacle.size == 0) {
        ask(at, &at->main, "execute_request", "die", NULL);
        if (await(at, &at->main, &hfi_row_from_worker_reply, &frame)) {
            end_peer(&sleeper); /* it was no cell that could die */
            return;
        }
        tell(&sleeper, HFI_FRAME(to_sleeper_wake, .id = ++at->id));
        if (await(at, &sleeper, &hfi_row_from_worker_ready, &frame))
            at->main = sleeper; /* else a new one has what was published */
    } else {
        CHECK(at->main.control == NULL || is_made ||
              frame.from_main_protected.error.size > 0);
        end_peer(&sleeper);
    }
}

static void
ask_assistant(life *at) {
    peer assistant;
    hfi_any_frame frame;
    char wanted[64];
    fork_worker(at, "assistant", &assistant);
    ask(at, &assistant, "complete_request", "", NULL);
    if (await(at, &assistant, &hfi_row_from_worker_reply, &frame)) {
        hfi_part content = frame.from_worker_reply.content;
        json_t *reply = __real_json_loadb(content.data, content.size, 0, NULL);
        json_t *match = json_array_get(json_object_get(reply, "matches"), 0);
        CHECK(json_is_string(json_object_get(reply, "status")));
        snprintf(wanted, sizeof wanted, "%lld", (long long)at->published);
        if (match != NULL) /* else it has said why on stderr */
            CHECK_TEXT(json_string_value(match), wanted);
        json_decref(reply);
    }
    end_peer(&assistant);
}

/* ---- one life ---- */

static void
begin(life *at, long fails_at, hft_fault fault) {
    const hf_session_options options = {.struct_size = sizeof options,
                                        .capacity_bytes = 1 << 20,
                                        .flags = HF_SESSION_MEMFD};
    hfi_any_frame frame;
    int fds[2];
    char control[16], session[16];
    *at = (life){0};
    CHECK(hf_session_create(&options, &at->session, NULL) == HF_OK);
    CHECK(pipe(at->said) == 0 && fcntl(at->said[0], F_SETFL, O_NONBLOCK) == 0);
    at->tally = memfd_create("tally", MFD_CLOEXEC);
    CHECK(ftruncate(at->tally, sizeof(hfi_tally)) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(hfi_control_create_consume(fds[0], &at->server.control, NULL) == HF_OK);
    pid_t pid = __real_fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char *argv[] = {"lives",        "--control-fd", control,
                        "--session-fd", session,        NULL};
        __real_dup2(at->said[1], 1);
        __real_dup2(at->said[1], 2);
        snprintf(control, sizeof control, "%d", fds[1]);
        snprintf(session, sizeof session, "%d", dup(hf_session_fd(at->session)));
        close(fds[0]);
        hft_calls_arm(fails_at, fault);
        _exit(hf_worker_main(&language, 5, argv));
    }
    close(fds[1]);
    (void)await(at, &at->server, &hfi_row_from_fork_server_ready, &frame);
}

static int64_t
read_store(life *at) {
    hf_snapshot *snapshot;
    int64_t numbers[2] = {0, 0};
    CHECK(hf_snapshot_acquire(at->session, &snapshot, NULL) == HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_entry entry = {.struct_size = sizeof entry};
        hf_status status = hf_snapshot_find(snapshot, KEYS[i], 3, &entry, NULL);
        CHECK(status == HF_OK || status == HF_NOT_FOUND);
        if (status == HF_OK)
            memcpy(&numbers[i], entry.payload, sizeof *numbers);
    }
    hf_snapshot_release(snapshot);
    CHECK(numbers[0] == numbers[1]);
    return numbers[0];
}

/* All processes end with their channels. One that fails has said why. */
static void
end(life *at, hft_fault fault) {
    char said[8192];
    int status;
    bool has_failed = false;
    tell(&at->main, HFI_FRAME_BARE(to_main_exit));
    end_peer(&at->main);
    end_peer(&at->server);
    while (wait(&status) > 0) {
        CHECK(WIFEXITED(status) || WTERMSIG(status) == SIGKILL);
        has_failed |= WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    ssize_t size = read(at->said[0], said, sizeof said - 1);
    said[size > 0 ? size : 0] = '\0';
    bool is_failing = atomic_load(&hft_calls_seen->failed) > 0;
    if (strstr(said, is_failing ? "failed: " : "worker: ") != NULL)
        fprintf(stderr, "%s", said);
    CHECK(strstr(said, "failed: ") == NULL);
    CHECK(!has_failed || fault.ever || fault.err == 0 ||
          strstr(said, "worker: ") != NULL ||
          strcmp(hft_calls_seen->name, "write") == 0);
    CHECK(is_failing || strstr(said, "worker: ") == NULL);
    CHECK(read_store(at) == at->published);
    hf_session_close(at->session);
    close(at->said[0]);
    close(at->said[1]);
    close(at->tally);
}

/* 0 behind the last call. */
static int
try_point(void *context, hft_fault fault, long fails_at) {
    life at;
    long *points = context;
    fflush(NULL);
    alarm(2 * PATIENCE_SECONDS);
    begin(&at, fails_at, fault);
    run_plain(&at, "set 1");
    run_isolated(&at, "add 2", 2);
    run_plain(&at, "set 1"); /* as it was two generations ago */
    run_forked(&at, "add 4", 4);
    run_plain(&at, "show");
    run_protected(&at);
    run_plain(&at, "set 9");
    if (commit(&at, "isolated"))
        ask_assistant(&at);
    run_plain(&at, "show");
    bool failed = atomic_load(&hft_calls_seen->failed) > 0;
    if (!failed)
        CHECK(at.held == 9 && at.published == 9);
    end(&at, fault);
    *points += failed;
    return atomic_load(&hft_calls_seen->counted) >= fails_at;
}

static long now_at;
static hft_fault now_fault;

static void
name_point(void) {
    if (now_at > 0)
        fprintf(stderr, "call %ld, %s: %d %d\n", now_at, hft_calls_seen->name,
                now_fault.err, now_fault.ever);
}

static int
try_named(void *context, hft_fault fault, long at) {
    now_at = at;
    now_fault = fault;
    return try_point(context, fault, at);
}

static void
on_alarm(int signal_number) {
    (void)signal_number;
    name_point();
    _exit(1);
}

int
main(int argc, char **argv) {
    long points = 0;
    hft_calls_seen = mmap(NULL, sizeof *hft_calls_seen, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(hft_calls_seen != MAP_FAILED);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    signal(SIGPIPE, SIG_IGN);
    atexit(name_point);
    signal(SIGALRM, on_alarm); /* the workers set their own */
    if (argc == 4) {
        (void)try_named(&points, (hft_fault){atoi(argv[2]), atoi(argv[3])},
                        atol(argv[1]));
        printf("%s\n", hft_calls_seen->name);
    } else {
        (void)try_point(&points, (hft_fault){0}, 0);
        printf("%ld calls\n", atomic_load(&hft_calls_seen->counted));
        hft_calls_try(argc == 2 ? 1 : SAMPLE_STRIDE, try_named, &points);
        CHECK(points > 20);
    }
    now_at = 0;
    return 0;
}
