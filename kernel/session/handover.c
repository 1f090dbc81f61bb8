/* handover.c - where a recorded cell runs, and the way of the state there and back.
 *
 * The cell waits for the main worker's answer to a commit (commits.c), which says where
 * it is to run:
 *
 *   in-process   In the main worker, with events on. Every object is there, and nothing
 *                is saved, bound or decoded. The risk is that of a plain cell: if the
 *                cell kills the main worker, the changes of plain cells since the last
 *                commit are lost. So a rollback is made first (rollback.c).
 *   isolated     In a cell worker. The commit is published and leased to it. What it
 *                prepares is published before the reply is sent, and the main worker
 *                adopts it.
 *   forked       The same in a fork of the main worker, which has the notebook already.
 *                For a process that can't record the cell and be the main worker
 *                afterwards, as under Score-P.
 *
 *   commit ──"fork"──► FORKING ──"forked" (pid)──► STARTING ──► reply ──► publish
 *                       │                            │
 *                       └─"forked" (error)───────────┴─"refused"──► a cell worker
 *
 * A forked cell begins with a commit, too. So a cell worker can take the fork's place
 * at any time before the cell begins:
 * - if the main worker finds that a fork would lack something
 * - if the fork finds that its cell needs a start of Python
 * - if the fork dies (death.c)
 *
 * If the cell dies or is interrupted before its reply, nothing was published, and the
 * state is as before.
 *
 * An interrupt before the cell has begun ends the cell without running it. During the
 * commit this is as soon as the commit is done. While a cell worker binds, it is
 * killed: nothing is lost, and nobody waits for what may be a long decoding.
 *
 * The main worker has leased the generation that it committed once it has read
 * "published". Until then the cell's channel isn't read (`settling`). Otherwise
 * publishing what the cell prepared would retire the generation before the main worker
 * has leased it, and its memory would no longer be shared. One thread.
 */
#include "session/handover.h"

#include <signal.h>
#include <stdint.h>

#include "session/beside.h"
#include "session/commits.h"
#include "session/incoming.h"
#include "session/workers.h"
#include "session/request.h"
#include "session/rest.h"
#include "session/rollback.h"
#include "workers/program.h"

#define COMMIT_LONG_NS 250000000LL
/* the next idle commit waits for this many times the last one's duration */
#define IDLE_FACTOR 4

/* ---- the cell's process --------------------------------------------------------- */

void
hfi_handover_forget_cell(hf_kernel *kernel) {
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_RELEASED,
                                  .worker = hfi_workers_cell(kernel)});
    hfi_workers_set_cell(kernel, NULL);
    hfi_handles_drop(kernel);
    hfi_comms_forget(kernel);
}

static void
release_cell(hf_kernel *kernel) {
    if (hfi_workers_cell(kernel) != NULL)
        hfi_worker_release(hfi_workers_cell(kernel), 10000);
    hfi_handover_forget_cell(kernel);
}

static void
send_cell(hf_kernel *kernel, hfi_plan plan) {
    hfi_cell_start(&kernel->cell, plan);
    hfi_assistant_attend(kernel);
    hfi_request_send(kernel, hfi_workers_cell(kernel), kernel->cell.request);
}

void
hfi_handover_start_cell(hf_kernel *kernel, int is_fresh) {
    hfi_workers_set_cell(kernel, hfi_standby_take(kernel, is_fresh));
    if (hfi_workers_cell(kernel) == NULL) {
        hfi_ends_fail(kernel, "CellDied",
                      "no process could be started for the cell; the notebook's "
                      "variables are as they were before it");
        return;
    }
    send_cell(kernel, HFI_PLAN_ISOLATED);
}

void
hfi_handover_cancel(hf_kernel *kernel) {
    hfi_workers_drain(kernel, hfi_workers_cell(kernel));
    hfi_stream_flush(&hfi_workers_cell(kernel)->stream);
    hfi_worker_kill(hfi_workers_cell(kernel), SIGKILL);
    release_cell(kernel);
    hfi_ends_fail(kernel, hfi_interrupted_name(kernel), "");
    hfi_standby_replenish(kernel);
}

/* ---- where it runs -------------------------------------------------------------- */

/* `is_protected`: the sleeping fork has the notebook as it is now. If cells follow each
 * other, a fork is made only when it is worth its cost. */
