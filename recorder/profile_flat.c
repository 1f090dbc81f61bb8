/* profile_flat.c - what each function cost, and each caller in it.
 *
 * The formats of callgrind and pstats have no call paths, only functions and pairs of
 * caller and callee. So the paths are folded. All calls are counted. The time of a call
 * below another call of the same function is already a part of that one's time. So the
 * tree is walked in the order in which the program ran, with a counter of open calls
 * for each function and each pair. A node's time counts if its counter was 0.
 *
 * The pairs are found first, by sorting one record for each node. So a pair is a number
 * while the tree is walked.
 *
 * Rejected: the sum of all inclusive times. A recursion of a thousand levels would seem
 * to take a thousand times as long as it did.
 */
#include "profile.h"

#include <stdlib.h>

typedef struct walk {
    const hfi_profile *profile;
    hfi_flat *flat;
    uint32_t *function_of; /* the function of each region of the profile */
    uint32_t *open;        /* number of open calls of each function */
} walk;

static uint32_t
function_at(const walk *self, uint32_t node) {
    if (node == 0)
        return HFI_FLAT_NOBODY;
    return self->function_of[hfi_calltree_get(self->profile->tree, node)->region];
}

static int
compare_edges(const void *left, const void *right) {
    const hfi_flat_edge *a = left, *b = right;
    if (a->callee != b->callee)
        return a->callee < b->callee ? -1 : 1;
    return a->caller < b->caller ? -1 : a->caller > b->caller;
}

static hfi_flat_edge *
edge_find(const hfi_flat *flat, uint32_t callee, uint32_t caller) {
    hfi_flat_edge wanted = {.callee = callee, .caller = caller};
    return bsearch(&wanted, flat->edges, flat->edge_count, sizeof wanted,
                   compare_edges);
}

static void
edges_collect(walk *self) {
    hfi_flat *flat = self->flat;
    const hfi_calltree *tree = self->profile->tree;
    size_t count = hfi_calltree_count(tree) - 1;
    for (uint32_t i = 0; i < count; i++)
        flat->edges[i] = (hfi_flat_edge){
            .callee = function_at(self, i + 1),
            .caller = function_at(self, hfi_calltree_get(tree, i + 1)->parent)};
    qsort(flat->edges, count, sizeof *flat->edges, compare_edges);
    for (size_t i = 0; i < count; i++)
        if (!i || compare_edges(&flat->edges[i], &flat->edges[i - 1]) != 0)
            flat->edges[flat->edge_count++] = flat->edges[i];
}

static void
cost_add(hfi_flat_cost *cost, const hfi_calltree_node *node, bool is_primitive) {
    cost->calls += node->visits;
    cost->exclusive += node->inclusive - node->children;
    if (is_primitive) {
        cost->primitive += node->visits;
        cost->inclusive += node->inclusive;
    }
}

static void
walk_enter(void *context, uint32_t at) {
    walk *self = context;
    const hfi_calltree_node *node = hfi_calltree_get(self->profile->tree, at);
    uint32_t callee = function_at(self, at);
    hfi_flat_edge *edge =
        edge_find(self->flat, callee, function_at(self, node->parent));
    if (!self->open[callee])
        edge->callee_time += node->inclusive;
    cost_add(&self->flat->functions[callee], node, !self->open[callee]++);
    cost_add(&edge->cost, node, !edge->open++);
}

static void
walk_leave(void *context, uint32_t at) {
    walk *self = context;
    const hfi_calltree_node *node = hfi_calltree_get(self->profile->tree, at);
    uint32_t callee = function_at(self, at);
    self->open[callee]--;
    edge_find(self->flat, callee, function_at(self, node->parent))->open--;
}

static hf_status
functions_collect(walk *self) {
    hf_status status = HF_OK;
    size_t count = hfi_definitions_count_regions(self->profile->definitions);
    for (uint32_t i = 0; i < count && status == HF_OK; i++)
        status = hfi_definitions_add_region(
            self->flat->definitions, hfi_profile_name(self->profile, i),
            hfi_profile_file(self->profile, i),
            hfi_definitions_get_region(self->profile->definitions, i)->line,
            HFI_REGION_FUNCTION, &self->function_of[i]);
    self->flat->function_count = hfi_definitions_count_regions(self->flat->definitions);
    return status;
}

hf_status
hfi_flat_create(const hfi_profile *profile, hfi_flat **ret_flat) {
    size_t regions = hfi_definitions_count_regions(profile->definitions) + 1;
    hfi_flat *flat = calloc(1, sizeof *flat);
    walk self = {profile, flat, calloc(regions, sizeof(uint32_t)),
                 calloc(regions, sizeof(uint32_t))};
    hf_status status = HF_E_NOMEM;
    if (!flat || !self.function_of || !self.open)
        goto out;
    flat->functions = calloc(regions, sizeof *flat->functions);
    flat->edges = calloc(hfi_calltree_count(profile->tree), sizeof *flat->edges);
    if (!flat->functions || !flat->edges)
        goto out;
    status = hfi_definitions_create(&flat->definitions);
    if (status == HF_OK)
        status = functions_collect(&self);
    if (status == HF_OK) {
        edges_collect(&self);
        status = hfi_calltree_walk(profile->tree, walk_enter, walk_leave, &self);
    }
out:
    free(self.function_of);
    free(self.open);
    if (status != HF_OK)
        hfi_flat_close(flat);
    else
        *ret_flat = flat;
    return status;
}

void
hfi_flat_close(hfi_flat *flat) {
    if (!flat)
        return;
    hfi_definitions_close(flat->definitions);
    free(flat->functions);
    free(flat->edges);
    free(flat);
}

const char *
hfi_flat_name(const hfi_flat *flat, uint32_t function) {
    const hfi_region *region = hfi_definitions_get_region(flat->definitions, function);
    return hfi_definitions_get_string(flat->definitions, region->name);
}

const char *
hfi_flat_file(const hfi_flat *flat, uint32_t function) {
    const hfi_region *region = hfi_definitions_get_region(flat->definitions, function);
    return hfi_definitions_get_string(flat->definitions, region->file);
}

uint32_t
hfi_flat_line(const hfi_flat *flat, uint32_t function) {
    return hfi_definitions_get_region(flat->definitions, function)->line;
}

const hfi_flat_edge *
hfi_flat_callers(const hfi_flat *flat, uint32_t callee, size_t *ret_count) {
    size_t low = 0, high = flat->edge_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (flat->edges[middle].callee < callee)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (end < flat->edge_count && flat->edges[end].callee == callee)
        end++;
    *ret_count = end - low;
    return &flat->edges[low];
}
