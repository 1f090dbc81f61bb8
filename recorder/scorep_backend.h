/* scorep_backend.h - the back end that hands events to Score-P's measurement library.
 */
#ifndef HOLDFAST_RECORDER_SCOREP_BACKEND_H
#define HOLDFAST_RECORDER_SCOREP_BACKEND_H

#include "backend.h"

/* Load Score-P into this process; where it was preloaded, or is loaded already, only
 * find it. `table` is the path of scorep_subsystems.c's library; `bundle` that of one
 * which needs all of Score-P's; `subsystems` their names, each followed by a blank.
 * Needed once before a recording with this back end. Failures: HF_E_SYSTEM,
 * HF_E_INVALID. */
HF_CHECK hf_status hfi_scorep_load(const char *table, const char *bundle,
                                   const char *subsystems, hf_error *reterr);

extern const hfi_backend hfi_scorep_backend;

#endif
