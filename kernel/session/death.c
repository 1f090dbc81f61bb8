/* death.c - what the death of a process costs, and what the user is told about it.
 *
 * A worker is dead in three cases: it was waited for; its channel is at its end and a
 * second has passed without its exit being known; or it never got ready (standby.c).
 * What a death costs:
 * - a cell worker: its cell, or nothing if it hadn't begun the cell
 * - the main worker: what wasn't committed
 * - a standby: nothing
 * - the fork server: the workers that it had yet to fork
 *
 * Each is started again: restart.c says how often, and with what.
 *
 * As a rule the workers are children of this process (workers/children.c), which checks
 * at most each SEARCH_NS whether one has ended. If one is about to end, since its
 * channel is closed, it checks in each turn, and the next turn follows after LOOK_NS. Some fork servers wait for their forks
 * themselves, and report their exits.
 *
 * A dead process whose frames aren't read yet (hfi_handover_holds) stays in the list.
 * Its last frames are read before it is removed, so a cell that has begun never runs
 * again in another process.
 *
 * The user gets one message, which names the loss, and the reason as far as it is
 * known. If a cell runs, the message is the cell's error (a KeyboardInterrupt if we
 * ended the process because an interrupt had no effect: escalate.c). Otherwise it is
 * shown on stderr under the last cell.
 *
 * Rejected: start a main worker only when the next cell needs one. The person would
 * have to wait for it then. One thread.
 */
#include "session/death.h"

#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "session/beside.h"
#include "session/commits.h"
#include "session/workers.h"
#include "session/request.h"
#include "session/handover.h"
#include "session/publish.h"
#include "session/rerun.h"
#include "session/restart.h"
#include "session/rollback.h"
#include "session/listeners.h"
#include "workers/program.h"

#define RETRIES_MAX         2
#define RETRIES_LATE_MAX    1 /* each takes a whole HOLDFAST_READY_SECONDS */
#define FORK_SERVER_WAIT_MS 100
#define SPARED_NS           1000000000LL
#define LOOK_NS             2000000LL
#define SEARCH_NS           20000000LL
#define LOST_MAX            5 /* variables that a message names */
#define GIVEN_UP_MAX        16

typedef struct hfi_death {
    int retries; /* processes that ended before they had begun the running cell */
    /* the message about a main worker whose rollback is to commit first */
    hfi_textbuf words;
    char name[32];                /* of the error in that message */
    long long looked_ns;          /* when we looked whether a child has ended */
    pid_t given_up[GIVEN_UP_MAX]; /* workers that were killed, and not yet waited for */
    size_t given_up_next;
} hfi_death;

static void
fini_death(hf_kernel *kernel) {
    hfi_textbuf_fini(&kernel->death->words);
}

const hfi_owner hfi_death_owner = {offsetof(hf_kernel, death), sizeof(struct hfi_death),
                                   NULL, fini_death};

/* Name the values that the commit which the notebook goes on with doesn't have. A
 * reason begins with a type, and goes on with where in the variable the value is and
 * what its encoder says (bindings/holdfast/base/sentences.py). Only the type is shown:
 * nothing can be done about the loss any more. */
static void
write_unserializable(const hf_kernel *kernel, hfi_textbuf *text) {
    const char *name;
    json_t *reason;
    size_t count = 0, all = json_object_size(hfi_commits_unserializable(kernel));
    json_object_foreach(hfi_commits_unserializable(kernel), name, reason) {
        const char *why = json_string_value(reason), *end = strstr(why, " at ");
        int size = end != NULL ? (int)(end - why) : (int)strlen(why);
        if (count == LOST_MAX) {
            hfi_textbuf_format(text, " and %zu more", all - count);
            break;
        }
        /* State other than variables has several words as its name. */
        hfi_textbuf_format(text, "%s%s (%.*s)", count++ == 0 ? "; lost: " : ", ",
                           strncmp(name, "_:", 2) != 0 ? name : name + 2, size, why);
    }
}

/* The changes of the cells after this mark are lost. Name those that are to be run
 * again. */
