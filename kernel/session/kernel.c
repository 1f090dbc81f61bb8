/* kernel.c - making a kernel, its one loop, and its end.
 *
 * One thread has one poll() over the five sockets, the self-pipe, the fork server's
 * channel, and each worker's channel and pipes. Nothing that the loop calls waits for a
 * process for longer than a tenth of a second. So the control channel and the heartbeat
 * answer while a cell runs, whatever the cell does. The price: the list for poll(), a
 * dozen entries, is built again for each turn. libzmq's own zmq_poll asks each socket
 * twice in each turn, by two system calls.
 *
 * A turn reads what is there, handles what is due (streams, deaths, idle commit, rest),
 * and starts the next request. Signals come through the self-pipe, since hf_kernel_stop
 * may be called from a handler.
 *
 * Rejected: one thread for each channel. Every answer depends on the state of the one
 * queue, so the threads would only wait for each other.
 */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "session/beside.h"
#include "session/commits.h"
#include "session/incoming.h"
#include "session/workers.h"
#include "session/death.h"
#include "session/request.h"
#include "session/escalate.h"
#include "session/handover.h"
#include "session/listeners.h"
#include "session/publish.h"
#include "session/rerun.h"
#include "session/rest.h"
#include "session/restart.h"
#include "session/rollback.h"
#include "session/neighbours.h"
#include "workers/program.h"

#define ITEMS_MAX    256
#define TURN_WAIT_MS 1000 /* to check whether our parent lives */

/* The loop's own state. */
struct hfi_loop {
    int wake[2]; /* the self-pipe: 'i' interrupt, 's' stop */
    int parent;  /* the process that started us, of JPY_PARENT_PID; 0: not watched */
    long long parent_ns; /* when we looked whether it lives */
    int has_come[HFI_CHANNEL_COUNT];
};

static hf_status
init_loop(hf_kernel *kernel, hf_error *reterr) {
    (void)reterr;
    kernel->loop->wake[0] = kernel->loop->wake[1] = -1;
    return HF_OK;
}

static void
fini_loop(hf_kernel *kernel) {
    for (int i = 0; i < 2; i++)
        if (kernel->loop->wake[i] >= 0)
            close(kernel->loop->wake[i]);
}

static const hfi_owner loop_owner = {offsetof(hf_kernel, loop), sizeof(struct hfi_loop),
                                     init_loop, fini_loop};

/* The listeners, which get each event in this order. */
static hfi_listener *const listeners[] = {
    hfi_inbox_hear,    hfi_dispatch_hear, hfi_rest_hear,
    hfi_subshell_hear, hfi_observe_hear,  hfi_trace_hear,
    hfi_summary_hear,  hfi_repeat_hear,   hfi_runs_hear,
    hfi_rollback_hear, hfi_rerun_hear,    hfi_generations_hear,
    hfi_progress_hear, hfi_standby_hear,  hfi_escalate_hear,
    hfi_takeup_hear,   hfi_death_hear,    NULL};

/* The owners, in the order in which they are created, before anything is opened. */
static const hfi_owner *const owners[] = {
    &hfi_publish_owner,   &hfi_workers_owner,     &hfi_standby_owner,
    &hfi_commits_owner,   &hfi_comms_owner,       &hfi_progress_owner,
    &hfi_trace_owner,     &hfi_ends_owner,        &hfi_escalate_owner,
    &hfi_handles_owner,   &hfi_observe_owner,     &hfi_runs_owner,
    &hfi_resources_owner, &hfi_generations_owner, &hfi_rollback_owner,
    &hfi_restart_owner,   &hfi_death_owner,       &hfi_quarantine_owner,
    &hfi_assistant_owner, &hfi_subshell_owner,    &hfi_rest_owner,
    &hfi_takeup_owner,    &hfi_rerun_owner,       &loop_owner,
};

/* ---- creation ------------------------------------------------------------------- */

static hf_status
make_info(hf_kernel *kernel, const char *text, hf_error *reterr) {
    json_error_t where;
    kernel->info = json_loads(text != NULL ? text : "{}", 0, &where);
    if (!json_is_object(kernel->info))
        return hf_error_set(reterr, HF_E_INVALID,
                            "kernel_info is not a JSON object: %s", where.text);
    json_t *own = json_pack("{s:s,s:s}", "status", "ok", "protocol_version",
                            HFI_PROTOCOL_VERSION);
    if (json_object_get(kernel->info, "supported_features") == NULL)
        (void)json_object_set_new(own, "supported_features", json_array());
    int failed = own == NULL || json_object_update(kernel->info, own) != 0;
    json_decref(own);
    return failed ? hf_error_set(reterr, HF_E_NOMEM, "no memory") : HF_OK;
}

