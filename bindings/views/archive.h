/* archive.h - an OTF2 archive of any writer: its definitions and its events.
 *
 * It is read only. Strings and definitions live as long as the archive. No function
 * needs the interpreter.
 *
 * Threads: one at a time.
 */
#ifndef HOLDFAST_VIEWS_ARCHIVE_H
#define HOLDFAST_VIEWS_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/error.h"
#include "recorder/definitions.h"

typedef struct hfi_archive hfi_archive;

typedef struct hfi_archive_clock {
    uint64_t ticks_per_second;
    uint64_t begin; /* no event is earlier; ticks */
    uint64_t length;
    uint64_t realtime; /* of begin, ns since 1970; 0: unknown */
} hfi_archive_clock;

/* A thread, or another source of events in an order of its own. */
typedef struct hfi_archive_location {
    uint64_t id;
    uint64_t events; /* by the definitions */
    uint32_t process;
    uint32_t name; /* a string of the definitions */
} hfi_archive_location;

/* A receiver of the calls of one location. They nest: each enter has its leave, times
 * don't step back. All are in [from, to], in ticks; a call that begins before or ends
 * after is cut. */
typedef struct hfi_archive_sink {
    void (*enter)(void *context, uint64_t time, uint32_t region);
    void (*leave)(void *context, uint64_t time);
    /* The program stood still while a full buffer was written, inside of the call that
     * is open. */
    void (*flush)(void *context, uint64_t begin, uint64_t end);
    void *context;
    uint64_t from, to;
} hfi_archive_sink;

/* `path`: of the anchor file, traces.otf2. One thread at a time. Failures: HF_E_SYSTEM,
 * HF_E_CORRUPT, HF_E_LIMIT, HF_E_NOMEM. */
HF_CHECK hf_status hfi_archive_open(const char *path, hfi_archive **ret_archive,
                                    hf_error *reterr);
void hfi_archive_close(hfi_archive *archive);

/* Its regions, equal ones are one; others may be added. */
hfi_definitions *hfi_archive_definitions(const hfi_archive *archive);
/* Whether a region only waits, by the role that the archive gives it: a barrier, or a
 * wait for tasks or threads. */
bool hfi_archive_waits(const hfi_archive *archive, uint32_t region);
hfi_archive_clock hfi_archive_get_clock(const hfi_archive *archive);
/* A time of the archive's clock, in ns since its begin. */
uint64_t hfi_archive_ns(const hfi_archive *archive, uint64_t time);
/* The machine of a process; "" if none is known. */
const char *hfi_archive_host(const hfi_archive *archive, size_t process);
size_t hfi_archive_count_processes(const hfi_archive *archive);
const char *hfi_archive_process(const hfi_archive *archive, size_t process);
size_t hfi_archive_count_locations(const hfi_archive *archive);
const hfi_archive_location *hfi_archive_get_location(const hfi_archive *archive,
                                                     size_t location);

/* Hand the events of a location on; ret_events counts the events that were read, of all
 * kinds. Failures: HF_E_CORRUPT, HF_E_NOMEM. */
HF_CHECK hf_status hfi_archive_read(hfi_archive *archive, size_t location,
                                    const hfi_archive_sink *sink, uint64_t *ret_events,
                                    hf_error *reterr);

#endif
