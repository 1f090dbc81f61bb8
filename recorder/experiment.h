/* experiment.h - what several processes recorded, as one. */
#ifndef HOLDFAST_RECORDER_EXPERIMENT_H
#define HOLDFAST_RECORDER_EXPERIMENT_H

#include <otf2/otf2.h>

#include "backend.h"

typedef struct hfi_experiment_part {
    uint32_t number;
    const hfi_recording_summary *summary;
    hfi_recording_summary *read; /* the same, where it comes from a file */
} hfi_experiment_part;

/* Write the archive and the profile of an experiment, in its directory: of the part
 * `number` with its summary, unless that is NULL, and all others that have left a file.
 * Nobody else does so at the same time. `archive`, unless NULL, is the first part's
 * own, which becomes the experiment's; its events are written, and the caller closes
 * it. `ret_others` may be NULL: the others' events. HF_NOT_FOUND: there is nothing to
 * write. Failures: HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_experiment_write(const char *directory, uint32_t number,
                                        const hfi_recording_summary *summary,
                                        OTF2_Archive *archive, uint64_t *ret_others,
                                        hf_error *reterr);

#endif
