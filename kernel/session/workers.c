/* workers.c - the processes of a session: fork server, main worker, standbys, cell
 * worker.
 *
 * The fork server is started by exec. All other processes are its forks. This file
 * starts them, sends frames to the main worker, and ends them. inbox.c reads their
 * frames; standby.c keeps those that wait for a cell; death.c removes dead ones. The
 * fork server's list (worker.c) has all processes that may still run. `main` and `cell`
 * here, and the standbys, are the session's names for some of them.
 *
 * A worker that isn't ready has a deadline, counted from its fork. Before its fork it
 * waits for the fork server, which may be importing something large: four times as
 * long.
 *
 * At the end the main worker is asked to exit, so that the notebook's exit handlers
 * run, and gets four seconds. The others have nothing to lose and are killed.
 * One thread.
 */
#include "session/workers.h"

#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "session/publish.h"
#include "session/timelimit.h"
#include "workers/program.h"

/* Enough for the main worker to store the last cell and its history; clients wait for
 * five seconds. */
#define EXIT_WAIT_NS 4000000000LL

#define READY_SECONDS   30
#define UNFORKED_FACTOR 4

struct hfi_workers {
    hfi_fork_server server; /* has the list of all workers that may still run */
    hfi_worker *main;       /* NULL: none */
    hfi_worker *cell;       /* of the cell that runs; NULL: none */
    char **argv;            /* the fork server's command */
};

static void
free_argv(char **argv) {
    for (char **at = argv; at != NULL && *at != NULL; at++)
        free(*at);
    free(argv);
}

static void
fini_workers(hf_kernel *kernel) {
    free_argv(kernel->workers->argv);
}

const hfi_owner hfi_workers_owner = {offsetof(hf_kernel, workers),
                                     sizeof(struct hfi_workers), NULL, fini_workers};

/* ---- starting ------------------------------------------------------------------- */

hfi_worker *
hfi_workers_at_work(const hf_kernel *kernel) {
    if (hfi_cell_is_in_main(&kernel->cell))
        return kernel->workers->main;
    return hfi_cell_is_in_worker(&kernel->cell) ? kernel->workers->cell : NULL;
}

static char **
copy_argv(const char *const *argv) {
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++)
        if ((copy[i] = strdup(argv[i])) == NULL) {
            free_argv(copy);
            return NULL;
        }
    return copy;
}

hf_status
hfi_workers_configure(hf_kernel *kernel, const char *const *argv, hf_error *reterr) {
    kernel->workers->argv = copy_argv(argv);
    return kernel->workers->argv != NULL
               ? HF_OK
               : hf_error_set(reterr, HF_E_NOMEM, "no memory");
}

hfi_part
hfi_workers_parent(const hf_kernel *kernel, const hfi_worker *worker) {
    if (worker == hfi_workers_at_work(kernel))
        return kernel->cell.request->message.header;
    return hfi_publish_last_parent(kernel);
}

static void
publish_text(void *context, int name, hfi_part parent, hfi_part text) {
    hfi_publish_stream(context, name, parent, text);
}

long long
hfi_workers_ready_ns(void) {
    return hfi_limit_positive_ns("HOLDFAST_READY_SECONDS", READY_SECONDS);
}

static void
listen_to(hf_kernel *kernel, hfi_worker *worker) {
    worker->stream.publish = publish_text;
    worker->stream.context = kernel;
    if (kernel->command_table != NULL && kernel->command_table->filter != NULL)
        worker->stream.filter = kernel->command_table->filter(kernel->commands);
}

static hf_status
start_server(hf_kernel *kernel, hf_error *reterr) {
    if (kernel->workers->server.control != NULL)
        return HF_OK;
    hf_status status = hfi_fork_server_start(&kernel->workers->server,
                                             (const char *const *)kernel->workers->argv,
                                             hf_session_fd(kernel->store), reterr);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_SERVER_STARTED});
    return status;
}

static hf_status
fork_worker(hf_kernel *kernel, hfi_role role, int is_bare, hfi_worker **ret_worker,
            hf_error *reterr) {
    hf_status status = start_server(kernel, reterr);
    if (status == HF_OK)
        status = hfi_worker_fork(&kernel->workers->server, role, is_bare, ret_worker,
                                 reterr);
    if (status == HF_OK) {
        listen_to(kernel, *ret_worker);
        (*ret_worker)->deadline_ns =
            hfi_clock_ns() + UNFORKED_FACTOR * hfi_workers_ready_ns();
    }
    return status;
}

hf_status
hfi_workers_fork(hf_kernel *kernel, hfi_role role, hfi_worker **ret_worker,
                 hf_error *reterr) {
    return fork_worker(kernel, role, 0, ret_worker, reterr);
}

