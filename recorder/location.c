/* location.c - the open regions of one thread, and its events.
 *
 * Every enter that is written gets its leave, whatever the program does, since readers
 * accept nothing else. The stack holds the open regions, and an entry says who owns it
 * (a frame, a C call, the user). A return is matched by its owner, not by its position.
 * So:
 * - A frame that was entered before events were switched on may return without harm.
 * - A frame that returned while events were off is left when its caller returns.
 * - A user region that begins in one function and ends in another is split into pieces
 *   that nest.
 *
 * Events go to the location's log. The log's file keeps them until the trace is made of
 * it (log_file.c). The profile reads them when the log is full, or when no more come.
 * Events that are taken back (rewound) are cut off the log. The profile keeps them, so
 * it reads up to there first. If the program stands still because its log is full, the
 * trace notes how long, and the profile has a node of its own for that time: it isn't
 * the function's. The log of an immediate back end is full after each event, and is
 * then written out, so the same code serves both kinds.
 *
 * A forked child goes on inside functions that its parent has entered. Their entries
 * are on its stack, but it writes no events for them, because a visit belongs to one
 * process. One region that is open as long as the child (`inherit_regions`) has the
 * time that the child spends in them.
 *
 * Invariants: the stack's entries are the regions that the log has open, in order. An
 * entry remembers whether its enter was logged. Its leave then is logged, too, or
 * isn't, even if recording was switched in between. Times of a location never step
 * back. The log isn't full.
 *
 * A cell is one region, from its first statement to its last. Each statement is
 * compiled by itself, and its frame is an entry that is in no trace. Such an entry can
 * be removed from below other entries, which stay open: what one statement begins
 * another one can end.
 *
 * A hider is a frame of a program's own machinery (for a cell, the kernel's). While it
 * is set, the caller reports no functions for this location. An entry may lift it: a
 * cell's own code, called back from there. The entry remembers the hider, and sets it
 * again when it is left.
 *
 * A thread may have several greenlets. One of them runs at a time, and each has a stack
 * of its own. What the thread itself has open stays open while a greenlet runs. What a
 * greenlet has open is left when another one goes on, and entered again when it goes on
 * itself, like a coroutine. So a function has the time in which it runs.
 *
 * The interpreter's lock serializes all callers except the one that sets `finished`. An
 * event allocates only if the stack is deeper than ever before.
 *
 * Rejected:
 * - To trust that calls and returns alternate: a single missed return would shift
 *   everything after it.
 * - To close user regions with the function that began them: a helper function
 *   `start()` could then begin none.
 */
#include "recorder.h"
#include "clock.h"

#include <stdlib.h>
#include <string.h>

#define SELDOM __attribute__((noinline))

typedef struct hfi_rewind {
    struct hfi_rewind *next;
    uint64_t *at;  /* in the log */
    uint64_t base; /* of the log */
    uint64_t time; /* ticks */
    uint64_t flushes;
    uint32_t name;
    size_t depth;    /* number of regions that the trace had open: */
    uint32_t open[]; /* regions */
} hfi_rewind;

typedef struct hfi_suspended {
    struct hfi_suspended *next;
    uintptr_t greenlet; /* 0: the thread itself */
    hfi_owner hider;
    bool doubtful;
    size_t depth;
    hfi_open_region open[];
} hfi_suspended;

/* -- what becomes of a full log ---------------------------------------------------- */

/* Pass new events to an immediate back end. Once it has refused an event, nothing more
 * is written on this location, since what follows would not fit. In a forked child the
 * writer was abandoned: there is none. */
static void
trace_catch_up(hfi_location *location) {
    hfi_log_event event;
    if (!location->writer)
        return;
    while (hfi_event_read(&location->log, &location->traced, &event)) {
        if (event.untraced)
            continue;
        if (!location->broken &&
            hfi_backend_write(location->backend, location->writer, &event) != 0)
            location->broken = true;
        if (location->broken)
            location->lost++;
        else
            location->events++;
    }
}

static void
profile_catch_up(hfi_location *location) {
    hfi_log_event event;
    while (location->tree &&
           hfi_event_read(&location->log, &location->profiled, &event)) {
        if (event.kind == HFI_EVENT_ENTER &&
            hfi_calltree_enter(location->tree, event.subject, event.time) != HF_OK)
            location->lost++;
        else if (event.kind == HFI_EVENT_LEAVE)
            hfi_calltree_leave(location->tree, event.time);
    }
}

