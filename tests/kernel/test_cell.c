/* test_cell.c - the states of a request: the table is whole, and the pictures of it in
 * cell.h and ARCHITECTURE.md are the table's.
 *
 *   test_kernel_cell [cell.h ARCHITECTURE.md]     checks
 *   test_kernel_cell --draw                       prints what has to be there
 */
#include "../support/states.h"
#include "session/cell.h"

static const move moves[] = {
#define MOVE(from, to, why) {HFI_CELL_##from, HFI_CELL_##to},
    HFI_CELL_MOVES(MOVE)
#undef MOVE
};

static const char *const names[] = {
#define STATE(name, text) #name,
    HFI_CELL_STATES(STATE)
#undef STATE
};

static const char *const texts[] = {
#define STATE(name, text) text,
    HFI_CELL_STATES(STATE)
#undef STATE
};

static const machine cells = {names, texts, HFI_CELL_STATE_COUNT, moves,
                              sizeof moves / sizeof *moves};

/* ---- the table ---- */

static int
can_move(int from, int to) {
    return hfi_cell_can_move((hfi_cell_state)from, (hfi_cell_state)to);
}

/* Every state leads back to IDLE. */
static void
test_no_dead_end(void) {
    const int idle[] = {HFI_CELL_IDLE};
    check_every_pair(&cells, can_move);
    check_ways(&cells, idle, 1);
}

/* In which process a cell is, by its state and its plan. */
static void
test_places(void) {
    for (int state = 0; state < HFI_CELL_STATE_COUNT; state++)
        for (int plan = HFI_PLAN_NONE; plan <= HFI_PLAN_ISOLATED; plan++) {
            hfi_cell cell = {.state = state, .plan = plan};
            int places = hfi_cell_is_in_main(&cell) + hfi_cell_is_in_worker(&cell) +
                         hfi_cell_waits_for_commit(&cell);
            int nowhere = state == HFI_CELL_IDLE || state == HFI_CELL_TAKEN ||
                          state == HFI_CELL_REPLIED;
            CHECK(places == !nowhere);
            if (hfi_cell_has_begun(&cell))
                CHECK(hfi_cell_is_in_main(&cell) == (plan <= HFI_PLAN_IN_PROCESS));
        }
}

static void
test_moves(void) {
    hfi_cell cell = {0};
    const hfi_cell_state way[] = {
        HFI_CELL_TAKEN,   HFI_CELL_COMMITTING, HFI_CELL_STARTING, HFI_CELL_STARTING,
        HFI_CELL_RUNNING, HFI_CELL_COLLECTING, HFI_CELL_REPLIED,  HFI_CELL_IDLE};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        hfi_cell_move(&cell, way[i]);
        CHECK(cell.state == way[i]);
    }
    CHECK(!hfi_cell_can_move(HFI_CELL_IDLE, HFI_CELL_RUNNING));
    CHECK(!hfi_cell_can_move(HFI_CELL_RUNNING, HFI_CELL_STARTING));
}

int
main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--draw") == 0) {
        printf("%s\n", drawn(&cells, " *     "));
        printf("%s\n%s", drawn(&cells, ""), listed(&cells));
        return 0;
    }
    test_no_dead_end();
    test_places();
    test_moves();
    if (argc == 3) {
        check_picture(argv[1], drawn(&cells, " *     "));
        check_picture(argv[2], drawn(&cells, ""));
        check_picture(argv[2], listed(&cells));
    }
    return 0;
}
