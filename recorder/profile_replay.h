/* profile_replay.h - the profile of a process that left its log file only. */
#ifndef HOLDFAST_RECORDER_PROFILE_REPLAY_H
#define HOLDFAST_RECORDER_PROFILE_REPLAY_H

#include "log_reader.h"
#include "profile.h"

/* NULL in *ret_profile: the process was not to have one. The caller closes it.
 * Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_profile_replay(const hfi_log_reader *log,
                                      hfi_profile **ret_profile);

#endif
