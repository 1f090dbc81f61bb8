/* log_reader.h - read the events of a process from the file that it left.
 *
 * Reads the file of a process that has ended, or of this process, and passes each
 * location's events to a back end. Bytes of the file are untrusted.
 *
 * Threads: a reader belongs to one thread at a time.
 */
#ifndef HOLDFAST_RECORDER_LOG_READER_H
#define HOLDFAST_RECORDER_LOG_READER_H

#include "backend.h"
#include "log_file.h"

typedef struct hfi_log_reader hfi_log_reader;

/* `definitions` have the meaning of the numbers; NULL: read them from the journal. The
 * caller closes the reader, which owns everything that it returns. HF_NOT_FOUND: there
 * is no such file. Failures: HF_E_SYSTEM, HF_E_NOMEM, HF_E_CORRUPT. */
HF_CHECK hf_status hfi_log_reader_open(const char *path,
                                       const hfi_definitions *definitions,
                                       hfi_log_reader **ret_reader, hf_error *reterr);
void hfi_log_reader_close(hfi_log_reader *reader);

/* Its names have NULs. */
const hfi_log_head *hfi_log_reader_head(const hfi_log_reader *reader);
const hfi_definitions *hfi_log_reader_definitions(const hfi_log_reader *reader);
uint64_t hfi_log_reader_ticks_per_second(const hfi_log_reader *reader);
size_t hfi_log_reader_count_locations(const hfi_log_reader *reader);
/* Its number and name. */
hfi_location_summary hfi_log_reader_location(const hfi_log_reader *reader,
                                             size_t location);

/* Counts of the events that were passed to a back end. */
typedef struct hfi_events_written {
    uint64_t events;
    hfi_event_kinds kinds;
    uint64_t last_time; /* of the last event; 0 if there is none */
} hfi_events_written;

/* Pass all events of a location to the back end. What is open after the last one is
 * left at its time. Failures: HF_E_NOMEM; HF_E_SYSTEM if the back end refuses an
 * event. */
HF_CHECK hf_status hfi_log_reader_write(const hfi_log_reader *reader, size_t location,
                                        const hfi_backend *backend, void *writer,
                                        hfi_events_written *ret_written);

#endif
