/* profile.c - the call-path profile of one experiment.
 *
 * Each location has recorded a tree of its own, in ticks, over regions that its process
 * has numbered. Here the trees become one. Two paths are the same if the contents of
 * their regions are (name, file, line, kind). So trees of other processes, with other
 * numbers and another clock, are merged like those of other threads. The cost of a path
 * at each location is kept in addition to the sum. The profiles that an experiment's
 * processes made at their ends become one in the same way (experiment.c).
 *
 * Invariants: a node's inclusive time is exactly its exclusive time plus the inclusive
 * times of its callees, for each location and for the sum. For this, times are first
 * converted to ns and then subtracted. A path that was open but never left has no
 * visits.
 *
 * Used by one thread when a recording is closed.
 *
 * Rejected: merging by path while the program runs (threads would meet at each event);
 * a matrix of paths and locations (each of a thousand threads knows only a few paths).
 */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

hf_status
hfi_profile_create(hfi_profile **ret_profile) {
    hfi_profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return HF_E_NOMEM;
    profile->collapsed = HFI_REGION_COLLAPSED;
    if (hfi_definitions_create(&profile->definitions) != HF_OK ||
        hfi_calltree_create(NULL, &profile->tree) != HF_OK) {
        hfi_profile_close(profile);
        return HF_E_NOMEM;
    }
    *ret_profile = profile;
    return HF_OK;
}

static void
process_fini(hfi_profile_process *process) {
    free(process->name);
    free(process->host);
}