static hf_status
open_wire(hf_kernel *kernel, const hf_kernel_options *options, hf_error *reterr) {
    int chosen = 0;
    const char *path = options->connection_file;
    hf_status status = hfi_connection_read(path, &kernel->connection, reterr);
    if (status != HF_OK)
        return status;
    if (kernel->connection.exposed)
        hfi_log(
            "others could read %s; with the key in it they can run code in this kernel",
            path);
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++)
        chosen |= kernel->connection.port[i] == 0;
    status =
        hfi_publish_open(kernel, &kernel->connection, options->backlog_bytes, reterr);
    if (status == HF_OK && chosen)
        status = hfi_connection_write(&kernel->connection, reterr);
    return status;
}

/* Warn once: in the kernel's banner, and in the server's log. */
static hf_status
warn_of_listeners(hf_kernel *kernel, hf_error *reterr) {
    static const char words[] =
        "Output and code of this notebook can be read by other users of this machine: "
        "its connection is neither encrypted nor private.";
    const char *banner = json_string_value(json_object_get(kernel->info, "banner"));
    if (kernel->connection.ipc || kernel->connection.curve_public != NULL ||
        !hfi_neighbours_present())
        return HF_OK;
    hfi_log("%s", words);
    json_t *text = json_sprintf("%s\n%s", banner != NULL ? banner : "", words);
    if (text == NULL || json_object_set_new(kernel->info, "banner", text) != 0)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    return HF_OK;
}

static hf_status
open_store(hf_kernel *kernel, const hf_kernel_options *options, hf_error *reterr) {
    hf_session_options session = {0};
    session.struct_size = sizeof session;
    session.capacity_bytes = options->capacity_bytes;
    session.label = options->label;
    session.flags = HF_SESSION_OWNER_PUBLISHES;
    hf_status status = hfi_takeup_open(kernel, &session, reterr);
    if (status != HF_OK)
        return status;
    hfi_commits_hold(kernel, hf_session_generation(kernel->store));
    hfi_generations_init(kernel, options->history_bytes);
    if (hf_session_generation(kernel->store) > 0)
        hfi_generations_published(kernel, NULL);
    return HF_OK;
}

static void
watch_parent(hf_kernel *kernel) {
    const char *text = getenv("JPY_PARENT_PID");
    kernel->loop->parent = text != NULL ? atoi(text) : 0;
    if (kernel->loop->parent <= 1 ||
        (kill(kernel->loop->parent, 0) != 0 && errno == ESRCH))
        kernel->loop->parent = 0;
}

/* The run mode that a word names; NULL: none. */
static const char *
run_mode_of(const char *word) {
    return hfi_directive_run_mode(hfi_part_text(word != NULL ? word : "auto"));
}

static void
close_owners(hf_kernel *kernel) {
    for (size_t i = sizeof owners / sizeof *owners; i-- > 0;)
        hfi_owner_close(kernel, owners[i]);
}

/* Make a kernel with all its owners, which are empty yet. */
static hf_status
make_kernel(hf_kernel **ret_kernel, hf_error *reterr) {
    hf_status status = HF_OK;
    hf_kernel *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the kernel");
    kernel->listeners = listeners;
    for (size_t i = 0; i < sizeof owners / sizeof *owners && status == HF_OK; i++)
        status = hfi_owner_create(kernel, owners[i], reterr);
    if (status == HF_OK) {
        *ret_kernel = kernel;
        return HF_OK;
    }
    close_owners(kernel);
    free(kernel);
    return status;
}

static hf_status
open_pipe(hf_kernel *kernel, hf_error *reterr) {
    hf_status status = hfi_program_pipe(kernel->loop->wake, reterr);
    if (status == HF_OK)
        fcntl(kernel->loop->wake[1], F_SETFL, O_NONBLOCK);
    return status;
}

/* Open everything that a first cell needs. What can be made while its workers start
 * comes last. */
