/* call_paths.h - a profile's paths in the order in which they are drawn.
 *
 * Threads: any; there is no state.
 */
#ifndef HOLDFAST_VIEWS_CALL_PATHS_H
#define HOLDFAST_VIEWS_CALL_PATHS_H

#include "recorder/profile.h"

typedef struct hfi_call_path {
    uint32_t node; /* of the profile's tree */
    uint32_t depth;
} hfi_call_path;

/* The paths that took longest, at most `paths_max`: each before those below it, the
 * longer ones first. No path comes without those above it. The caller frees them.
 * Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_call_paths_order(const hfi_profile *profile, size_t paths_max,
                                        hfi_call_path **ret_paths, size_t *ret_count);

#endif