static uint64_t
count_events(const hfi_event_log *log, hfi_event_reader *reader) {
    hfi_log_event event;
    uint64_t count = 0;
    while (hfi_event_read(log, reader, &event))
        count += !event.untraced;
    return count;
}

static bool
is_immediate(const hfi_location *location) {
    return location->backend && location->backend->immediate;
}

/* Whether the log's file will have what follows. */
static bool
is_kept(const hfi_location *location) {
    return location->log.file && !location->broken;
}

/* Pass new events to those that get them while the program runs. */
static void
catch_up(hfi_location *location) {
    if (is_immediate(location))
        trace_catch_up(location);
    else if (location->broken)
        location->lost += count_events(&location->log, &location->traced);
    profile_catch_up(location);
}

/* Begin an empty log. If its file gets no more space, later events are lost, and
 * earlier ones are kept. */
static void
begin_again(hfi_location *location, bool turn) {
    if (!turn) {
        hfi_event_log_clear(&location->log);
    } else if (hfi_event_log_turn(&location->log) != HF_OK) {
        hfi_event_log_detach(&location->log);
        location->broken = true;
    }
    hfi_event_log_rewind(&location->log, &location->traced);
    hfi_event_log_rewind(&location->log, &location->profiled);
}

static void
empty_log(hfi_location *location) {
    if (is_kept(location) && hfi_event_log_extend(&location->log) == HF_OK)
        return;
    uint64_t start = hfi_clock_ticks();
    bool was_broken = location->broken;
    catch_up(location);
    begin_again(location, is_kept(location));
    if (is_immediate(location) || was_broken)
        return;
    uint64_t stop = hfi_clock_ticks();
    if (stop < start) /* another processor's counter is a little behind */
        stop = start;
    location->flushes++; /* also after a failure: there is no way back beyond it */
    location->flush_ticks += stop - start;
    if (is_kept(location))
        hfi_event_log_add(&location->log, start,
                          &(hfi_log_event){.kind = HFI_EVENT_FLUSHED, .value = stop});
    if (location->tree)
        hfi_calltree_add_flush(location->tree, stop - start);
}

/* An immediate back end has a full log after each event. */
static void
make_room(hfi_location *location) {
    if (is_immediate(location)) {
        empty_log(location);
        return;
    }
    uint64_t start = hfi_clock_thread_ns();
    empty_log(location);
    location->own_ns += hfi_clock_thread_ns() - start;
}

static inline void
log_put(hfi_location *location, uint64_t now, uint32_t what) {
    hfi_event_log_put(&location->log, now, what);
    if (__builtin_expect(hfi_event_log_is_full(&location->log), 0))
        make_room(location);
}

static void
log_add(hfi_location *location, const hfi_log_event *event) {
    if (!location->logging)
        return;
    hfi_event_log_add(&location->log, hfi_clock_ticks(), event);
    if (hfi_event_log_is_full(&location->log))
        make_room(location);
}

/* -- enter and leave --------------------------------------------------------------- */

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
        log_put(location, now, HFI_LOG_REGION(region));
    location->stack[location->depth++] =
        (hfi_open_region){owner, 0, region, logged, false, false};
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

/* Put an entry on the stack that is in no trace. */
static void
lift_entry(hfi_location *location, hfi_owner owner, hfi_owner hider) {
    if (location->depth == location->capacity && !stack_grow(location))
        return;
    location->stack[location->depth++] =
        (hfi_open_region){owner, hider, HFI_REGION_NONE, false, false, false};
    location->hider = 0;
}

static inline uint32_t
what_leaves(const hfi_open_region *entry) {
    return HFI_LOG_REGION(entry->region) | HFI_LOG_LEAVE |
           (entry->untraced ? HFI_LOG_UNTRACED : 0);
}

static void
leave_top(hfi_location *location, uint64_t now) {
    hfi_open_region entry = location->stack[--location->depth];
    if (entry.logged)
        log_put(location, now, what_leaves(&entry));
    if (entry.hider)
        location->hider = entry.hider;
}

/* Remove entry `at`, and those above it that `keep` excludes. The others are left, and
 * entered again in order. */
typedef enum { KEEP_USER, KEEP_ALL } keep_rule;

static bool
is_of_a_frame(const hfi_open_region *entry) {
    return hfi_owner_is_frame(entry->owner);
}