static void
lose_cells(hf_kernel *kernel, long long mark, hfi_textbuf *text) {
    const char *command = hfi_history_command(kernel);
    hfi_textbuf cells = {0};
    hfi_rerun_lose(kernel, mark, &cells);
    if (cells.size > 0 && command != NULL)
        hfi_textbuf_format(text, " (run %s again, or `%s rerun`)",
                           hfi_textbuf_string(&cells), command);
    else if (cells.size > 0)
        hfi_textbuf_format(text, " (run %s again)", hfi_textbuf_string(&cells));
    hfi_textbuf_fini(&cells);
}

/* Name the state that the notebook has now, and what is missing in it. */
static void
write_main_loss(hf_kernel *kernel, hfi_textbuf *text) {
    const char *command = hfi_history_command(kernel);
    hfi_textbuf_format(text, "; its variables are those of the last commit");
    long long cells = hfi_commits_missing(kernel);
    if (cells > 0)
        hfi_textbuf_format(text, ", without what the %lld cell%s since then changed",
                           cells, cells == 1 ? "" : "s");
    lose_cells(kernel, 0, text);
    if (hfi_rollback_has_given_up(kernel).pages > 0)
        hfi_textbuf_format(text,
                           "; its protection was given up, since the cell touched "
                           "much memory (%s%s keeps it)",
                           command != NULL ? command : "HOLDFAST_PROTECT=",
                           command != NULL ? " protect always" : "always");
    write_unserializable(kernel, text);
}

/* The same if the notebook goes on with the rollback's state: a fork that is whole, or
 * one that could only commit. */
static void
write_rollback(hf_kernel *kernel, int is_whole, hfi_textbuf *text) {
    long long cells = hfi_rollback_cells(kernel);
    hfi_textbuf_format(text, "; its variables are as they were before %s",
                       cells == 0 ? "the cell" : "the last cells");
    if (cells > 0)
        hfi_textbuf_format(text, ", without what %lld of them changed", cells);
    lose_cells(kernel, hfi_rollback_mark(kernel), text);
    if (!is_whole)
        write_unserializable(kernel, text);
}

/* Drop the state that belonged to the main worker, however it ended. */
static void
forget_main(hf_kernel *kernel) {
    hfi_workers_set_main(kernel, NULL);
    hfi_subshell_lose_main(kernel);
    hfi_commits_lose_main(kernel);
}

/* Start a new main worker from the last commit. */
static void
start_main(hf_kernel *kernel) {
    hfi_commits_have_all(kernel);
    hfi_generations_forget(kernel);
    hfi_restart_begin(kernel);
}

/* Fail the cell. Its process sent no report, but we know where it ran and where it
 * recorded. */
static void
fail_with_cost(hf_kernel *kernel, const char *name, const char *value) {
    const hfi_cell *cell = &kernel->cell;
    hfi_from_worker_reply reply = {.metadata = hfi_part_text("{\"status\":\"error\"}"),
                                   .trace = hfi_trace_recording(kernel)};
    hfi_textbuf metadata = {0};
    hfi_request_cost(kernel, &reply,
                     cell->plan >= HFI_PLAN_IN_PROCESS ? hfi_cell_run_mode(cell)
                                                       : "plain",
                     &metadata);
    hfi_ends_fail_with(kernel, name, value, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
}

/* Show the loss: as the running cell's error; before the end of a cell that is replied
 * to; or below the last cell. */
static void
report_loss(hf_kernel *kernel, const char *name, hfi_textbuf *text) {
    const hfi_cell *cell = &kernel->cell;
    int reports = cell->state == HFI_CELL_REPORTING;
    if (!reports && (hfi_cell_is_in_main(cell) || hfi_cell_waits_for_commit(cell))) {
        fail_with_cost(kernel, name, hfi_textbuf_string(text));
        return;
    }
    hfi_textbuf_append(text, "\n", 1);
    hfi_publish_stream(kernel, HFI_STDERR,
                       reports ? cell->request->message.header
                               : hfi_publish_last_parent(kernel),
                       hfi_textbuf_part(text));
    (void)hfi_ends_report(kernel);
}

/* Say which state the notebook has, and have a main worker with it. */
static void
go_on(hf_kernel *kernel, hfi_rollback_outcome outcome, hfi_textbuf *text) {
    if (outcome == HFI_ROLLBACK_FAILED)
        write_main_loss(kernel, text);
    else
        write_rollback(kernel, outcome == HFI_ROLLBACK_SUCCEEDS, text);
    if (outcome == HFI_ROLLBACK_SUCCEEDS) {
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_MAIN_MADE});
        return;
    }
    hfi_commits_keep_unserializable(kernel, (hfi_texts){NULL, 0});
    start_main(kernel);
    if (hfi_restart_is_bare(kernel))
        hfi_textbuf_format(text, "; they are kept, but none is loaded now");
}

