/* reaper.h - a process that frees the session of a frontend that was killed.
 *
 * Threads: start it while the process has one thread, or later in the place of one that
 * died; the other functions belong to that thread.
 */
#ifndef HFI_REAPER_H
#define HFI_REAPER_H

#include <sys/types.h>

#include "holdfast/error.h"

typedef struct hfi_reaper {
    pid_t pid;   /* 0: there is none */
    int channel; /* its end of file is our death, or the reaper's */
    int watches; /* it knows the session */
} hfi_reaper;

/* Fork it: the first one before this process has threads. It frees the session `keep_ns` after this
 * process's death, or soon if the file `connection_path` is gone, unless another
 * process has taken the session up. Of this process's descriptors it has only its end
 * of the channel. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_reaper_start(hfi_reaper *reaper, const char *connection_path,
                                    long long keep_ns, hf_error *reterr);
/* Name the session to the reaper. */
void hfi_reaper_watch(hfi_reaper *reaper, const char *session_name);
/* `is_left`: the session is left to a later process, as if this one had died; else the
 * reaper is dismissed, and is gone when this returns. May be called twice, and without
 * a reaper. */
void hfi_reaper_end(hfi_reaper *reaper, int is_left);

#endif
