/* location.c - the open regions of one thread, and its events.
 *
 * Every enter that is written gets its leave, whatever the program does: the stack
 * holds what is open, and an entry says who owns it (a frame, a C call, the user). A
 * return is matched by its owner, not by position. So a frame that was entered before
 * events were switched on may return without harm, a frame that returned while they
 * were off is left when its caller returns, and a user region that is begun in one
 * function and ended in another is split into pieces that nest: readers accept nothing
 * else.
 *
 * Invariants: the stack's entries are the regions that the trace has open, in order; an
 * entry remembers if its enter was written and profiled, so its leave follows suit when
 * recording was switched in between. Times on a location never step back.
 *
 * A hider is a frame of a program's own machinery (the kernel's, for a cell): while it
 * is set, the caller sends no functions for this location. An entry that lifts it (a
 * cell's own code, called back from there) remembers it, and gives it back when it is
 * left.
 *
 * The interpreter's lock serializes all callers but the writer of `finished`. The path
 * of an event allocates only when the stack is deeper than ever before.
 *
 * Rejected: trusting call and return to alternate (a single missed return shifts all
 * that follows); closing user regions with the function that began them (a helper
 * function `start()` could then never begin one).
 */
#include "recorder.h"
#include "clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct hfi_rewind {
    struct hfi_rewind *next;
    uint64_t events;
    uint64_t top_serial; /* of the top entry then; 0 where there was none */
    size_t depth;
    uint32_t name;
} hfi_rewind;

/* The back end refused an event: a full disk, most often. Nothing more is written on
 * this location, since what follows could not be told apart from garbage. */
static void
location_break(hfi_location *location) {
    location->writer = NULL;
    location->lost++;
}

static bool
stack_grow(hfi_location *location) {
    size_t capacity = location->capacity ? location->capacity * 2 : 1024;
    hfi_open_region *grown = realloc(location->stack, capacity * sizeof *grown);
    if (!grown)
        return false;
    location->stack = grown;
    location->capacity = capacity;
    return true;
}

static void
enter_at(hfi_location *location, hfi_owner owner, uint32_t region, uint64_t now) {
    if (location->depth == location->capacity && !stack_grow(location)) {
        location->lost++;
        return;
    }
    bool written = false;
    bool profiled = false;
    if (hf_recorder_is_recording(location->recorder)) {
        if (location->writer) {
            if (location->backend->enter(location->writer, now, region) == 0) {
                written = true;
                location->events++;
            } else {
                location_break(location);
            }
        }
        if (location->tree)
            profiled = hfi_calltree_enter(location->tree, region, now) == HF_OK;
    }
    location->stack[location->depth++] =
        (hfi_open_region){owner, 0, ++location->serial, region, written, profiled};
}

static void
enter_lifting_at(hfi_location *location, hfi_owner owner, uint32_t region,
                 hfi_owner hider, uint64_t now) {
    size_t depth = location->depth;
    enter_at(location, owner, region, now);
    if (location->depth > depth && hider) {
        location->stack[depth].hider = hider;
        location->hider = 0;
    }
}

static void
leave_top(hfi_location *location, uint64_t now) {
    hfi_open_region entry = location->stack[--location->depth];
    if (entry.written && location->writer) {
        if (location->backend->leave(location->writer, now, entry.region) == 0)
            location->events++;
        else
            location_break(location);
    }
    if (entry.profiled)
        hfi_calltree_leave(location->tree, now);
    if (entry.hider)
        location->hider = entry.hider;
}

/* Take entry `at` out, and those above it that `keep` doesn't want to stay. The others
 * are left and entered again, in order. */
typedef enum { KEEP_USER, KEEP_ALL } keep_rule;

static void
remove_entry(hfi_location *location, size_t at, keep_rule keep) {
    uint64_t now = hfi_clock_now();
    size_t top = location->depth;
    hfi_owner hider = location->hider;
    while (location->depth > at)
        leave_top(location, now);
    /* The entries above are still in the array; entering writes below where we read. */
    for (size_t i = at + 1; i < top; i++) {
        hfi_open_region entry = location->stack[i];
        if (keep == KEEP_ALL || entry.owner == HFI_OWNER_USER)
            enter_lifting_at(location, entry.owner, entry.region, entry.hider, now);
    }
    if (keep == KEEP_ALL) /* what runs now is the same as before */
        location->hider = hider;
}

void
hfi_location_enter(hfi_location *location, hfi_owner owner, uint32_t region) {
    enter_at(location, owner, region, hfi_clock_now());
}

void
hfi_location_enter_lifting(hfi_location *location, hfi_owner owner, uint32_t region) {
    enter_lifting_at(location, owner, region, location->hider, hfi_clock_now());
}

