/* idle.h - work that a process does while it waits: checksums, memory for free space.
 *
 * Each state is that of the one thread which calls hf_session_scrub (scrub.c), or
 * hfi_session_prefill, _some and _end (prefill.c); no lock guards it. prefill.c holds
 * blocks that are not pinned (region.h).
 */
#ifndef HFI_IDLE_H
#define HFI_IDLE_H

#include "engine/handle.h"
#include "tuning/tuning.h"

typedef struct hfi_scrub {
    uint32_t extent, crc; /* the extent that is being read; its checksum so far */
    uint64_t birth, done; /* that extent's birth; how many bytes were read */
} hfi_scrub;

typedef struct hfi_prefill {
    size_t sizes[HFI_TAKEN_MAX];
    size_t count, next; /* number of the sizes, and the first that wasn't looked at */
    hf_region *held;    /* blocks with memory, by cache_next */
    hf_region *open;    /* the block that is getting memory now, or NULL */
    size_t filled;      /* bytes of that */
} hfi_prefill;

/* In a forked child that goes on as its parent's heir: the blocks are the parent's. */
void hfi_prefill_forget(hf_session *session);

#endif