static hf_status
open_all(hf_kernel *kernel, const hf_kernel_options *options, hf_error *reterr) {
    kernel->run_mode = run_mode_of(options->run_mode);
    kernel->command_table = options->commands;
    watch_parent(kernel);
    hfi_children_adopt(); /* before there is a worker */
    hf_status status = open_pipe(kernel, reterr);
    if (status == HF_OK)
        status = hfi_workers_configure(kernel, options->worker_argv, reterr);
    if (status == HF_OK)
        status = hfi_escalate_configure(kernel, options->interrupt_seconds, reterr);
    if (status == HF_OK)
        status = make_info(kernel, options->kernel_info, reterr);
    if (status == HF_OK && options->commands != NULL)
        status = options->commands->create(hfi_workers_program(kernel),
                                           options->comment, &kernel->commands, reterr);
    if (status == HF_OK) /* first of all: clients try again only after 100 ms or more */
        status = open_wire(kernel, options, reterr);
    if (status == HF_OK)
        status = open_store(kernel, options, reterr);
    if (status == HF_OK) /* a first cell waits for it; the rest is made meanwhile */
        status = hfi_workers_start(kernel, 1, 0, reterr);
    if (status == HF_OK) {
        hfi_observe_init(kernel);
        hfi_quarantine_init(kernel);
        status = warn_of_listeners(kernel, reterr);
    }
    return status;
}

unsigned
hf_kernel_version(void) {
    return HF_VERSION_NUMBER;
}

hf_status
hf_kernel_create(const hf_kernel_options *options, hf_kernel **ret_kernel,
                 hf_error *reterr) {
    HFI_NEED(reterr, options, ret_kernel);
    hf_kernel_options chosen;
    hf_status status =
        HFI_STRUCT_READ(&chosen, options, hf_kernel_options, interrupt_seconds, reterr);
    if (status != HF_OK)
        return status;
    HFI_NEED(reterr, chosen.connection_file,
             chosen.worker_argv && chosen.worker_argv[0]);
    if (run_mode_of(chosen.run_mode) == NULL)
        return hf_error_set(reterr, HF_E_INVALID, "no run mode is called %s",
                            chosen.run_mode);
    hf_kernel *kernel = NULL;
    status = make_kernel(&kernel, reterr);
    if (status != HF_OK)
        return status;
    hfi_log_to(chosen.log, chosen.log_context);
    hfi_takeup_begin(kernel, chosen.connection_file);
    status = open_all(kernel, &chosen, reterr);
    if (status != HF_OK) {
        if (kernel->store != NULL)
            (void)hfi_takeup_leave(kernel, reterr);
        hf_kernel_close(kernel);
        return status;
    }
    if (hf_session_generation(kernel->store) > 0)
        hfi_commits_adopt(kernel, NULL, NULL);
    *ret_kernel = kernel;
    return HF_OK;
}

/* ---- the loop ------------------------------------------------------------------- */

static void
add_fd(struct pollfd *items, int *count, int fd, int writes) {
    if (fd < 0 || *count == ITEMS_MAX)
        return;
    items[(*count)++] =
        (struct pollfd){.fd = fd, .events = (short)(POLLIN | (writes ? POLLOUT : 0))};
}

/* Whether the worker isn't read now, because it is in a burst of text: see inbox.c. */
static int
is_calm(hfi_worker *worker, long long now_ns) {
    if (worker->calm_ns <= now_ns)
        worker->calm_ns = 0;
    return worker->calm_ns > 0;
}

static int
fill_items(hf_kernel *kernel, struct pollfd *items, long long now_ns) {
    int count = 0;
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++)
        add_fd(items, &count, hfi_channels_fd(hfi_publish_channels(kernel), i), 0);
    add_fd(items, &count, kernel->loop->wake[0], 0);
    add_fd(items, &count, hfi_trace_rescue_fd(kernel), 0); /* wakes hfi_death_tick */
    if (hfi_workers_server(kernel)->control != NULL)
        add_fd(items, &count, hfi_control_fd(hfi_workers_server(kernel)->control),
               hfi_control_is_full(hfi_workers_server(kernel)->control));
    if (hfi_subshell_channel(kernel) != NULL &&
        hfi_control_is_full(hfi_subshell_channel(kernel)))
        add_fd(items, &count, hfi_control_fd(hfi_subshell_channel(kernel)), 1);
    for (hfi_worker *at = hfi_workers_server(kernel)->workers; at != NULL;
         at = at->next) {
        if (is_calm(at, now_ns) || hfi_handover_holds(kernel, at))
            continue;
        if (hfi_worker_is_heard(at))
            add_fd(items, &count, hfi_control_fd(at->control),
                   hfi_control_is_full(at->control));
        add_fd(items, &count, at->output[0], 0);
        add_fd(items, &count, at->output[1], 0);
    }
    return count;
}

