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
 * Events go to the location's log, and from there, when it is full or nothing more
 * comes, to the trace and to the profile. What is taken back (rewound) is cut off the
 * log; the profile, which keeps it, reads that far first. A log that was full is told
 * in the trace by how long it took to write it out. The log of an immediate back end is
 * full after each event: one path serves both kinds.
 *
 * Invariants: the stack's entries are the regions that the log has open, in order; an
 * entry remembers if its enter was logged, so its leave follows suit when recording was
 * switched in between. Times on a location never step back. The log isn't full.
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
    uint64_t *at;  /* in the log */
    uint64_t base; /* of the log */
    uint64_t flushes;
    uint64_t top_serial; /* of the top entry then; 0 where there was none */
    size_t depth;
    uint32_t name;
} hfi_rewind;

/* -- from the log to the trace and the profile ----------------------------------------
 */

static int
write_event(const hfi_backend *backend, void *writer, const hfi_event *event) {
    switch (event->kind) {
    case HFI_EVENT_ENTER:
        return backend->enter(writer, event->time, event->subject);
    case HFI_EVENT_LEAVE:
        return backend->leave(writer, event->time, event->subject);
    case HFI_EVENT_RECORDING_ON:
    case HFI_EVENT_RECORDING_OFF:
        return backend->recording(writer, event->time,
                                  event->kind == HFI_EVENT_RECORDING_ON);
    case HFI_EVENT_PARAMETER_INT:
        return backend->parameter_int(writer, event->time, event->subject,
                                      (int64_t)event->value);
    case HFI_EVENT_PARAMETER_UINT:
        return backend->parameter_uint(writer, event->time, event->subject,
                                       event->value);
    case HFI_EVENT_PARAMETER_STRING:
        return backend->parameter_string(writer, event->time, event->subject,
                                         (uint32_t)event->value);
    default:
        return 0;
    }
}

/* Once the back end has refused an event, on a full disk, most often, nothing more is
 * written on this location: what follows could not be told apart from garbage. */
static void
trace_catch_up(hfi_location *location) {
    hfi_event event;
    if (!location->writer && !location->broken)
        return;
    while (hfi_event_read(&location->log, &location->traced, &event)) {
        if (event.untraced)
            continue;
        if (!location->broken &&
            write_event(location->backend, location->writer, &event) != 0)
            location->broken = true;
        if (location->broken)
            location->lost++;
        else
            location->events++;
    }
}

static void
profile_catch_up(hfi_location *location) {
    hfi_event event;
    while (location->tree &&
           hfi_event_read(&location->log, &location->profiled, &event)) {
        if (event.kind == HFI_EVENT_ENTER &&
            hfi_calltree_enter(location->tree, event.subject, event.time) != HF_OK)
            location->lost++;
        else if (event.kind == HFI_EVENT_LEAVE)
            hfi_calltree_leave(location->tree, event.time);
    }
}

static void
empty_log(hfi_location *location) {
    trace_catch_up(location);
    profile_catch_up(location);
    hfi_event_log_clear(&location->log);
    hfi_event_log_rewind(&location->log, &location->traced);
    hfi_event_log_rewind(&location->log, &location->profiled);
}

static void
flush(hfi_location *location) {
    if (location->backend && location->backend->immediate) {
        empty_log(location);
        return;
    }
    uint64_t start = hfi_clock_ticks();
    empty_log(location);
    location->flushes++;
    uint64_t stop = hfi_clock_ticks();
    if (start < location->traced.last)
        start = location->traced.last;
    if (location->writer && !location->broken &&
        location->backend->flushed(location->writer, start,
                                   stop < start ? start : stop) != 0)
        location->broken = true;
}

static inline void
log_put(hfi_location *location, uint64_t now, uint32_t what) {
    hfi_event_log_put(&location->log, now, what);
    if (__builtin_expect(hfi_event_log_is_full(&location->log), 0))
        flush(location);
}

static void
log_add(hfi_location *location, const hfi_event *event) {
    if (!location->logging)
        return;
    hfi_event_log_add(&location->log, hfi_clock_ticks(), event);
    if (hfi_event_log_is_full(&location->log))
        flush(location);
}

/* -- enter and leave ------------------------------------------------------------------
 */

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
    bool logged = location->logging;
    if (logged)
        log_put(location, now, region << 2);
    location->stack[location->depth++] =
        (hfi_open_region){owner, 0, ++location->serial, region, logged, false};
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
    if (entry.logged)
        log_put(location, now,
                entry.region << 2 | HFI_LOG_LEAVE |
                    (entry.untraced ? HFI_LOG_UNTRACED : 0));
    if (entry.hider)
        location->hider = entry.hider;
}

/* Take entry `at` out, and those above it that `keep` doesn't want to stay. The others
 * are left and entered again, in order. */
typedef enum { KEEP_USER, KEEP_ALL } keep_rule;

static void
remove_entry(hfi_location *location, size_t at, keep_rule keep) {
    uint64_t now = hfi_clock_ticks();
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
    enter_at(location, owner, region, hfi_clock_ticks());
}

