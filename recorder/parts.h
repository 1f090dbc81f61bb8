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
    int lock; /* descriptor of directory/parts/lock; -1: no part */
    uint64_t lock_inode;
} hfi_trace_part;

/* The number of a process that only reads what others have left. */
#define HFI_PART_NONE UINT32_MAX

/* Become a part of the experiment. With `begin` this may be the first part; otherwise
 * HF_NOT_FOUND if no part is left. Numbers are tried from `number` on. Failures:
 * HF_E_SYSTEM, HF_E_NOMEM. The caller owns what the part holds. */
HF_CHECK hf_status hfi_trace_part_join(const char *directory, bool begin,
                                       uint32_t number, hfi_trace_part *ret_part,
                                       hf_error *reterr);

/* Pass the gate as a process that records nothing; then the same holds as after
 * hfi_trace_part_finish(). Missing files and directories are made. HF_E_SYSTEM,
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_trace_part_visit(const char *directory, hfi_trace_part *ret_part,
                                        hf_error *reterr);

/* Close the gate: no other process joins or finishes until hfi_trace_part_leave().
 * Failures: HF_E_SYSTEM. */
HF_CHECK hf_status hfi_trace_part_finish(hfi_trace_part *part, hf_error *reterr);
/* Call these between the two: */
bool hfi_trace_part_is_last(const hfi_trace_part *part);
bool hfi_trace_part_is_alive(const hfi_trace_part *part, uint32_t number);
/* Give the part up, unless a forked child has it. `remove`: also remove everything that
 * only recording needed. Does nothing for a part that was given up already. */
void hfi_trace_part_leave(hfi_trace_part *part, bool remove);

/* Remove a directory with its contents, as far as possible. */
void hfi_trace_part_remove(const char *path);

/* ---- trace_recovery.c: processes that did not close their recording ---- */

typedef struct hfi_recovered {
    size_t processes; /* that were killed: their events are in the archive now */
    size_t ended;     /* the same of those that ended their recording, and left it */
    /* their log files are still there: they are alive, or the files can't be read */
    size_t left;
    uint64_t events;
} hfi_recovered;

/* Write the events that dead processes have left in an experiment's directory into its
 * archive. HF_NOT_FOUND: they have left none. HF_BUSY: the process that left them may
 * still be alive. Failures: HF_E_SYSTEM, HF_E_NOMEM, HF_E_CORRUPT; then what they left
 * is still there. */
HF_CHECK hf_status hfi_recover(const char *directory, hfi_recovered *ret_recovered,
                               hf_error *reterr);

/* What a directory has besides a trace, as far as can be seen. If several processes
 * differ, it is the last of these. */
typedef enum hfi_recording_state {
    HFI_RECORDING_NONE,
    HFI_RECORDING_ENDED,   /* a process has ended its recording, and writes it soon */
    HFI_RECORDING_GOES_ON, /* a process records */
    HFI_RECORDING_LEFT     /* a process has left events, and writes nothing more */
} hfi_recording_state;
hfi_recording_state hfi_recovery_look(const char *directory);

/* Make ended parts of all dead ones, as if they had closed their recordings, except
 * `self`. The gate is closed. HF_E_SYSTEM, HF_E_NOMEM, HF_E_CORRUPT: the first failure;
 * the other parts are done nevertheless. */
HF_CHECK hf_status hfi_recover_parts(const hfi_trace_part *self,
                                     hfi_recovered *ret_recovered, hf_error *reterr);

/* The path of a part's log file, which the caller frees. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_log_path(const char *directory, uint32_t number,
                                char **ret_path);

/* otf2_backend.c: the archive of a part whose process is dead. `part` must outlive it,
 * and its directory must exist. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_otf2_open_dead(const hfi_trace_part *part, void **ret_archive);

#endif
