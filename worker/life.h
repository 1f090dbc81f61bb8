/* life.h - the states of a worker, and the moves between them.
 *
 * A worker does one thing at a time. Its state is one of HFI_LIFE_STATES, and changes
 * only by hfi_life_move, along one of HFI_LIFE_MOVES:
 *
 *     BEGINNING┬►IDLE┬►PREPARING┬►RUNNING─►HANDING_BACK─►IDLE
 *              │     │          └►HANDING_BACK
 *              │     ├►ANSWERING─►IDLE
 *              │     ├►SAVING─►IDLE
 *              │     ├►BINDING─►IDLE
 *              │     ├►FORKING─►IDLE
 *              │     └►ENDED
 *              └►ENDED
 *
 * A fork of the main worker begins in FORKING, as a copy, and goes on in IDLE: at once if
 * it is to run a cell, and when it wakes if it sleeps. tests/worker/test_life.c compares
 * this picture, and that of docs/internals.md, with the table.
 *
 * Threads: one moves it, any thread and a signal's handler reads it.
 */
#ifndef HFI_LIFE_H
#define HFI_LIFE_H

#include <stdatomic.h>
#include <stdbool.h>

/* X(name, meaning) */
#define HFI_LIFE_STATES(X)                                                             \
    X(BEGINNING, "the language begins, and binds what the store has")                  \
    X(IDLE, "no frame is handled")                                                     \
    X(PREPARING, "a cell is about to run; an isolated one binds its variables")        \
    X(RUNNING, "the cell's code runs: an interrupt is for it")                         \
    X(HANDING_BACK, "the code has ended, and what it changed is saved")                \
    X(ANSWERING, "a request that is no cell is answered")                              \
    X(SAVING, "a commit of the variables is prepared")                                 \
    X(BINDING, "another generation's variables are bound")                             \
    X(FORKING, "a fork is made, or sleeps")                                            \
    X(ENDED, "no frame is handled any more")

/* X(from, to, why) */
#define HFI_LIFE_MOVES(X)                                                              \
    X(BEGINNING, IDLE, "ready")                                                        \
    X(BEGINNING, ENDED, "the language couldn't begin")                                 \
    X(IDLE, PREPARING, "a cell came")                                                  \
    X(IDLE, ANSWERING, "another request came")                                         \
    X(IDLE, SAVING, "the frontend asks for a commit")                                  \
    X(IDLE, BINDING, "a cell of another process is adopted, or the user went back")    \
    X(IDLE, FORKING, "the frontend asks for a fork")                                   \
    X(IDLE, ENDED, "the frontend says so, or closed the channel")                      \
    X(PREPARING, RUNNING, "its variables are there")                                   \
    X(PREPARING, HANDING_BACK, "it was interrupted, or can't be prepared")             \
    X(RUNNING, HANDING_BACK, "it has ended")                                           \
    X(HANDING_BACK, IDLE, "the reply is out")                                          \
    X(ANSWERING, IDLE, "the reply is out")                                             \
    X(SAVING, IDLE, "the reply is out")                                                \
    X(BINDING, IDLE, "they are bound")                                                 \
    X(FORKING, IDLE, "made; or this is the fork, and goes on")

typedef enum hfi_life_state {
#define HFI_STATE(name, text) HFI_LIFE_##name,
    HFI_LIFE_STATES(HFI_STATE)
#undef HFI_STATE
        HFI_LIFE_STATE_COUNT
} hfi_life_state;

typedef struct hfi_life {
    _Atomic int state;
} hfi_life;

bool hfi_life_can_move(hfi_life_state from, hfi_life_state to);
/* Asserts that the table has the move. */
void hfi_life_move(hfi_life *life, hfi_life_state to);
/* Async-signal-safe. */
hfi_life_state hfi_life_get(const hfi_life *life);

#endif
