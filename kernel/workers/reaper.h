/* reaper.h - a process that frees the session of a frontend that was killed.
 *
 * Threads: start it while the process has one thread, or later as a replacement for one
 * that died. The other functions belong to that thread.
 */
#ifndef HFI_REAPER_H
#define HFI_REAPER_H

#include <sys/types.h>

#include "holdfast/error.h"

typedef struct hfi_reaper {
    pid_t pid;   /* 0: there is none */
    int channel; /* its end of file means that we, or the reaper, have died */
    int watches; /* it knows the session's name */
} hfi_reaper;

/* Fork the reaper; the first one before this process has threads. After this process's
 * death the reaper frees the session when `keep_ns` have passed, or soon if the file
 * `connection_path` is gone; but not if another process has taken the session up. Of
 * this process's descriptors it has only its end of the channel. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_reaper_start(hfi_reaper *reaper, const char *connection_path,
                                    long long keep_ns, hf_error *reterr);
/* Tell the reaper the session's name. */
void hfi_reaper_watch(hfi_reaper *reaper, const char *session_name);
/* `is_left`: the session is left to a later process, as if this process had died.
 * Otherwise the reaper is dismissed, and is gone when this returns. May be called
 * twice, and without a reaper. */
void hfi_reaper_end(hfi_reaper *reaper, int is_left);

#endif
