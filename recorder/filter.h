/* filter.h - which regions the user wants to leave out. One set of rules a process, for
 * the open recording; the caller serializes.
 *
 * Threads: one call at a time.
 */
#ifndef HOLDFAST_RECORDER_FILTER_H
#define HOLDFAST_RECORDER_FILTER_H

#include <stdbool.h>

#include "holdfast/status.h"

typedef enum hfi_filter_subject {
    HFI_FILTER_FILES,
    HFI_FILTER_REGIONS
} hfi_filter_subject;

void hfi_filter_clear(void);

/* Rules are checked in the order in which they are added. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_filter_add(hfi_filter_subject subject, bool exclude,
                                  const char *pattern);

bool hfi_filter_excludes(const char *file, const char *region);

#endif
