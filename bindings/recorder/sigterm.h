/* sigterm.h - SIGTERM reaches its handler in Python although the program waits. */
#ifndef HOLDFAST_RECORDER_SIGTERM_H
#define HOLDFAST_RECORDER_SIGTERM_H

#include <stdbool.h>

/* To be called when Python has set a handler for SIGTERM, which ends the process. From
 * the first signal on it is sent again until then. */
void hfi_sigterm_insist(void);

#endif
