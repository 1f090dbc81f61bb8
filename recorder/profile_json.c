/* profile_json.c - the call-path profile as JSON.
 *
 *   {"format": "holdfast-profile", "version": 1, "unit": "ns", "collapsed": CALLS,
 *    "processes": [NAME, ...],
 *    "regions": [{"name", "file", "line", "kind"}, ...],
 *    "locations": [{"id", "name", "process": INDEX, "nodes": [
 *        {"region": INDEX, "parent": NODE or null, "visits", "inclusive", "exclusive",
 *         "min", "max"}, ...]}]}
 *
 * A node is one call path; its parent comes before it in the same list. Times are
 * integers. The sum of `exclusive` over a location is what was spent inside any region.
 * A region of the kind "artificial" stands for calls that found no room of their own
 * ("collapsed" counts them), for a log that was written out, or for what a forked process
 * does in functions that its parent has entered.
 *
 * Written through stdio by hand: the format is fixed and flat, and the recorder has no
 * JSON library to depend on. Names are UTF-8 already.
 */
#include "profile.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"

static void
write_regions(FILE *file, const hfi_profile *profile) {
    static const char *const kinds[] = {[HFI_REGION_FUNCTION] = "function",
                                        [HFI_REGION_GENERATOR] = "function",
                                        [HFI_REGION_C_FUNCTION] = "c_function",
                                        [HFI_REGION_USER] = "user",
                                        [HFI_REGION_ARTIFICIAL] = "artificial"};
    size_t count = hfi_definitions_count_regions(profile->definitions);
    for (uint32_t i = 0; i < count; i++) {
        const hfi_region *region = hfi_definitions_get_region(profile->definitions, i);
        fprintf(file, "%s\n{\"name\": ", i ? "," : "");
        hfi_json_write(file, hfi_profile_name(profile, i));
        fputs(", \"file\": ", file);
        hfi_json_write(file, hfi_profile_file(profile, i));
        fprintf(file, ", \"line\": %" PRIu32 ", \"kind\": \"%s\"}", region->line,
                kinds[region->kind]);
    }
}

/* `numbers`: for each path of the profile, its place in this location's list. */
static void
write_nodes(FILE *file, const hfi_profile *profile,
            const hfi_profile_location *location, uint32_t *numbers) {
    for (uint32_t i = 0; i < location->count; i++) {
        const hfi_path_cost *cost = &location->costs[i];
        const hfi_calltree_node *node = hfi_calltree_get(profile->tree, cost->path);
        numbers[cost->path] = i;
        fprintf(file, "%s\n{\"region\": %" PRIu32, i ? "," : "", node->region);
        if (node->parent)
            fprintf(file, ", \"parent\": %" PRIu32, numbers[node->parent]);
        else
            fputs(", \"parent\": null", file);
        fprintf(file,
                ", \"visits\": %" PRIu64 ", \"inclusive\": %" PRIu64
                ", \"exclusive\": %" PRIu64 ", \"min\": %" PRIu64 ", \"max\": %" PRIu64
                "}",
                cost->visits, cost->inclusive, cost->exclusive, cost->shortest,
                cost->longest);
    }
}

hf_status
hfi_profile_write_json(const hfi_profile *profile, FILE *file) {
    uint32_t *numbers = calloc(hfi_calltree_count(profile->tree), sizeof *numbers);
    if (!numbers)
        return HF_E_NOMEM;
    fprintf(file,
            "{\"format\": \"holdfast-profile\", \"version\": 1, \"unit\": \"ns\", "
            "\"collapsed\": %" PRIu64 ",\n\"processes\": [",
            hfi_profile_count_collapsed(profile));
    for (size_t i = 0; i < profile->process_count; i++) {
        fputs(i ? ", " : "", file);
        hfi_json_write(file, profile->processes[i].name);
    }
    fputs("],\n\"regions\": [", file);
    write_regions(file, profile);
    fputs("],\n\"locations\": [", file);
    for (size_t i = 0; i < profile->location_count; i++) {
        const hfi_profile_location *location = &profile->locations[i];
        fprintf(file, "%s\n{\"id\": %" PRIu64 ", \"name\": ", i ? "," : "",
                location->id);
        hfi_json_write(file, location->name);
        fprintf(file, ", \"process\": %" PRIu32 ", \"nodes\": [", location->process);
        write_nodes(file, profile, location, numbers);
        fputs("]}", file);
    }
    fputs("]}\n", file);
    free(numbers);
    return HF_OK;
}
