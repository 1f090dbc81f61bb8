/* road.c - an instrumented cell that the home itself runs, or a fork of it.
 *
 * Under the built-in recorder a cell needs no process of its own. Where it names
 * objects that only the home has, or where decoding what it reaches would cost more
 * than a process of its own is worth, the home runs it with events on: every object is
 * simply there, and nothing is saved, bound or decoded.
 *
 * The home decides, since only it knows its objects. It is asked with the commit: the
 * cell's code goes along, with the road that the user has chosen, and the answer is
 * either a commit or "home" with the reason, of which the client is told. So the
 * question costs no turn of its own, and a cell that stays at home saves nothing. Where
 * only saving showed what can't be carried, the answer is both.
 *
 * What is at risk is what is at risk in a plain cell: a cell that kills the home takes
 * with it what plain cells changed since the last commit. To commit before such a cell
 * was rejected: it would cost what this road is there to save; an idle home has
 * committed already.
 *
 * Where a process can't record the cell and be the home afterwards, as under Score-P,
 * the home commits, and is asked for a fork of itself:
 *
 *     commit ──"fork"──► ask ──"forked" (pid)──► request ──► reply ──► publish, adopt
 *                         │                         │
 *                         └─"forked" (error)────────┴─"declined"──► a clean process
 *
 * From its request on the fork is a cell worker like any other (handover.c), except
 * that it has the notebook already. What it needs for that is committed, so a clean
 * process can take its place at any time before the cell begins: where the home finds
 * that a fork would lack something, where the fork finds that its cell needs a start of
 * Python, and where the fork dies (death.c).
 *
 * One thread.
 */
#include "session/session.h"

#include <string.h>

#include "workers/program.h"

void
hfi_road_ask(hf_kernel *kernel, hfi_frame *frame) {
    const char *chosen = kernel->cell.verdict.road;
    hfi_frame_add_text(frame, "code", hfi_request_code(kernel, kernel->cell.request));
    hfi_frame_add_text(frame, "cell_road", hfi_part_text(chosen != NULL ? chosen : ""));
    hfi_frame_add_text(frame, "road", hfi_part_text(kernel->road));
    hfi_frame_add_flag(frame, "isolated", kernel->cell.verdict.isolated);
}

static void
note_reason(hf_kernel *kernel, hfi_part reason) {
    hfi_textbuf_clear(&kernel->cell.road_reason);
    hfi_textbuf_append(&kernel->cell.road_reason, reason.data, reason.size);
}

static void
start_at_home(hf_kernel *kernel) {
    kernel->cell.plan = HFI_PLAN_IN_PROCESS;
    hfi_cell_move(&kernel->cell, HFI_CELL_STARTING);
    hfi_rollback_make(kernel);
    kernel->cell.sent_ns = hfi_clock_ns();
    hfi_request_send(kernel, kernel->home, kernel->cell.request);
}

/* ---- a fork of the home --------------------------------------------------------- */

static void
ask_fork(hf_kernel *kernel) {
    hf_error error = HF_ERROR_INIT;
    long long id = ++kernel->next_id;
    if (hfi_crew_split(kernel, HFI_FORKED, id, &kernel->cell_worker, &error) != HF_OK) {
        kernel->cell_worker = NULL;
        note_reason(kernel, hfi_part_text(error.message));
        hfi_handover_start_cell(kernel);
        return;
    }
    kernel->cell_worker->ready =
        1; /* it has the notebook, and no other work before its cell */
    kernel->cell.plan = HFI_PLAN_FORKED;
    kernel->cell.request->id = id;
    hfi_cell_move(&kernel->cell, HFI_CELL_FORKING);
}

/* Another process has to run the cell, which hasn't begun. */
static void
go_to_cell_worker(hf_kernel *kernel, hfi_part reason) {
    note_reason(kernel, reason);
    hfi_handover_release_cell(kernel);
    hfi_handover_start_cell(kernel);
}

void
hfi_road_forked(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    (void)worker;
    long long id = hfi_map_integer(map, "id", 0);
    if (kernel->cell.state != HFI_CELL_FORKING || kernel->cell.request->id != id)
        return; /* the cell was interrupted, and the fork leaves by itself */
    pid_t pid = (pid_t)hfi_map_integer(map, "pid", 0);
    if (pid <= 0) {
        go_to_cell_worker(kernel, hfi_map_part(map, "error"));
        return;
    }
    kernel->cell_worker->pid = pid;
    hfi_handover_send_cell(kernel);
}

void
hfi_road_declined(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map) {
    (void)worker;
    if (!hfi_cell_has_begun(&kernel->cell))
        go_to_cell_worker(kernel, hfi_map_part(map, "reason"));
}

/* ---- which ---------------------------------------------------------------------- */

void
hfi_road_start(hf_kernel *kernel, const msgpack_object *reply) {
    hfi_part road = hfi_map_part(reply, "road");
    note_reason(kernel, hfi_map_part(reply, "road_reason"));
    if (hfi_part_equal(road, hfi_part_text("home")))
        start_at_home(kernel);
    else if (hfi_part_equal(road, hfi_part_text("fork")) && kernel->home != NULL)
        ask_fork(kernel);
    else
        hfi_handover_start_cell(kernel);
}

void
hfi_road_replied(hf_kernel *kernel, const msgpack_object *reply) {
    hfi_textbuf metadata = {0};
    int failed = hfi_execute_is_error(hfi_map_part(reply, "content"));
    kernel->cell.replied_ns = hfi_clock_ns();
    hfi_trace_show(kernel, hfi_map_part(reply, "trace"));
    hfi_trace_open(kernel, hfi_map_part(reply, "trace"));
    hfi_summary_show(kernel, reply);
    hfi_request_cost(kernel, reply, "home", &metadata);
    hfi_runs_note(kernel, reply, failed ? "error" : "ok", &metadata);
    hfi_execute_send_reply(kernel, kernel->cell.request, reply,
                           hfi_textbuf_part(&metadata));
    hfi_textbuf_fini(&metadata);
    kernel->uncommitted++;
    hfi_timeline_note(kernel);
    hfi_execute_finish(kernel, failed);
}