void
hfi_profile_close(hfi_profile *profile) {
    if (!profile)
        return;
    for (size_t i = 0; i < profile->process_count; i++)
        process_fini(&profile->processes[i]);
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
reserve_place(void **array, size_t *capacity, size_t count, size_t item_size) {
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
hfi_profile_add_process(hfi_profile *profile, const char *name, const char *host,
                        uint32_t *ret_process) {
    void *array = profile->processes;
    if (!reserve_place(&array, &profile->process_capacity, profile->process_count,
                       sizeof *profile->processes))
        return HF_E_NOMEM;
    profile->processes = array;
    hfi_profile_process copy = {strdup(name), strdup(host)};
    if (!copy.name || !copy.host) {
        process_fini(&copy);
        return HF_E_NOMEM;
    }
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

/* -- merging ----------------------------------------------------------------------- */

/* Rounds down and is exact, so the parts of a time never add up to more than the
 * whole. */
static uint64_t
to_ns(uint64_t ticks, uint64_t ticks_per_second) {
    uint64_t seconds = ticks / ticks_per_second;
    uint64_t rest = ticks % ticks_per_second;
    return seconds * 1000000000u + rest * 1000000000u / ticks_per_second;
}

static hf_status
region_merge(hfi_profile *profile, const hfi_definitions *from, uint32_t region,
             uint32_t *ret_region) {
    if (region == HFI_REGION_COLLAPSED) {
        hf_status status = hfi_definitions_add_region(
            profile->definitions, "COLLAPSE", "", 0, HFI_REGION_ARTIFICIAL, ret_region);
        if (status == HF_OK)
            profile->collapsed = *ret_region;
        return status;
    }
    if (region == HFI_REGION_FLUSH)
        return hfi_definitions_add_region(profile->definitions, "BUFFER FLUSH", "", 0,
                                          HFI_REGION_ARTIFICIAL, ret_region);
    const hfi_region *found = hfi_definitions_get_region(from, region);
    return hfi_definitions_add_region(profile->definitions,
                                      hfi_definitions_get_string(from, found->name),
                                      hfi_definitions_get_string(from, found->file),
                                      found->line, found->kind, ret_region);
}

/* Merge the paths. Node i of `tree` becomes costs[i - 1], which lacks only its
 * exclusive time. */
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

/* The time in callees is the sum of their rounded times. */
static void
costs_finish(const hfi_calltree *tree, hfi_path_cost *costs) {
    size_t count = hfi_calltree_count(tree) - 1;
    for (size_t i = 0; i < count; i++)
        costs[i].exclusive = costs[i].inclusive;
    for (size_t i = 0; i < count; i++) {
        uint32_t parent = hfi_calltree_get(tree, i + 1)->parent;
        if (parent)
            costs[parent - 1].exclusive -= costs[i].inclusive;
    }
}

static void
costs_sum(hfi_calltree *tree, const hfi_path_cost *costs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        hfi_calltree_node more = {.visits = costs[i].visits,
                                  .inclusive = costs[i].inclusive,
                                  .children = costs[i].inclusive - costs[i].exclusive,
                                  .shortest =
                                      costs[i].visits ? costs[i].shortest : UINT64_MAX,
                                  .longest = costs[i].longest};
        hfi_calltree_sum(tree, costs[i].path, &more);
    }
}

/* Add the costs to the profile, which owns them then. */
static hf_status
add_costs_consume(hfi_profile *profile, uint32_t process, uint64_t id, const char *name,
                  hfi_path_cost *costs_consume, size_t count) {
    void *array = profile->locations;
    bool reserved = reserve_place(&array, &profile->location_capacity,
                                  profile->location_count, sizeof *profile->locations);
    /* realloc() has freed the old array, even if what follows fails */
    profile->locations = array;
    char *copy = reserved ? strdup(name) : NULL;
    if (!copy) {
        free(costs_consume);
        return HF_E_NOMEM;
    }
    profile->locations[profile->location_count++] =
        (hfi_profile_location){.id = id,
                               .process = process,
                               .name = copy,
                               .costs = costs_consume,
                               .count = count};
    costs_sum(profile->tree, costs_consume, count);
    return HF_OK;
}

hf_status
hfi_profile_add_location(hfi_profile *profile, uint32_t process, uint64_t id,
                         const char *name, const hfi_definitions *definitions,
                         const hfi_calltree *tree, uint64_t ticks_per_second) {
    size_t count = hfi_calltree_count(tree) - 1;
    hfi_path_cost *costs = calloc(count + 1, sizeof *costs);
    if (!costs)
        return HF_E_NOMEM;
    hf_status status = paths_merge(profile, definitions, tree, ticks_per_second, costs);
    if (status != HF_OK) {
        free(costs);
        return status;
    }
    costs_finish(tree, costs);
    return add_costs_consume(profile, process, id, name, costs, count);
}

hf_status
hfi_profile_add_costs(hfi_profile *profile, uint32_t process, uint64_t id,
                      const char *name, const hfi_path_cost *costs, size_t count) {
    hfi_path_cost *copy = malloc((count + 1) * sizeof *copy);
    if (!copy)
        return HF_E_NOMEM;
    if (count)
        memcpy(copy, costs, count * sizeof *copy);
    return add_costs_consume(profile, process, id, name, copy, count);
}

/* -- profiles of several processes ------------------------------------------------- */

/* The node here for each path of `from`. The caller frees the result. */
static hf_status
map_paths(hfi_profile *profile, const hfi_profile *from, uint32_t **ret_paths) {
    size_t count = hfi_calltree_count(from->tree);
    uint32_t *paths = calloc(count, sizeof *paths);
    hf_status status = paths ? HF_OK : HF_E_NOMEM;
    for (size_t i = 1; i < count && status == HF_OK; i++) {
        const hfi_calltree_node *node = hfi_calltree_get(from->tree, i);
        bool is_collapsed = node->region == from->collapsed;
        uint32_t region;
        status =
            region_merge(profile, from->definitions,
                         is_collapsed ? HFI_REGION_COLLAPSED : node->region, &region);
        if (status == HF_OK)
            status = hfi_calltree_path(profile->tree, paths[node->parent], region,
                                       &paths[i]);
    }
    if (status == HF_OK)
        *ret_paths = paths;
    else
        free(paths);
    return status;
}

static hf_status
merge_location(hfi_profile *profile, uint32_t first_process, const uint32_t *paths,
               const hfi_profile_location *from) {
    hfi_path_cost *costs = malloc((from->count + 1) * sizeof *costs);
    if (!costs)
        return HF_E_NOMEM;
    for (size_t i = 0; i < from->count; i++) {
        costs[i] = from->costs[i];
        costs[i].path = paths[costs[i].path];
    }
    return add_costs_consume(profile, first_process + from->process, from->id,
                             from->name, costs, from->count);
}

hf_status
hfi_profile_merge(hfi_profile *profile, const hfi_profile *from) {
    uint32_t *paths, process;
    uint32_t first = (uint32_t)profile->process_count;
    hf_status status = map_paths(profile, from, &paths);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < from->process_count && status == HF_OK; i++)
        status = hfi_profile_add_process(profile, from->processes[i].name,
                                         from->processes[i].host, &process);
    for (size_t i = 0; i < from->location_count && status == HF_OK; i++)
        status = merge_location(profile, first, paths, &from->locations[i]);
    free(paths);
    return status;
}

uint64_t
hfi_profile_count_collapsed(const hfi_profile *profile) {
    uint64_t count = 0;
    for (size_t i = 1; i < hfi_calltree_count(profile->tree); i++) {
        const hfi_calltree_node *node = hfi_calltree_get(profile->tree, i);
        if (node->region == profile->collapsed)
            count += node->visits;
    }
    return count;
}