/* Free what dead processes held in the store. */
static void
reap_store(hf_kernel *kernel) {
    uint32_t count = 0;
    hf_error error = HF_ERROR_INIT;
    if (hf_session_reap(kernel->store, 0, &count, &error) != HF_OK)
        hfi_log("reaping: %s", error.message);
}

void
hfi_death_settled(hf_kernel *kernel, hfi_rollback_outcome outcome) {
    hfi_textbuf text = kernel->death->words;
    memset(&kernel->death->words, 0, sizeof text);
    reap_store(kernel);
    go_on(kernel, outcome, &text);
    report_loss(kernel, kernel->death->name, &text);
    hfi_textbuf_fini(&text);
}

static void
main_died(hf_kernel *kernel, const char *name, const char *exit_reason) {
    hfi_textbuf text = {0};
    int ran =
        hfi_cell_is_in_main(&kernel->cell) && kernel->cell.state != HFI_CELL_REPORTING;
    if (kernel->leaving) {
        hfi_workers_set_main(kernel, NULL);
        kernel->stopping = 1;
        hfi_ends_fail(kernel, "CellDied", "the notebook ended by exit()");
        return;
    }
    hfi_textbuf_format(&text, "the notebook's process %s", exit_reason);
    if (ran)
        hfi_trace_name_rescued(kernel, &text);
    hfi_handles_lose_main(kernel);
    forget_main(kernel);
    hfi_handover_lose_main(kernel);
    if (ran)
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_DIED});
    hfi_rollback_outcome outcome = hfi_rollback_wake(kernel);
    /* A fork that was just being made may share what the dead process held, and not
     * hold its own part yet. The store is reaped once the fork has answered. */
    if (outcome == HFI_ROLLBACK_WAITS) {
        kernel->death->words = text;
        snprintf(kernel->death->name, sizeof kernel->death->name, "%s", name);
        return;
    }
    reap_store(kernel);
    go_on(kernel, outcome, &text);
    report_loss(kernel, name, &text);
    hfi_textbuf_fini(&text);
}

/* The cell's process died. If it hadn't begun the cell, another process gets the
 * request, and the user hears nothing. The number of tries is limited: the cell's data
 * may be what kills the processes. */
static void
cell_died(hf_kernel *kernel, int late, int known, const char *name,
          const char *exit_reason) {
    hfi_textbuf text = {0};
    int retries = kernel->death->retries;
    int started = hfi_cell_has_begun(&kernel->cell);
    hfi_handover_forget_cell(kernel);
    /* the value is in quarantine: the next process gets further */
    if (!started && known) {
        hfi_textbuf_format(&text, "holdfast: a process for this cell %s\n",
                           exit_reason);
        hfi_publish_stream(kernel, HFI_STDERR, kernel->cell.request->message.header,
                           hfi_textbuf_part(&text));
        hfi_textbuf_fini(&text);
        hfi_handover_start_cell(kernel, kernel->death->retries > 0);
        return;
    }
    if (!started && retries < (late ? RETRIES_LATE_MAX : RETRIES_MAX)) {
        hfi_log("the cell's process %s before the cell; another one is tried",
                exit_reason);
        kernel->death->retries++;
        hfi_handover_start_cell(kernel, kernel->death->retries > 0);
        return;
    }
    hfi_textbuf_format(&text, "the cell's process %s", exit_reason);
    if (!started && retries > 0)
        hfi_textbuf_format(&text, " before the cell began, as did %d other%s", retries,
                           retries == 1 ? "" : "s");
    hfi_textbuf_format(&text,
                       "; the notebook's variables are as they were before the cell");
    hfi_trace_name_rescued(kernel, &text);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_DIED});
    fail_with_cost(kernel, name, hfi_textbuf_string(&text));
    hfi_textbuf_fini(&text);
    hfi_standby_replenish(kernel);
}