static void
push_inherited(hfi_location *location, const hfi_open_region *entry) {
    if (location->depth == location->capacity && !stack_grow(location))
        return;
    location->stack[location->depth++] = (hfi_open_region){
        entry->owner, entry->hider, entry->region, false, false, true};
    if (entry->hider)
        location->hider = 0;
}

static void
enter_again(hfi_location *location, const hfi_open_region *entry, uint64_t now) {
    if (entry->inherited)
        push_inherited(location, entry);
    else if (entry->region == HFI_REGION_NONE)
        lift_entry(location, entry->owner, entry->hider);
    else
        enter_lifting_at(location, entry->owner, entry->region, entry->hider, now);
}

/* Entry `at` is gone, so the thread itself has fewer. */
static void
lower_base(hfi_location *location, size_t at) {
    if (at < location->base)
        location->base--;
    if (location->base > location->depth)
        location->base = location->depth;
}

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
        if (keep == KEEP_ALL || !is_of_a_frame(&entry))
            enter_again(location, &entry, now);
    }
    if (keep == KEEP_ALL) /* the same code runs as before */
        location->hider = hider;
    lower_base(location, at);
}

/* The frame at `at` has no region, so the entries above it needn't be split. */
static void
remove_lift(hfi_location *location, size_t at, keep_rule keep) {
    for (size_t i = location->depth; keep == KEEP_USER && --i > at;)
        if (is_of_a_frame(&location->stack[i]))
            remove_entry(location, i, KEEP_USER);
    if (keep == KEEP_USER && location->stack[at].hider)
        location->hider = location->stack[at].hider;
    location->depth--;
    memmove(&location->stack[at], &location->stack[at + 1],
            (location->depth - at) * sizeof *location->stack);
    lower_base(location, at);
}

static void
remove_any(hfi_location *location, size_t at, keep_rule keep) {
    if (location->stack[at].region == HFI_REGION_NONE)
        remove_lift(location, at, keep);
    else
        remove_entry(location, at, keep);
}

/* Whether the event needs only a few stores. Nearly all are such. Their path makes no
 * call, so it saves no registers on the C stack. All other events take functions that
 * don't return into this path. */
static inline bool
is_simple(const hfi_location *location, uint64_t *ret_now) {
    if (!hfi_clock_is_near())
        return false;
    *ret_now = hfi_clock_ticks();
    return !hfi_event_log_is_far(&location->log, *ret_now);
}

SELDOM static void
enter_in_full(hfi_location *location, hfi_owner owner, uint32_t region) {
    enter_at(location, owner, region, hfi_clock_ticks());
}

void
hfi_location_enter(hfi_location *location, hfi_owner owner, uint32_t region) {
    size_t depth = location->depth;
    uint64_t now;
    if (!location->logging || depth == location->capacity ||
        !is_simple(location, &now)) {
        enter_in_full(location, owner, region);
        return;
    }
    location->stack[depth] = (hfi_open_region){owner, 0, region, true, false, false};
    location->depth = depth + 1;
    log_put(location, now, HFI_LOG_REGION(region));
}

void
hfi_location_enter_lifting(hfi_location *location, hfi_owner owner, uint32_t region) {
    enter_lifting_at(location, owner, region, location->hider, hfi_clock_ticks());
}

void
hfi_location_lift(hfi_location *location, hfi_owner owner) {
    lift_entry(location, owner, location->hider);
}

static bool
find_owner(const hfi_location *location, hfi_owner owner, size_t *ret_at) {
    size_t at = location->depth;
    while (at--)
        if (location->stack[at].owner == owner) {
            *ret_at = at;
            return true;
        }
    return false;
}

void
hfi_location_enter_cell(hfi_location *location, uint32_t region) {
    size_t at;
    if (!find_owner(location, HFI_OWNER_CELL, &at))
        enter_at(location, HFI_OWNER_CELL, region, hfi_clock_ticks());
}

void
hfi_location_leave_cell(hfi_location *location, uint64_t ticks) {
    size_t at;
    if (!find_owner(location, HFI_OWNER_CELL, &at))
        return;
    while (location->depth > at)
        leave_top(location, ticks);
    lower_base(location, at);
}

SELDOM static void
leave_in_full(hfi_location *location, hfi_owner owner) {
    size_t depth = location->depth;
    if (depth && location->stack[depth - 1].owner == owner)
        leave_top(location, hfi_clock_ticks());
    else if (find_owner(location, owner, &depth))
        remove_any(location, depth, KEEP_USER);
}

