/* calltree.c - the call-path profile of one location.
 *
 * The tree's nodes are pairs (parent, region), in one array. A stack holds the nodes
 * that are open now, with the times of their entering. A child is found through a hash
 * table over (parent, region), so a call doesn't cost more if its caller has called
 * many functions. The last node that was found is tried first, because a loop calls the
 * same function again.
 *
 * Invariants: a parent's index is below its children's; the stack is a path from the
 * root. Recursion makes a deeper path, as in Cube, so no time is counted twice.
 *
 * The trees of a recording have room for a limited number of paths and levels. A call
 * without room is collapsed: one node stands for it and all calls below it, counts
 * them, and takes their time. So the visits of all nodes together are always the
 * program's calls, and a recursion of a hundred thousand levels costs a counter.
 *
 * The interpreter's lock serializes all callers. The arrays grow by doubling. So a call
 * allocates only if it is the first on a new path, or deeper than any before.
 *
 * Rejected:
 * - Lists of children with move-to-front: linear if one dispatcher calls ten thousand
 *   functions.
 * - One tree for all threads: in a free-threaded interpreter, later, each event would
 *   need a lock.
 */
#include "calltree.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct open_node {
    uint32_t node;
    uint64_t since; /* ticks */
} open_node;

struct hfi_calltree {
    hfi_calltree_node *nodes;
    size_t count, capacity;
    uint32_t *slots; /* node index + 1, open addressing, at most half full */
    size_t slot_capacity;
    open_node *stack;
    size_t depth, stack_capacity;
    uint32_t last; /* the node that was entered last */
    hfi_calltree_room *room;
    /* A collapsed call is open, perhaps with calls below it. */
    bool folding;
    uint32_t fold; /* the collapsed node on top of the stack; 0: no memory for one */
    size_t below;  /* open calls below it, which aren't on the stack */
};

static size_t
slot_of(uint32_t parent, uint32_t region, size_t capacity) {
    uint64_t mixed = ((uint64_t)parent << 32 | region) * 0x9E3779B97F4A7C15u;
    return (size_t)(mixed >> 32) & (capacity - 1);
}

static void
slot_insert(hfi_calltree *tree, uint32_t node) {
    const hfi_calltree_node *entry = &tree->nodes[node];
    size_t at = slot_of(entry->parent, entry->region, tree->slot_capacity);
    while (tree->slots[at])
        at = (at + 1) & (tree->slot_capacity - 1);
    tree->slots[at] = node + 1;
}

static hf_status
slots_grow(hfi_calltree *tree) {
    size_t capacity = tree->slot_capacity * 2;
    uint32_t *grown = calloc(capacity, sizeof *grown);
    if (!grown)
        return HF_E_NOMEM;
    free(tree->slots);
    tree->slots = grown;
    tree->slot_capacity = capacity;
    for (size_t i = 1; i < tree->count; i++)
        slot_insert(tree, (uint32_t)i);
    return HF_OK;
}

hf_status
hfi_calltree_create(hfi_calltree_room *room, hfi_calltree **ret_tree) {
    hfi_calltree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return HF_E_NOMEM;
    tree->room = room;
    tree->capacity = 256;
    tree->slot_capacity = 512;
    tree->stack_capacity = 256;
    tree->nodes = malloc(tree->capacity * sizeof *tree->nodes);
    tree->slots = calloc(tree->slot_capacity, sizeof *tree->slots);
    tree->stack = malloc(tree->stack_capacity * sizeof *tree->stack);
    if (!tree->nodes || !tree->slots || !tree->stack) {
        hfi_calltree_close(tree);
        return HF_E_NOMEM;
    }
    tree->nodes[0] = (hfi_calltree_node){.region = UINT32_MAX};
    tree->count = 1;
    *ret_tree = tree;
    return HF_OK;
}

void
hfi_calltree_close(hfi_calltree *tree) {
    if (!tree)
        return;
    free(tree->nodes);
    free(tree->slots);
    free(tree->stack);
    free(tree);
}

static hf_status
node_add(hfi_calltree *tree, uint32_t parent, uint32_t region, uint32_t *ret_node) {
    if (tree->count == tree->capacity) {
        size_t capacity = tree->capacity * 2;
        hfi_calltree_node *grown = realloc(tree->nodes, capacity * sizeof *grown);
        if (!grown)
            return HF_E_NOMEM;
        tree->nodes = grown;
        tree->capacity = capacity;
    }
    if (tree->count * 2 >= tree->slot_capacity) {
        hf_status status = slots_grow(tree);
        if (status != HF_OK)
            return status;
    }
    uint32_t node = (uint32_t)tree->count++;
    tree->nodes[node] =
        (hfi_calltree_node){.region = region, .parent = parent, .shortest = UINT64_MAX};
    slot_insert(tree, node);
    *ret_node = node;
    return HF_OK;
}

/* Returns 0 if there is no such node: the root is nobody's child. */
static uint32_t
node_find(const hfi_calltree *tree, uint32_t parent, uint32_t region) {
    const hfi_calltree_node *last = &tree->nodes[tree->last];
    if (last->region == region && last->parent == parent)
        return tree->last;
    size_t at = slot_of(parent, region, tree->slot_capacity);
    for (; tree->slots[at]; at = (at + 1) & (tree->slot_capacity - 1)) {
        uint32_t node = tree->slots[at] - 1;
        if (tree->nodes[node].parent == parent && tree->nodes[node].region == region)
            return node;
    }
    return 0;
}