static void
start_in_main(hf_kernel *kernel, int is_protected) {
    hfi_cell_start(&kernel->cell, HFI_PLAN_IN_PROCESS);
    if (kernel->cell.is_paced ? hfi_rollback_is_due(kernel)
                              : !is_protected || !hfi_rollback_sleeps(kernel))
        hfi_rollback_make(kernel);
    hfi_request_send(kernel, hfi_workers_main(kernel), kernel->cell.request);
}

static void
ask_fork(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    long long id = ++kernel->next_id;
    hfi_worker *fork;
    if (hfi_workers_split(kernel, HFI_FORKED, id, &fork, &error) != HF_OK) {
        hfi_cell_explain(&kernel->cell, hfi_part_text(error.message));
        hfi_handover_start_cell(kernel, 0);
        return;
    }
    hfi_workers_set_cell(kernel, fork);
    hfi_worker_note_ready(fork); /* it has the notebook already */
    hfi_cell_fork(&kernel->cell, id);
}

/* Another process has to run the cell, which hasn't begun yet. */
static void
go_to_cell_worker(hf_kernel *kernel, hfi_part reason) {
    hfi_cell_explain(&kernel->cell, reason);
    release_cell(kernel);
    hfi_handover_start_cell(kernel, 0);
}

void
hfi_handover_forked(hf_kernel *kernel, hfi_worker *worker,
                    const hfi_from_main_forked *frame) {
    (void)worker;
    if (kernel->cell.state != HFI_CELL_FORKING || kernel->cell.request->id != frame->id)
        return; /* the cell was interrupted, and the fork exits by itself */
    if (frame->pid <= 0) {
        go_to_cell_worker(kernel, frame->error);
        return;
    }
    hfi_worker_note_forked(hfi_workers_cell(kernel), (pid_t)frame->pid);
    send_cell(kernel, HFI_PLAN_FORKED);
}

void
hfi_handover_lose_main(hf_kernel *kernel) {
    if (kernel->cell.state == HFI_CELL_FORKING)
        go_to_cell_worker(kernel,
                          hfi_part_text("the notebook's process ended before it could "
                                        "report a fork for the cell"));
}

void
hfi_handover_refused(hf_kernel *kernel, hfi_worker *worker,
                     const hfi_from_cell_refused *frame) {
    (void)worker;
    if (!hfi_cell_has_begun(&kernel->cell))
        go_to_cell_worker(kernel, frame->reason);
}

static void
start_where(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    hfi_cell_explain(&kernel->cell, reply->run_reason);
    if (hfi_part_is(reply->run, "in-process"))
        start_in_main(kernel, reply->protected);
    else if (hfi_part_is(reply->run, "forked") && hfi_workers_main(kernel) != NULL)
        ask_fork(kernel);
    else
        hfi_handover_start_cell(kernel, 0);
}

/* ---- the commit before it ------------------------------------------------------- */

/* An older generation is to be published, so the main worker must lease this one
 * first. What ran before is committed: the next recorded cell has a fork of its own. */
static void
begin_history(hf_kernel *kernel) {
    hfi_rollback_pause(kernel);
    if (hfi_commits_settling(kernel) == 0)
        hfi_generations_begin(kernel);
    else
        hfi_cell_move(&kernel->cell, HFI_CELL_SETTLING);
}

/* The store has what the main worker has. */
static void
note_commit(hf_kernel *kernel, const hfi_from_worker_reply *reply,
            uint64_t generation) {
    hf_generation name;
    hfi_commits_have_all(kernel);
    hfi_rollback_drop(kernel);
    hfi_commits_keep_unserializable(kernel, reply->unserializable);
    if (reply->prepared.size == 0) {
        hfi_generations_forget(kernel);
        return;
    }
    hfi_workers_send_main(kernel, HFI_FRAME(to_main_published,
                                            .generation = (int64_t)generation,
                                            .name = hfi_commits_name(kernel, &name)));
    hfi_commits_settle(kernel, (int64_t)generation);
    hfi_generations_published(kernel, reply);
}

/* If the commit took long, delay the next one: a person who types must not wait for it.
 * If it failed, the next one waits for a cell that needs it, or for the rest. */
