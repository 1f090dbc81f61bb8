/* calltree.c - the call-path profile of one location.
 *
 * A tree whose nodes are (parent, region) pairs, kept in one array, and a stack of the
 * nodes that are open now with the time of their entering. A child is found through a
 * hash table over (parent, region), so the work for a call does not grow with the
 * number of functions that its caller has called; the last node found is tried first,
 * since a loop calls the same function again.
 *
 * Invariants: a parent's index is below its children's; the stack holds a path from the
 * root. Recursion makes a deeper path, as in Cube, so no time is counted twice.
 *
 * The interpreter's lock serializes all callers. The arrays grow by doubling, so a call
 * allocates only when it is the first on a new path or deeper than any before it.
 *
 * Rejected: child lists with move-to-front (linear where one dispatcher calls ten
 * thousand functions); one tree for all threads (a lock per event in a free-threaded
 * interpreter, later).
 */
#include "calltree.h"

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
hfi_calltree_create(hfi_calltree **ret_tree) {
    hfi_calltree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return HF_E_NOMEM;
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

static hf_status
node_find(hfi_calltree *tree, uint32_t parent, uint32_t region, uint32_t *ret_node) {
    const hfi_calltree_node *last = &tree->nodes[tree->last];
    if (last->region == region && last->parent == parent) {
        *ret_node = tree->last;
        return HF_OK;
    }
    size_t at = slot_of(parent, region, tree->slot_capacity);
    for (; tree->slots[at]; at = (at + 1) & (tree->slot_capacity - 1)) {
        uint32_t node = tree->slots[at] - 1;
        if (tree->nodes[node].parent == parent && tree->nodes[node].region == region) {
            *ret_node = node;
            return HF_OK;
        }
    }
    return node_add(tree, parent, region, ret_node);
}

hf_status
hfi_calltree_enter(hfi_calltree *tree, uint32_t region, uint64_t time) {
    if (tree->depth == tree->stack_capacity) {
        size_t capacity = tree->stack_capacity * 2;
        open_node *grown = realloc(tree->stack, capacity * sizeof *grown);
        if (!grown)
            return HF_E_NOMEM;
        tree->stack = grown;
        tree->stack_capacity = capacity;
    }
    uint32_t parent = tree->depth ? tree->stack[tree->depth - 1].node : 0;
    uint32_t node;
    hf_status status = node_find(tree, parent, region, &node);
    if (status != HF_OK)
        return status;
    tree->last = node;
    tree->stack[tree->depth++] = (open_node){node, time};
    return HF_OK;
}

void
hfi_calltree_leave(hfi_calltree *tree, uint64_t time) {
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

size_t
hfi_calltree_count(const hfi_calltree *tree) {
    return tree->count;
}

const hfi_calltree_node *
hfi_calltree_get(const hfi_calltree *tree, size_t index) {
    return &tree->nodes[index];
}
