/* parts.h - the processes of one experiment: each is a part of it.
 *
 * A part has a number, a directory of its own until its events are in the archive, and
 * a lock by which the others know that it lives.
 *
 * Threads: a part belongs to one thread at a time.
 */
#ifndef HOLDFAST_RECORDER_PARTS_H
#define HOLDFAST_RECORDER_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "holdfast/error.h"

typedef struct hfi_trace_part {
    char *directory; /* of the experiment; absolute, without symbolic links */
    char *own;       /* directory/parts/NUMBER */
    uint32_t number;
    int lock; /* descriptor of directory/parts/lock; -1: nowhere a part */
    uint64_t lock_inode;
} hfi_trace_part;

/* The number of a process that only looks after the others. */
#define HFI_PART_NONE UINT32_MAX

/* Become a part of the experiment. With `begin` the first one may be made, else
 * HF_NOT_FOUND if no part is left. Numbers are tried from `number` on. Failures:
 * HF_E_SYSTEM, HF_E_NOMEM. The caller owns what the part holds. */
HF_CHECK hf_status hfi_trace_part_join(const char *directory, bool begin,
                                       uint32_t number, hfi_trace_part *ret_part,
                                       hf_error *reterr);

/* Pass the gate as a process that records nothing; then as after hfi_part_finish().
 * Missing files and directories are made. HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_trace_part_visit(const char *directory, hfi_trace_part *ret_part,
                                        hf_error *reterr);

/* Until hfi_part_leave() no other process joins or finishes. Failures: HF_E_SYSTEM. */
HF_CHECK hf_status hfi_trace_part_finish(hfi_trace_part *part, hf_error *reterr);
/* Between those two: */
bool hfi_trace_part_is_last(const hfi_trace_part *part);
bool hfi_trace_part_is_alive(const hfi_trace_part *part, uint32_t number);
/* Give the part up, unless a forked child has it. `remove`: with everything that only
 * recording needed. One that is given up already is fine. */
void hfi_trace_part_leave(hfi_trace_part *part, bool remove);

/* Remove a directory with all that is in it, as far as that is possible. */
void hfi_trace_part_remove(const char *path);

/* ---- trace_recovery.c: processes that did not close their recording ---- */

typedef struct hfi_recovered {
    size_t processes; /* whose events are in the archive now */
    size_t left;      /* whose log files are still there: alive, or not readable */
    uint64_t events;
} hfi_recovered;

/* Write the events that dead processes have left in the directory of an experiment into
 * its archive. HF_NOT_FOUND: there is nothing of the kind. HF_BUSY: the process that
 * left it may still be alive. Failures: HF_E_SYSTEM, HF_E_NOMEM, HF_E_CORRUPT; then
 * what they left is still there. */
HF_CHECK hf_status hfi_recover(const char *directory, hfi_recovered *ret_recovered,
                               hf_error *reterr);

/* Whether a process records into the directory now, as far as can be seen. */
bool hfi_recovery_is_recorded(const char *directory);

/* Make ended parts of all dead ones, as if they had closed their recordings. The gate
 * is closed; `self` itself is left out. HF_E_SYSTEM, HF_E_NOMEM, HF_E_CORRUPT: of the
 * first that fails; the others are done. */
HF_CHECK hf_status hfi_recover_parts(const hfi_trace_part *self,
                                     hfi_recovered *ret_recovered, hf_error *reterr);

/* The log file of a part; the caller frees the path. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_log_path(const char *directory, uint32_t number,
                                char **ret_path);

/* otf2_backend.c: the archive of a part whose process is dead. `part` outlives it, and
 * its directory exists. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_otf2_open_dead(const hfi_trace_part *part, void **ret_archive);

#endif
