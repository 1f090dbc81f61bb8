/* kernel.c - making a kernel, its one loop, and its end.
 *
 * One thread, one zmq_poll over the five sockets, the self-pipe, the template's and
 * each worker's channel and pipes. Nothing that the loop calls waits for anybody, so
 * the control channel and the heartbeat answer while a cell runs, whatever the cell
 * does. The price is that the loop's list is built anew for each turn: a dozen entries.
 *
 * A turn: read what is there; let time pass (streams, deaths, idle commit, rest); start
 * the next request. Signals reach it through the self-pipe, since hf_kernel_stop may be
 * called from a handler.
 *
 * Threads of its own (one a channel) were rejected: every answer depends on the state
 * of the one queue, so they would only wait for each other.
 */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "session/neighbours.h"
#include "workers/program.h"

#define ITEMS_MAX    256
#define TURN_WAIT_MS 1000 /* to see whether our parent lives */

/* Who hears of what happens, in this order. */
static hfi_listener *const listeners[] = {
    hfi_inbox_hear,    hfi_dispatch_hear, hfi_rest_hear,     hfi_subshell_hear,
    hfi_observe_hear,  hfi_trace_hear,    hfi_summary_hear,  hfi_runs_hear,
    hfi_rollback_hear, hfi_timeline_hear, hfi_progress_hear, NULL};

/* ---- creation ------------------------------------------------------------------- */

static hf_status
make_name(char ret_name[33], hf_error *reterr) {
    unsigned char bytes[16];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    int err = errno;
    if (fd >= 0)
        close(fd);
    if (size != (ssize_t)sizeof bytes)
        return hf_error_set_errno(reterr, err, "/dev/urandom");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret_name + 2 * i, 3, "%02x", bytes[i]);
    return HF_OK;
}

static char **
copy_argv(const char *const *argv) {
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++)
        copy[i] = strdup(argv[i]);
    return copy;
}

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
    kernel->modules = json_object();
    kernel->cell_comms = json_object();
    kernel->declined = json_object();
    if (failed || kernel->modules == NULL || kernel->cell_comms == NULL ||
        kernel->declined == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    return HF_OK;
}

static hf_status
open_wire(hf_kernel *kernel, const hf_kernel_options *options, hf_error *reterr) {
    int chosen = 0;
    const char *path = options->connection_file;
    hf_status status = hfi_connection_read(path, &kernel->connection, reterr);
    if (status != HF_OK)
        return status;
    if (kernel->connection.exposed)
        hfi_log("others could read %s, and with the key in it run code in this kernel",
                path);
    for (int i = 0; i < HFI_CHANNEL_COUNT; i++)
        chosen |= kernel->connection.port[i] == 0;
    status = hfi_signer_create(hfi_part_text(kernel->connection.key), &kernel->signer,
                               reterr);
    if (status == HF_OK) /* the kernel's own messages are known by their session */
        hfi_signer_mark(kernel->signer, kernel->name);
    if (status == HF_OK)
        status = hfi_channels_create(&kernel->connection, options->backlog_bytes,
                                     &kernel->channels, reterr);
    if (status == HF_OK && chosen)
        status = hfi_connection_write(&kernel->connection, reterr);
    return status;
}

/* Once, where people see it who ask what this kernel is, and in the server's log. */
static hf_status
tell_who_listens(hf_kernel *kernel, hf_error *reterr) {
    static const char words[] =
        "Output and code of this notebook can be read by other users of this machine: "
        "its connection is neither encrypted nor private.";
    const char *banner = json_string_value(json_object_get(kernel->info, "banner"));
    if (kernel->connection.ipc || kernel->connection.curve_public != NULL ||
        !hfi_neighbours_present())
        return HF_OK;
    hfi_log("%s", words);
    json_t *told = json_sprintf("%s\n%s", banner != NULL ? banner : "", words);
    if (told == NULL || json_object_set_new(kernel->info, "banner", told) != 0)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    return HF_OK;
}

static hf_status
open_store(hf_kernel *kernel, const hf_kernel_options *options, hf_error *reterr) {
    hf_session_options session = {0};
    session.struct_size = sizeof session;
    session.capacity_bytes = options->capacity_bytes;
    session.label = options->label;
    hf_status status = hfi_takeup_open(kernel, &session, reterr);
    if (status != HF_OK)
        return status;
    hfi_timeline_init(kernel, options->history_bytes);
    if (hf_session_generation(kernel->store) > 0)
        hfi_timeline_published(kernel, 0);
    return HF_OK;
}

