/* cell.c - the state of the request that runs, and which process has it.
 *
 * The table of moves is in cell.h, as data: a move that isn't in it is an error of this
 * program's, never of a worker's or a client's, so it ends the program. Workers'
 * reports are compared with the state first, and ignored if they don't fit.
 *
 * A set of flags (phase, started, in the main worker, forking, reporting ...) was
 * rejected: most of their combinations meant nothing, and each reader had to know
 * which. One thread.
 */
#include "session/cell.h"

#include <assert.h>
#include <string.h>

#include "workers/program.h"

const char *
hfi_cell_state_name(hfi_cell_state state) {
    static const char *const names[] = {
#define HFI_STATE(name, text) #name,
        HFI_CELL_STATES(HFI_STATE)
#undef HFI_STATE
    };
    return names[state];
}

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

hfi_part
hfi_cell_code(const hfi_cell *cell) {
    json_t *code = json_object_get(cell->request->message.body, "code");
    if (cell->directive.code != NULL)
        return hfi_part_of(cell->directive.code, cell->directive.code_length);
    return hfi_part_of(json_string_value(code), json_string_length(code));
}

void
hfi_cell_start(hfi_cell *cell, hfi_plan plan) {
    cell->plan = plan;
    hfi_cell_move(cell, HFI_CELL_STARTING);
}
