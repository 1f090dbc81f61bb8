/* whole_file.h - a file that exists whole or not at all.
 *
 * The content is written beside it under another name. The file gets its name when it
 * is complete.
 *
 * Threads: a file belongs to one thread at a time.
 */
#ifndef HOLDFAST_RECORDER_WHOLE_FILE_H
#define HOLDFAST_RECORDER_WHOLE_FILE_H

#include <stdio.h>

#include "holdfast/error.h"

/* Writes the contents. If the stream refuses bytes, its error indicator is set. */
typedef hf_status (*hfi_file_writer)(const void *contents, FILE *file);

/* Write `path`, and replace an older file when the new one is complete. After a failure
 * the older file is as before, and nothing is left beside it. Failures: HF_E_SYSTEM,
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_whole_file_write(const char *path, hfi_file_writer write,
                                        const void *contents, hf_error *reterr);

#endif
