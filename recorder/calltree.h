/* calltree.h - the call-path profile of one location.
 *
 * It is a tree of call paths with visits and times. It grows with each new path, up to
 * the limits of its room; further paths are collapsed.
 *
 * Threads: a tree and its room belong to one thread at a time.
 */
#ifndef HOLDFAST_RECORDER_CALLTREE_H
#define HOLDFAST_RECORDER_CALLTREE_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/status.h"

/* Region of a collapsed node: it stands for all calls below its parent that found no
 * room. */
#define HFI_REGION_COLLAPSED (UINT32_MAX - 1)
/* Region of a node for the time in which the program stood still while a full log was
 * written out. */
#define HFI_REGION_FLUSH (UINT32_MAX - 2)

/* One call path: a region, reached through its parent. Node 0 is the root, which stands
 * for the location and has no region. A parent has a smaller index than its children.
 * The `visits` of a collapsed node count every call; its times are those of the
 * outermost calls. */
typedef struct hfi_calltree_node {
    uint32_t region;
    uint32_t parent;
    uint64_t visits;
    uint64_t inclusive; /* ticks, as are all times here */
    uint64_t children;  /* the part of `inclusive` that was spent in callees */
    uint64_t shortest;
    uint64_t longest;
} hfi_calltree_node;

typedef struct hfi_calltree hfi_calltree;

/* How far the trees of one recording may grow together. A path that finds no room is
 * collapsed; each path has at most one collapsed node below it. */
typedef struct hfi_calltree_room {
    size_t depth; /* of a tree */
    size_t paths; /* left for all of them */
} hfi_calltree_room;

/* The caller keeps `room` as long as the tree; NULL: no limit. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_calltree_create(hfi_calltree_room *room,
                                       hfi_calltree **ret_tree);
void hfi_calltree_close(hfi_calltree *tree);

/* Enters and leaves must nest. Without memory enter returns HF_E_NOMEM, and the leave
 * for it does nothing. */
HF_CHECK hf_status hfi_calltree_enter(hfi_calltree *tree, uint32_t region,
                                      uint64_t time);
void hfi_calltree_leave(hfi_calltree *tree, uint64_t time);

/* The program has just stood still for so many ticks. Below a collapsed call, or
 * without memory, this stays the time of the function that was running. */
void hfi_calltree_add_flush(hfi_calltree *tree, uint64_t ticks);

/* The node of this path. If it doesn't exist yet it is made, without limit. Failures:
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_calltree_path(hfi_calltree *tree, uint32_t parent,
                                     uint32_t region, uint32_t *ret_node);

/* Add the visits and times of `more` to the node. */
void hfi_calltree_sum(hfi_calltree *tree, uint32_t node, const hfi_calltree_node *more);

/* Call `enter` for each node except the root, then do so for its children in order,
 * then call `leave`. Needs no stack, however deep the tree is. Failures: HF_E_NOMEM,
 * before any call. */
typedef void hfi_calltree_visit(void *context, uint32_t node);
HF_CHECK hf_status hfi_calltree_walk(const hfi_calltree *tree,
                                     hfi_calltree_visit *enter,
                                     hfi_calltree_visit *leave, void *context);

size_t hfi_calltree_count(const hfi_calltree *tree);
const hfi_calltree_node *hfi_calltree_get(const hfi_calltree *tree, size_t index);

#endif
