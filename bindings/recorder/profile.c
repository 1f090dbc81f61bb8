/* profile.c - the call-path profile of one experiment.
 *
 * Each location has recorded a tree of its own, in ticks, over regions that its process
 * has numbered. Here they become one: paths are the same where the contents of their
 * regions are (name, file, line, kind), so the trees of other processes, with other
 * numbers and another clock, are merged as those of other threads are. What a location
 * spent on a path is kept beside the sum.
 *
 * Invariants: a node's inclusive time is its exclusive time and the inclusive times of
 * its callees, exactly, for each location and for the sum: times are made ns first, and
 * subtracted then. A path that was only open, and never left, has no visits.
 *
 * Used when a recording is closed, by one thread.
 *
 * Rejected: merging by path while the program runs (threads would meet at each event);
 * a matrix of paths and locations (a thousand threads know a few paths each).
 */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

hf_status
hfi_profile_create(hfi_profile **ret_profile) {
    hfi_profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return HF_E_NOMEM;
    if (hfi_definitions_create(&profile->definitions) != HF_OK ||
        hfi_calltree_create(NULL, &profile->tree) != HF_OK) {
        hfi_profile_close(profile);
        return HF_E_NOMEM;
    }
    *ret_profile = profile;
    return HF_OK;
}

void
hfi_profile_close(hfi_profile *profile) {
    if (!profile)
        return;
    for (size_t i = 0; i < profile->process_count; i++)
        free(profile->processes[i]);
    for (size_t i = 0; i < profile->location_count; i++) {
        free(profile->locations[i].name);
        free(profile->locations[i].costs);
    }
    free(profile->processes);
    free(profile->locations);
    hfi_calltree_close(profile->tree);
    hfi_definitions_close(profile->definitions);
    free(profile);
}

static bool
reserve(void **array, size_t *capacity, size_t count, size_t item_size) {
    if (count < *capacity)
        return true;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = realloc(*array, wanted * item_size);
    if (!grown)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

hf_status
hfi_profile_add_process(hfi_profile *profile, const char *name, uint32_t *ret_process) {
    void *array = profile->processes;
    if (!reserve(&array, &profile->process_capacity, profile->process_count,
                 sizeof *profile->processes))
        return HF_E_NOMEM;
    profile->processes = array;
    char *copy = strdup(name);
    if (!copy)
        return HF_E_NOMEM;
    *ret_process = (uint32_t)profile->process_count;
    profile->processes[profile->process_count++] = copy;
    return HF_OK;
}

const char *
hfi_profile_name(const hfi_profile *profile, uint32_t region) {
    const hfi_region *found = hfi_definitions_get_region(profile->definitions, region);
    return hfi_definitions_get_string(profile->definitions, found->name);
}

const char *
hfi_profile_file(const hfi_profile *profile, uint32_t region) {
    const hfi_region *found = hfi_definitions_get_region(profile->definitions, region);
    return hfi_definitions_get_string(profile->definitions, found->file);
}

/* -- merging --------------------------------------------------------------------------
 */

/* Rounded down, exactly: the parts of a time don't become more than the whole. */
static uint64_t
to_ns(uint64_t ticks, uint64_t ticks_per_second) {
    uint64_t seconds = ticks / ticks_per_second;
    uint64_t rest = ticks % ticks_per_second;
    return seconds * 1000000000u + rest * 1000000000u / ticks_per_second;
}

static hf_status
region_merge(hfi_profile *profile, const hfi_definitions *from, uint32_t region,
             uint32_t *ret_region) {
    if (region == HFI_REGION_COLLAPSED)
        return hfi_definitions_add_region(profile->definitions, "COLLAPSE", "", 0,
                                          HFI_REGION_ARTIFICIAL, ret_region);
    const hfi_region *found = hfi_definitions_get_region(from, region);
    return hfi_definitions_add_region(profile->definitions,
                                      hfi_definitions_get_string(from, found->name),
                                      hfi_definitions_get_string(from, found->file),
                                      found->line, found->kind, ret_region);
}

/* Node i of `tree` is costs[i - 1], with all but the exclusive time. */
static hf_status
paths_merge(hfi_profile *profile, const hfi_definitions *definitions,
            const hfi_calltree *tree, uint64_t rate, hfi_path_cost *costs) {
    for (size_t i = 1; i < hfi_calltree_count(tree); i++) {
        const hfi_calltree_node *node = hfi_calltree_get(tree, i);
        hfi_path_cost *cost = &costs[i - 1];
        uint32_t region;
        hf_status status = region_merge(profile, definitions, node->region, &region);
        if (status == HF_OK)
            status = hfi_calltree_path(profile->tree,
                                       node->parent ? costs[node->parent - 1].path : 0,
                                       region, &cost->path);
        if (status != HF_OK)
            return status;
        cost->visits = node->visits;
        cost->inclusive = to_ns(node->inclusive, rate);
        cost->shortest = node->visits ? to_ns(node->shortest, rate) : 0;
        cost->longest = to_ns(node->longest, rate);
    }
    return HF_OK;
}

/* What is spent in callees is the sum of their rounded times. */
static void
costs_finish(hfi_profile *profile, const hfi_calltree *tree, hfi_path_cost *costs) {
    size_t count = hfi_calltree_count(tree) - 1;
    for (size_t i = 0; i < count; i++)
        costs[i].exclusive = costs[i].inclusive;
    for (size_t i = 0; i < count; i++) {
        uint32_t parent = hfi_calltree_get(tree, i + 1)->parent;
        if (parent)
            costs[parent - 1].exclusive -= costs[i].inclusive;
    }
    for (size_t i = 0; i < count; i++) {
        hfi_calltree_node more = {.visits = costs[i].visits,
                                  .inclusive = costs[i].inclusive,
                                  .children = costs[i].inclusive - costs[i].exclusive,
                                  .shortest =
                                      costs[i].visits ? costs[i].shortest : UINT64_MAX,
                                  .longest = costs[i].longest};
        hfi_calltree_sum(profile->tree, costs[i].path, &more);
    }
}

hf_status
hfi_profile_add_location(hfi_profile *profile, uint32_t process, uint64_t id,
                         const char *name, const hfi_definitions *definitions,
                         const hfi_calltree *tree, uint64_t ticks_per_second) {
    void *array = profile->locations;
    if (!reserve(&array, &profile->location_capacity, profile->location_count,
                 sizeof *profile->locations))
        return HF_E_NOMEM;
    profile->locations = array;
    hfi_profile_location *location = &profile->locations[profile->location_count];
    size_t count = hfi_calltree_count(tree) - 1;
    *location =
        (hfi_profile_location){.id = id,
                               .process = process,
                               .name = strdup(name),
                               .costs = calloc(count + 1, sizeof(hfi_path_cost)),
                               .count = count};
    hf_status status =
        location->name && location->costs
            ? paths_merge(profile, definitions, tree, ticks_per_second, location->costs)
            : HF_E_NOMEM;
    if (status != HF_OK) {
        free(location->name);
        free(location->costs);
        return status;
    }
    costs_finish(profile, tree, location->costs);
    profile->location_count++;
    return HF_OK;
}

uint64_t
hfi_profile_count_collapsed(const hfi_profile *profile) {
    uint64_t count = 0;
    for (size_t i = 1; i < hfi_calltree_count(profile->tree); i++) {
        const hfi_calltree_node *node = hfi_calltree_get(profile->tree, i);
        const hfi_region *region =
            hfi_definitions_get_region(profile->definitions, node->region);
        if (region->kind == HFI_REGION_ARTIFICIAL)
            count += node->visits;
    }
    return count;
}
