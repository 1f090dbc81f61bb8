/* log_file.h - the events of a process, in a file that outlives it.
 *
 * The events of the process's locations are words in windows of this file, which are
 * mapped while they are written. The file also has a journal with the meaning of the
 * numbers in them. So the trace is in the file at any moment, however the process is
 * killed.
 *
 * Threads: the interpreter's lock serializes all callers; a lock inside protects the
 * list of files against a fork.
 */
#ifndef HOLDFAST_RECORDER_LOG_FILE_H
#define HOLDFAST_RECORDER_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "definitions.h"
#include "holdfast/error.h"
#include "platform/process.h"

#define HFI_LOG_FILE_MARK UINT64_C(0x32474f4c54504648) /* "HFPTLOG2" */

/* At the beginning of the file; the journal follows. Numbers have the machine's byte
 * order. */
typedef struct hfi_log_head {
    uint64_t mark; /* written last */
    hfi_process process;
    uint64_t begin_time;     /* ticks */
    uint64_t begin_realtime; /* ns since 1970 */
    uint64_t has_rank, rank; /* of MPI */
    uint64_t clock_counts;   /* whether ticks are the processor's, of unknown rate */
    hfi_instant clock_first; /* two looks at both clocks, which give that rate */
    hfi_instant clock_last;
    char process_name[32];
    char host_name[256];
    char machine[256];                     /* the machine that counted the ticks */
    uint64_t profile_formats;              /* the wanted profiles; 0: none */
    uint64_t profile_depth, profile_paths; /* as in calltree.h */
    char profile_name[256];                /* of the profile's files */
    /* No events follow, and the archive is written soon, by the process or, if the file is
     * closed, by whoever finds it. 0: these aren't known. */
    uint64_t end_time; /* ticks */
    uint64_t end_realtime;
    uint64_t cpu_ns; /* of the process */
} hfi_log_head;

/* A record of the journal is this word, which is never 0, and `words` others. */
typedef enum hfi_journal_kind {
    HFI_JOURNAL_STRING = 1, /* value: length; the text */
    HFI_JOURNAL_REGION,     /* value: kind; name and file, line */
    HFI_JOURNAL_PARAMETER,  /* value: kind; name */
    HFI_JOURNAL_LOCATION,   /* value: length of the name; id, name */
    HFI_JOURNAL_WINDOW,     /* location, offset, size */
    HFI_JOURNAL_NEXT        /* offset, size: the journal goes on there */
} hfi_journal_kind;

static inline uint64_t
hfi_journal_word(hfi_journal_kind kind, size_t words, uint32_t value) {
    return (uint64_t)kind << 56 | (uint64_t)words << 32 | value;
}

#define HFI_JOURNAL_FIRST 1024 /* where the journal begins */
_Static_assert(sizeof(hfi_log_head) <= HFI_JOURNAL_FIRST, "the journal follows");

typedef struct hfi_log_file hfi_log_file;

/* Create the file, which must not exist yet. `head`: times and names. All present and
 * future entries of `definitions` are written to it until it is closed. It grows only while its file
 * system keeps `reserve_bytes` free when the archive has been written, too. Failures:
 * HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_log_file_create(const char *path, const hfi_log_head *head,
                                       uint64_t reserve_bytes,
                                       hfi_definitions *definitions,
                                       hfi_log_file **ret_file, hf_error *reterr);
/* Note in the file that no events follow, and what the process has used. */
void hfi_log_file_end(hfi_log_file *file, uint64_t end_time, uint64_t end_realtime,
                      uint64_t cpu_ns);
/* Close it when all windows are unmapped. The file stays. NULL is fine. */
void hfi_log_file_close(hfi_log_file *file);

/* Failures: HF_E_SYSTEM. */
HF_CHECK hf_status hfi_log_file_add_location(hfi_log_file *file, uint64_t location,
                                             const char *name);

/* Map the next window of a location. Its parts have no space on the disk until
 * hfi_log_file_allocate() gives it to them. To write to a part without space would be a
 * SIGBUS. New words are 0. Failures: HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_log_file_map(hfi_log_file *file, uint64_t location,
                                    size_t size_bytes, void **ret_window,
                                    uint64_t *ret_offset);
/* Failures: HF_E_SYSTEM: the disk is full or nearly so, or the file belongs to
 * another process. */
HF_CHECK hf_status hfi_log_file_allocate(hfi_log_file *file, uint64_t offset,
                                         size_t size_bytes);
void hfi_log_file_unmap(hfi_log_file *file, void *window, size_t size_bytes);

/* Whether there is room beside the file for the archive of its events. */
bool hfi_log_file_has_room(hfi_log_file *file);
/* Why the file didn't grow, as errno; ENOSPC for the reserve, too. 0: it always did. */
int hfi_log_file_trouble(const hfi_log_file *file);

#endif
