/* where.c - where a recorded or isolated cell is to run. It is decided here alone:
 *
 *   the cell's own choice       --run=... of its command
 *   isolated, without a choice  a clean process
 *   else                        the kernel's option; "auto" is in-process
 *
 * A fork that can't be made, or lacks something, is found when it is to be made
 * (forking.c): the frontend then takes a clean process.
 *
 * The main worker answers with a commit. For a cell that stays in-process it makes one
 * only if a cell has run since the last, so that undo has the state before it, if the
 * last took little time, and if the cell doesn't follow others without a pause.
 */
#include "where.h"

#include <stdio.h>
#include <time.h>

#include "saving.h"

#define CHEAP_SECONDS 0.05

static bool
is_run_mode(hfi_part word) {
    return hfi_part_is(word, "auto") || hfi_part_is(word, "in-process") ||
           hfi_part_is(word, "forked") || hfi_part_is(word, "isolated");
}

/* The way, as the frontend names it: "" is isolated. `reason`: who chose it. */
static const char *
choose_way(const hfi_to_main_commit *frame, char reason[64]) {
    hfi_part mode = frame->run;
    reason[0] = '\0';
    if (is_run_mode(frame->cell_run)) {
        mode = frame->cell_run;
        snprintf(reason, 64, "--run=%.*s", (int)mode.size, mode.data);
    } else if (frame->isolated) {
        mode = hfi_part_text("isolated");
    }
    return hfi_part_is(mode, "isolated") ? ""
           : hfi_part_is(mode, "forked") ? "forked"
                                         : "in-process";
}

static double
clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

hf_status
hfi_where_commit(hf_worker *worker, const hfi_to_main_commit *frame, hf_error *reterr) {
    hfi_saved saved = {.prepared = {NULL, 0}};
    char reason[64] = "";
    bool waits = frame->code.data != NULL;
    const char *way = waits ? choose_way(frame, reason) : "";
    hfi_from_worker_reply reply = {.head.row = &hfi_row_from_worker_reply,
                                   .id = frame->id,
                                   .run = hfi_part_text(way),
                                   .run_reason = hfi_part_text(reason),
                                   .report = &saved.report};
    bool stays = strcmp(way, "in-process") == 0;
    reply.protected = stays && worker->is_protected;
    hfi_life_move(&worker->life, HFI_LIFE_SAVING);
    if (!stays || (!reply.protected && !frame->paced && worker->ran &&
                   worker->seconds < CHEAP_SECONDS)) {
        double begin = clock_seconds();
        hfi_saving_save(worker, &saved);
        worker->seconds = clock_seconds() - begin;
        worker->ran = saved.report.error.size > 0;
        saved.report.seconds = worker->seconds;
        reply.prepared = saved.prepared;
        reply.unserializable = saved.unserializable;
    }
    hf_status status = hfi_self_send(worker, &reply.head, reterr);
    hfi_life_move(&worker->life, HFI_LIFE_IDLE);
    return status;
}