/* Write how it ended. */
static void
write_exit_reason(const hfi_worker *worker, char *ret_text, size_t size) {
    switch (worker->fault) {
    case HFI_FAULT_UNINTERRUPTED:
    case HFI_FAULT_UNFORKED:
        snprintf(ret_text, size, "%s", worker->cause);
        break;
    case HFI_FAULT_HUNG:
        snprintf(ret_text, size, "was ended, since it took too long,");
        break;
    case HFI_FAULT_LATE:
        snprintf(ret_text, size, "was not ready within %g seconds",
                 (double)hfi_workers_ready_ns() / 1e9);
        break;
    case HFI_FAULT_NONE:
        hfi_program_exit_reason(hfi_worker_status_is_known(worker), worker->status,
                                ret_text, size);
    }
}

/* Whether the main worker has begun a request, and isn't still starting. */
static int
is_at_request(const hf_kernel *kernel) {
    return hfi_cell_is_in_main(&kernel->cell) &&
           kernel->cell.state != HFI_CELL_STARTING;
}

/* Why the main worker ended. */
static hfi_end
end_of(const hf_kernel *kernel, const hfi_worker *worker, int known) {
    int outside =
        hfi_restart_is_from_outside(hfi_worker_status_is_known(worker), worker->status);
    if (worker->ready_ns != 0 && is_at_request(kernel))
        return HFI_END_OF_CELL;
    if (known)
        return HFI_END_AT_VALUE;
    return outside && worker->fault != HFI_FAULT_HUNG ? HFI_END_FROM_OUTSIDE
                                                      : HFI_END_BY_ITSELF;
}

/* A worker that the fork server hasn't forked yet stays in the list, without a channel:
 * the fork server's answer must find its own worker, not the next one. */
static void
dismiss_worker(hf_kernel *kernel, hfi_worker *worker) {
    hfi_fork_server *server = hfi_workers_server(kernel);
    if (worker->pid > 0 || worker->role == HFI_SLEEPER || worker->role == HFI_FORKED ||
        hfi_worker_is_unforked(server, worker)) {
        if (!hfi_worker_status_is_known(worker)) {
            hfi_worker_end_group(server, worker);
            kernel->death->given_up[kernel->death->given_up_next++ % GIVEN_UP_MAX] =
                worker->pid;
        }
        hfi_worker_forget(server, worker);
    } else { /* also a worker that was released and didn't exit in time */
        if (worker->owned)
            hfi_worker_release(worker, 0);
        worker->deadline_ns = 0;
    }
}

static void
worker_died(hf_kernel *kernel, hfi_worker *worker) {
    char exit_reason[384];
    const char *name = worker->fault == HFI_FAULT_UNINTERRUPTED
                           ? hfi_interrupted_name(kernel)
                           : "CellDied";
    write_exit_reason(worker, exit_reason, sizeof exit_reason);
    int known = hfi_quarantine_note(kernel, worker, exit_reason, sizeof exit_reason);
    if (worker == hfi_workers_main(kernel))
        hfi_restart_note(kernel, end_of(kernel, worker, known));
    if (worker->owned)
        hfi_worker_drain(worker, hfi_workers_parent(kernel, worker), hfi_clock_ns());
    hfi_stream_flush(&worker->stream);
    if (worker != hfi_workers_main(kernel))
        reap_store(kernel);
    if (worker == hfi_workers_main(kernel)) {
        main_died(kernel, name, exit_reason);
    } else if (worker == hfi_workers_cell(kernel)) {
        cell_died(kernel, worker->fault == HFI_FAULT_LATE, known, name, exit_reason);
    } else if (worker == hfi_rollback_worker(kernel)) {
        hfi_log("the rollback %s", exit_reason);
        if (hfi_rollback_is_waking(kernel)) {
            hfi_rollback_outcome outcome = hfi_rollback_fall_back(kernel);
            if (outcome != HFI_ROLLBACK_WAITS)
                hfi_death_settled(kernel, outcome);
        } else {
            hfi_rollback_drop(kernel);
        }
    } else if (worker == hfi_assistant_worker(kernel)) {
        hfi_log("the assistant %s", exit_reason);
        hfi_assistant_died(kernel);
    } else if (hfi_standby_remove(kernel, worker)) {
        hfi_log("a standby %s", exit_reason);
        if (worker->fault == HFI_FAULT_UNFORKED ||
            (worker->ready_ns == 0 &&
             !hfi_worker_is_unforked(hfi_workers_server(kernel), worker)))
            hfi_standby_note_failure(kernel, 1);
        hfi_standby_replenish(kernel);
    }
    dismiss_worker(kernel, worker);
}