hf_status
hfi_workers_split(hf_kernel *kernel, hfi_role role, long long id, hfi_worker **ret_fork,
                  hf_error *reterr) {
    hf_status status = hfi_worker_split(&kernel->workers->server, kernel->workers->main,
                                        role, id, ret_fork, reterr);
    if (status == HF_OK)
        listen_to(kernel, *ret_fork);
    return status;
}

void
hfi_workers_drain(hf_kernel *kernel, hfi_worker *worker) {
    hfi_worker_drain(worker, hfi_workers_parent(kernel, worker), hfi_clock_ns());
}

void
hfi_workers_forked(hfi_worker *worker, pid_t pid) {
    hfi_worker_note_forked(worker, pid);
    if (worker->owned && hfi_worker_is_starting(worker))
        worker->deadline_ns = hfi_clock_ns() + hfi_workers_ready_ns();
    else if (worker->deadline_ns == 0)
        worker->deadline_ns = hfi_clock_ns() + HFI_DEATH_WAIT_NS;
}

hf_status
hfi_workers_start(hf_kernel *kernel, int with_main, int is_bare, hf_error *reterr) {
    hf_status status = start_server(kernel, reterr);
    if (status == HF_OK && with_main && kernel->workers->main == NULL) {
        status = fork_worker(kernel, HFI_MAIN, is_bare, &kernel->workers->main, reterr);
        if (status == HF_OK) {
            hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_MAIN_MADE});
        }
    }
    if (status == HF_E_GONE) /* it was dead before it could be asked */
        status = hf_error_set(reterr, status, "%s ended before it was ready",
                              kernel->workers->argv[0]);
    return status; /* standbys are forked when the main worker is ready */
}

void
hfi_workers_end(hf_kernel *kernel) {
    const struct timespec pause = {0, 2000000};
    long long deadline = hfi_clock_ns() + EXIT_WAIT_NS;
    if (kernel->workers->main != NULL && hfi_workers_at_work(kernel) == NULL &&
        !hfi_cell_waits_for_commit(&kernel->cell)) {
        hfi_workers_send_main(kernel, HFI_FRAME_BARE(to_main_exit));
        while (hfi_worker_is_heard(kernel->workers->main) &&
               hfi_clock_ns() < deadline &&
               hfi_control_fill(kernel->workers->main->control, NULL) == HF_OK)
            nanosleep(&pause, NULL);
    }
    kernel->workers->main = kernel->workers->cell = NULL;
    for (hfi_worker *at = kernel->workers->server.workers; at != NULL; at = at->next)
        hfi_worker_kill(at, SIGKILL);
    hfi_fork_server_end(&kernel->workers->server, 1000);
}

/* ---- the main worker ------------------------------------------------------------- */

void
hfi_workers_send_main(hf_kernel *kernel, const hfi_frame *frame) {
    hf_error error = HF_ERROR_INIT;
    hfi_worker *main = kernel->workers->main;
    if (main == NULL || main->control == NULL ||
        hfi_control_send_consume(main->control, frame, &error) == HF_OK)
        return;
    hfi_log("main worker: %s", error.message);
    hfi_control_end(main->control);
}

void
hfi_workers_directory(const hf_kernel *kernel, char *ret_path, size_t size) {
#ifdef __linux__
    char link[64];
    if (kernel->workers->main != NULL && kernel->workers->main->pid > 0) {
        snprintf(link, sizeof link, "/proc/%ld/cwd", (long)kernel->workers->main->pid);
        ssize_t length = readlink(link, ret_path, size - 1);
        if (length > 0) {
            ret_path[length] = '\0';
            return;
        }
    }
#else
    (void)kernel;
#endif
    if (getcwd(ret_path, size) == NULL)
        snprintf(ret_path, size, "/");
}

/* ---- which is which ------------------------------------------------------------- */

hfi_fork_server *
hfi_workers_server(const hf_kernel *kernel) {
    return &kernel->workers->server;
}

hfi_worker *
hfi_workers_main(const hf_kernel *kernel) {
    return kernel->workers->main;
}

void
hfi_workers_set_main(hf_kernel *kernel, hfi_worker *worker) {
    kernel->workers->main = worker;
}

hfi_worker *
hfi_workers_cell(const hf_kernel *kernel) {
    return kernel->workers->cell;
}

void
hfi_workers_set_cell(hf_kernel *kernel, hfi_worker *worker) {
    kernel->workers->cell = worker;
}

const char *
hfi_workers_program(const hf_kernel *kernel) {
    return kernel->workers->argv[0];
}
