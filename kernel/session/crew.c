/* crew.c - the processes of a session: template, home, standbys, cell.
 *
 * The template is started by exec, and everybody else is its fork. This file starts
 * them, tells the home what it must know, lets time pass for all of them, and ends
 * them. What they say is read in inbox.c; standby.c keeps those that wait for a cell;
 * death.c buries. The list of all processes that may still run is the template's
 * (worker.c); home, cell and standbys are the session's names for some of them.
 *
 * A worker that is not ready has a deadline from its fork on. Before that it waits for
 * the template, which may be importing something large: four times as long.
 *
 * At the end the home is asked to leave, so that exit handlers of the notebook run, and
 * given four seconds; the others have nothing to lose and are killed. One thread.
 */
#include "session/crew.h"

#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "session/publish.h"
#include "workers/program.h"

/* For the home to store the last cell and its history; clients wait five seconds. */
#define EXIT_WAIT_NS 4000000000LL

#define READY_SECONDS   30
#define UNFORKED_FACTOR 4

struct hfi_crew {
    hfi_template server; /* and all workers that may still run */
    hfi_worker *main;    /* NULL: none */
    hfi_worker *cell;    /* of the cell that runs; NULL: none */
    char **argv;         /* the program of the fork server */
    hfi_cellnames names; /* of the cells that ran */
};

static void
fini(hf_kernel *kernel) {
    for (char **at = kernel->crew->argv; at != NULL && *at != NULL; at++)
        free(*at);
    free(kernel->crew->argv);
}

const hfi_owner hfi_crew_owner = {offsetof(hf_kernel, crew), sizeof(struct hfi_crew),
                                  NULL, fini};

/* ---- starting ------------------------------------------------------------------- */