void
hfi_location_enter_lifting(hfi_location *location, hfi_owner owner, uint32_t region) {
    enter_lifting_at(location, owner, region, location->hider, hfi_clock_ticks());
}

void
hfi_location_leave(hfi_location *location, hfi_owner owner) {
    size_t depth = location->depth;
    if (depth && location->stack[depth - 1].owner == owner) {
        leave_top(location, hfi_clock_ticks());
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
hfi_location_enter_all(hfi_location *location, const hfi_location *from) {
    uint64_t now = hfi_clock_ticks();
    for (size_t i = 0; i < from->depth; i++) {
        const hfi_open_region *entry = &from->stack[i];
        enter_lifting_at(location, entry->owner, entry->region, entry->hider, now);
    }
    location->hider = from->hider;
}

void
hfi_location_finish(hfi_location *location) {
    uint64_t now = hfi_clock_ticks();
    while (location->depth)
        leave_top(location, now);
    while (location->rewinds) {
        hfi_rewind *point = location->rewinds;
        location->rewinds = point->next;
        free(point);
    }
    if (location->log.words)
        empty_log(location);
    location->logging = false;
}

static bool
rewinds_itself(const hfi_location *location) {
    return location->writer && !location->broken && location->backend->rewind_begin;
}

hf_status
hfi_location_rewind_begin(hfi_location *location, uint32_t name) {
    hfi_rewind *point = calloc(1, sizeof *point);
    if (!point)
        return HF_E_NOMEM;
    point->name = name;
    point->at = location->log.next;
    point->base = location->log.base;
    point->flushes = location->flushes;
    point->depth = location->depth;
    if (point->depth)
        point->top_serial = location->stack[point->depth - 1].serial;
    point->next = location->rewinds;
    location->rewinds = point;
    if (rewinds_itself(location) &&
        location->backend->rewind_begin(location->writer, name) != 0)
        location->broken = true;
    return HF_OK;
}

/* What was written out stays, and so do the leaves of regions that were open at the
 * point. */
static bool
rewind_is_possible(const hfi_location *location, const hfi_rewind *point) {
    if (!location->writer || location->broken || location->flushes != point->flushes ||
        location->depth < point->depth)
        return false;
    return point->depth == 0 ||
           location->stack[point->depth - 1].serial == point->top_serial;
}

static uint64_t
count_since(const hfi_location *location, const hfi_rewind *point) {
    hfi_event_reader reader = {.at = point->at, .base = point->base};
    hfi_event event;
    uint64_t count = 0;
    while (hfi_event_read(&location->log, &reader, &event))
        count += !event.untraced;
    return count;
}

static void
rewind_to(hfi_location *location, const hfi_rewind *point) {
    profile_catch_up(location);
    location->rewound += count_since(location, point);
    location->log.next = point->at;
    location->log.base = point->base;
    location->profiled.at = point->at;
    location->profiled.base = point->base;
    for (size_t i = point->depth; i < location->depth; i++)
        location->stack[i].untraced = true;
}

/* Nothing is dropped that holds the leave of what was open at the point. */
static hf_status
rewind_in_backend(hfi_location *location, const hfi_rewind *point, bool drop) {
    bool possible = rewind_is_possible(location, point);
    if (location->backend->rewind_end(location->writer, point->name,
                                      drop && possible) != 0)
        return HF_DECLINED;
    return drop && !possible ? HF_DECLINED : HF_OK;
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
    if (rewinds_itself(location))
        status = rewind_in_backend(location, point, drop);
    else if (drop && rewind_is_possible(location, point))
        rewind_to(location, point);
    else if (drop)
        status = HF_DECLINED;
    *at = point->next;
    free(point);
    return status;
}

/* -- what else there is ---------------------------------------------------------------
 */

void
hfi_location_mark_recording(hfi_location *location, bool on) {
    bool logging = location->logging;
    location->logging = location->log.words != NULL;
    log_add(location, &(hfi_event){.kind = on ? HFI_EVENT_RECORDING_ON
                                              : HFI_EVENT_RECORDING_OFF});
    location->logging = logging;
}

void
hfi_location_parameter_int(hfi_location *location, uint32_t parameter, int64_t value) {
    log_add(location, &(hfi_event){.kind = HFI_EVENT_PARAMETER_INT,
                                   .subject = parameter,
                                   .value = (uint64_t)value});
}

void
hfi_location_parameter_uint(hfi_location *location, uint32_t parameter,
                            uint64_t value) {
    log_add(location, &(hfi_event){.kind = HFI_EVENT_PARAMETER_UINT,
                                   .subject = parameter,
                                   .value = value});
}

void
hfi_location_parameter_string(hfi_location *location, uint32_t parameter,
                              uint32_t string) {
    log_add(location, &(hfi_event){.kind = HFI_EVENT_PARAMETER_STRING,
                                   .subject = parameter,
                                   .value = string});
}
