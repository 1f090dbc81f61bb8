/* escalate.c - interrupts that have no effect, and how they are given one.
 *
 *     interrupt   SIGINT to the worker that has the cell, and the clock starts
 *     nudges      SIGURG, while the worker reports nothing: see below
 *     grace       SIGTERM, HOLDFAST_INTERRUPT_SECONDS (5) after the interrupt
 *     a second    SIGKILL
 *
 * The worker reports when the interrupt has reached the cell as a KeyboardInterrupt
 * ("interrupted"). That stops the clock. What the cell does with it is its own affair:
 * it may take a minute to write its results. So only two kinds of code are ended: code
 * that never returns to the interpreter, and code that has a signal handler of its own
 * and goes on. Another interrupt while the clock runs is sent, too, but doesn't restart
 * or shorten the clock. If a cell has taken two interrupts and goes on, it is ended if
 * the third one doesn't end it: a person who asks three times means it.
 *
 * A cell worker that is ended has changed nothing. The end of a main worker costs what
 * death.c says. Before the cell has begun (the main worker still binds), the time limit
 * is that for a process that starts.
 *
 * A signal that comes between the interpreter's last check and a system call is handled
 * when the call returns, which may be never. SIGURG makes such a call return. A
 * worker's handler for it does nothing, and by default it is ignored. Rejected: repeat
 * SIGINT. A handler of the user's would see each. One thread.
 */
#include "session/escalate.h"

#include <stddef.h>
#include <signal.h>
#include <stdio.h>

#include "session/timelimit.h"
#include "session/workers.h"
#include "workers/program.h"

#define GRACE_SECONDS  5
#define GRACE_MAX      86400
#define TERM_NS        1000000000LL
#define FIRST_NUDGE_NS 100000000LL
#define TAKEN_MAX      2

struct hfi_escalate {
    long long grace_ns; /* from an interrupt to the worker's end; negative: for ever */
    /* of the running cell */
    int waits; /* it came before the cell had begun, and is sent when it begins */
    long long due_ns;   /* when the next signal is sent; 0: the clock doesn't run */
    long long nudge_ns; /* when the next nudge is sent; 0: none */
    long long pause_ns; /* between two nudges */
    int signal;         /* the last one sent to end the process; 0: none */
    int taken;          /* interrupts that reached the cell as exceptions */
};

const hfi_owner hfi_escalate_owner = {offsetof(hf_kernel, escalate),
                                      sizeof(struct hfi_escalate), NULL, NULL};

hf_status
hfi_escalate_configure(hf_kernel *kernel, long seconds, hf_error *reterr) {
    if (seconds > GRACE_MAX)
        return hf_error_set(reterr, HF_E_INVALID,
                            "an interrupt's grace of %ld seconds is more than a day",
                            seconds);
    long long grace_ns = seconds * 1000000000LL;
    if (seconds == 0)
        grace_ns = hfi_limit_ns("HOLDFAST_INTERRUPT_SECONDS", GRACE_SECONDS);
    kernel->escalate->grace_ns = grace_ns == 0 ? -1 : grace_ns;
    return HF_OK;
}

/* Start the clock, unless it runs. */
static void
begin_escalation(hf_kernel *kernel, long long now_ns) {
    struct hfi_escalate *escalation = kernel->escalate;
    if (kernel->escalate->grace_ns < 0 || escalation->due_ns != 0)
        return;
    long long patience = hfi_cell_has_begun(&kernel->cell) ? kernel->escalate->grace_ns
                                                           : hfi_workers_ready_ns();
    escalation->due_ns = now_ns + patience;
    escalation->nudge_ns = now_ns + FIRST_NUDGE_NS;
    escalation->pause_ns = FIRST_NUDGE_NS;
}

void
hfi_escalate_interrupt(hf_kernel *kernel) {
    hfi_worker *worker = hfi_workers_at_work(kernel);
    if (worker == NULL)
        return;
    if (hfi_cell_has_begun(&kernel->cell))
        hfi_worker_kill(worker, SIGINT);
    else
        kernel->escalate->waits = 1;
    begin_escalation(kernel, hfi_clock_ns());
}

/* The cell has begun: send the interrupt that waited, and count its grace from here. */
static void
send_waiting(hf_kernel *kernel, hfi_worker *worker) {
    if (!kernel->escalate->waits)
        return;
    kernel->escalate->waits = 0;
    hfi_worker_kill(worker, SIGINT);
    kernel->escalate->due_ns = 0;
    begin_escalation(kernel, hfi_clock_ns());
}

static void
forget_escalation(hf_kernel *kernel) {
    *kernel->escalate = (struct hfi_escalate){.grace_ns = kernel->escalate->grace_ns};
}

void
hfi_escalate_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_STARTED)
        send_waiting(kernel, event->worker);
    else if (event->kind == HFI_EVENT_CELL_FINISHED)
        forget_escalation(kernel);
}

int
hfi_escalate_has_reached(const hf_kernel *kernel) {
    return kernel->escalate->taken > 0;
}

void
hfi_escalate_taken(hf_kernel *kernel, hfi_worker *worker,
                   const hfi_from_worker_interrupted *frame) {
    struct hfi_escalate *escalation = kernel->escalate;
    if (worker != hfi_workers_at_work(kernel) || kernel->cell.request->id != frame->id)
        return;
    escalation->nudge_ns = 0;
    if (escalation->signal == 0 && escalation->taken++ < TAKEN_MAX)
        escalation->due_ns = 0;
}

/* Note for the user why the worker was ended. Static text has no number in it. */
static void
name_cause(const hf_kernel *kernel, hfi_worker *worker) {
    worker->fault = HFI_FAULT_UNINTERRUPTED;
    snprintf(worker->cause, sizeof worker->cause,
             "was ended, since the cell went on for %g seconds after its interrupt",
             (double)(hfi_cell_has_begun(&kernel->cell) ? kernel->escalate->grace_ns
                                                        : hfi_workers_ready_ns()) /
                 1e9);
}

void
hfi_escalate_tick(hf_kernel *kernel, long long now_ns) {
    struct hfi_escalate *escalation = kernel->escalate;
    hfi_worker *worker = hfi_workers_at_work(kernel);
    if (worker == NULL || escalation->due_ns == 0)
        return;
    if (now_ns >= escalation->due_ns) {
        escalation->signal = escalation->signal == 0 ? SIGTERM : SIGKILL;
        name_cause(kernel, worker);
        hfi_worker_kill(worker, escalation->signal);
        escalation->due_ns = now_ns + TERM_NS;
        escalation->nudge_ns = 0;
    } else if (escalation->nudge_ns != 0 && now_ns >= escalation->nudge_ns) {
        hfi_worker_kill(worker, SIGURG);
        escalation->pause_ns *= 2;
        escalation->nudge_ns = now_ns + escalation->pause_ns;
    }
}

long long
hfi_escalate_deadline_ns(const hf_kernel *kernel) {
    const struct hfi_escalate *escalation = kernel->escalate;
    if (hfi_workers_at_work(kernel) == NULL || escalation->due_ns == 0)
        return -1;
    if (escalation->nudge_ns != 0 && escalation->nudge_ns < escalation->due_ns)
        return escalation->nudge_ns;
    return escalation->due_ns;
}
