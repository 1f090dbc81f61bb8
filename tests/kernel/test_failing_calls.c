/* test_failing_calls.c - every call of the frontend that can fail does, in turn, or
 * kills it.
 *
 * A child lives a whole kernel (tests/support/kernel_life.h) whose workers are played by
 * this program: they read what the frontend sends on their channels, and answer as
 * workers do; what they commit lies in a store. First the first call of the frontend
 * fails while a request runs, then the second, until there is none left to fail; for
 * each errno, once and from there on, and by SIGKILL. After each the kernel is idle
 * again, and a second request works: what each one committed is there, whole; no
 * descriptor and no block of memory is lost. The parent checks that the store has the
 * old version or a new one, also after a kill.
 *
 *     test_failing_calls            a sample, in some seconds
 *     test_failing_calls all        every point
 *     test_failing_calls NAME ...   every point of some scenarios
 *
 * docs/robustness.md has what was found by it.
 */
#include "../support/kernel_life.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../support/failing_calls.h"
#include "holdfast/store.h"
#include "session/handover.h"
#include "workers/protocol.h"

enum { FAKES_MAX = 24, TURNS_MAX = 400, FIRST_PID = 1 << 29 };

/* One call of so many, in the short version. */
#ifdef __SANITIZE_THREAD__ /* makes each fork slow */
#define SAMPLE_STRIDE 997
#else
#define SAMPLE_STRIDE 131
#endif

static hft_calls *results; /* shared with the child */
static long fails_at;
static hft_fault fault;

/* ---- the workers that this program plays ---- */

typedef struct fake {
    hfi_control *control; /* NULL: it has ended */
    hfi_role role;
    pid_t pid;
    int sleeps;
} fake;

static fake fakes[FAKES_MAX];
static int fake_count;
static hfi_control *server_channel; /* the far end of the fork server's */
static hf_session *worker_session;
static pid_t killed[FAKES_MAX]; /* by the frontend: the fork server has to say so */
static int killed_count;
static int version, next_pid, dies_in_cell;
static const char *run_mode;

static void
tell(hfi_control *control, const hfi_frame *frame) {
    (void)!hfi_control_send_consume(control, frame, NULL); /* or it is closed */
}

/* With the descriptors that came for it. */
static fake *
add_fake(const hfi_frame *asked, hfi_role role, int sleeps) {
    CHECK(fake_count < FAKES_MAX);
    fake *at = &fakes[fake_count++];
    *at = (fake){.role = role, .pid = FIRST_PID + ++next_pid, .sleeps = sleeps};
    CHECK(hfi_control_create_consume(asked->fds[0], &at->control, NULL) == HF_OK);
    for (int i = 1; i < 3; i++) /* its output */
        close(asked->fds[i]);
    return at;
}

static void
say_exited(pid_t pid) {
    tell(server_channel, HFI_FRAME(from_fork_server_exited, .pid = pid));
}

static void
end_fake(fake *at) {
    hfi_control_close(at->control);
    at->control = NULL;
    say_exited(at->pid);
}

static void
say_ready(hfi_control *control, pid_t pid) {
    tell(control,
         HFI_FRAME(from_worker_ready, .version = HFI_CONTROL_VERSION, .pid = pid));
}

/* Both values have the version. */
static hf_prepared
prepare_commit(void) {
    hf_commit *commit;
    hf_prepared token;
    char payload[64];
    snprintf(payload, sizeof payload, "%d", ++version);
    CHECK(hf_commit_begin(worker_session, &commit, NULL) == HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_value value = {.struct_size = sizeof value,
                          .key = i ? "two" : "one",
                          .key_size = 3,
                          .codec = 1,
                          .payload = payload,
                          .payload_size = strlen(payload)};
        CHECK(hf_commit_put(commit, &value, NULL) == HF_OK);
    }
    CHECK(hf_commit_prepare_consume(commit, &token, NULL) == HF_OK);
    return token;
}

static void
answer(fake *at, long long id, int is_commit) {
    hf_prepared token;
    hfi_map_report report = {.bytes_copied = 10};
    hfi_from_worker_reply reply = {
        .head.row = &hfi_row_from_worker_reply, .id = id, .report = &report};
    if (is_commit ? strcmp(run_mode, "in-process") != 0 : at->role == HFI_CELL) {
        token = prepare_commit();
        reply.prepared = hfi_part_of(&token, sizeof token);
    }
    if (is_commit) {
        reply.unserializable = (hfi_texts){&(hfi_text){.key.size = 0}, 0};
        reply.run = hfi_part_text(run_mode);
    } else {
        reply.content = hfi_part_text("{\"status\":\"ok\"}");
    }
    tell(at->control, &reply.head);
}