void
hfi_location_leave(hfi_location *location, hfi_owner owner) {
    size_t depth = location->depth;
    if (depth && location->stack[depth - 1].owner == owner) {
        leave_top(location, hfi_clock_now());
        return;
    }
    while (depth--)
        if (location->stack[depth].owner == owner) {
            remove_entry(location, depth, KEEP_USER);
            return;
        }
}

bool
hfi_location_leave_user(hfi_location *location, uint32_t region) {
    for (size_t at = location->depth; at--;) {
        const hfi_open_region *entry = &location->stack[at];
        if (entry->owner == HFI_OWNER_USER && entry->region == region) {
            remove_entry(location, at, KEEP_ALL);
            return true;
        }
    }
    return false;
}

static bool
is_entry_of(const hfi_open_region *entry, const hfi_live_frame *frame) {
    bool is_c_call = entry->owner & 1;
    return (entry->owner & ~(hfi_owner)1) == frame->owner &&
           (is_c_call || entry->region == frame->region);
}

void
hfi_location_keep_only(hfi_location *location, const hfi_live_frame *live,
                       size_t live_count) {
    /* Both lists are in calling order: pair them from the innermost. */
    size_t from = 0;
    for (size_t at = location->depth; at--;) {
        if (location->stack[at].owner == HFI_OWNER_USER)
            continue;
        size_t i = from;
        while (i < live_count && !is_entry_of(&location->stack[at], &live[i]))
            i++;
        if (i < live_count)
            from = i;
        else
            remove_entry(location, at, KEEP_ALL);
    }
    size_t i = 0;
    while (i < live_count && live[i].owner != location->hider)
        i++;
    if (i == live_count)
        location->hider = 0;
}

void
hfi_location_finish(hfi_location *location) {
    uint64_t now = hfi_clock_now();
    while (location->depth)
        leave_top(location, now);
    while (location->rewinds) {
        hfi_rewind *point = location->rewinds;
        location->rewinds = point->next;
        free(point);
    }
}

hf_status
hfi_location_rewind_begin(hfi_location *location, uint32_t name) {
    hfi_rewind *point = calloc(1, sizeof *point);
    if (!point)
        return HF_E_NOMEM;
    if (location->writer &&
        location->backend->rewind_store(location->writer, name) != 0) {
        free(point);
        return HF_E_NOMEM;
    }
    point->name = name;
    point->events = location->events;
    point->depth = location->depth;
    if (point->depth)
        point->top_serial = location->stack[point->depth - 1].serial;
    point->next = location->rewinds;
    location->rewinds = point;
    return HF_OK;
}

/* Regions that were open at the point must be so still: their leaves can't be undone.
 */
static bool
rewind_is_possible(const hfi_location *location, const hfi_rewind *point) {
    if (!location->writer || location->depth < point->depth)
        return false;
    return point->depth == 0 ||
           location->stack[point->depth - 1].serial == point->top_serial;
}

hf_status
hfi_location_rewind_end(hfi_location *location, uint32_t name, bool drop) {
    hfi_rewind **at = &location->rewinds;
    while (*at && (*at)->name != name)
        at = &(*at)->next;
    if (!*at)
        return HF_NOT_FOUND;
    hfi_rewind *point = *at;
    hf_status status = HF_OK;
    if (drop && rewind_is_possible(location, point) &&
        location->backend->rewind_to(location->writer, name) == 0) {
        location->events = point->events;
        for (size_t i = point->depth; i < location->depth; i++)
            location->stack[i].written = false;
    } else if (drop) {
        status = HF_DECLINED;
    }
    if (location->writer)
        (void)location->backend->rewind_clear(location->writer, name);
    *at = point->next;
    free(point);
    return status;
}

static bool
parameters_wanted(const hfi_location *location) {
    return location->writer && hf_recorder_is_recording(location->recorder);
}

static void
count_event(hfi_location *location, int refused) {
    if (refused)
        location_break(location);
    else
        location->events++;
}

void
hfi_location_parameter_int(hfi_location *location, uint32_t parameter, int64_t value) {
    if (parameters_wanted(location))
        count_event(location, location->backend->parameter_int(
                                  location->writer, hfi_clock_now(), parameter, value));
}

void
hfi_location_parameter_uint(hfi_location *location, uint32_t parameter,
                            uint64_t value) {
    if (parameters_wanted(location))
        count_event(location, location->backend->parameter_uint(
                                  location->writer, hfi_clock_now(), parameter, value));
}

void
hfi_location_parameter_string(hfi_location *location, uint32_t parameter,
                              uint32_t string) {
    if (parameters_wanted(location))
        count_event(location, location->backend->parameter_string(location->writer,
                                                                  hfi_clock_now(),
                                                                  parameter, string));
}
