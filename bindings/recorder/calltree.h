/* calltree.h - the call-path profile of one location. */
#ifndef HOLDFAST_RECORDER_CALLTREE_H
#define HOLDFAST_RECORDER_CALLTREE_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/status.h"

/* One call path: a region, reached through its parent. Times in ticks. Node 0 is the
 * root and stands for the location; it has no region. A parent has a smaller index than
 * its children. */
typedef struct hfi_calltree_node {
    uint32_t region;
    uint32_t parent;
    uint64_t visits;
    uint64_t inclusive;
    uint64_t children; /* what of `inclusive` was spent in callees */
    uint64_t shortest;
    uint64_t longest;
} hfi_calltree_node;

typedef struct hfi_calltree hfi_calltree;

HF_CHECK hf_status hfi_calltree_create(hfi_calltree **ret_tree);
void hfi_calltree_close(hfi_calltree *tree);

/* Enter and leave nest. Without memory, enter gives HF_E_NOMEM and changes nothing. */
HF_CHECK hf_status hfi_calltree_enter(hfi_calltree *tree, uint32_t region,
                                      uint64_t time);
void hfi_calltree_leave(hfi_calltree *tree, uint64_t time);

size_t hfi_calltree_count(const hfi_calltree *tree);
const hfi_calltree_node *hfi_calltree_get(const hfi_calltree *tree, size_t index);

#endif