static void
watch_parent(hf_kernel *kernel) {
    const char *text = getenv("JPY_PARENT_PID");
    kernel->parent = text != NULL ? atoi(text) : 0;
    if (kernel->parent <= 1 || (kill(kernel->parent, 0) != 0 && errno == ESRCH))
        kernel->parent = 0;
}

/* NULL for a word that is none. */
static const char *
road_of(const char *word) {
    static const char *const roads[] = {"auto",     "in-process", "forked",
                                        "isolated", "map",        "home"};
    for (size_t i = 0; i < sizeof roads / sizeof *roads; i++)
        if (word == NULL || strcmp(word, roads[i]) == 0)
            return roads[i];
    return NULL;
}

hf_status
hf_kernel_create(const hf_kernel_options *options, hf_kernel **ret_kernel,
                 hf_error *reterr) {
    if (options->struct_size != sizeof *options || options->connection_file == NULL ||
        options->worker_argv == NULL || options->worker_argv[0] == NULL ||
        road_of(options->road) == NULL)
        return hf_error_set(reterr, HF_E_INVALID,
                            "the kernel's options are incomplete");
    hf_kernel *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the kernel");
    kernel->wake[0] = kernel->wake[1] = -1;
    kernel->listeners = listeners;
    hfi_takeup_begin(kernel, options->connection_file);
    kernel->road = road_of(options->road);
    kernel->argv = copy_argv(options->worker_argv);
    hf_status status = kernel->argv != NULL
                           ? hfi_program_pipe(kernel->wake, reterr)
                           : hf_error_set(reterr, HF_E_NOMEM, "no memory");
    if (status == HF_OK) {
        fcntl(kernel->wake[1], F_SETFL, O_NONBLOCK);
        watch_parent(kernel);
        status = make_name(kernel->name, reterr);
    }
    if (status == HF_OK)
        status = hfi_escalate_configure(kernel, options->interrupt_seconds, reterr);
    if (status == HF_OK)
        status = make_info(kernel, options->kernel_info, reterr);
    if (status == HF_OK) /* before anything: clients try again after 100 ms or more */
        status = open_wire(kernel, options, reterr);
    if (status == HF_OK)
        status = open_store(kernel, options, reterr);
    if (status == HF_OK) /* a first cell waits for it; all else is made meanwhile */
        status = hfi_crew_start(kernel, 0, reterr);
    if (status == HF_OK)
        status = hfi_commands_create(kernel->argv[0], &kernel->commands, reterr);
    if (status == HF_OK) {
        hfi_observe_init(kernel);
        hfi_quarantine_init(kernel);
    }
    if (status == HF_OK)
        status = tell_who_listens(kernel, reterr);
    if (status != HF_OK) {
        if (kernel->store != NULL)
            (void)hfi_takeup_leave(kernel, reterr);
        hf_kernel_close(kernel);
        return status;
    }
    if (hf_session_generation(kernel->store) > 0)
        hfi_crew_adopt(kernel, NULL, NULL);
    *ret_kernel = kernel;
    return HF_OK;
}

/* ---- the loop ------------------------------------------------------------------- */

static void
add_fd(zmq_pollitem_t *items, int *count, int fd, int writes) {
    if (fd < 0 || *count == ITEMS_MAX)
        return;
    items[*count].socket = NULL;
    items[*count].fd = fd;
    items[*count].events = (short)(ZMQ_POLLIN | (writes ? ZMQ_POLLOUT : 0));
    items[(*count)++].revents = 0;
}

/* In a burst of text: see inbox.c. */
static int
is_calm(hfi_worker *worker, long long now_ns) {
    if (worker->calm_ns <= now_ns)
        worker->calm_ns = 0;
    return worker->calm_ns > 0;
}