hf_status
hfi_calltree_path(hfi_calltree *tree, uint32_t parent, uint32_t region,
                  uint32_t *ret_node) {
    *ret_node = node_find(tree, parent, region);
    return *ret_node ? HF_OK : node_add(tree, parent, region, ret_node);
}

static hf_status
stack_reserve(hfi_calltree *tree) {
    if (tree->depth < tree->stack_capacity)
        return HF_OK;
    size_t capacity = tree->stack_capacity * 2;
    open_node *grown = realloc(tree->stack, capacity * sizeof *grown);
    if (!grown)
        return HF_E_NOMEM;
    tree->stack = grown;
    tree->stack_capacity = capacity;
    return HF_OK;
}

static bool
has_room(const hfi_calltree *tree) {
    return !tree->room || (tree->room->paths && tree->depth < tree->room->depth);
}

/* Enter a path for the first time. */
static hf_status
enter_new(hfi_calltree *tree, uint32_t parent, uint32_t region, uint32_t *ret_node) {
    if (!has_room(tree)) {
        hf_status status =
            hfi_calltree_path(tree, parent, HFI_REGION_COLLAPSED, ret_node);
        tree->folding = status == HF_OK;
        tree->fold = status == HF_OK ? *ret_node : 0;
        return status;
    }
    hf_status status = node_add(tree, parent, region, ret_node);
    if (status == HF_OK && tree->room)
        tree->room->paths--;
    return status;
}

/* Enter below a collapsed call. */
static hf_status
enter_folded(hfi_calltree *tree) {
    tree->folding = true;
    tree->below++;
    if (!tree->fold)
        return HF_E_NOMEM;
    tree->nodes[tree->fold].visits++;
    return HF_OK;
}

hf_status
hfi_calltree_enter(hfi_calltree *tree, uint32_t region, uint64_t time) {
    if (tree->folding || stack_reserve(tree) != HF_OK)
        return enter_folded(tree);
    uint32_t parent = tree->depth ? tree->stack[tree->depth - 1].node : 0;
    uint32_t node = node_find(tree, parent, region);
    if (!node && enter_new(tree, parent, region, &node) != HF_OK)
        return enter_folded(tree);
    tree->last = node;
    tree->stack[tree->depth++] = (open_node){node, time};
    return HF_OK;
}

/* Returns whether this was the leave of a call that isn't on the stack. */
static bool
leave_folded(hfi_calltree *tree) {
    bool was_below = tree->below > 0;
    if (was_below)
        tree->below--;
    if (!was_below || (!tree->below && !tree->fold)) {
        tree->folding = false;
        tree->fold = 0;
    }
    return was_below;
}

void
hfi_calltree_leave(hfi_calltree *tree, uint64_t time) {
    if (tree->folding && leave_folded(tree))
        return;
    if (!tree->depth)
        return;
    open_node open = tree->stack[--tree->depth];
    hfi_calltree_node *node = &tree->nodes[open.node];
    uint64_t took = time - open.since;
    node->visits++;
    node->inclusive += took;
    if (took < node->shortest)
        node->shortest = took;
    if (took > node->longest)
        node->longest = took;
    tree->nodes[node->parent].children += took;
}

void
hfi_calltree_sum(hfi_calltree *tree, uint32_t node, const hfi_calltree_node *more) {
    hfi_calltree_node *sum = &tree->nodes[node];
    sum->visits += more->visits;
    sum->inclusive += more->inclusive;
    sum->children += more->children;
    if (more->shortest < sum->shortest)
        sum->shortest = more->shortest;
    if (more->longest > sum->longest)
        sum->longest = more->longest;
}

void
hfi_calltree_add_flush(hfi_calltree *tree, uint64_t ticks) {
    uint32_t parent = tree->depth ? tree->stack[tree->depth - 1].node : 0, node;
    if (tree->folding ||
        hfi_calltree_path(tree, parent, HFI_REGION_FLUSH, &node) != HF_OK)
        return;
    hfi_calltree_sum(
        tree, node,
        &(hfi_calltree_node){
            .visits = 1, .inclusive = ticks, .shortest = ticks, .longest = ticks});
    tree->nodes[parent].children += ticks;
}

hf_status
hfi_calltree_walk(const hfi_calltree *tree, hfi_calltree_visit *enter,
                  hfi_calltree_visit *leave, void *context) {
    uint32_t *first = calloc(tree->count * 2, sizeof *first); /* children */
    if (!first)
        return HF_E_NOMEM;
    uint32_t *next = first + tree->count; /* siblings; 0: no more */
    for (uint32_t i = (uint32_t)tree->count - 1; i > 0; i--) {
        next[i] = first[tree->nodes[i].parent];
        first[tree->nodes[i].parent] = i;
    }
    uint32_t at = first[0];
    while (at) {
        enter(context, at);
        if (first[at]) {
            at = first[at];
            continue;
        }
        while (at && !next[at]) {
            leave(context, at);
            at = tree->nodes[at].parent;
        }
        if (at) {
            leave(context, at);
            at = next[at];
        }
    }
    free(first);
    return HF_OK;
}

size_t
hfi_calltree_count(const hfi_calltree *tree) {
    return tree->count;
}

const hfi_calltree_node *
hfi_calltree_get(const hfi_calltree *tree, size_t index) {
    return &tree->nodes[index];
}