static void
run_cell(fake *at, long long id) {
    const hfi_map_moment begin = {.time_ns = 0};
    tell(at->control, HFI_FRAME(from_worker_started, .id = id, .begin = &begin));
    if (dies_in_cell && at->role == HFI_MAIN) {
        dies_in_cell = 0;
        end_fake(at);
        return;
    }
    answer(at, id, 0);
}

static void
split(fake *at, const hfi_to_main_fork *asked) {
    fake *fork = add_fake(&asked->head, HFI_CELL, 0);
    if (dies_in_cell) { /* before it can report */
        dies_in_cell = 0;
        end_fake(at);
        return;
    }
    tell(at->control, HFI_FRAME(from_main_forked, .id = asked->id, .pid = fork->pid));
}

static void
react(fake *at, const hfi_any_frame *frame) {
    const hfi_row *row = frame->head.row;
    if (row == &hfi_row_to_main_commit) {
        answer(at, frame->to_main_commit.id, 1);
    } else if (row == &hfi_row_to_worker_request) {
        run_cell(at, frame->to_worker_request.id);
    } else if (row == &hfi_row_to_main_protect) {
        pid_t pid = add_fake(&frame->head, HFI_SLEEPER, 1)->pid;
        tell(at->control, HFI_FRAME(from_main_protected,
                                    .id = frame->to_main_protect.id, .pid = pid));
    } else if (row == &hfi_row_to_main_fork) {
        split(at, &frame->to_main_fork);
    } else if (row == &hfi_row_to_main_published) {
        tell(at->control, HFI_FRAME(from_main_settled,
                                    .generation = frame->to_main_published.generation));
    } else if (row == &hfi_row_to_main_adopt) {
        if (frame->to_main_adopt.id != 0)
            answer(at, frame->to_main_adopt.id, 0);
    } else if (row == &hfi_row_to_sleeper_wake) {
        at->role = HFI_MAIN;
        say_ready(at->control, at->pid);
    } else if (row == &hfi_row_to_main_exit) {
        end_fake(at);
    } else {
        for (size_t i = 0; i < hfi_frame_fd_count(&frame->head); i++)
            close(frame->head.fds[i]);
    }
}

static void
fork_fake(const hfi_to_fork_server_fork *asked) {
    int is_main = hfi_part_is(asked->role, "main");
    fake *at = add_fake(&asked->head, is_main ? HFI_MAIN : HFI_CELL, 0);
    tell(server_channel,
         HFI_FRAME(from_fork_server_forked, .pid = at->pid, .role = asked->role));
    say_ready(at->control, at->pid);
}

/* The next frame that the frontend has sent. */
static int
hear(hfi_control *control, int is_server, hfi_received *received,
     hfi_any_frame *ret_frame) {
    const hfi_row *const *row = hfi_rows;
    if (!control || hfi_control_next(control, received, NULL) != HF_OK)
        return 0;
    while (strcmp((*row)->way, "to") != 0 ||
           !hfi_part_is(hfi_received_op(received), (*row)->op) ||
           (strcmp((*row)->peer, "fork_server") == 0) != is_server)
        row++;
    return hfi_control_read(control, received, *row, &ret_frame->head, NULL) == HF_OK;
}

/* All read what was sent to them. */
static void
play_workers(void) {
    hfi_received received = {0};
    hfi_any_frame frame;
    if (server_channel) {
        (void)!hfi_control_fill(server_channel, NULL);
        while (hear(server_channel, 1, &received, &frame))
            if (frame.head.row == &hfi_row_to_fork_server_fork)
                fork_fake(&frame.to_fork_server_fork);
    }
    while (server_channel && killed_count > 0)
        say_exited(killed[--killed_count]);
    for (int i = 0; i < fake_count; i++) {
        fake *at = &fakes[i];
        hf_status status = at->control ? hfi_control_fill(at->control, NULL) : HF_OK;
        while (hear(at->control, 0, &received, &frame))
            react(at, &frame);
        if (at->control && status == HF_E_GONE)
            end_fake(at);
    }
    hfi_received_fini(&received);
}

int __real_kill(pid_t pid, int number);

static void
note_signal(pid_t pid, int number) {
    if (pid < FIRST_PID) /* the reaper, which is a process */
        (void)__real_kill(pid, number);
    for (int i = 0; number == SIGKILL && i < fake_count; i++)
        if (fakes[i].pid == pid && fakes[i].control) {
            hfi_control_close(fakes[i].control);
            fakes[i].control = NULL;
            killed[killed_count++] = pid;
        }
}

