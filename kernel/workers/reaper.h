/* reaper.h - a process that frees the session of a frontend that was killed. */
#ifndef HFI_REAPER_H
#define HFI_REAPER_H

#include <sys/types.h>

#include "holdfast/error.h"

typedef struct hfi_reaper {
    pid_t pid;   /* 0: there is none */
    int channel; /* its end of file is our death, or the reaper's */
} hfi_reaper;

/* Fork it, before this process has threads. It frees the session `seconds` after this
 * process's death, or soon where the file `connection_path` is gone, unless somebody
 * has taken the session up. It has no descriptor of this process's but its end of the
 * channel. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_reaper_start(hfi_reaper *reaper, const char *connection_path,
                                    long seconds, hf_error *reterr);
/* Which session. */
void hfi_reaper_watch(hfi_reaper *reaper, const char *session_name);
/* `is_left`: the session is left to somebody, as if we died; else it is dismissed, and
 * is gone when this returns. May be called twice, and where none was started. */
void hfi_reaper_end(hfi_reaper *reaper, int is_left);

#endif
