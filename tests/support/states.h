/* states.h - what the tests of state machines share: a table of moves is whole, and a
 * picture of it is the table's. State 0 is the first. Names and texts are the table's.
 */
#ifndef TEST_STATES_H
#define TEST_STATES_H

#include "check.h"

#include <stdlib.h>
#include <string.h>

typedef struct move {
    int from, to;
} move;

typedef struct machine {
    const char *const *names; /* of the states */
    const char *const *texts;
    size_t states;
    const move *moves;
    size_t move_count;
} machine;

enum { DRAWING = 16384, COLUMNS = 128, STATES_MAX = 32 };

/* ---- pictures ---- */

typedef struct drawing {
    const machine *machine;
    char text[DRAWING];
    const char *margin; /* of each line */
    char open[COLUMNS]; /* columns with a branch that goes on below */
    int drawn[STATES_MAX];
} drawing;

static void
add(drawing *picture, const char *text) {
    CHECK(strlen(picture->text) + strlen(text) < sizeof picture->text);
    strcat(picture->text, text);
}

/* The state's name, and behind it, where it comes first, where it leads to. */
static void
draw(drawing *picture, int state, size_t column) {
    const machine *of = picture->machine;
    size_t left = 0, here = column + strlen(of->names[state]);
    add(picture, of->names[state]);
    for (size_t i = 0; i < of->move_count; i++)
        left += of->moves[i].from == state && !picture->drawn[state];
    picture->drawn[state] = 1;
    if (left == 0)
        add(picture, "\n");
    int first = 1;
    for (size_t i = 0; i < of->move_count && left > 0; i++) {
        if (of->moves[i].from != state)
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
        draw(picture, of->moves[i].to, here + 2);
    }
}

static inline const char *
drawn(const machine *of, const char *margin) {
    static drawing picture;
    memset(&picture, 0, sizeof picture);
    picture.machine = of;
    picture.margin = margin;
    add(&picture, margin);
    draw(&picture, 0, 0);
    return picture.text;
}

/* For ARCHITECTURE.md: a row of a table for each state. */
static inline const char *
listed(const machine *of) {
    static drawing table;
    table.text[0] = '\0';
    for (size_t state = 0; state < of->states; state++) {
        char row[512];
        snprintf(row, sizeof row, "| `%s` | %s |\n", of->names[state],
                 of->texts[state]);
        add(&table, row);
    }
    return table.text;
}

static inline char *
read_file(const char *path) {
    enum { SIZE = 1 << 20 };
    char *text = calloc(1, SIZE);
    FILE *file = fopen(path, "r");
    CHECK(text && file);
    CHECK(fread(text, 1, SIZE - 1, file) < SIZE - 1);
    fclose(file);
    return text;
}

static inline void
check_picture(const char *path, const char *picture) {
    char *text = read_file(path);
    if (!strstr(text, picture))
        fprintf(stderr, "%s should have:\n%s", path, picture);
    CHECK(strstr(text, picture));
    free(text);
}

/* ---- the table ---- */

/* `can_move` says what the table says, which has each move once. */
static inline void
check_every_pair(const machine *of, int (*can_move)(int from, int to)) {
    for (int from = 0; from < (int)of->states; from++)
        for (int to = 0; to < (int)of->states; to++) {
            int listed_moves = 0;
            for (size_t i = 0; i < of->move_count; i++)
                listed_moves += of->moves[i].from == from && of->moves[i].to == to;
            CHECK(listed_moves <= 1);
            CHECK(can_move(from, to) == listed_moves);
        }
}

/* Every state is reached from the first, and leads to one of the ends. */
static inline void
check_ways(const machine *of, const int *ends, size_t end_count) {
    int reached[STATES_MAX] = {1}, returns[STATES_MAX] = {0};
    CHECK(of->states <= STATES_MAX);
    for (size_t i = 0; i < end_count; i++)
        returns[ends[i]] = 1;
    for (size_t turn = 0; turn < of->states; turn++)
        for (size_t i = 0; i < of->move_count; i++) {
            reached[of->moves[i].to] |= reached[of->moves[i].from];
            returns[of->moves[i].from] |= returns[of->moves[i].to];
        }
    for (size_t state = 0; state < of->states; state++)
        CHECK(reached[state] && returns[state]);
}

#endif
