/* slices.c - the calls of one location as blocks that a screen can show.
 *
 * A screen doesn't have pixels for a million calls. So calls that are shorter than the
 * resolution are merged, at their depth, with their neighbours, into a block that is no
 * wider than the resolution. A longer call stays as it is. Then at most two blocks
 * begin in a pixel at one depth, so the number of blocks doesn't grow with the number
 * of calls.
 *
 * Which resolution gives the wanted number of blocks is known only at the end, and all
 * calls are seen once. So several resolutions, each four times as fine as the one
 * before, are kept at the same time. If one gets too many blocks, it is dropped with
 * all finer ones. The finest remaining one is the result; if a coarser one has merged
 * nothing, that one.
 *
 * A block's region is found by a vote weighted with time. The candidate's weight grows
 * with its own calls and shrinks with those of others. A region with more than half of
 * the time always wins.
 *
 * Calls deeper than DEPTH_MAX are only counted: no screen has so many rows.
 *
 * Rejected: sampling (a rare long call would be missed); keeping all calls and thinning
 * them out at the end (memory grows with the trace).
 */
#include "slices.h"

#include <stdbool.h>
#include <stdlib.h>

#define RESOLUTIONS 9u   /* from 1/256 of the window to 1/16,777,216 */
#define COARSEST    256u /* pixels of the window */
#define DEPTH_MAX   512u

typedef struct open_call {
    uint64_t begin;
    uint32_t region;
} open_call;

/* Calls of one depth that will become a slice. None if `calls` is 0. */
typedef struct block {
    uint64_t begin, end;
    uint64_t busy, longest;
    uint64_t weight; /* of the candidate's majority */
    uint32_t region;
    uint32_t calls;
} block;

typedef struct resolution {
    uint64_t pixel; /* ticks */
    hfi_slice *slices;
    size_t count, capacity;
    block *blocks; /* DEPTH_MAX */
    bool merged;   /* some call is in a slice of several */
} resolution;

struct hfi_slices {
    resolution levels[RESOLUTIONS];
    size_t level_count; /* that are still kept */
    size_t slices_max;
    open_call *stack; /* DEPTH_MAX */
    size_t depth;     /* may be beyond the stack */
    size_t deepest;
    uint64_t calls, hidden;
    bool failed;
};

static void
resolution_fini(resolution *level) {
    free(level->slices);
    free(level->blocks);
    *level = (resolution){0};
}

void
hfi_slices_close(hfi_slices *slices) {
    if (!slices)
        return;
    for (size_t i = 0; i < RESOLUTIONS; i++)
        resolution_fini(&slices->levels[i]);
    free(slices->stack);
    free(slices);
}

hf_status
hfi_slices_create(uint64_t from, uint64_t to, size_t slices_max,
                  hfi_slices **ret_slices) {
    hfi_slices *slices = calloc(1, sizeof *slices);
    if (!slices)
        return HF_E_NOMEM;
    slices->stack = calloc(DEPTH_MAX, sizeof *slices->stack);
    bool complete = slices->stack != NULL;
    slices->slices_max = slices_max;
    uint64_t pixel = (to - from) / COARSEST;
    for (size_t i = 0; i < RESOLUTIONS && complete; i++, pixel /= 4) {
        resolution *level = &slices->levels[slices->level_count++];
        level->pixel = pixel;
        level->blocks = calloc(DEPTH_MAX, sizeof *level->blocks);
        complete = level->blocks != NULL;
        if (pixel == 0)
            break; /* nothing is shorter */
    }
    if (!complete) {
        hfi_slices_close(slices);
        return HF_E_NOMEM;
    }
    *ret_slices = slices;
    return HF_OK;
}

/* Drop this resolution and the finer ones. The coarsest always stays: its size is
 * bounded by the depth. */
static void
drop_levels(hfi_slices *slices, size_t at) {
    while (slices->level_count > at)
        resolution_fini(&slices->levels[--slices->level_count]);
}

