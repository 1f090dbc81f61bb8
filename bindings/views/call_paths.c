/* call_paths.c - a profile's paths in the order in which they are drawn.
 *
 * In a left-heavy flame graph, callees are in the order of their times. A list in
 * preorder, with a depth for each path, is all that a reader needs to build the tree.
 *
 * If there are more paths than are wanted, the longest are kept. A path takes no longer
 * than the one above it, and stands behind it in the profile's tree, so the kept paths
 * are a tree. The others would be narrower than a pixel.
 *
 * No recursion: paths may be a thousand deep.
 */
#include "call_paths.h"

#include <stdlib.h>

typedef struct timed {
    uint32_t node;
    uint64_t inclusive;
} timed;

/* Lists of children; 0: no more. */
typedef struct children {
    uint32_t *first, *next; /* of each node */
} children;

static int
longest_path_first(const void *left, const void *right) {
    const timed *a = left, *b = right;
    if (a->inclusive != b->inclusive)
        return a->inclusive > b->inclusive ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static size_t
list_preorder(const hfi_calltree *tree, const children *of, hfi_call_path *ret_paths) {
    size_t made = 0;
    uint32_t at = of->first[0], depth = 0;
    while (at) {
        ret_paths[made++] = (hfi_call_path){at, depth};
        if (of->first[at]) {
            at = of->first[at];
            depth++;
            continue;
        }
        while (at && !of->next[at]) {
            at = hfi_calltree_get(tree, at)->parent;
            depth--;
        }
        at = of->next[at];
    }
    return made;
}

hf_status
hfi_call_paths_order(const hfi_profile *profile, size_t paths_max,
                     hfi_call_path **ret_paths, size_t *ret_count) {
    size_t count = hfi_calltree_count(profile->tree) - 1;
    size_t kept = count < paths_max ? count : paths_max;
    timed *sorted = malloc((count + 1) * sizeof *sorted);
    hfi_call_path *paths = malloc((kept + 1) * sizeof *paths);
    children of = {calloc(count + 1, sizeof *of.first),
                   calloc(count + 1, sizeof *of.next)};
    hf_status status = HF_E_NOMEM;
    if (!sorted || !paths || !of.first || !of.next)
        goto out;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = (timed){i + 1, hfi_calltree_get(profile->tree, i + 1)->inclusive};
    qsort(sorted, count, sizeof *sorted, longest_path_first);
    for (size_t i = kept; i-- > 0;) {
        uint32_t node = sorted[i].node;
        uint32_t parent = hfi_calltree_get(profile->tree, node)->parent;
        of.next[node] = of.first[parent];
        of.first[parent] = node;
    }
    *ret_count = list_preorder(profile->tree, &of, paths);
    *ret_paths = paths;
    paths = NULL;
    status = HF_OK;
out:
    free(sorted);
    free(paths);
    free(of.first);
    free(of.next);
    return status;
}
