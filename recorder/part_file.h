/* part_file.h - the definitions, locations and times of an ended process, in a file for
 * the writer of the archive.
 *
 * Threads: any; there is no state.
 */
#ifndef HOLDFAST_RECORDER_PART_FILE_H
#define HOLDFAST_RECORDER_PART_FILE_H

#include "backend.h"

/* Failures: HF_E_SYSTEM. The file exists whole or not at all. */
HF_CHECK hf_status hfi_trace_part_file_write(const char *path,
                                             const hfi_recording_summary *summary,
                                             hf_error *reterr);

/* The caller frees the result. HF_NOT_FOUND: there is none. Failures: HF_E_SYSTEM,
 * HF_E_NOMEM, HF_E_CORRUPT. */
HF_CHECK hf_status hfi_trace_part_file_read(const char *path,
                                            hfi_recording_summary **ret_summary,
                                            hf_error *reterr);
void hfi_trace_part_file_free(hfi_recording_summary *summary);

#endif