/* A fork server that is another one than before has no workers yet. */
static void
meet_server(hf_kernel *kernel) {
    while (peer_count > 0) {
        hfi_control_close(server_channel);
        server_channel = NULL;
        for (int i = 0; i < fake_count; i++) {
            hfi_control_close(fakes[i].control);
            fakes[i].control = NULL;
        }
        CHECK(hfi_control_create_consume(peers[--peer_count], &server_channel, NULL) ==
              HF_OK);
        say_ready(server_channel, 1 << 30);
    }
    (void)kernel;
}

/* ---- the kernel's loop ---- */

static void
turn(hf_kernel *kernel, long long seconds, int fails) {
    long long now_ns = hfi_clock_ns() + seconds * 1000000000LL;
    hfi_fork_server *server = hfi_workers_server(kernel);
    if (fails)
        hft_calls_resume();
    if (server->control) {
        (void)!hfi_control_flush(server->control, NULL);
        hfi_inbox_read_fork_server(kernel);
    }
    for (hfi_worker *at = server->workers, *next; at; at = next) {
        next = at->next;
        if (hfi_worker_is_heard(at) && !hfi_handover_holds(kernel, at)) {
            (void)!hfi_control_flush(at->control, NULL);
            hfi_inbox_read(kernel, at);
        }
    }
    pass_time(kernel, seconds);
    hfi_restart_tick(kernel, now_ns);
    hft_calls_disarm();
    meet_server(kernel);
    play_workers();
}

/* Until nothing runs; time passes if nothing happens. */
static void
run_until_idle(hf_kernel *kernel, int fails) {
    for (int i = 0; i < TURNS_MAX && !kernel->stopping; i++) {
        turn(kernel, i < 200 ? 0 : (i - 200) / 2, fails);
        if (kernel->cell.state == HFI_CELL_IDLE && kernel->queue.count == 0 && i > 8)
            return;
    }
    if (!kernel->stopping)
        fprintf(stderr, "the cell stays in state %d\n", (int)kernel->cell.state);
    CHECK(kernel->stopping);
}

/* The version of both values; 0 without any. */
static int
stored_version(int fd) {
    hf_session *session;
    hf_snapshot *snapshot;
    int found[2] = {0, 0};
    CHECK(hf_session_open_fd(fd, &session, NULL) == HF_OK);
    CHECK(hf_session_verify(session, NULL) == HF_OK);
    CHECK(hf_snapshot_acquire(session, &snapshot, NULL) == HF_OK);
    for (int i = 0; i < 2; i++) {
        hf_entry entry = {.struct_size = sizeof entry};
        hf_status status =
            hf_snapshot_find(snapshot, i ? "two" : "one", 3, &entry, NULL);
        if (status == HF_OK)
            found[i] = atoi(entry.payload);
    }
    CHECK(found[0] == found[1]);
    hf_snapshot_release(snapshot);
    hf_session_close(session);
    return found[0];
}

/* ---- scenarios ---- */

typedef struct scenario {
    const char *name;
    int request; /* of `ask` in kernel_life.h, from 1; 0: a kernel begins */
    const char *run_mode;
    int dies_in_cell;
} scenario;

static const scenario scenarios[] = {
    {"create", 0, "isolated", 0},     {"plain", 1, "in-process", 0},
    {"isolated", 2, "isolated", 0},   {"in-process", 3, "in-process", 0},
    {"forked", 3, "forked", 0},       {"forked-death", 3, "forked", 1},
    {"rollback", 3, "in-process", 1}, {"undo", 5, "isolated", 0},
};

/* A kernel's start fails with words, and a second one works. */
static hf_kernel *
start_kernel(int fails) {
    static const char *const argv[] = {"worker", NULL};
    const hf_kernel_options options = {.struct_size = sizeof options,
                                       .connection_file = connection_file,
                                       .worker_argv = argv,
                                       .commands = &hfi_python_commands};
    hf_error error = HF_ERROR_INIT;
    hf_kernel *kernel = NULL;
    if (fails)
        hft_calls_arm(fails_at, fault);
    hf_status status = hf_kernel_create(&options, &kernel, &error);
    hft_calls_disarm();
    if (status == HF_OK)
        return kernel;
    CHECK(fails && error.status == status && error.message[0]);
    while (peer_count > 0)
        close(peers[--peer_count]);
    session_made_before = 0; /* the first kernel has destroyed it */
    return make_kernel();
}

