/* trace_files.h - an archive's calls as files of other programs. */
#ifndef HOLDFAST_VIEWS_TRACE_FILES_H
#define HOLDFAST_VIEWS_TRACE_FILES_H

#include <stdio.h>

#include "recorder/profile.h"
#include "archive.h"

/* The window [from, to], in ticks. What the stream refuses is seen by its error
 * indicator. Failures: HF_E_NOMEM, HF_E_CORRUPT. */
HF_CHECK hf_status hfi_trace_write_chrome(hfi_archive *archive, uint64_t from,
                                          uint64_t to, FILE *file, hf_error *reterr);
HF_CHECK hf_status hfi_trace_write_speedscope(hfi_archive *archive, uint64_t from,
                                              uint64_t to, FILE *file,
                                              hf_error *reterr);

/* A line for each path: its regions, with semicolons between, and its exclusive ns. */
HF_CHECK hf_status hfi_trace_write_collapsed(const hfi_profile *profile, FILE *file);

#endif
