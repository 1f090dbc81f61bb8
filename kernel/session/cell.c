/* cell.c - the state of the request that runs, and which process has it.
 *
 * The table of moves is in cell.h, as data. A move that isn't in it is an error of this
 * program, never of a worker or a client, so it ends the program. Reports of workers
 * are compared with the state first, and ignored if they don't fit.
 *
 * Rejected: a set of flags (phase, started, in the main worker, forking, reporting
 * ...). Most of their combinations had no meaning, and each reader had to know which.
 * One thread.
 */
#include "session/cell.h"

#include <assert.h>
#include <string.h>

#include "workers/program.h"

int
hfi_cell_can_move(hfi_cell_state from, hfi_cell_state to) {
    static const unsigned targets[HFI_CELL_STATE_COUNT][HFI_CELL_STATE_COUNT] = {
#define HFI_MOVE(from, to, why) [HFI_CELL_##from][HFI_CELL_##to] = 1,
        HFI_CELL_MOVES(HFI_MOVE)
#undef HFI_MOVE
    };
    return targets[from][to] != 0;
}

void
hfi_cell_move(hfi_cell *cell, hfi_cell_state to) {
    assert(hfi_cell_can_move(cell->state, to));
    cell->state = to;
    if (to == HFI_CELL_STARTING)
        cell->sent_ns = hfi_clock_ns();
    else if (to == HFI_CELL_RUNNING)
        cell->started_ns = hfi_clock_ns();
    else if (to == HFI_CELL_COLLECTING)
        cell->ended_ns = hfi_clock_ns();
}

int
hfi_cell_is_execution(const hfi_cell *cell) {
    return cell->request != NULL &&
           strcmp(cell->request->message.type, "execute_request") == 0;
}

int
hfi_cell_waits_for_commit(const hfi_cell *cell) {
    return cell->state == HFI_CELL_COMMITTING || cell->state == HFI_CELL_SETTLING;
}

int
hfi_cell_has_begun(const hfi_cell *cell) {
    return cell->state == HFI_CELL_RUNNING || cell->state == HFI_CELL_COLLECTING;
}

/* Whether a process runs the code, or is about to. */
static int
is_at_work(const hfi_cell *cell) {
    return cell->state == HFI_CELL_STARTING || hfi_cell_has_begun(cell);
}

int
hfi_cell_is_in_main(const hfi_cell *cell) {
    return cell->state == HFI_CELL_ANSWERING || cell->state == HFI_CELL_REPORTING ||
           (is_at_work(cell) && cell->plan <= HFI_PLAN_IN_PROCESS);
}

int
hfi_cell_is_in_worker(const hfi_cell *cell) {
    return cell->state == HFI_CELL_FORKING ||
           (is_at_work(cell) && cell->plan >= HFI_PLAN_FORKED);
}

const char *
hfi_cell_run_mode(const hfi_cell *cell) {
    return cell->plan == HFI_PLAN_FORKED     ? "forked"
           : cell->plan == HFI_PLAN_ISOLATED ? "isolated"
                                             : "in-process";
}

int
hfi_cell_goes_back(const hfi_cell *cell) {
    hfi_history_kind kind = cell->directive.history.kind;
    return kind >= HFI_HISTORY_UNDO && kind <= HFI_HISTORY_LOAD;
}

json_t *
hfi_cell_source(const hfi_cell *cell) {
    return json_object_get(cell->request->message.body, "code");
}

int
hfi_cell_reruns(const hfi_cell *cell) {
    return cell->request != NULL && cell->request->reruns;
}

hfi_part
hfi_cell_code(const hfi_cell *cell) {
    json_t *code = hfi_cell_source(cell);
    if (cell->directive.code != NULL)
        return hfi_part_of(cell->directive.code, cell->directive.code_length);
    return hfi_part_of(json_string_value(code), json_string_length(code));
}

void
hfi_cell_start(hfi_cell *cell, hfi_plan plan) {
    cell->plan = plan;
    hfi_cell_move(cell, HFI_CELL_STARTING);
}

void
hfi_cell_take(hfi_cell *cell, hfi_request *request) {
    *cell = (hfi_cell){
        .state = cell->state, .request = request, .begin_ns = hfi_clock_ns()};
    hfi_cell_move(cell, HFI_CELL_TAKEN);
}

void
hfi_cell_fork(hfi_cell *cell, long long id) {
    cell->plan = HFI_PLAN_FORKED;
    cell->request->id = id;
    hfi_cell_move(cell, HFI_CELL_FORKING);
}

hfi_request *
hfi_cell_end(hfi_cell *cell) {
    hfi_request *request = cell->request;
    hfi_cell_move(cell, HFI_CELL_IDLE);
    cell->request = NULL;
    return request;
}

void
hfi_cell_fini(hfi_cell *cell) {
    hfi_directive_fini(&cell->directive);
    hfi_textbuf_fini(&cell->run_reason);
}

/* what becomes known of it */

void
hfi_cell_set_options(hfi_cell *cell, json_t *body, long long number) {
    json_t *history = json_object_get(body, "store_history");
    json_t *stop = json_object_get(body, "stop_on_error");
    cell->silent = json_is_true(json_object_get(body, "silent"));
    cell->store_history = !cell->silent && !json_is_false(history);
    cell->stop_on_error = !json_is_false(stop);
    cell->number = number;
}

void
hfi_cell_renumber(hfi_cell *cell, long long number) {
    cell->number = number;
    cell->store_history = 1;
}

void
hfi_cell_hush(hfi_cell *cell) {
    cell->silent = 1;
    cell->stop_on_error = 0;
}

void
hfi_cell_pace(hfi_cell *cell, int is_paced) {
    cell->is_paced = is_paced;
}

void
hfi_cell_input(hfi_cell *cell, int is_wanted) {
    cell->input_wanted = is_wanted;
}

void
hfi_cell_committed(hfi_cell *cell, double bytes_copied) {
    cell->commit_bytes_copied = bytes_copied;
}

void
hfi_cell_explain(hfi_cell *cell, hfi_part reason) {
    hfi_textbuf_clear(&cell->run_reason);
    hfi_textbuf_add_part(&cell->run_reason, reason);
}

void
hfi_cell_answered(hfi_cell *cell) {
    cell->replied_ns = hfi_clock_ns();
}

void
hfi_cell_fail(hfi_cell *cell, const char *fate) {
    cell->fate = fate;
    cell->goes_on = 0;
}

void
hfi_cell_repeat(hfi_cell *cell, int goes_on) {
    cell->goes_on = goes_on;
}

void
hfi_cell_adopt(hfi_cell *cell, long long id) {
    cell->adoption = id;
}

void
hfi_cell_finish(hfi_cell *cell, int failed) {
    cell->failed = failed;
}