void
hfi_location_leave(hfi_location *location, hfi_owner owner) {
    size_t depth = location->depth;
    uint64_t now;
    if (!depth || location->stack[depth - 1].owner != owner ||
        !location->stack[depth - 1].logged || location->stack[depth - 1].hider ||
        !is_simple(location, &now)) {
        leave_in_full(location, owner);
        return;
    }
    location->depth = depth - 1;
    log_put(location, now, what_leaves(&location->stack[depth - 1]));
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

/* Whether a frame still runs. Both lists are in calling order, and the caller goes
 * outwards from the innermost entry: `from` is the place of the last match. */
static bool
still_runs(const hfi_open_region *entry, const hfi_live_frame *live, size_t live_count,
           size_t *from) {
    size_t i = *from;
    while (i < live_count && !is_entry_of(entry, &live[i]))
        i++;
    if (i < live_count)
        *from = i;
    return i < live_count;
}

void
hfi_location_keep_only(hfi_location *location, const hfi_live_frame *live,
                       size_t live_count) {
    size_t from = 0;
    for (size_t at = location->depth; at-- > location->base;)
        if (is_of_a_frame(&location->stack[at]) &&
            !still_runs(&location->stack[at], live, live_count, &from))
            remove_any(location, at, KEEP_ALL);
    size_t i = 0;
    while (i < live_count && live[i].owner != location->hider)
        i++;
    if (i == live_count)
        location->hider = 0;
}

void
hfi_location_inherit(hfi_location *location, const hfi_location *from,
                     uint32_t region) {
    if (from->depth)
        enter_at(location, HFI_OWNER_FORK, region, hfi_clock_ticks());
    for (size_t i = 0; i < from->depth; i++)
        push_inherited(location, &from->stack[i]);
    location->hider = from->hider;
    if (from->base)
        location->base = location->depth - (from->depth - from->base);
}

/* -- greenlets --------------------------------------------------------------------- */

static void
suspend_stack(hfi_location *location, uintptr_t greenlet, bool doubtful) {
    size_t depth = greenlet ? location->depth - location->base : 0;
    if (!greenlet)
        location->base = location->depth;
    /* A greenlet that has ended has nothing to go on with. */
    bool is_needed = !greenlet || depth || location->hider;
    hfi_suspended *entry =
        is_needed ? malloc(sizeof *entry + depth * sizeof *entry->open) : NULL;
    if (entry) {
        *entry = (hfi_suspended){.next = location->suspended,
                                 .greenlet = greenlet,
                                 .hider = location->hider,
                                 .doubtful = doubtful,
                                 .depth = depth};
        if (depth)
            memcpy(entry->open, &location->stack[location->base],
                   depth * sizeof *entry->open);
        location->suspended = entry;
    }
    uint64_t now = hfi_clock_ticks();
    while (location->depth > location->base)
        leave_top(location, now);
}

static hfi_suspended *
find_suspended(hfi_location *location, uintptr_t greenlet, bool take) {
    hfi_suspended **at = &location->suspended;
    while (*at && (*at)->greenlet != greenlet)
        at = &(*at)->next;
    hfi_suspended *found = *at;
    if (found && take)
        *at = found->next;
    return found;
}

bool
hfi_location_suspend(hfi_location *location, uintptr_t from, uintptr_t to,
                     bool doubtful) {
    suspend_stack(location, from, doubtful);
    const hfi_suspended *next = find_suspended(location, to, false);
    return next && next->doubtful;
}

/* Functions that have returned without an event aren't entered again. */
static void
drop_returned(hfi_suspended *entry, const hfi_live_frame *live, size_t live_count) {
    size_t from = 0;
    for (size_t i = entry->depth; i--;)
        if (is_of_a_frame(&entry->open[i]) &&
            !still_runs(&entry->open[i], live, live_count, &from))
            memmove(&entry->open[i], &entry->open[i + 1],
                    (--entry->depth - i) * sizeof *entry->open);
}

/* A greenlet that has just begun is hidden if the thread itself was. */
void
hfi_location_resume(hfi_location *location, uintptr_t greenlet,
                    const hfi_live_frame *live, size_t live_count) {
    const hfi_suspended *thread = find_suspended(location, 0, false);
    hfi_owner hider = thread ? thread->hider : 0;
    hfi_suspended *entry = find_suspended(location, greenlet, true);
    if (entry && entry->doubtful)
        drop_returned(entry, live, live_count);
    uint64_t now = hfi_clock_ticks();
    for (size_t i = 0; entry && i < entry->depth; i++)
        enter_again(location, &entry->open[i], now);
    location->hider = entry ? entry->hider : hider;
    if (!greenlet)
        location->base = 0;
    free(entry);
}

/* -- its end ----------------------------------------------------------------------- */

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
    while (location->suspended) {
        hfi_suspended *entry = location->suspended;
        location->suspended = entry->next;
        free(entry);
    }
    if (location->log.words)
        catch_up(location);
    location->logging = false;
}

