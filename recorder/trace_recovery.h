/* trace_recovery.h - the trace of processes that did not close their recording. */
#ifndef HOLDFAST_RECORDER_TRACE_RECOVERY_H
#define HOLDFAST_RECORDER_TRACE_RECOVERY_H

#include "backend.h"
#include "parts.h"

typedef struct hfi_recovered {
    size_t processes; /* whose events are in the archive now */
    size_t left;      /* whose log files are still there: alive, or not readable */
    uint64_t events;
} hfi_recovered;

/* Write what dead processes have left in the directory of an experiment into its
 * archive. HF_NOT_FOUND: there is nothing of the kind. HF_BUSY: the process that left
 * it may still be alive. Failures: HF_E_SYSTEM, HF_E_NOMEM, HF_E_CORRUPT; then what
 * they left is still there. */
HF_CHECK hf_status hfi_recover(const char *directory, hfi_recovered *ret_recovered,
                               hf_error *reterr);

/* Whether a process records into the directory now, as far as one can see. */
bool hfi_recovery_is_recorded(const char *directory);

/* Make ended parts of all dead ones, as if they had closed their recordings. The gate
 * is closed; `self` itself is left out. HF_E_SYSTEM, HF_E_NOMEM, HF_E_CORRUPT: of the
 * first that fails; the others are done. */
HF_CHECK hf_status hfi_recover_parts(const hfi_part *self, hfi_recovered *ret_recovered,
                                     hf_error *reterr);

/* The log file of a part; the caller frees the path. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_log_path(const char *directory, uint32_t number,
                                char **ret_path);

/* otf2_backend.c: the archive of a part whose process is dead. `part` outlives it, and
 * its directory exists. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_otf2_open_dead(const hfi_part *part, void **ret_archive);

#endif