static int
is_ready(const struct pollfd *items, int count, int fd) {
    for (int i = HFI_CHANNEL_COUNT; i < count; i++)
        if (items[i].fd == fd && items[i].revents != 0)
            return 1;
    return 0;
}

/* Send what waits. A dead peer is noticed when its channel is read. */
static void
flush_control(hfi_control *control) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_control_flush(control, &error);
    if (status != HF_OK && status != HF_E_GONE)
        hfi_log("%s", error.message);
}

/* Read and write what is ready. Handling one worker may remove others from the list, so
 * we walk a list of what was ready when the turn began. */
static void
serve_workers(hf_kernel *kernel, const struct pollfd *items, int count) {
    if (hfi_workers_server(kernel)->control != NULL &&
        is_ready(items, count, hfi_control_fd(hfi_workers_server(kernel)->control))) {
        flush_control(hfi_workers_server(kernel)->control);
        hfi_inbox_read_fork_server(kernel);
    }
    for (hfi_worker *at = hfi_workers_server(kernel)->workers, *next; at != NULL;
         at = next) {
        int printed = is_ready(items, count, at->output[0]) ||
                      is_ready(items, count, at->output[1]);
        next = at->next;
        if (printed)
            at->texts = 0;
        if (at->control != NULL && is_ready(items, count, hfi_control_fd(at->control)))
            flush_control(at->control);
        else if (!printed)
            continue;
        hfi_inbox_read_polled(kernel, at, printed);
    }
}

static void
serve_wake(hf_kernel *kernel) {
    char what[64];
    ssize_t size = read(kernel->loop->wake[0], what, sizeof what);
    for (ssize_t i = 0; i < size; i++) {
        if (what[i] == 'i')
            hfi_execute_interrupt(kernel);
        else
            kernel->stopping = 1;
    }
}

/* Ask the sockets whose descriptor was readable, and those that we have used since: a
 * send or a receive may have noticed a message. Returns whether one waits. */
static int
look_at_clients(hf_kernel *kernel, const struct pollfd *items, long long now_ns) {
    int found = 0;
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++) {
        int woken = items != NULL && items[i].revents != 0;
        kernel->loop->has_come[i] |=
            hfi_channels_has_come(hfi_publish_channels(kernel), i, woken, now_ns);
        found |= kernel->loop->has_come[i];
    }
    return found;
}

static void
serve_clients(hf_kernel *kernel) {
    int has_come[HFI_CHANNEL_COUNT];
    memcpy(has_come, kernel->loop->has_come, sizeof has_come);
    memset(kernel->loop->has_come, 0, sizeof has_come);
    if (has_come[HFI_HEARTBEAT])
        hfi_channels_echo(hfi_publish_channels(kernel));
    if (has_come[HFI_IOPUB])
        hfi_publish_welcomes(kernel);
    if (has_come[HFI_CONTROL])
        hfi_execute_control(kernel);
    if (has_come[HFI_STDIN])
        hfi_dispatch_stdin(kernel);
    if (has_come[HFI_SHELL])
        hfi_dispatch_shell(kernel);
}

static void
start_next(hf_kernel *kernel, long long now_ns) {
    (void)now_ns;
    if (kernel->stopping)
        return;
    hfi_execute_next(kernel);
    hfi_subshell_next(kernel, hfi_execute_answer);
}

/* What is done at its time, in this order, and when it is due next. `deadline_ns` NULL:
 * it doesn't wake the loop. */
static const struct {
    long long (*deadline_ns)(const hf_kernel *kernel); /* -1: never */
    void (*tick)(hf_kernel *kernel, long long now_ns);
} clocks[] = {
    {NULL, hfi_restart_check_session},
    {hfi_escalate_deadline_ns, hfi_escalate_tick},
    {NULL, hfi_quarantine_tick},
    {hfi_death_deadline_ns, hfi_death_tick},
    {hfi_restart_deadline_ns, hfi_restart_tick},
    {hfi_progress_deadline_ns, hfi_progress_tick},
    {hfi_rollback_deadline_ns, hfi_rollback_tick},
    {NULL, start_next},
    {NULL, hfi_standby_tick},
    {hfi_assistant_deadline_ns, hfi_assistant_tick},
    {hfi_rest_moment_deadline_ns, hfi_rest_moment_tick},
    {hfi_rest_unused_deadline_ns, hfi_rest_unused_tick},
    {hfi_rest_deadline_ns, hfi_rest_tick},
};
#define CLOCK_COUNT (sizeof clocks / sizeof *clocks)