static bool
rewinds_itself(const hfi_location *location) {
    return location->writer && !location->broken && location->backend->rewind_begin;
}

static bool
is_in_trace(const hfi_open_region *entry) {
    return entry->logged && !entry->untraced;
}

hf_status
hfi_location_rewind_begin(hfi_location *location, uint32_t name) {
    hfi_rewind *point =
        calloc(1, sizeof *point + location->depth * sizeof *point->open);
    if (!point)
        return HF_E_NOMEM;
    point->name = name;
    point->at = location->log.next;
    point->base = location->log.base;
    point->time = hfi_clock_ticks();
    point->flushes = location->flushes;
    for (size_t i = 0; i < location->depth; i++)
        if (is_in_trace(&location->stack[i]))
            point->open[point->depth++] = location->stack[i].region;
    point->next = location->rewinds;
    location->rewinds = point;
    if (rewinds_itself(location) &&
        location->backend->rewind_begin(location->writer, name) != 0)
        location->broken = true;
    return HF_OK;
}

/* Events that were written out can't be taken back. And the regions that were open at
 * the point must be open now: in the same visits, or in others of a function that was
 * left and called again. */
static bool
rewind_is_possible(const hfi_location *location, const hfi_rewind *point) {
    bool is_traced = location->writer || location->log.file;
    if (!is_traced || location->broken || location->flushes != point->flushes)
        return false;
    size_t same = 0;
    for (size_t i = 0; i < location->depth && same < point->depth; i++)
        if (is_in_trace(&location->stack[i]) &&
            location->stack[i].region != point->open[same++])
            return false;
    return same == point->depth;
}

/* The trace shows where something is missing, as Score-P's traces do. */
static void
rewind_to(hfi_location *location, const hfi_rewind *point) {
    for (hfi_rewind *later = location->rewinds; later != point; later = later->next)
        /* its place is cut off, so there is no way back to it */
        later->flushes = UINT64_MAX;
    hfi_event_reader reader = {.at = point->at, .base = point->base};
    profile_catch_up(location);
    location->rewound += count_events(&location->log, &reader);
    hfi_event_log_cut(&location->log, point->at, point->base);
    location->profiled.at = point->at;
    location->profiled.base = point->base;
    size_t kept = 0;
    for (size_t i = 0; i < location->depth; i++)
        if (is_in_trace(&location->stack[i]) && ++kept > point->depth)
            location->stack[i].untraced = true;
    if (location->logging)
        hfi_event_log_add(&location->log, point->time,
                          &(hfi_log_event){.kind = HFI_EVENT_RECORDING_OFF});
    log_add(location, &(hfi_log_event){.kind = HFI_EVENT_RECORDING_ON});
}

/* Events aren't dropped if one of them is the leave of a region that was open at the
 * point. */
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

/* -- what else there is ------------------------------------------------------------ */

void
hfi_location_mark_recording(hfi_location *location, bool on) {
    bool logging = location->logging;
    location->logging = location->log.words != NULL;
    log_add(location, &(hfi_log_event){.kind = on ? HFI_EVENT_RECORDING_ON
                                                  : HFI_EVENT_RECORDING_OFF});
    location->logging = logging;
}

void
hfi_location_parameter_int(hfi_location *location, uint32_t parameter, int64_t value) {
    log_add(location, &(hfi_log_event){.kind = HFI_EVENT_PARAMETER_INT,
                                       .subject = parameter,
                                       .value = (uint64_t)value});
}

void
hfi_location_parameter_uint(hfi_location *location, uint32_t parameter,
                            uint64_t value) {
    log_add(location, &(hfi_log_event){.kind = HFI_EVENT_PARAMETER_UINT,
                                       .subject = parameter,
                                       .value = value});
}

void
hfi_location_parameter_string(hfi_location *location, uint32_t parameter,
                              uint32_t string) {
    log_add(location, &(hfi_log_event){.kind = HFI_EVENT_PARAMETER_STRING,
                                       .subject = parameter,
                                       .value = string});
}
