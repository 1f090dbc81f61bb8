/* test_life.c - the states of a worker: the table is whole, and the pictures of it in
 * life.h and docs/internals.md are the table's.
 *
 *   test_worker_life [life.h docs/internals.md]     checks
 *   test_worker_life --draw                       prints what has to be there
 */
#include "../support/states.h"
#include "life.h"

static const move moves[] = {
#define MOVE(from, to, why) {HFI_LIFE_##from, HFI_LIFE_##to},
    HFI_LIFE_MOVES(MOVE)
#undef MOVE
};

static const char *const names[] = {
#define STATE(name, text) #name,
    HFI_LIFE_STATES(STATE)
#undef STATE
};

static const char *const texts[] = {
#define STATE(name, text) text,
    HFI_LIFE_STATES(STATE)
#undef STATE
};

static const machine lives = {names, texts, HFI_LIFE_STATE_COUNT, moves,
                              sizeof moves / sizeof *moves};

static int
can_move(int from, int to) {
    return hfi_life_can_move((hfi_life_state)from, (hfi_life_state)to);
}

int
main(int argc, char **argv) {
    const int ends[] = {HFI_LIFE_ENDED};
    hfi_life life = {HFI_LIFE_BEGINNING};
    if (argc > 1 && strcmp(argv[1], "--draw") == 0) {
        printf("%s\n", drawn(&lives, " *     "));
        printf("%s\n", drawn(&lives, ""));
        printf("%s", listed(&lives));
        return 0;
    }
    check_every_pair(&lives, can_move);
    check_ways(&lives, ends, 1);
    hfi_life_move(&life, HFI_LIFE_IDLE);
    CHECK(hfi_life_get(&life) == HFI_LIFE_IDLE);
    if (argc > 2) {
        check_picture(argv[1], drawn(&lives, " *     "));
        check_picture(argv[2], drawn(&lives, ""));
        check_picture(argv[2], listed(&lives));
    }
    return 0;
}