static int
fill_items(hf_kernel *kernel, zmq_pollitem_t *items, long long now_ns) {
    int count = 0;
    for (; count < HFI_CHANNEL_COUNT; count++) {
        items[count].socket = hfi_channels_socket(kernel->channels, count);
        items[count].fd = 0;
        items[count].events = ZMQ_POLLIN;
        items[count].revents = 0;
    }
    add_fd(items, &count, kernel->wake[0], 0);
    if (kernel->template.control != NULL)
        add_fd(items, &count, hfi_control_fd(kernel->template.control),
               hfi_control_is_full(kernel->template.control));
    if (kernel->aside != NULL && hfi_control_is_full(kernel->aside))
        add_fd(items, &count, hfi_control_fd(kernel->aside), 1);
    for (hfi_worker *at = kernel->template.workers; at != NULL; at = at->next) {
        if (is_calm(at, now_ns) || hfi_handover_holds(kernel, at))
            continue;
        if (at->control != NULL && !at->silent)
            add_fd(items, &count, hfi_control_fd(at->control),
                   hfi_control_is_full(at->control));
        add_fd(items, &count, at->output[0], 0);
        add_fd(items, &count, at->output[1], 0);
    }
    return count;
}

static int
is_ready(const zmq_pollitem_t *items, int count, int fd) {
    for (int i = HFI_CHANNEL_COUNT; i < count; i++)
        if (items[i].fd == fd && items[i].revents != 0)
            return 1;
    return 0;
}

/* A dead peer is noticed when its channel is read. */
static void
flush_control(hfi_control *control) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = hfi_control_flush(control, &error);
    if (status != HF_OK && status != HF_E_GONE)
        hfi_log("%s", error.message);
}

/* Read and write what can be. Handling one worker may remove others from the list, so
 * it is walked by what was ready when the turn began. */
static void
serve_crew(hf_kernel *kernel, const zmq_pollitem_t *items, int count) {
    if (kernel->template.control != NULL &&
        is_ready(items, count, hfi_control_fd(kernel->template.control))) {
        flush_control(kernel->template.control);
        hfi_inbox_read_template(kernel);
    }
    for (hfi_worker *at = kernel->template.workers, *next; at != NULL; at = next) {
        int printed = is_ready(items, count, at->output[0]) ||
                      is_ready(items, count, at->output[1]);
        next = at->next;
        if (printed)
            at->texts = 0;
        if (at->control != NULL && is_ready(items, count, hfi_control_fd(at->control)))
            flush_control(at->control);
        else if (!printed)
            continue;
        hfi_inbox_read(kernel, at);
    }
}

static void
serve_wake(hf_kernel *kernel) {
    char what[64];
    ssize_t size = read(kernel->wake[0], what, sizeof what);
    for (ssize_t i = 0; i < size; i++) {
        if (what[i] == 'i')
            hfi_execute_interrupt(kernel);
        else
            kernel->stopping = 1;
    }
}

static void
serve_clients(hf_kernel *kernel, const zmq_pollitem_t *items) {
    if (items[HFI_HEARTBEAT].revents != 0)
        hfi_channels_echo(kernel->channels);
    if (items[HFI_IOPUB].revents != 0)
        hfi_publish_welcomes(kernel);
    if (items[HFI_CONTROL].revents != 0)
        hfi_execute_control(kernel);
    if (items[HFI_STDIN].revents != 0)
        hfi_dispatch_stdin(kernel);
    if (items[HFI_SHELL].revents != 0)
        hfi_dispatch_shell(kernel);
}

static long
wait_ms(const hf_kernel *kernel, long long now_ns) {
    long long crew = hfi_crew_deadline_ns(kernel);
    long long idle = hfi_rest_commit_deadline_ns(kernel);
    long long rest = hfi_rest_deadline_ns(kernel);
    long long escalation = hfi_escalate_deadline_ns(kernel);
    long long first = crew >= 0 && (idle < 0 || crew < idle) ? crew : idle;
    long long question = hfi_assistant_deadline_ns(kernel);
    long long progress = hfi_progress_deadline_ns(kernel);
    long long restart = hfi_restart_deadline_ns(kernel);
    first = rest >= 0 && (first < 0 || rest < first) ? rest : first;
    first = question >= 0 && (first < 0 || question < first) ? question : first;
    first = escalation >= 0 && (first < 0 || escalation < first) ? escalation : first;
    first = restart >= 0 && (first < 0 || restart < first) ? restart : first;
    first = progress >= 0 && (first < 0 || progress < first) ? progress : first;
    if (first < 0)
        return TURN_WAIT_MS;
    if (first <= now_ns)
        return 0;
    long long wait = (first - now_ns + 999999) / 1000000;
    return wait < TURN_WAIT_MS ? (long)wait : TURN_WAIT_MS;
}

