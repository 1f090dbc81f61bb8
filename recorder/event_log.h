/* event_log.h - the events of one location, packed, until they are written out.
 *
 * The hot half is inline, here. One thread at a time.
 */
#ifndef HOLDFAST_RECORDER_EVENT_LOG_H
#define HOLDFAST_RECORDER_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "definitions.h"
#include "log_file.h"

/* A word has the ticks since the base (40 bits) and what happened (24 bits). For an
 * enter or leave the latter is the region plus one, and two flags. The highest numbers
 * are for other kinds of events and for further words. So the first word of an event is
 * never 0. */
#define HFI_LOG_WHAT_BITS      24
#define HFI_LOG_TIME_BITS      40
#define HFI_LOG_SPECIAL        ((HFI_REGION_MAX + 1) << 2) /* plus the kind */
#define HFI_LOG_REGION(region) (((region) + 1) << 2)
#define HFI_LOG_LEAVE          1u
#define HFI_LOG_UNTRACED       2u /* for the profile only: its enter was taken back */

typedef enum hfi_log_event_kind {
    HFI_EVENT_ENTER,
    HFI_EVENT_LEAVE,
    HFI_EVENT_RECORDING_ON,
    HFI_EVENT_RECORDING_OFF,
    HFI_EVENT_PARAMETER_INT,
    HFI_EVENT_PARAMETER_UINT,
    HFI_EVENT_PARAMETER_STRING,
    HFI_EVENT_FLUSHED, /* the program stood still until `value` */
    HFI_EVENT_BASE     /* readers don't see it */
} hfi_log_event_kind;

typedef struct hfi_log_event {
    hfi_log_event_kind kind;
    bool untraced;
    uint32_t subject; /* region or parameter */
    uint64_t time;    /* ticks */
    uint64_t value;
} hfi_log_event;

typedef struct hfi_event_log {
    uint64_t *words;
    uint64_t *next;
    uint64_t *end;       /* if reached, the log is full; SPARE words lie after it */
    uint64_t base;       /* ticks */
    uint64_t first_base; /* of the first word */
    size_t window_bytes; /* beginning at `words` */
    hfi_log_file *file;  /* has the words; NULL: no file */
    uint64_t offset;     /* of the window, in the file */
    uint64_t location;
} hfi_event_log;

/* Events that cost more or less than others. Their sum is at most that of all. */
#define HFI_NESTED_RUN 8
#define HFI_DEEP_RUN   64
typedef struct hfi_event_kinds {
    uint64_t
        nested; /* HFI_NESTED_RUN calls deeper than where calls last turned, or back */
    uint64_t deep;  /* likewise, HFI_DEEP_RUN calls */
    uint64_t steps; /* of generators */
} hfi_event_kinds;

/* A place in the log up to which somebody has read. Times never step back, even if the
 * counters of two processors differ. */
typedef struct hfi_event_reader {
    const uint64_t *at;
    uint64_t base;
    uint64_t last;
} hfi_event_reader;

/* A log of about this size, in a window of the file. If `file` is NULL, it is in memory
 * of its own. Failures: HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_event_log_init(hfi_event_log *log, size_t size_bytes,
                                      hfi_log_file *file, uint64_t location);
void hfi_event_log_fini(hfi_event_log *log);
/* Make the log full after each event from now on. */
void hfi_event_log_hold_nothing(hfi_event_log *log);

/* Give a full log more room, if its window has more: the same words with a later end.
 * HF_NOT_FOUND: the window has no more. Failures: HF_E_SYSTEM. */
HF_CHECK hf_status hfi_event_log_extend(hfi_event_log *log);
/* Go on in the file's next window; readers begin again. Failures: HF_E_SYSTEM,
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_event_log_turn(hfi_event_log *log);
/* The file keeps its events, and gets no more: the log is empty, and in memory of its
 * own. */
void hfi_event_log_detach(hfi_event_log *log);

/* Forget all events; readers begin again. */
void hfi_event_log_clear(hfi_event_log *log);
void hfi_event_log_rewind(const hfi_event_log *log, hfi_event_reader *reader);

/* Take back the events that were put since `next` and `base` had these values. The
 * window must be the same. */
void hfi_event_log_cut(hfi_event_log *log, uint64_t *next, uint64_t base);

/* Read an event other than an enter or leave. Returns false for words that readers
 * don't see. */
bool hfi_event_read_special(hfi_event_reader *reader, uint32_t what,
                            hfi_log_event *ret_event);

/* Move the base. Returns the ticks since the new one. */
uint64_t hfi_event_log_rebase(hfi_event_log *log, uint64_t now);

/* Add an event other than an enter or leave. There is room for one after each enter or
 * leave. */
void hfi_event_log_add(hfi_event_log *log, uint64_t now, const hfi_log_event *event);

static inline bool
hfi_event_log_is_full(const hfi_event_log *log) {
    return log->next >= log->end;
}

/* Whether the base has to be moved before an event at this time. */
static inline bool
hfi_event_log_is_far(const hfi_event_log *log, uint64_t now) {
    return (now - log->base) >> HFI_LOG_TIME_BITS != 0;
}

/* `what`: HFI_LOG_REGION, and flags. The log isn't full. */
static inline void
hfi_event_log_put(hfi_event_log *log, uint64_t now, uint32_t what) {
    uint64_t since = now - log->base;
    if (__builtin_expect(hfi_event_log_is_far(log, now), 0))
        since = hfi_event_log_rebase(log, now);
    *log->next++ = since << HFI_LOG_WHAT_BITS | what;
}

static inline uint32_t
hfi_event_log_what(uint64_t word) {
    return (uint32_t)word & ((1u << HFI_LOG_WHAT_BITS) - 1);
}

/* Whether the last events are that many enters. */
static inline bool
hfi_event_log_has_entered(const hfi_event_log *log, int count) {
    if (log->next - log->words < count)
        return false;
    for (int i = 1; i <= count; i++)
        if (hfi_event_log_what(log->next[-i]) & HFI_LOG_LEAVE)
            return false;
    return true;
}

/* The next event; false at the end. */
static inline bool
hfi_event_read(const hfi_event_log *log, hfi_event_reader *reader,
               hfi_log_event *ret_event) {
    while (reader->at != log->next) {
        uint64_t word = *reader->at++;
        uint32_t what = hfi_event_log_what(word);
        uint64_t time = reader->base + (word >> HFI_LOG_WHAT_BITS);
        reader->last = time > reader->last ? time : reader->last;
        ret_event->time = reader->last;
        if (__builtin_expect(what < HFI_LOG_SPECIAL, 1)) {
            ret_event->kind = what & HFI_LOG_LEAVE ? HFI_EVENT_LEAVE : HFI_EVENT_ENTER;
            ret_event->untraced = (what & HFI_LOG_UNTRACED) != 0;
            ret_event->subject = (what >> 2) - 1;
            return true;
        }
        if (hfi_event_read_special(reader, what, ret_event))
            return true;
    }
    return false;
}

#endif