static int
take_given_up(hf_kernel *kernel, pid_t pid) {
    for (size_t i = 0; i < GIVEN_UP_MAX; i++) {
        if (kernel->death->given_up[i] == pid) {
            kernel->death->given_up[i] = 0;
            return 1;
        }
    }
    return 0;
}

void
hfi_death_note_exit(hf_kernel *kernel, hfi_exit *ended) {
    hfi_worker *worker = hfi_worker_named(hfi_workers_server(kernel), ended->pid);
    ended->is_workers = worker != NULL || take_given_up(kernel, ended->pid);
    hfi_emit(
        kernel,
        &(hfi_event){.kind = HFI_EVENT_WORKER_EXITED, .worker = worker, .exit = ended});
    if (worker == NULL)
        return;
    if (worker->owned) /* its output before the death */
        hfi_emit(kernel,
                 &(hfi_event){.kind = HFI_EVENT_WORKER_LOOKED_AT, .worker = worker});
    hfi_worker_note_exit(worker, ended->status);
}

/* Whether other code waits for this child. */
static int
is_awaited(const hf_kernel *kernel, pid_t pid) {
    hfi_fork_server *server = hfi_workers_server(kernel);
    return (server->control != NULL && server->pid == pid) ||
           hfi_trace_rescuer(kernel) == pid || hfi_worker_named(server, pid) != NULL;
}

/* Wait for workers, and for orphans such as daemons of the notebook's code. Orphans
 * have to wait while the pid of a worker isn't known, since they may be that worker. */
static void
wait_for_children(hf_kernel *kernel, long long now_ns) {
    hfi_exit ended;
    pid_t pid;
    int unknown = 0;
    kernel->death->looked_ns = now_ns;
    if (hfi_children_all_live())
        return;
    for (hfi_worker *at = hfi_workers_server(kernel)->workers; at != NULL;
         at = at->next) {
        unknown |= at->pid == 0;
        if (hfi_worker_status_is_known(at) || !hfi_child_has_ended(at->pid))
            continue;
        hfi_worker_end_group(hfi_workers_server(kernel), at);
        if (hfi_child_wait(at->pid, &ended))
            hfi_death_note_exit(kernel, &ended);
    }
    while (!unknown && (pid = hfi_children_ended()) > 0 && !is_awaited(kernel, pid) &&
           hfi_child_wait(pid, &ended))
        hfi_death_note_exit(kernel, &ended);
}

/* It exits or has exited, and wasn't waited for. */
static int
is_about_to_end(const hfi_worker *worker) {
    return worker->pid > 0 && !hfi_worker_is_over(worker) &&
           (worker->control == NULL || worker->state == HFI_WORKER_SILENT);
}

static int
is_one_ending(const hf_kernel *kernel) {
    const hfi_worker *at = hfi_workers_server(kernel)->workers;
    while (at != NULL && !is_about_to_end(at))
        at = at->next;
    return at != NULL;
}

static int
is_due(const hfi_worker *worker, long long now_ns) {
    return hfi_worker_is_over(worker) ||
           (worker->deadline_ns > 0 && now_ns >= worker->deadline_ns);
}

/* The same, after its last frames were read. They may say that it is ready, or that the
 * cell has ended. */
static int
is_due_at_last(hf_kernel *kernel, hfi_worker *worker, long long now_ns) {
    if (worker->owned && hfi_worker_is_heard(worker))
        hfi_emit(kernel,
                 &(hfi_event){.kind = HFI_EVENT_WORKER_LOOKED_AT, .worker = worker});
    return is_due(worker, now_ns);
}

/* The dead worker's recording is still being written, and the cell's error is to name
 * its place. */
static int
awaits_trace(hf_kernel *kernel, const hfi_worker *worker, long long now_ns) {
    return worker == hfi_workers_at_work(kernel) && hfi_cell_has_begun(&kernel->cell) &&
           !kernel->leaving && hfi_trace_rescues(kernel, now_ns);
}