static void
check_parent(hf_kernel *kernel) {
    if (kernel->parent != 0 && kill(kernel->parent, 0) != 0 && errno == ESRCH) {
        hfi_log("the process that started this kernel is gone");
        kernel->stopping = 1;
    }
}

hf_status
hf_kernel_run(hf_kernel *kernel, hf_error *reterr) {
    zmq_pollitem_t items[ITEMS_MAX];
    hfi_publish_status(kernel, hfi_part_text("{}"), "starting");
    while (!kernel->stopping) {
        long long now_ns = hfi_clock_ns();
        int count = fill_items(kernel, items, now_ns);
        if (zmq_poll(items, count, wait_ms(kernel, now_ns)) < 0) {
            if (errno == EINTR)
                continue;
            return hf_error_set(reterr, HF_E_SYSTEM, "zmq_poll: %s",
                                zmq_strerror(errno));
        }
        if (is_ready(items, count, kernel->wake[0]))
            serve_wake(kernel);
        serve_clients(kernel, items);
        serve_crew(kernel, items, count);
        hfi_publish_missed(kernel);
        hfi_escalate_tick(kernel, hfi_clock_ns());
        hfi_quarantine_tick(kernel, hfi_clock_ns());
        hfi_death_tick(kernel, hfi_clock_ns());
        hfi_restart_tick(kernel, hfi_clock_ns());
        hfi_progress_tick(kernel, hfi_clock_ns());
        if (!kernel->stopping) {
            hfi_execute_next(kernel);
            hfi_subshell_next(kernel, hfi_execute_answer);
        }
        hfi_standby_tick(kernel, hfi_clock_ns());
        hfi_assistant_tick(kernel, hfi_clock_ns());
        hfi_rest_commit(kernel, hfi_clock_ns());
        hfi_rest(kernel, hfi_clock_ns());
        hfi_takeup_note(kernel);
        check_parent(kernel);
    }
    if (kernel->failure.status != HF_OK) {
        if (reterr != NULL)
            *reterr = kernel->failure;
        return kernel->failure.status;
    }
    return HF_OK;
}

static void
wake(hf_kernel *kernel, char what) {
    int err = errno;
    ssize_t ignored = write(kernel->wake[1], &what, 1);
    (void)ignored; /* a full pipe wakes too */
    errno = err;
}

void
hf_kernel_stop(hf_kernel *kernel) {
    wake(kernel, 's');
}

void
hf_kernel_interrupt(hf_kernel *kernel) {
    wake(kernel, 'i');
}

/* ---- the end -------------------------------------------------------------------- */

void
hf_kernel_close(hf_kernel *kernel) {
    if (kernel == NULL)
        return;
    hfi_takeup_renounce(kernel);
    hfi_crew_end(kernel);
    hfi_handles_drop(kernel);
    if (kernel->store != NULL) {
        hfi_timeline_fini(kernel);
        if (!kernel->bequeathed && hf_session_destroy(kernel->store, NULL) != HF_OK)
            hfi_log("the session could not be removed");
        hf_session_close(kernel->store);
    }
    hfi_reaper_end(&kernel->reaper, kernel->bequeathed);
    hfi_textbuf_fini(&kernel->notice);
    hfi_observe_fini(kernel);
    hfi_channels_close(kernel->channels);
    hfi_signer_close(kernel->signer);
    hfi_connection_fini(&kernel->connection);
    hfi_commands_close(kernel->commands);
    hfi_subshell_fini(kernel);
    hfi_queue_fini(&kernel->queue);
    hfi_queue_fini(&kernel->assisted);
    hfi_queue_fini(&kernel->forwarded);
    hfi_request_close(kernel->cell.request);
    hfi_verdict_fini(&kernel->cell.verdict);
    hfi_textbuf_fini(&kernel->cell.road_reason);
    hfi_trace_forget(kernel);
    hfi_textbuf_fini(&kernel->last_parent);
    json_decref(kernel->info);
    json_decref(kernel->modules);
    json_decref(kernel->runs);
    json_decref(kernel->cell_comms);
    json_decref(kernel->declined);
    for (size_t i = 0; kernel->argv != NULL && kernel->argv[i] != NULL; i++)
        free(kernel->argv[i]);
    free(kernel->argv);
    for (int i = 0; i < 2; i++)
        if (kernel->wake[i] >= 0)
            close(kernel->wake[i]);
    free(kernel);
}