static void
add_slice(hfi_slices *slices, size_t at, const hfi_slice *slice) {
    resolution *level = &slices->levels[at];
    if (level->count >= slices->slices_max && at > 0) {
        drop_levels(slices, at);
        return;
    }
    if (level->count == level->capacity) {
        size_t capacity = level->capacity ? level->capacity * 2 : 256;
        hfi_slice *grown = realloc(level->slices, capacity * sizeof *grown);
        if (!grown) {
            slices->failed = true;
            return;
        }
        level->slices = grown;
        level->capacity = capacity;
    }
    level->merged |= slice->calls > 1;
    level->slices[level->count++] = *slice;
}

static void
close_block(hfi_slices *slices, size_t at, uint32_t depth) {
    block *open = &slices->levels[at].blocks[depth];
    hfi_slice slice = {.begin = open->begin,
                       .length = open->end - open->begin,
                       .busy = open->busy,
                       .longest = open->longest,
                       .region = open->region,
                       .calls = open->calls,
                       .depth = depth};
    if (!open->calls)
        return;
    open->calls = 0;
    add_slice(slices, at, &slice);
}

static void
vote_region(block *open, uint32_t region, uint64_t time) {
    time++; /* a call that took no tick counts, too */
    if (open->region == region) {
        open->weight += time;
    } else if (time > open->weight) {
        open->region = region;
        open->weight = time - open->weight;
    } else {
        open->weight -= time;
    }
}

static void
add_call(hfi_slices *slices, size_t at, const hfi_slice *call) {
    resolution *level = &slices->levels[at];
    block *open = &level->blocks[call->depth];
    uint64_t end = call->begin + call->length;
    bool is_short = call->length < level->pixel;
    if (!is_short || (open->calls && end - open->begin > level->pixel) ||
        open->calls == UINT32_MAX)
        close_block(slices, at, call->depth);
    if (at >= slices->level_count)
        return; /* this was one slice too many */
    if (!is_short) {
        add_slice(slices, at, call);
        return;
    }
    if (!open->calls)
        *open = (block){.begin = call->begin, .region = call->region};
    open->end = end;
    open->busy += call->length;
    if (call->length > open->longest)
        open->longest = call->length;
    open->calls++;
    vote_region(open, call->region, call->length);
}

void
hfi_slices_enter(hfi_slices *slices, uint64_t time, uint32_t region) {
    if (slices->depth < DEPTH_MAX)
        slices->stack[slices->depth] = (open_call){time, region};
    else
        slices->hidden++;
    slices->depth++;
    if (slices->depth > slices->deepest)
        slices->deepest = slices->depth;
    slices->calls++;
}

void
hfi_slices_leave(hfi_slices *slices, uint64_t time) {
    size_t depth = --slices->depth;
    if (depth >= DEPTH_MAX)
        return;
    const open_call *open = &slices->stack[depth];
    hfi_slice call = {.begin = open->begin,
                      .length = time - open->begin,
                      .busy = time - open->begin,
                      .longest = time - open->begin,
                      .region = open->region,
                      .calls = 1,
                      .depth = (uint32_t)depth};
    for (size_t i = 0; i < slices->level_count; i++)
        add_call(slices, i, &call);
}

static int
by_begin(const void *left, const void *right) {
    const hfi_slice *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->depth < b->depth ? -1 : a->depth > b->depth;
}

hf_status
hfi_slices_finish(hfi_slices *slices, const hfi_slice **ret_slices, size_t *ret_count,
                  uint64_t *ret_pixel) {
    for (size_t i = 0; i < slices->level_count; i++)
        for (uint32_t depth = 0; depth < DEPTH_MAX && i < slices->level_count; depth++)
            close_block(slices, i, depth);
    if (slices->failed)
        return HF_E_NOMEM;
    size_t at = 0;
    while (at + 1 < slices->level_count && slices->levels[at].merged)
        at++;
    resolution *level = &slices->levels[at];
    if (level->count)
        qsort(level->slices, level->count, sizeof *level->slices, by_begin);
    *ret_slices = level->slices;
    *ret_count = level->count;
    *ret_pixel = level->merged ? level->pixel : 0;
    return HF_OK;
}

uint64_t
hfi_slices_count_calls(const hfi_slices *slices) {
    return slices->calls;
}

uint64_t
hfi_slices_count_levels(const hfi_slices *slices) {
    return slices->deepest;
}

uint64_t
hfi_slices_count_hidden(const hfi_slices *slices) {
    return slices->hidden;
}
