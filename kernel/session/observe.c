/* observe.c - the frontend's part in the monitor: which processes count, and which
 * cells ran when.
 *
 * The monitor (monitor/) reads processes from outside, and only the frontend knows
 * which ones to read. The main worker counts from its fork to its end. A cell's worker
 * counts from when it begins the cell until it is released. Standbys, fork server and
 * assistant never count: what they do isn't the notebook's.
 *
 * A cell is logged when its worker reports that it has begun, with the worker's own
 * time and use, and the use is also read then. The same is done when the worker reports
 * that the code has ended ("ended"), before it saves anything. This report also has the
 * moment at which the code began, after IPython's own work before it. The outcome is
 * known when the request ends. A cell that no worker began, because it failed before or
 * the frontend answered it, is logged with no duration. Silent requests are not logged.
 *
 * When a worker died, its final use is logged, too. Workers ask for the monitor by
 * "monitor" frames, and get its shared memory to read. So nothing is opened or mapped
 * in them before somebody asks.
 *
 * A kernel that can't have the monitor (no memory for it) goes on without it. One
 * thread; the monitor has its own thread and lock.
 */
#include "session/listeners.h"

#include <stddef.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "session/escalate.h"
#include "monitor/procfile.h"
#include "monitor/sampler.h"

/* The name of the processes that make the fork for a worker (worker/fork.c). Their use
 * isn't the notebook's. */
#define HELPER_NAME "holdfast-helper"

typedef struct hfi_observe {
    struct hfi_sampler *sampler; /* NULL: it couldn't be made */
    int has_cell;                /* the log has the running cell */
} hfi_observe;

static void
fini_observe(hf_kernel *kernel) {
    hfi_sampler_close(kernel->observe->sampler);
}

const hfi_owner hfi_observe_owner = {offsetof(hf_kernel, observe),
                                     sizeof(struct hfi_observe), NULL, fini_observe};

void
hfi_observe_init(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_sampler_create(&kernel->observe->sampler, &error) != HF_OK)
        hfi_log("no monitor: %s", error.message);
}

/* ---- processes ------------------------------------------------------------------ */

static void
observe_fork(hf_kernel *kernel, const hfi_worker *worker) {
    if (kernel->observe->sampler != NULL && worker->role == HFI_MAIN)
        hfi_sampler_add(kernel->observe->sampler, worker->pid);
}

static void
observe_leave(hf_kernel *kernel, const hfi_worker *worker) {
    if (kernel->observe->sampler != NULL && worker != NULL && worker->pid > 0)
        hfi_sampler_remove(kernel->observe->sampler, worker->pid);
}

static void
copy_text(hfi_part text, char *ret_text, size_t size) {
    size_t length = text.size < size ? text.size : size - 1;
    memcpy(ret_text, length > 0 ? text.data : "", length);
    ret_text[length] = '\0';
}

static void
observe_exit(hf_kernel *kernel, const hfi_exit *ended) {
    const char *io = *ended->io != '\0' ? ended->io : NULL;
    if (kernel->observe->sampler != NULL && ended->is_workers)
        hfi_sampler_note_end(kernel->observe->sampler, ended->pid, ended->cpu_seconds,
                             io);
    else if (kernel->observe->sampler != NULL &&
             strcmp(ended->name, HELPER_NAME "\n") != 0)
        hfi_sampler_note_orphan(kernel->observe->sampler, ended->pid,
                                ended->cpu_seconds, io);
}

/* ---- cells ---------------------------------------------------------------------- */

static hf_monitor_cell_kind
sampled_kind(const hf_kernel *kernel) {
    const hfi_directive *directive = &kernel->cell.directive;
    if (directive->isolated)
        return HF_MONITOR_ISOLATED;
    if (directive->multicell)
        return HF_MONITOR_MULTI;
    return kernel->cell.plan >= HFI_PLAN_IN_PROCESS ? HF_MONITOR_INSTRUMENTED
                                                    : HF_MONITOR_PLAIN;
}

/* A worker's report of a moment; NULL: it sent none. */
static hfi_word
word_of(const hfi_map_moment *moment) {
    char text[512];
    if (moment == NULL)
        return (hfi_word){0};
    hfi_word said = {.time_ns = moment->time_ns,
                     .cpu_ns = moment->cpu_ns,
                     .children_ns = moment->children_ns,
                     .memory = moment->memory,
                     .peak = moment->peak,
                     .unused = moment->unused,
                     .childless = moment->childless};
    copy_text(moment->io, text, sizeof text);
    const char *at = strchr(text, ':');
    for (size_t i = 0; i < sizeof said.io / sizeof *said.io && at != NULL; i++) {
        said.io[i] = (int64_t)hfi_procfile_number(at + 1, NULL);
        at = strchr(at + 1, ':');
    }
    return said;
}

