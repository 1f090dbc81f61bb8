/* life.c - the table of a worker's moves, and the one function that makes a move.
 *
 * A move that the table doesn't have is a mistake in this library: neither the frontend
 * nor a language can cause one, since frames and calls are checked before (loop.c,
 * asked.c).
 */
#include "life.h"

#include <assert.h>

bool
hfi_life_can_move(hfi_life_state from, hfi_life_state to) {
#define HFI_MOVE(one, other, why)                                                      \
    if (from == HFI_LIFE_##one && to == HFI_LIFE_##other)                              \
        return true;
    HFI_LIFE_MOVES(HFI_MOVE)
#undef HFI_MOVE
    return false;
}

void
hfi_life_move(hfi_life *life, hfi_life_state to) {
    assert(hfi_life_can_move(hfi_life_get(life), to));
    life->state = to;
}

hfi_life_state
hfi_life_get(const hfi_life *life) {
    return (hfi_life_state)atomic_load(&life->state);
}
