/* event_log.c - the events of one location, packed, until they are written out.
 *
 * Eight bytes an event, where a record of the archive takes thirteen or more, and a
 * quarter of the time that writing such a record takes: so little is done while the
 * program runs, and the rest when the log is full or the recording ends. Time is
 * counted from a base, which is moved by an event of its own when 40 bits of ticks
 * (minutes) have passed. It also makes taking back simple: what was not written out is
 * cut off.
 *
 * Invariants: `next` is at most `end` before a put, and SPARE words lie behind `end`,
 * so that the longest event with a moved base fits; whoever puts looks afterwards if
 * the log is full. A base never lies after an event that refers to it.
 *
 * Rejected: records of the archive right away (more bytes, more work in the program's
 * time, and the library's own way to take back fails after its first chunk); sixteen
 * bytes an event (the log falls out of the cache twice as soon).
 */
#include "event_log.h"

#include <stdlib.h>

enum { SPARE = 8, LEAST_WORDS = 4096 };

#define WHAT_MASK ((1u << HFI_LOG_WHAT_BITS) - 1)
#define SPECIAL   (HFI_REGION_MAX << 2) /* plus the kind */

_Static_assert(SPECIAL + HFI_EVENT_BASE <= WHAT_MASK, "the kinds fit");

hf_status
hfi_event_log_init(hfi_event_log *log, size_t size_bytes) {
    size_t count = size_bytes / sizeof *log->words;
    if (count < LEAST_WORDS)
        count = LEAST_WORDS;
    log->words = malloc(count * sizeof *log->words);
    if (!log->words)
        return HF_E_NOMEM;
    log->end = log->words + count - SPARE;
    log->base = 0;
    hfi_event_log_clear(log);
    return HF_OK;
}

void
hfi_event_log_fini(hfi_event_log *log) {
    free(log->words);
    *log = (hfi_event_log){0};
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

uint64_t
hfi_event_log_rebase(hfi_event_log *log, uint64_t now) {
    if (now < log->base) /* another processor's counter is a little behind */
        return 0;
    *log->next++ = SPECIAL + HFI_EVENT_BASE;
    *log->next++ = now;
    log->base = now;
    return 0;
}

void
hfi_event_log_add(hfi_event_log *log, uint64_t now, const hfi_event *event) {
    hfi_event_log_put(log, now, SPECIAL + event->kind);
    if (event->kind >= HFI_EVENT_PARAMETER_INT) {
        *log->next++ = event->subject;
        *log->next++ = event->value;
    }
}

static void
read_special(hfi_event_reader *reader, uint32_t what, hfi_event *event) {
    event->kind = (hfi_event_kind)(what - SPECIAL);
    event->untraced = false;
    if (event->kind == HFI_EVENT_BASE) {
        reader->base = *reader->at++;
    } else if (event->kind >= HFI_EVENT_PARAMETER_INT) {
        event->subject = (uint32_t)*reader->at++;
        event->value = *reader->at++;
    }
}

bool
hfi_event_read(const hfi_event_log *log, hfi_event_reader *reader,
               hfi_event *ret_event) {
    hfi_event event;
    do {
        if (reader->at == log->next)
            return false;
        uint64_t word = *reader->at++;
        uint32_t what = (uint32_t)word & WHAT_MASK;
        event = (hfi_event){.kind = what & HFI_LOG_LEAVE ? HFI_EVENT_LEAVE
                                                         : HFI_EVENT_ENTER,
                            .untraced = (what & HFI_LOG_UNTRACED) != 0,
                            .subject = what >> 2,
                            .time = reader->base + (word >> HFI_LOG_WHAT_BITS)};
        if (what >= SPECIAL)
            read_special(reader, what, &event);
    } while (event.kind == HFI_EVENT_BASE);
    if (event.time < reader->last)
        event.time = reader->last;
    reader->last = event.time;
    *ret_event = event;
    return true;
}
