/* profile.c - the call-path profile as JSON: profile.json in the experiment directory.
 *
 *   {"format": "holdfast-profile", "version": 1, "unit": "ns",
 *    "regions": [{"name", "file", "line", "kind"}, ...],
 *    "locations": [{"id", "name", "nodes": [
 *        {"region": INDEX, "parent": NODE or null, "visits", "inclusive", "exclusive",
 *         "min", "max"}, ...]}]}
 *
 * A node is one call path; its parent stands before it in the same list. Times are
 * integers. The sum of `exclusive` over a location is what was spent inside any region.
 *
 * Written through stdio by hand: the format is fixed and flat, and the recorder has no
 * JSON library to depend on. Names are UTF-8 already; only quotes, backslashes and
 * control characters need escaping.
 */
#include "recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void
write_text(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\')
            fputc('\\', file);
        if (*at < 0x20)
            fprintf(file, "\\u%04x", *at);
        else
            fputc(*at, file);
    }
    fputc('"', file);
}

static void
write_regions(FILE *file, const hfi_definitions *definitions) {
    static const char *const kinds[] = {"function", "c_function", "user"};
    size_t count = hfi_definitions_count_regions(definitions);
    for (size_t i = 0; i < count; i++) {
        const hfi_region *region = hfi_definitions_get_region(definitions, (uint32_t)i);
        fprintf(file, "%s\n{\"name\": ", i ? "," : "");
        write_text(file, hfi_definitions_get_string(definitions, region->name));
        fputs(", \"file\": ", file);
        write_text(file, hfi_definitions_get_string(definitions, region->file));
        fprintf(file, ", \"line\": %" PRIu32 ", \"kind\": \"%s\"}", region->line,
                kinds[region->kind]);
    }
}

static uint64_t
to_ns(uint64_t ticks, uint64_t ticks_per_second) {
    return (uint64_t)((double)ticks * 1e9 / (double)ticks_per_second);
}

/* What is spent in callees is the sum of their rounded times, so that the numbers
 * agree.
 */
static bool
write_nodes(FILE *file, const hfi_calltree *tree, uint64_t rate) {
    size_t count = hfi_calltree_count(tree);
    uint64_t *children = calloc(count, sizeof *children);
    if (!children)
        return false;
    for (size_t i = 1; i < count; i++) {
        const hfi_calltree_node *node = hfi_calltree_get(tree, i);
        children[node->parent] += to_ns(node->inclusive, rate);
    }
    for (size_t i = 1; i < count; i++) {
        const hfi_calltree_node *node = hfi_calltree_get(tree, i);
        uint64_t inclusive = to_ns(node->inclusive, rate);
        fprintf(file, "%s\n{\"region\": %" PRIu32, i > 1 ? "," : "", node->region);
        if (node->parent)
            fprintf(file, ", \"parent\": %" PRIu32, node->parent - 1);
        else
            fputs(", \"parent\": null", file);
        fprintf(
            file,
            ", \"visits\": %" PRIu64 ", \"inclusive\": %" PRIu64
            ", \"exclusive\": %" PRIu64 ", \"min\": %" PRIu64 ", \"max\": %" PRIu64 "}",
            node->visits, inclusive,
            inclusive > children[i] ? inclusive - children[i] : 0,
            node->visits ? to_ns(node->shortest, rate) : 0, to_ns(node->longest, rate));
    }
    free(children);
    return true;
}

hf_status
hfi_profile_write(const char *path, const hfi_definitions *definitions,
                  hfi_location *const *locations, size_t count,
                  uint64_t ticks_per_second, hf_error *reterr) {
    FILE *file = fopen(path, "w");
    if (!file)
        return hf_error_set_errno(reterr, errno, "creating %s", path);
    int failed = 0;
    fputs("{\"format\": \"holdfast-profile\", \"version\": 1, \"unit\": \"ns\",\n"
          "\"regions\": [",
          file);
    write_regions(file, definitions);
    fputs("],\n\"locations\": [", file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "%s\n{\"id\": %" PRIu64 ", \"name\": ", i ? "," : "",
                locations[i]->id);
        write_text(file, locations[i]->name);
        fputs(", \"nodes\": [", file);
        if (!write_nodes(file, locations[i]->tree, ticks_per_second))
            failed = ENOMEM;
        fputs("]}", file);
    }
    fputs("]}\n", file);
    if (ferror(file) && !failed)
        failed = EIO;
    if (fclose(file) != 0 && !failed)
        failed = errno;
    return failed ? hf_error_set_errno(reterr, failed, "writing %s", path) : HF_OK;
}
