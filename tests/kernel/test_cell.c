/* test_cell.c - the states of a request: the table is whole, and the pictures of it in
 * cell.h and ARCHITECTURE.md are the table's.
 *
 *   test_kernel_cell [cell.h ARCHITECTURE.md]     checks
 *   test_kernel_cell --draw                       prints what has to be there
 */
#include "../support/check.h"
#include "session/cell.h"

#include <stdlib.h>

typedef struct move {
    hfi_cell_state from, to;
    const char *why;
} move;

static const move moves[] = {
#define MOVE(from, to, why) {HFI_CELL_##from, HFI_CELL_##to, why},
    HFI_CELL_MOVES(MOVE)
#undef MOVE
};

static const char *const states[] = {
#define STATE(name, text) text,
    HFI_CELL_STATES(STATE)
#undef STATE
};

enum { MOVES = sizeof moves / sizeof *moves, DRAWING = 16384, COLUMNS = 128 };

/* ---- the pictures ---- */

typedef struct drawing {
    char text[DRAWING];
    const char *margin; /* of each line */
    char open[COLUMNS]; /* columns with a branch that goes on below */
    int drawn[HFI_CELL_STATE_COUNT];
} drawing;

static void
add(drawing *picture, const char *text) {
    CHECK(strlen(picture->text) + strlen(text) < sizeof picture->text);
    strcat(picture->text, text);
}

/* The state's name, and behind it, where it comes first, where it leads to. */
static void
draw(drawing *picture, hfi_cell_state state, size_t column) {
    size_t left = 0, here = column + strlen(hfi_cell_state_name(state));
    add(picture, hfi_cell_state_name(state));
    for (size_t i = 0; i < MOVES; i++)
        left += moves[i].from == state && !picture->drawn[state];
    picture->drawn[state] = 1;
    if (left == 0)
        add(picture, "\n");
    int first = 1;
    for (size_t i = 0; i < MOVES && left > 0; i++) {
        if (moves[i].from != state)
            continue;
        left--;
        if (!first) {
            add(picture, picture->margin);
            for (size_t at = 0; at < here; at++)
                add(picture, picture->open[at] ? "│" : " ");
        }
        add(picture, first && left ? "┬►" : first ? "─►" : left ? "├►" : "└►");
        CHECK(here < COLUMNS);
        picture->open[here] = left > 0;
        first = 0;
        draw(picture, moves[i].to, here + 2);
    }
}

static const char *
drawn(const char *margin) {
    static drawing picture;
    memset(&picture, 0, sizeof picture);
    picture.margin = margin;
    add(&picture, margin);
    draw(&picture, HFI_CELL_IDLE, 0);
    return picture.text;
}

/* For ARCHITECTURE.md: a row of a table for each state. */
static const char *
listed(void) {
    static drawing table;
    table.text[0] = '\0';
    for (int state = 0; state < HFI_CELL_STATE_COUNT; state++) {
        char row[512];
        snprintf(row, sizeof row, "| `%s` | %s |\n", hfi_cell_state_name(state),
                 states[state]);
        add(&table, row);
    }
    return table.text;
}

static char *
read_file(const char *path) {
    enum { SIZE = 1 << 20 };
    char *text = calloc(1, SIZE);
    FILE *file = fopen(path, "r");
    CHECK(text && file);
    CHECK(fread(text, 1, SIZE - 1, file) < SIZE - 1);
    fclose(file);
    return text;
}

static void
check_picture(const char *path, const char *picture) {
    char *text = read_file(path);
    if (!strstr(text, picture))
        fprintf(stderr, "%s should have:\n%s", path, picture);
    CHECK(strstr(text, picture));
    free(text);
}

/* ---- the table ---- */

static void
test_every_pair(void) {
    for (int from = 0; from < HFI_CELL_STATE_COUNT; from++)
        for (int to = 0; to < HFI_CELL_STATE_COUNT; to++) {
            int listed_moves = 0;
            for (size_t i = 0; i < MOVES; i++)
                listed_moves += (int)moves[i].from == from && (int)moves[i].to == to;
            CHECK(listed_moves <= 1);
            CHECK(hfi_cell_can_move(from, to) == listed_moves);
        }
}

/* Every state is reached from IDLE, and leads back to it. */
static void
test_no_dead_end(void) {
    int reached[HFI_CELL_STATE_COUNT] = {1}, returns[HFI_CELL_STATE_COUNT] = {1};
    for (int turn = 0; turn < HFI_CELL_STATE_COUNT; turn++)
        for (size_t i = 0; i < MOVES; i++) {
            reached[moves[i].to] |= reached[moves[i].from];
            returns[moves[i].from] |= returns[moves[i].to];
        }
    for (int state = 0; state < HFI_CELL_STATE_COUNT; state++)
        CHECK(reached[state] && returns[state]);
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
        printf("%s\n", drawn(" *     "));
        printf("%s\n%s", drawn(""), listed());
        return 0;
    }
    test_every_pair();
    test_no_dead_end();
    test_places();
    test_moves();
    if (argc == 3) {
        check_picture(argv[1], drawn(" *     "));
        check_picture(argv[2], drawn(""));
        check_picture(argv[2], listed());
    }
    return 0;
}
