/* graph_groups.c - roots that belong together (union-find).
 *
 * Each root has a parent. A group's first root is its own parent. A look-up halves the
 * way for the next one, so a group is found in nearly constant time, however many roots
 * were joined. No references are held, and no Python code runs.
 */
#include "graph_walk.h"

uint32_t
hfi_graph_group(hfi_graph *graph, uint32_t index) {
    hfi_graph_root *roots = graph->roots;
    while (roots[index].parent != index) {
        roots[index].parent = roots[roots[index].parent].parent;
        index = roots[index].parent;
    }
    return index;
}

void
hfi_graph_join(hfi_graph *graph, uint32_t one, uint32_t other) {
    one = hfi_graph_group(graph, one);
    other = hfi_graph_group(graph, other);
    /* The lower index stands for the group, so that groups come in the names' order. */
    if (one < other)
        graph->roots[other].parent = one;
    else
        graph->roots[one].parent = other;
}
