/* orphan.h - sessions that outlive their owner, as the roster sees them.
 *
 * No lock: the answers may be out of date as soon as they return. */
#ifndef HFI_ORPHAN_H
#define HFI_ORPHAN_H

#include "layout/layout.h"

/* Whether it has a claim, and so may be taken up. */
int hfi_orphan_is_kept(const hfi_superblock *super);
/* Whether a process lives that frees it in the end. */
int hfi_orphan_has_reaper(const hfi_superblock *super);

#endif