void
hfi_death_tick(hf_kernel *kernel, long long now_ns) {
    if (now_ns - kernel->death->looked_ns >= SEARCH_NS || is_one_ending(kernel))
        wait_for_children(kernel, now_ns);
    for (hfi_worker *at = hfi_workers_server(kernel)->workers, *next; at != NULL;
         at = next) {
        next = at->next;
        hfi_stream_tick(&at->stream, now_ns);
        if (hfi_handover_holds(kernel, at))
            continue; /* its last frames aren't read yet */
        if (at->deadline_ns > 0 && now_ns >= at->deadline_ns &&
            hfi_worker_is_starting(at) && hfi_quarantine_spares(kernel, at, now_ns))
            at->deadline_ns = now_ns + SPARED_NS;
        if (is_due(at, now_ns) && is_due_at_last(kernel, at, now_ns)) {
            hfi_worker_give_up(at);
            if (awaits_trace(kernel, at, now_ns))
                continue;
            worker_died(kernel, at);
            /* Handling the death may have changed the list. */
            next = hfi_workers_server(kernel)->workers;
        }
    }
}

static void
take_earlier(long long due_ns, long long *first_ns) {
    if (due_ns >= 0 && (*first_ns < 0 || due_ns < *first_ns))
        *first_ns = due_ns;
}

long long
hfi_death_deadline_ns(const hf_kernel *kernel) {
    long long first = -1;
    for (const hfi_worker *at = hfi_workers_server(kernel)->workers; at != NULL;
         at = at->next) {
        take_earlier(hfi_stream_deadline_ns(&at->stream), &first);
        if (hfi_handover_holds(kernel, at))
            continue;
        long long rescue_ns = hfi_trace_rescue_deadline_ns(kernel);
        if (rescue_ns >= 0 && at == hfi_workers_at_work(kernel)) {
            take_earlier(rescue_ns, &first);
            continue;
        }
        if (is_about_to_end(at))
            take_earlier(hfi_clock_ns() + LOOK_NS, &first);
        if (at->deadline_ns > 0)
            take_earlier(at->deadline_ns, &first);
        if (at->calm_ns > 0)
            take_earlier(at->calm_ns, &first);
    }
    return first;
}

/* A main worker that was only asked for has nothing of the notebook yet. */
static int
is_notebook_alive(const hf_kernel *kernel) {
    const hfi_worker *main_worker = hfi_workers_main(kernel);
    return hfi_rollback_is_waking(kernel) ||
           (main_worker != NULL &&
            !hfi_worker_is_unforked(hfi_workers_server(kernel), main_worker));
}

/* The workers that it hadn't forked are removed by the next tick. */
void
hfi_death_of_fork_server(hf_kernel *kernel) {
    char exit_reason[128];
    hfi_fork_server *server = hfi_workers_server(kernel);
    int status = hfi_fork_server_lose(server, FORK_SERVER_WAIT_MS);
    for (hfi_worker *at = server->workers; at != NULL; at = at->next) {
        if (at->owned &&
            hfi_worker_is_unforked(server, at)) /* else it has sent its pid itself */
            hfi_emit(kernel,
                     &(hfi_event){.kind = HFI_EVENT_WORKER_LOOKED_AT, .worker = at});
        if (hfi_worker_is_unforked(server, at))
            hfi_worker_note_unforked(at);
    }
    hfi_program_exit_reason(status != -1, status, exit_reason, sizeof exit_reason);
    hfi_log("the fork server %s", exit_reason);
    /* a main worker that lives shows that the failures aren't the notebook's */
    int lives = is_notebook_alive(kernel);
    hfi_restart_note(kernel, lives || hfi_restart_is_from_outside(status != -1, status)
                                 ? HFI_END_FROM_OUTSIDE
                                 : HFI_END_BY_ITSELF);
    if (!lives) {
        forget_main(kernel);
        hfi_commits_have_all(kernel);
        hfi_generations_forget(kernel);
        /* no main worker has begun the request, and the user knows of the last
         * one's death: the next one gets it */
        if (hfi_workers_cell(kernel) == NULL)
            hfi_ends_postpone(kernel);
    }
    hfi_restart_begin(kernel);
}

void
hfi_death_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_OVER)
        kernel->death->retries = 0;
}
