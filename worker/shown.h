/* shown.h - what a worker itself says to the user.
 *
 * Threads: any.
 */
#ifndef HFI_SHOWN_H
#define HFI_SHOWN_H

#include "self.h"

/* A line on stderr; best effort. */
void hfi_shown_notice(hf_worker *worker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
