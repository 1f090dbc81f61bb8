/* otf2_files.h - how the OTF2 library is used here: its memory, its flushes, its
 * errors.
 */
#ifndef HOLDFAST_RECORDER_OTF2_FILES_H
#define HOLDFAST_RECORDER_OTF2_FILES_H

#include <otf2/otf2.h>
#include <stdbool.h>

#include "backend.h"

/* An archive "traces" in an existing directory, to be written by this process alone.
 * Failures: HF_E_SYSTEM. The caller closes it. */
HF_CHECK hf_status hfi_otf2_create(const char *directory, OTF2_Archive **ret_archive,
                                   hf_error *reterr);

/* What the library said last, since the last hfi_otf2_create(). */
hf_status hfi_otf2_fail(hf_error *reterr, const char *doing);
bool hfi_otf2_has_failed(void);

/* otf2_merge.c: write the archive of an experiment, in its directory: the part `number`
 * with its summary, and all others that have left a file. The events are in it then.
 * Nobody else does so at the same time. `archive`, unless NULL, is the first part's
 * own, which becomes the experiment's; its events are written, and the caller closes
 * it. Failures: HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_otf2_merge(const char *directory, uint32_t number,
                                  const hfi_recording_summary *summary,
                                  OTF2_Archive *archive, hf_error *reterr);

#endif