static void
delay_next(hf_kernel *kernel, long long spent_ns, hf_status status) {
    long long delay_ns = spent_ns > COMMIT_LONG_NS ? IDLE_FACTOR * spent_ns : 0;
    hfi_rest_delay_commits(kernel, status == HF_OK ? delay_ns : -1);
}

void
hfi_handover_committed(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    int waits = kernel->cell.state == HFI_CELL_COMMITTING;
    long long spent_ns = hfi_commits_end(kernel);
    hf_status status = hfi_commits_publish(kernel, reply, &generation, &error);
    if (hfi_commits_repeat(kernel, status))
        return;
    int has_saved = reply->unserializable.items != NULL;
    if (status == HF_OK && has_saved)
        note_commit(kernel, reply, generation);
    if (!waits || has_saved)
        delay_next(kernel, spent_ns, status);
    if (!waits) {
        if (status != HF_OK)
            hfi_commits_note_failure(kernel, &error);
        return;
    }
    hfi_cell_committed(&kernel->cell,
                       reply->report != NULL ? (double)reply->report->bytes_copied : 0);
    if (status != HF_OK)
        hfi_commits_fail(
            kernel,
            "the cell did not run, since the notebook's variables could not be "
            "saved for it",
            &error);
    else if (hfi_cell_goes_back(&kernel->cell))
        begin_history(kernel);
    else
        start_where(kernel, reply);
}

void
hfi_handover_settled(hf_kernel *kernel, hfi_worker *worker,
                     const hfi_from_main_settled *frame) {
    (void)worker;
    if (frame->generation == hfi_commits_settling(kernel))
        hfi_commits_settle(kernel, 0);
    if (kernel->cell.state == HFI_CELL_SETTLING && hfi_commits_settling(kernel) == 0)
        hfi_generations_begin(kernel);
}

int
hfi_handover_holds(const hf_kernel *kernel, const hfi_worker *worker) {
    return worker == hfi_workers_cell(kernel) && hfi_commits_settling(kernel) != 0;
}

/* ---- its reply ------------------------------------------------------------------ */

void
hfi_handover_replied(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    uint64_t generation = 0;
    hf_error error = HF_ERROR_INIT;
    hfi_textbuf metadata = {0};
    int failed = hfi_ends_read(reply).failed;
    hfi_cell_answered(&kernel->cell);
    hf_status status = hfi_commits_publish(kernel, reply, &generation, &error);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_COLLECTED,
                                  .reply = reply,
                                  .failed = status != HF_OK});
    if (status != HF_OK) {
        release_cell(kernel);
        hfi_commits_fail(kernel,
                         "what the cell changed could not be published, the notebook's "
                         "variables are as they were before it",
                         &error);
        hfi_standby_replenish(kernel);
        return;
    }
    if (reply->prepared.size > 0) {
        hfi_generations_note(kernel);
        hfi_generations_published(kernel, reply);
        /* a report is answered after the adoption, so it is enough to wait for it */
        if (!hfi_ends_will_report(kernel))
            hfi_cell_adopt(&kernel->cell, ++kernel->next_id);
    }
    hfi_request_cost(kernel, reply, hfi_cell_run_mode(&kernel->cell), &metadata);
    hfi_ends_reply(kernel, kernel->cell.request, reply, hfi_textbuf_part(&metadata));
    hfi_handles_adopt(kernel);
    hfi_commits_adopt(kernel, &kernel->cell, reply->report);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_REPLIED,
                                  .reply = reply,
                                  .metadata = &metadata,
                                  .failed = failed});
    hfi_textbuf_fini(&metadata);
    hfi_ends_finish(kernel, failed);
    release_cell(kernel);
    hfi_standby_replenish(kernel);
}

void
hfi_handover_replied_in_process(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    hfi_textbuf metadata = {0};
    int failed = hfi_ends_read(reply).failed;
    hfi_cell_answered(&kernel->cell);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_COLLECTED, .reply = reply});
    hfi_request_cost(kernel, reply, hfi_cell_run_mode(&kernel->cell), &metadata);
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_REPLIED,
                                  .reply = reply,
                                  .metadata = &metadata,
                                  .failed = failed});
    hfi_ends_reply(kernel, kernel->cell.request, reply, hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    hfi_commits_ran(kernel);
    hfi_generations_note(kernel);
    hfi_ends_finish(kernel, failed);
}
