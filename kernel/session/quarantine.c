/* quarantine.c - the value that a worker died of, or hangs in.
 *
 * Loading and saving variables runs code that may exit, crash or hang. A worker notes
 * in shared memory which value it is working on (holdfast/store.h, turns), so after its
 * death we know the variable. An entry that was being loaded goes into quarantine: no
 * process loads it any more, its bytes stay in the store, and the next worker gets
 * further. So such a death doesn't count among the failures after which we give up.
 *
 * A worker that works on one value for longer than HOLDFAST_VALUE_SECONDS (30) allows
 * is ended. If a value has objects of the user's own classes, the worker first loads or
 * saves it in a child, for that long at most (holdfast/carry/trial.py). So we wait
 * twice as long, and a second more for each MiB that is loaded. For saving we wait ten
 * times as long, because everything that isn't saved is lost with the process.
 *
 * SIGKILL and SIGTERM may come from somebody else, and say nothing about the value. The
 * value counts as the cause only if two processes in a row ended with it that way. A
 * main worker needs the variable, so there more deaths are required; but two suffice if
 * the system has killed processes for want of memory meanwhile, because then loading
 * the value takes too much. One thread.
 */
#include "session/death.h"

#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "session/timelimit.h"
#include "session/workers.h"
#include "session/restart.h"
#include "workers/program.h"

#define VALUE_SECONDS  30.0
#define LOOK_NS        250000000LL
#define LOAD_FACTOR    2
#define SAVE_FACTOR    10
#define KILLED_MAX     2 /* workers in a row that somebody ended at one value */
#define KILLED_WORKERS 8

typedef struct hfi_quarantine {
    long long due_ns;       /* when to look next for workers that hang in a value */
    hf_turn suspect;        /* what a worker was loading when somebody ended it */
    int suspect_deaths;     /* workers in a row that were ended at it */
    long long memory_kills; /* of the system, at the last look */
} hfi_quarantine;

const hfi_owner hfi_quarantine_owner = {offsetof(hf_kernel, quarantine),
                                        sizeof(struct hfi_quarantine), NULL, NULL};

static long long
end_of(const hf_turn *turn) {
    long long limit_ns = hfi_limit_positive_ns("HOLDFAST_VALUE_SECONDS", VALUE_SECONDS);
    if (turn->kind == HF_TURN_DECODE)
        return turn->since_ns + limit_ns * LOAD_FACTOR + turn->mib * 1000000000LL;
    return turn->since_ns + limit_ns * SAVE_FACTOR;
}

static int
is_at_something(const hf_kernel *kernel, const hfi_worker *worker, hf_turn *ret_turn) {
    return worker->pid > 0 && !hfi_worker_is_over(worker) &&
           hf_session_turn_of(kernel->store, worker->pid, ret_turn);
}

int
hfi_quarantine_spares(const hf_kernel *kernel, const hfi_worker *worker,
                      long long now_ns) {
    hf_turn turn = {.struct_size = sizeof turn};
    return is_at_something(kernel, worker, &turn) && now_ns < end_of(&turn);
}

void
hfi_quarantine_tick(hf_kernel *kernel, long long now_ns) {
    hf_turn turn = {.struct_size = sizeof turn};
    if (now_ns < kernel->quarantine->due_ns)
        return;
    kernel->quarantine->due_ns = now_ns + LOOK_NS;
    for (hfi_worker *at = hfi_workers_server(kernel)->workers; at != NULL;
         at = at->next) {
        if (!at->owned || at->fault == HFI_FAULT_HUNG ||
            !is_at_something(kernel, at, &turn) || now_ns < end_of(&turn))
            continue;
        if (at->fault == HFI_FAULT_NONE)
            at->fault = HFI_FAULT_HUNG;
        hfi_worker_kill(at, SIGKILL);
    }
}

/* How many processes the system has ever killed for want of memory; 0 if it doesn't
 * report that. */
static long long
count_memory_kills(void) {
    static const char name[] = "oom_kill ";
    char line[128];
    long long count = 0;
    FILE *file = fopen("/proc/vmstat", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, sizeof name - 1) == 0)
            count = strtoll(line + sizeof name - 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return count;
}

void
hfi_quarantine_init(hf_kernel *kernel) {
    kernel->quarantine->memory_kills = count_memory_kills();
}

/* Whether so many workers have died at the suspect that it must be the cause. */
static int
is_convicted(hf_kernel *kernel, const hfi_worker *worker, const hf_turn *turn) {
    long long kills = count_memory_kills();
    int starved = kills > kernel->quarantine->memory_kills;
    int again = turn->key_hash == kernel->quarantine->suspect.key_hash &&
                turn->generation == kernel->quarantine->suspect.generation;
    kernel->quarantine->memory_kills = kills;
    kernel->quarantine->suspect = *turn;
    kernel->quarantine->suspect_deaths =
        again ? kernel->quarantine->suspect_deaths + 1 : 1;
    return kernel->quarantine->suspect_deaths >=
           (worker->role == HFI_MAIN && !starved ? KILLED_WORKERS : KILLED_MAX);
}

/* Put the value into quarantine if it is the cause. Returns 1 if nobody loads it any
 * more. */
static int
quarantine_turn(hf_kernel *kernel, const hfi_worker *worker, const hf_turn *turn) {
    hf_error error = HF_ERROR_INIT;
    int hung = worker->fault != HFI_FAULT_NONE;
    uint32_t cause =
        hung ? HF_CAUSE_HUNG : HF_CAUSE_DIED | ((uint32_t)worker->status & 0xffffu);
    int convicted = is_convicted(kernel, worker, turn);
    if (!hung && !convicted &&
        hfi_restart_is_from_outside(hfi_worker_status_is_known(worker), worker->status))
        return 0;
    if (hf_session_quarantine(kernel->store, turn, cause, &error) == HF_OK)
        return 1;
    hfi_log("quarantine: %s", error.message);
    return 0;
}

static void
add_way_out(const hf_kernel *kernel, char *exit_reason, size_t size) {
    size_t used = strlen(exit_reason);
    const char *command = hfi_history_command(kernel);
    const char *drop = hfi_drop_word(kernel);
    snprintf(exit_reason + used, size - used,
             " (no process loads it again until a cell assigns it%s%s%s%s%s%s)",
             command != NULL ? " or runs `" : "", command != NULL ? command : "",
             command != NULL ? " retry`" : "", drop != NULL ? "; " : "",
             drop != NULL ? drop : "", drop != NULL ? " works" : "");
}

int
hfi_quarantine_note(hf_kernel *kernel, const hfi_worker *worker, char *exit_reason,
                    size_t size) {
    hf_turn turn = {.struct_size = sizeof turn};
    size_t used = strlen(exit_reason);
    int known = 0;
    if (worker->pid <= 0 || !hf_session_turn_of(kernel->store, worker->pid, &turn))
        return 0;
    hf_session_turn_forget(kernel->store, worker->pid);
    if (!worker->owned)
        return 0;
    if (turn.kind == HF_TURN_DECODE)
        known = quarantine_turn(kernel, worker, &turn);
    snprintf(exit_reason + used, size - used, " while it was %s %s",
             turn.kind == HF_TURN_DECODE ? "loading" : "saving", turn.label);
    if (known)
        add_way_out(kernel, exit_reason, size);
    return known;
}
