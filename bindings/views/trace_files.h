/* trace_files.h - an archive's calls as files of other programs.
 *
 * Chrome's and speedscope's formats are written call by call, flamegraph.pl's from a
 * profile.
 *
 * Threads: an archive belongs to one thread at a time.
 */
#ifndef HOLDFAST_VIEWS_TRACE_FILES_H
#define HOLDFAST_VIEWS_TRACE_FILES_H

#include <stdio.h>

#include "recorder/profile.h"
#include "archive.h"

/* Write the window [from, to], in ticks. If the stream refuses bytes, its error
 * indicator is set. Failures: HF_E_NOMEM, HF_E_CORRUPT. */
HF_CHECK hf_status hfi_trace_write_chrome(hfi_archive *archive, uint64_t from,
                                          uint64_t to, FILE *file, hf_error *reterr);
HF_CHECK hf_status hfi_trace_write_speedscope(hfi_archive *archive, uint64_t from,
                                              uint64_t to, FILE *file,
                                              hf_error *reterr);

/* Write a line for each path: its regions, with semicolons between, and its exclusive
 * ns. HF_OK, always; if the stream refuses bytes, its error indicator is set. */
HF_CHECK hf_status hfi_trace_write_collapsed(const hfi_profile *profile, FILE *file);

#endif
