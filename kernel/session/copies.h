/* copies.h - the pages that a process copies because a sleeping fork of it shares them.
 *
 * After a fork each page is copied when one of both writes to it first. The fork sleeps,
 * so the process pays for it, in the middle of a cell. Python writes to nearly every
 * object that it looks at (reference counts), so that can be all of its memory.
 *
 * Linux has no counter of these copies. Two that it has are bounds:
 * - the page faults of the process, less the pages by which it has grown. Reading them
 *   takes some microseconds. Memory that was taken and given back in between is counted,
 *   too.
 * - the pages that the fork alone still has. Reading them takes a walk through its page
 *   tables, so it is done only if the first bound is large. Memory that the process gave
 *   back is counted, too.
 * The count is the smaller of both. Elsewhere it is 0.
 *
 * Threads: one at a time.
 */
#ifndef HFI_COPIES_H
#define HFI_COPIES_H

#include <stdint.h>
#include <sys/types.h>

#include "monitor/procfile.h"

typedef struct hfi_copies {
    hfi_procfile stat; /* of the process that runs */
    pid_t fork;
    uint64_t faults, resident; /* of the process, from where we count; in pages */
    uint64_t confirm;          /* faults at which the fork is looked at next */
    uint64_t pages;            /* what that has shown */
} hfi_copies;

#define HFI_COPIES_INIT                                                                \
    { .stat = HFI_PROCFILE_INIT }

/* Count from now on. Call hfi_copies_end when the fork is gone. */
void hfi_copies_begin(hfi_copies *copies, pid_t process, pid_t fork);
void hfi_copies_end(hfi_copies *copies);
/* Forget what was copied until now: nobody had to wait for it. */
void hfi_copies_restart(hfi_copies *copies);
/* The pages copied, or a number that is too large but below `least`. */
uint64_t hfi_copies_count(hfi_copies *copies, uint64_t least);

/* What the copy of a page takes here, in nanoseconds; measured by the first call, which
 * takes a millisecond. */
long long hfi_copies_page_ns(void);

#endif