hfi_worker *
hfi_crew_at_work(const hf_kernel *kernel) {
    if (hfi_cell_is_in_main(&kernel->cell))
        return kernel->crew->main;
    return hfi_cell_is_in_worker(&kernel->cell) ? kernel->crew->cell : NULL;
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

hf_status
hfi_crew_configure(hf_kernel *kernel, const char *const *argv, hf_error *reterr) {
    kernel->crew->argv = copy_argv(argv);
    return kernel->crew->argv != NULL ? HF_OK
                                      : hf_error_set(reterr, HF_E_NOMEM, "no memory");
}

hfi_part
hfi_crew_parent(const hf_kernel *kernel, const hfi_worker *worker) {
    if (worker == hfi_crew_at_work(kernel))
        return kernel->cell.request->message.header;
    return hfi_publish_last_parent(kernel);
}

static void
publish_text(void *context, int name, hfi_part parent, hfi_part text) {
    hfi_publish_stream(context, name, parent, text);
}

long long
hfi_crew_ready_ns(void) {
    const char *text = getenv("HOLDFAST_READY_SECONDS");
    long seconds = text != NULL ? strtol(text, NULL, 10) : 0;
    return (seconds > 0 && seconds <= 3600 ? seconds : READY_SECONDS) * 1000000000LL;
}

static void
listen_to(hf_kernel *kernel, hfi_worker *worker) {
    worker->stream.publish = publish_text;
    worker->stream.context = kernel;
    worker->stream.dump.names = &kernel->crew->names;
}

static hf_status
fork_worker(hf_kernel *kernel, hfi_role role, int is_bare, hfi_worker **ret_worker,
            hf_error *reterr) {
    hf_status status =
        hfi_worker_fork(&kernel->crew->server, role, is_bare, ret_worker, reterr);
    if (status == HF_OK) {
        listen_to(kernel, *ret_worker);
        (*ret_worker)->deadline_ns =
            hfi_clock_ns() + UNFORKED_FACTOR * hfi_crew_ready_ns();
    }
    return status;
}

hf_status
hfi_crew_fork(hf_kernel *kernel, hfi_role role, hfi_worker **ret_worker,
              hf_error *reterr) {
    return fork_worker(kernel, role, 0, ret_worker, reterr);
}

hf_status
hfi_crew_split(hf_kernel *kernel, hfi_role role, long long id, hfi_worker **ret_fork,
               hf_error *reterr) {
    hf_status status = hfi_worker_split(&kernel->crew->server, kernel->crew->main, role,
                                        id, ret_fork, reterr);
    if (status == HF_OK)
        listen_to(kernel, *ret_fork);
    return status;
}

void
hfi_crew_drain(hf_kernel *kernel, hfi_worker *worker) {
    hfi_worker_drain(worker, hfi_crew_parent(kernel, worker), hfi_clock_ns());
}

void
hfi_crew_forked(hfi_worker *worker, pid_t pid) {
    worker->pid = pid;
    if (worker->owned && !worker->ready && !worker->silent)
        worker->deadline_ns = hfi_clock_ns() + hfi_crew_ready_ns();
    else if (worker->deadline_ns == 0)
        worker->deadline_ns = hfi_clock_ns() + HFI_DEATH_WAIT_NS;
}

hf_status
hfi_crew_start(hf_kernel *kernel, int is_bare, hf_error *reterr) {
    hf_status status = HF_OK;
    if (kernel->crew->server.control == NULL) {
        status = hfi_template_start(&kernel->crew->server,
                                    (const char *const *)kernel->crew->argv,
                                    hf_session_fd(kernel->store), reterr);
        hfi_tell(kernel, &(hfi_event){.kind = HFI_EVENT_SERVER_STARTED});
    }
    if (status == HF_OK && kernel->crew->main == NULL) {
        status = fork_worker(kernel, HFI_HOME, is_bare, &kernel->crew->main, reterr);
        if (status == HF_OK) {
            hfi_tell(kernel, &(hfi_event){.kind = HFI_EVENT_MAIN_MADE});
        }
    }
    if (status == HF_E_GONE) /* it didn't live until it was asked */
        status = hf_error_set(reterr, status, "%s ended before it was ready",
                              kernel->crew->argv[0]);
    return status; /* standbys are forked when the home is ready */
}

void
hfi_crew_end(hf_kernel *kernel) {
    const struct timespec pause = {0, 2000000};
    long long deadline = hfi_clock_ns() + EXIT_WAIT_NS;
    hfi_frame frame;
    if (kernel->crew->main != NULL && hfi_crew_at_work(kernel) == NULL &&
        !hfi_cell_waits_for_commit(&kernel->cell)) {
        hfi_frame_init(&frame, "exit", 0);
        hfi_crew_tell_main(kernel, &frame);
        while (!kernel->crew->main->silent && hfi_clock_ns() < deadline &&
               hfi_control_fill(kernel->crew->main->control, NULL) == HF_OK)
            nanosleep(&pause, NULL);
    }
    kernel->crew->main = kernel->crew->cell = NULL;
    for (hfi_worker *at = kernel->crew->server.workers; at != NULL; at = at->next)
        hfi_worker_kill(at, SIGKILL);
    hfi_template_end(&kernel->crew->server, 1000);
}

/* ---- the home ------------------------------------------------------------------- */

void
hfi_crew_tell_main(hf_kernel *kernel, hfi_frame *frame) {
    hf_error error = HF_ERROR_INIT;
    if (kernel->crew->main == NULL || kernel->crew->main->control == NULL)
        hfi_frame_fini(frame);
    else if (hfi_control_send_consume(kernel->crew->main->control, frame, NULL, 0,
                                      &error) != HF_OK)
        hfi_log("home: %s", error.message);
}

void
hfi_crew_adopt(hf_kernel *kernel, const hfi_cell *cell, const msgpack_object *report) {
    hfi_frame frame;
    json_t *code =
        cell != NULL ? json_object_get(cell->request->message.body, "code") : NULL;
    hfi_frame_init(&frame, "adopt", report != NULL ? 5 : 4);
    hfi_frame_add_integer(&frame, "generation",
                          (int64_t)hf_session_generation(kernel->store));
    hfi_frame_add_integer(&frame, "execution_count",
                          cell != NULL ? cell->number : kernel->count);
    hfi_frame_add_text(
        &frame, "code",
        code != NULL ? hfi_part_of(json_string_value(code), json_string_length(code))
                     : hfi_part_text(""));
    hfi_frame_add_flag(&frame, "store_history", cell != NULL && cell->store_history);
    if (report != NULL)
        hfi_frame_put_object(&frame, "report", report);
    hfi_crew_tell_main(kernel, &frame);
}

void
hfi_crew_directory(const hf_kernel *kernel, char *ret_path, size_t size) {
#ifdef __linux__
    char link[64];
    if (kernel->crew->main != NULL && kernel->crew->main->pid > 0) {
        snprintf(link, sizeof link, "/proc/%ld/cwd", (long)kernel->crew->main->pid);
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

/* ---- time ----------------------------------------------------------------------- */

long long
hfi_crew_deadline_ns(const hf_kernel *kernel) {
    long long first = -1;
    for (const hfi_worker *at = kernel->crew->server.workers; at != NULL;
         at = at->next) {
        long long due = hfi_stream_deadline_ns(&at->stream);
        if (due >= 0 && (first < 0 || due < first))
            first = due;
        if (at->deadline_ns > 0 && (first < 0 || at->deadline_ns < first))
            first = at->deadline_ns;
        if (at->calm_ns > 0 && (first < 0 || at->calm_ns < first))
            first = at->calm_ns;
    }
    return first;
}

/* ---- who is who ----------------------------------------------------------------- */

hfi_template *
hfi_crew_server(const hf_kernel *kernel) {
    return &kernel->crew->server;
}

hfi_worker *
hfi_crew_main(const hf_kernel *kernel) {
    return kernel->crew->main;
}

void
hfi_crew_set_main(hf_kernel *kernel, hfi_worker *worker) {
    kernel->crew->main = worker;
}

hfi_worker *
hfi_crew_cell(const hf_kernel *kernel) {
    return kernel->crew->cell;
}

void
hfi_crew_set_cell(hf_kernel *kernel, hfi_worker *worker) {
    kernel->crew->cell = worker;
}

const char *
hfi_crew_program(const hf_kernel *kernel) {
    return kernel->crew->argv[0];
}

void
hfi_crew_note_code(hf_kernel *kernel, hfi_part code, long long number) {
    hfi_cellnames_add(&kernel->crew->names, code, number);
}
