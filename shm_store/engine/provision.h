/* provision.h - memory for free space, before somebody asks for it.
 *
 * The state is that of one thread, which calls hf_session_provide, _some and _end; no
 * lock guards it. What it holds are blocks that are not pinned (block.h). */
#ifndef HFI_PROVISION_H
#define HFI_PROVISION_H

#include "engine/handle.h"

typedef struct hfi_provision {
    size_t sizes[HF_TAKEN_MAX];
    size_t count, next; /* of the sizes, and the first that wasn't looked at */
    hf_region *held;    /* blocks with memory, by cache_next */
    hf_region *open;    /* one that is being given memory, or NULL */
    size_t filled;      /* bytes of that */
} hfi_provision;

/* In a forked child that goes on as its parent's heir: the blocks are the parent's. */
void hfi_provision_forget(hf_session *session);

#endif