static int
wait_ms(const hf_kernel *kernel, long long now_ns) {
    long long first = hfi_channels_deadline_ns(hfi_publish_channels(kernel));
    for (size_t i = 0; i < CLOCK_COUNT; i++) {
        long long due = clocks[i].deadline_ns ? clocks[i].deadline_ns(kernel) : -1;
        if (due >= 0 && (first < 0 || due < first))
            first = due;
    }
    if (first < 0)
        return TURN_WAIT_MS;
    if (first <= now_ns)
        return 0;
    long long wait = (first - now_ns + 999999) / 1000000;
    return wait < TURN_WAIT_MS ? (int)wait : TURN_WAIT_MS;
}

static void
check_parent(hf_kernel *kernel, long long now_ns) {
    if (now_ns - kernel->loop->parent_ns < TURN_WAIT_MS * 500000LL)
        return;
    kernel->loop->parent_ns = now_ns;
    if (kernel->loop->parent != 0 && kill(kernel->loop->parent, 0) != 0 &&
        errno == ESRCH) {
        hfi_log("the process that started this kernel is gone");
        kernel->stopping = 1;
    }
}

hf_status
hf_kernel_run(hf_kernel *kernel, hf_error *reterr) {
    HFI_NEED(reterr, kernel);
    struct pollfd items[ITEMS_MAX];
    hfi_publish_starting(kernel);
    while (!kernel->stopping) {
        long long now_ns = hfi_clock_ns();
        int count = fill_items(kernel, items, now_ns);
        int waits_ms =
            look_at_clients(kernel, NULL, now_ns) ? 0 : wait_ms(kernel, now_ns);
        if (poll(items, (nfds_t)count, waits_ms) < 0) {
            if (errno == EINTR)
                continue;
            return hf_error_set_errno(reterr, errno, "poll");
        }
        (void)look_at_clients(kernel, items, now_ns);
        hfi_commits_watch(kernel);
        if (is_ready(items, count, kernel->loop->wake[0]))
            serve_wake(kernel);
        serve_clients(kernel);
        serve_workers(kernel, items, count);
        hfi_publish_missed(kernel);
        for (size_t i = 0; i < CLOCK_COUNT; i++)
            clocks[i].tick(kernel, hfi_clock_ns());
        hfi_takeup_note(kernel);
        check_parent(kernel, now_ns);
    }
    if (kernel->failure.status != HF_OK) {
        if (reterr != NULL)
            *reterr = kernel->failure;
        return kernel->failure.status;
    }
    return HF_OK;
}

static void
wake_loop(hf_kernel *kernel, char what) {
    int err = errno;
    ssize_t ignored = write(kernel->loop->wake[1], &what, 1);
    (void)ignored; /* a full pipe wakes the loop, too */
    errno = err;
}

void
hf_kernel_stop(hf_kernel *kernel) {
    if (!kernel)
        return;
    wake_loop(kernel, 's');
}

void
hf_kernel_interrupt(hf_kernel *kernel) {
    if (!kernel)
        return;
    wake_loop(kernel, 'i');
}

/* ---- the end -------------------------------------------------------------------- */

void
hf_kernel_close(hf_kernel *kernel) {
    if (kernel == NULL)
        return;
    hfi_takeup_renounce(kernel);
    hfi_workers_end(kernel);
    hfi_handles_drop(kernel);
    hfi_owner_close(kernel, &hfi_generations_owner); /* it has leases of the store */
    hfi_owner_close(kernel, &hfi_commits_owner);
    hfi_takeup_end(kernel);
    hfi_queue_fini(&kernel->queue);
    hfi_request_close(kernel->cell.request);
    hfi_cell_fini(&kernel->cell);
    if (kernel->commands != NULL)
        kernel->command_table->close(kernel->commands);
    close_owners(kernel);
    hfi_connection_fini(&kernel->connection);
    json_decref(kernel->info);
    free(kernel);
    hfi_children_end();
    hfi_log_to(NULL, NULL);
}
