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

_Static_assert(HFI_LOG_SPECIAL + HFI_EVENT_BASE < 1u << HFI_LOG_WHAT_BITS,
               "the kinds fit");

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

uint64_t
hfi_event_log_rebase(hfi_event_log *log, uint64_t now) {
    if (now < log->base) /* another processor's counter is a little behind */
        return 0;
    *log->next++ = HFI_LOG_SPECIAL + HFI_EVENT_BASE;
    *log->next++ = now;
    log->base = now;
    return 0;
}

void
hfi_event_log_add(hfi_event_log *log, uint64_t now, const hfi_event *event) {
    hfi_event_log_put(log, now, HFI_LOG_SPECIAL + event->kind);
    if (event->kind >= HFI_EVENT_PARAMETER_INT) {
        *log->next++ = event->subject;
        *log->next++ = event->value;
    }
}

bool
hfi_event_read_special(hfi_event_reader *reader, uint32_t what, hfi_event *ret_event) {
    ret_event->kind = (hfi_event_kind)(what - HFI_LOG_SPECIAL);
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