static hf_kernel *
begin(const scenario *what) {
    when_signalled = note_signal;
    run_mode = what->run_mode;
    hf_kernel *kernel = start_kernel(!what->request);
    CHECK(hf_session_open_fd(hf_session_fd(kernel->store), &worker_session, NULL) ==
          HF_OK);
    meet_server(kernel);
    for (int i = 0; i < 12; i++)
        turn(kernel, 0, 0);
    return kernel;
}

static void
live(const scenario *what) {
    alarm(60);
    hf_kernel *kernel = begin(what);
    ask(kernel, 1); /* has something to undo */
    run_until_idle(kernel, 0);
    dies_in_cell = what->dies_in_cell;
    if (what->request) {
        ask(kernel, (uint8_t)(what->request - 1));
        hft_calls_arm(fails_at, fault);
        hft_calls_disarm();
        run_until_idle(kernel, 1);
    }
    CHECK(stored_version(hf_session_fd(kernel->store)) <= version);
    run_mode = "isolated";
    for (int i = 0; i < 20 && !kernel->stopping; i++) /* what has ended is replaced */
        turn(kernel, i / 10, 0);
    if (!kernel->stopping) {
        ask(kernel, 1);
        run_until_idle(kernel, 0);
        CHECK(kernel->stopping ||
              stored_version(hf_session_fd(kernel->store)) == version);
    }
    CHECK(!kernel->stopping || kernel->failure.status != HF_OK);
    for (int i = 0; i < fake_count; i++)
        hfi_control_close(fakes[i].control);
    fake_count = 0;
    hfi_control_close(server_channel);
    server_channel = NULL;
    hf_kernel_close(kernel);
    hf_session_close(worker_session);
}

static void
run_in_child(const scenario *what) {
    json_set_alloc_funcs(malloc, free);
    prepare();
    int descriptors = count_descriptors();
    long blocks = hft_calls_blocks();
    live(what);
    CHECK(count_descriptors() == descriptors);
    if (hft_calls_blocks() != blocks)
        fprintf(stderr, "%ld blocks are left\n", hft_calls_blocks() - blocks);
    CHECK(hft_calls_blocks() == blocks);
    exit(0);
}

typedef struct tally {
    const scenario *what;
    long calls, points, killed, bad;
} tally;

/* The call number `at`; 0 where there are fewer. */
static int
try_point(void *context, hft_fault given, long at) {
    tally *t = context;
    const scenario *what = t->what;
    int how;
    hf_session *base;
    const hf_session_options options = {.struct_size = sizeof options,
                                        .capacity_bytes = 1 << 20,
                                        .flags = HF_SESSION_MEMFD};
    CHECK(__real_hf_session_create(&options, &base, NULL) == HF_OK);
    session_made_before = hf_session_fd(base);
    memset(results, 0, sizeof *results);
    fails_at = at;
    fault = given;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        run_in_child(what);
    CHECK(waitpid(pid, &how, 0) == pid);
    long counted = atomic_load(&results->counted);
    int failed = atomic_load(&results->failed) > 0;
    int was_killed = WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL && !fault.err;
    if (how != 0 && !was_killed) {
        printf("%s: call %ld, %s, %s%s: status %x\n", what->name, at, results->name,
               fault.err ? strerror(fault.err) : "killed",
               fault.ever ? " ever after" : "", how);
        fflush(stdout);
        t->bad++;
    }
    if (was_killed) /* else the kernel has destroyed it */
        (void)stored_version(session_made_before);
    t->points += failed;
    t->killed += was_killed;
    if (!failed && counted > t->calls)
        t->calls = counted;
    hf_session_close(base);
    return counted >= at;
}

static tally
try_scenario(const scenario *what, long stride) {
    tally t = {.what = what};
    hft_calls_try(stride, try_point, &t);
    printf("%-12s %5ld calls, %5ld points: %4ld killed, %ld bad\n", what->name, t.calls,
           t.points, t.killed, t.bad);
    fflush(stdout);
    return t;
}

int
main(int argc, char **argv) {
    long points = 0, bad = 0;
    results = mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)results != MAP_FAILED);
    hft_calls_seen = results;
    make_directory();
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (hft_calls_are_asked_for(scenarios[i].name, argc, argv)) {
            tally t = try_scenario(&scenarios[i], argc > 1 ? 1 : SAMPLE_STRIDE);
            points += t.points;
            bad += t.bad;
        }
    CHECK(points);
    printf("%ld points, %ld bad\n", points, bad);
    return bad != 0;
}
