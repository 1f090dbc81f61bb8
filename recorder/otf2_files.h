/* otf2_files.h - the archive of an experiment, through the OTF2 library.
 *
 * Threads: one at a time in a process: the OTF2 library reports its errors to one
 * place.
 */
#ifndef HOLDFAST_RECORDER_OTF2_FILES_H
#define HOLDFAST_RECORDER_OTF2_FILES_H

#include <stdbool.h>
#include <otf2/otf2.h>

#include "backend.h"

/* experiment.c: one archive and one profile of several processes */

typedef struct hfi_experiment_part {
    uint32_t number;
    const hfi_recording_summary *summary;
    hfi_recording_summary *read; /* the same, if it comes from a file */
} hfi_experiment_part;

/* Write the archive and the profile of an experiment, in its directory. They have the
 * part `number` with its summary, unless that is NULL, and all others that have left a
 * file. No other process may do this at the same time. `archive`, unless NULL, is the
 * first part's own and becomes the experiment's; its events are written already, and
 * the caller closes it. `ret_others`, unless NULL: what the others have.
 * HF_NOT_FOUND: there is nothing to write. Failures: HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_experiment_write(const char *directory, uint32_t number,
                                        const hfi_recording_summary *summary,
                                        OTF2_Archive *archive, hfi_others *ret_others,
                                        hf_error *reterr);

/* ---- otf2_files.c: the OTF2 library: memory, flushes, errors ---- */

/* An archive "traces" in an existing directory, written by this process alone. The
 * caller closes it. Failures: HF_E_SYSTEM. */
HF_CHECK hf_status hfi_otf2_create(const char *directory, OTF2_Archive **ret_archive,
                                   hf_error *reterr);
/* HF_E_SYSTEM: something could not be written, then or before. */
HF_CHECK hf_status hfi_otf2_close(OTF2_Archive *archive, hf_error *reterr);

/* HF_E_SYSTEM, with the library's last message since the last hfi_otf2_create(). */
hf_status hfi_otf2_fail(hf_error *reterr, const char *doing);
bool hfi_otf2_has_failed(void);

/* otf2_merge.c: write the archive of an experiment, in its directory, from at least one
 * part. The first part's numbers become the archive's. `archive`: as for
 * hfi_experiment_write(). Failures: HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_otf2_merge(const char *directory,
                                  const hfi_experiment_part *parts, size_t count,
                                  OTF2_Archive *archive, hf_error *reterr);

/* otf2_definitions.c: write the definitions of the whole archive, from these parts. The
 * first part's clock is the archive's. */
OTF2_ErrorCode hfi_otf2_write_global(OTF2_Archive *archive,
                                     const hfi_definitions *definitions,
                                     const hfi_recording_summary *const *parts,
                                     size_t count);
/* has_clock_of: whether two parts count the same ticks. If they don't, the other
 * function gives the first part's counter at this part's `time`. */
bool hfi_otf2_has_clock_of(const hfi_recording_summary *part,
                           const hfi_recording_summary *first);
uint64_t hfi_otf2_first_time(const hfi_recording_summary *first,
                             const hfi_recording_summary *part, uint64_t time,
                             uint64_t realtime);

#endif