static void
begin_sampled_cell(hf_kernel *kernel, pid_t pid, const hfi_word *word) {
    json_t *code = hfi_cell_source(&kernel->cell);
    const char *source = json_is_string(code) ? json_string_value(code) : "";
    if (kernel->cell.silent)
        return;
    hfi_sampler_begin_cell(kernel->observe->sampler, sampled_kind(kernel),
                           kernel->cell.number, pid, word, source,
                           json_string_length(code));
    kernel->observe->has_cell = 1;
}

static void
observe_start(hf_kernel *kernel, const hfi_worker *worker,
              const hfi_from_worker_started *frame) {
    const hfi_word word = word_of(frame->begin);
    if (kernel->observe->sampler == NULL)
        return;
    hfi_sampler_add(kernel->observe->sampler, worker->pid);
    begin_sampled_cell(kernel, worker->pid, &word);
}

static void
settle_sampled_cell(hf_kernel *kernel, int64_t id, const hfi_map_moment *began,
                    const hfi_map_moment *ended) {
    const hfi_word begin = word_of(began), end = word_of(ended);
    if (kernel->observe->sampler != NULL && kernel->cell.request != NULL &&
        kernel->cell.request->id == id)
        hfi_sampler_settle_cell(kernel->observe->sampler, &begin, &end);
}

static void
observe_finish(hf_kernel *kernel, int failed) {
    const char *fate = kernel->cell.fate;
    const hfi_word silence = {0};
    hf_monitor_outcome outcome = failed ? HF_MONITOR_ERROR : HF_MONITOR_OK;
    if (kernel->observe->sampler == NULL || kernel->cell.silent)
        return;
    if (fate != NULL && strcmp(fate, "CellDied") == 0)
        outcome = HF_MONITOR_DIED;
    else if ((fate != NULL && strcmp(fate, hfi_interrupted_name(kernel)) == 0) ||
             (failed && hfi_escalate_has_reached(kernel)))
        outcome = HF_MONITOR_INTERRUPTED;
    if (!kernel->observe->has_cell)
        begin_sampled_cell(kernel, 0, &silence);
    hfi_sampler_end_cell(kernel->observe->sampler, outcome);
}

void
hfi_observe_began(hf_kernel *kernel, hfi_worker *worker,
                  const hfi_from_worker_began *frame) {
    (void)worker;
    settle_sampled_cell(kernel, frame->id, frame->begin, NULL);
}

void
hfi_observe_hear(hf_kernel *kernel, const hfi_event *event) {
    switch (event->kind) {
    case HFI_EVENT_WORKER_FORKED:
        observe_fork(kernel, event->worker);
        break;
    case HFI_EVENT_WORKER_EXITED:
        observe_exit(kernel, event->exit);
        break;
    case HFI_EVENT_CELL_STARTED:
        observe_start(kernel, event->worker, event->started);
        break;
    case HFI_EVENT_CELL_ENDED:
        settle_sampled_cell(kernel, event->ended->id, event->ended->begin,
                            event->ended->end);
        break;
    case HFI_EVENT_CELL_FINISHED:
        observe_finish(kernel, kernel->cell.failed);
        break;
    case HFI_EVENT_CELL_RELEASED:
        observe_leave(kernel, event->worker);
        break;
    default:
        break;
    }
}

/* ---- questions ------------------------------------------------------------------ */

static hf_status
obey_action(hf_kernel *kernel, const hfi_from_worker_monitor *frame, hf_error *reterr) {
    hfi_part action = frame->action;
    if (hfi_part_equal(action, hfi_part_text("start")))
        return hfi_sampler_start(kernel->observe->sampler, frame->interval_ns,
                                 frame->weigh, reterr);
    if (hfi_part_equal(action, hfi_part_text("stop")))
        hfi_sampler_stop(kernel->observe->sampler);
    else if (!hfi_part_equal(action, hfi_part_text("open")))
        return hf_error_set(reterr, HF_E_INVALID, "the monitor knows no such action");
    return HF_OK;
}

void
hfi_observe_asked(hf_kernel *kernel, hfi_worker *worker,
                  const hfi_from_worker_monitor *frame) {
    hf_error error = HF_ERROR_INIT;
    hf_status status = HF_E_GONE;
    int fd = -1;
    if (kernel->observe->sampler != NULL)
        status = obey_action(kernel, frame, &error);
    else
        (void)hf_error_set(&error, HF_E_GONE, "this kernel has no monitor");
    if (status == HF_OK)
        fd = fcntl(hfi_sampler_fd(kernel->observe->sampler), F_DUPFD_CLOEXEC, 3);
    if (hfi_control_send_consume(worker->control,
                                 HFI_FRAME(to_worker_monitor, .head.fds = {fd},
                                           .found = fd >= 0,
                                           .error = hfi_part_text(error.message)),
                                 &error) != HF_OK)
        hfi_log("monitor: %s", error.message);
}
