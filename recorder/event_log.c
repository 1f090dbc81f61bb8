/* event_log.c - the events of one location, packed, until they are written out.
 *
 * An event takes eight bytes, where a record of the archive takes thirteen or more, and
 * four times as long to write. So little is done while the program runs, and the rest
 * when the recording ends. The words lie in a window of a file, which keeps them
 * whatever happens to the process (log_file.c). A full window is followed by the next
 * one. Time is counted from a base. When 40 bits of ticks (minutes) have passed, an
 * event of its own moves the base. It is also simple to take events back: what wasn't
 * written out is cut off.
 *
 * Invariants: before a put `next` is at most `end`, and SPARE words lie after `end`, so
 * that the longest event with a moved base fits. A caller that puts an event checks
 * afterwards whether the log is full. A base is never later than an event that refers
 * to it. The first word of an event is written last, and words after the last event are
 * 0. So a reader of the file finds whole events and their end, whenever the process was
 * killed.
 *
 * A window gets its space in the file step by step, twice as much each time, so a short
 * recording takes little.
 *
 * Rejected:
 * - Records of the archive at once: more bytes, more work in the program's time, and
 *   the library's own way to take events back fails after its first chunk.
 * - Sixteen bytes for an event: the log would leave the cache twice as soon.
 */
#include "event_log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE = 8, LEAST_BYTES = 32 * 1024, UNIT_BYTES = 64 * 1024 };

_Static_assert(HFI_LOG_SPECIAL + HFI_EVENT_BASE < 1u << HFI_LOG_WHAT_BITS,
               "the kinds fit");

/* Without memory for a log that isn't kept, each event is put here, and read at once. */
static uint64_t nowhere[SPARE];

/* The window has memory for this many bytes. */
static void
set_end(hfi_event_log *log, size_t bytes) {
    log->end = log->words + bytes / sizeof *log->words - SPARE;
}

static size_t
bytes_to_end(const hfi_event_log *log) {
    return (size_t)(log->end + SPARE - log->words) * sizeof *log->words;
}

/* The file system gets a part's first pages here, not at its first event: that takes up to
 * 0.1 ms, which the caller measures. */
static void
touch_part(hfi_event_log *log, size_t offset) {
    *(volatile uint64_t *)((char *)log->words + offset) = 0;
}

static hf_status
open_window(hfi_event_log *log, size_t first_bytes) {
    void *window;
    hf_status status = hfi_log_file_map(log->file, log->location, log->window_bytes,
                                        &window, &log->offset);
    if (status != HF_OK)
        return status;
    status = hfi_log_file_allocate(log->file, log->offset, first_bytes);
    if (status != HF_OK) {
        hfi_log_file_unmap(log->file, window, log->window_bytes);
        return status;
    }
    log->words = window;
    set_end(log, first_bytes);
    return HF_OK;
}

hf_status
hfi_event_log_init(hfi_event_log *log, size_t size_bytes, hfi_log_file *file,
                   uint64_t location) {
    *log = (hfi_event_log){.file = file, .location = location};
    log->window_bytes = size_bytes / UNIT_BYTES * UNIT_BYTES;
    if (log->window_bytes == 0)
        log->window_bytes = file ? UNIT_BYTES : LEAST_BYTES;
    if (file) {
        hf_status status = open_window(log, LEAST_BYTES);
        if (status != HF_OK)
            return status;
        touch_part(log, 0);
    } else {
        log->words = malloc(log->window_bytes);
        if (!log->words)
            return HF_E_NOMEM;
        set_end(log, log->window_bytes);
    }
    hfi_event_log_clear(log);
    return HF_OK;
}

void
hfi_event_log_fini(hfi_event_log *log) {
    if (log->file && log->words)
        hfi_log_file_unmap(log->file, log->words, log->window_bytes);
    else if (log->words != nowhere)
        free(log->words);
    *log = (hfi_event_log){0};
}

hf_status
hfi_event_log_extend(hfi_event_log *log) {
    size_t bytes = bytes_to_end(log);
    size_t wanted = 2 * bytes < log->window_bytes ? 2 * bytes : log->window_bytes;
    if (wanted == bytes)
        return HF_NOT_FOUND;
    hf_status status =
        hfi_log_file_allocate(log->file, log->offset + bytes, wanted - bytes);
    if (status != HF_OK)
        return status;
    set_end(log, wanted);
    touch_part(log, bytes);
    return HF_OK;
}

hf_status
hfi_event_log_turn(hfi_event_log *log) {
    void *former = log->words;
    hf_status status = open_window(log, log->window_bytes);
    if (status != HF_OK)
        return status;
    hfi_log_file_unmap(log->file, former, log->window_bytes);
    hfi_event_log_clear(log);
    return HF_OK;
}

void
hfi_event_log_detach(hfi_event_log *log) {
    hfi_log_file_unmap(log->file, log->words, log->window_bytes);
    log->file = NULL;
    log->window_bytes = LEAST_BYTES;
    log->words = malloc(LEAST_BYTES);
    if (log->words)
        set_end(log, LEAST_BYTES);
    else
        log->words = log->end = nowhere;
    hfi_event_log_clear(log);
}

void
hfi_event_log_hold_nothing(hfi_event_log *log) {
    log->end = log->words;
}

void
hfi_event_log_clear(hfi_event_log *log) {
    log->next = log->words;
    log->first_base = log->base;
}

void
hfi_event_log_rewind(const hfi_event_log *log, hfi_event_reader *reader) {
    reader->at = log->words;
    reader->base = log->first_base;
}

/* Write the event's first word, when the others are written. */
static void
put_first(uint64_t *at, uint64_t word) {
    atomic_signal_fence(memory_order_release);
    *(volatile uint64_t *)at = word;
}

void
hfi_event_log_cut(hfi_event_log *log, uint64_t *next, uint64_t base) {
    size_t count = (size_t)(log->next - next);
    log->next = next;
    log->base = base;
    if (!count)
        return;
    put_first(next, 0); /* from here on no word counts any more */
    atomic_signal_fence(memory_order_acq_rel);
    memset(next, 0, count * sizeof *next);
}

uint64_t
hfi_event_log_rebase(hfi_event_log *log, uint64_t now) {
    if (now < log->base) /* another processor's counter is a little behind */
        return 0;
    log->next[1] = now;
    put_first(log->next, HFI_LOG_SPECIAL + HFI_EVENT_BASE);
    log->next += 2;
    log->base = now;
    return 0;
}

void
hfi_event_log_add(hfi_event_log *log, uint64_t now, const hfi_log_event *event) {
    uint64_t since = now - log->base;
    if (since >> HFI_LOG_TIME_BITS != 0)
        since = hfi_event_log_rebase(log, now);
    uint64_t *at = log->next++;
    if (event->kind >= HFI_EVENT_PARAMETER_INT) {
        *log->next++ = event->subject;
        *log->next++ = event->value;
    }
    put_first(at, since << HFI_LOG_WHAT_BITS | (HFI_LOG_SPECIAL + event->kind));
}

bool
hfi_event_read_special(hfi_event_reader *reader, uint32_t what,
                       hfi_log_event *ret_event) {
    ret_event->kind = (hfi_log_event_kind)(what - HFI_LOG_SPECIAL);
    ret_event->untraced = false;
    if (ret_event->kind == HFI_EVENT_BASE) {
        reader->base = *reader->at++;
        return false;
    }
    if (ret_event->kind >= HFI_EVENT_PARAMETER_INT) {
        ret_event->subject = (uint32_t)*reader->at++;
        ret_event->value = *reader->at++;
    }
    return true;
}
