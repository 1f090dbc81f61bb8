/* part_file.c - what a process leaves for the writer of the archive, as a file.
 *
 * A process that ends while others go on leaves this file beside its events. The
 * process that writes the archive reads it, and may have another version of this
 * program. So the file begins with a mark, and everything is checked before it is used.
 *
 * Numbers have 64 bits in the machine's byte order; texts have their length before
 * them. The order is: mark, times, names, then strings, regions, parameters and
 * locations, each with their count, then the profile, which has definitions of its own.
 * An id is a place in its list, as in definitions.c, so the lists are read by adding
 * their items.
 */
#include "part_file.h"
#include "whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK UINT64_C(0x0431545241504648) /* "HFPART1", version 4 */

static void
put_uint64(FILE *file, uint64_t number) {
    fwrite(&number, sizeof number, 1, file);
}

static void
put_string(FILE *file, const char *text) {
    size_t length = strlen(text);
    put_uint64(file, length);
    fwrite(text, 1, length, file);
}

static void
put_definitions(FILE *file, const hfi_definitions *definitions) {
    size_t count = hfi_definitions_count_strings(definitions);
    put_uint64(file, count);
    for (size_t i = 0; i < count; i++)
        put_string(file, hfi_definitions_get_string(definitions, (uint32_t)i));
    count = hfi_definitions_count_regions(definitions);
    put_uint64(file, count);
    for (size_t i = 0; i < count; i++) {
        const hfi_region *region = hfi_definitions_get_region(definitions, (uint32_t)i);
        put_uint64(file, region->name);
        put_uint64(file, region->file);
        put_uint64(file, region->line);
        put_uint64(file, region->kind);
    }
    count = hfi_definitions_count_parameters(definitions);
    put_uint64(file, count);
    for (size_t i = 0; i < count; i++) {
        const hfi_parameter *one =
            hfi_definitions_get_parameter(definitions, (uint32_t)i);
        put_uint64(file, one->name);
        put_uint64(file, one->kind);
    }
}

static void
put_paths(FILE *file, const hfi_calltree *tree) {
    size_t count = hfi_calltree_count(tree);
    put_uint64(file, count);
    for (size_t i = 1; i < count; i++) {
        put_uint64(file, hfi_calltree_get(tree, i)->parent);
        put_uint64(file, hfi_calltree_get(tree, i)->region);
    }
}

static void
put_profile_location(FILE *file, const hfi_profile_location *location) {
    put_uint64(file, location->id);
    put_uint64(file, location->process);
    put_string(file, location->name);
    put_uint64(file, location->count);
    for (size_t i = 0; i < location->count; i++) {
        const hfi_path_cost *cost = &location->costs[i];
        const uint64_t words[] = {cost->path,      cost->visits,   cost->inclusive,
                                  cost->exclusive, cost->shortest, cost->longest};
        fwrite(words, sizeof words, 1, file);
    }
}

static void
put_profile(FILE *file, const hfi_profile *profile, const hfi_profile_files *files) {
    put_uint64(file, files->formats);
    put_string(file, files->name);
    put_definitions(file, profile->definitions);
    put_uint64(file, profile->collapsed);
    put_paths(file, profile->tree);
    put_uint64(file, profile->process_count);
    for (size_t i = 0; i < profile->process_count; i++) {
        put_string(file, profile->processes[i].name);
        put_string(file, profile->processes[i].host);
    }
    put_uint64(file, profile->location_count);
    for (size_t i = 0; i < profile->location_count; i++)
        put_profile_location(file, &profile->locations[i]);
}

static hf_status
put_summary(const void *contents, FILE *file) {
    const hfi_recording_summary *summary = contents;
    put_uint64(file, MARK);
    put_uint64(file, summary->ticks_per_second);
    put_uint64(file, summary->begin_time);
    put_uint64(file, summary->end_time);
    put_uint64(file, summary->begin_realtime);
    put_uint64(file, summary->end_realtime);
    put_uint64(file, summary->cpu_ns);
    put_uint64(file, summary->has_rank);
    put_uint64(file, summary->rank);
    put_string(file, summary->process_name);
    put_string(file, summary->host_name);
    put_string(file, summary->machine ? summary->machine : "");
    put_uint64(file, summary->was_killed);
    put_uint64(file, summary->is_traced);
    put_definitions(file, summary->definitions);
    put_uint64(file, summary->location_count);
    for (size_t i = 0; i < summary->location_count; i++) {
        put_uint64(file, summary->locations[i].id);
        put_uint64(file, summary->locations[i].events);
        put_string(file, summary->locations[i].name);
    }
    put_uint64(file, summary->profile != NULL);
    if (summary->profile)
        put_profile(file, summary->profile, &summary->profile_files);
    return HF_OK;
}

hf_status
hfi_trace_part_file_write(const char *path, const hfi_recording_summary *summary,
                          hf_error *reterr) {
    return hfi_whole_file_write(path, put_summary, summary, reterr);
}

/* -- reading it -------------------------------------------------------------------- */

typedef struct cursor {
    FILE *file;
    bool bad; /* it ended early, or has wrong data */
    char text[HFI_STRING_MAX + 1];
} cursor;

static uint64_t
get_uint64(cursor *at) {
    uint64_t number = 0;
    if (!at->bad && fread(&number, sizeof number, 1, at->file) != 1)
        at->bad = true;
    return at->bad ? 0 : number;
}

static const char *
get_text(cursor *at) {
    uint64_t length = get_uint64(at);
    at->bad = at->bad || length > HFI_STRING_MAX ||
              fread(at->text, 1, (size_t)length, at->file) != length;
    at->text[at->bad ? 0 : length] = '\0';
    return at->text;
}

/* Read a number that must be below `end`. */
static uint32_t
get_below(cursor *at, uint64_t end) {
    uint64_t number = get_uint64(at);
    if (number >= end)
        at->bad = true;
    return at->bad ? 0 : (uint32_t)number;
}

static void
get_definitions(cursor *at, hfi_definitions *definitions) {
    uint32_t id;
    uint64_t strings = get_uint64(at);
    for (uint64_t i = 0; i < strings && !at->bad; i++) {
        const char *text = get_text(at);
        at->bad = at->bad ||
                  hfi_definitions_add_string(definitions, text, &id) != HF_OK ||
                  id != i;
    }
    uint64_t regions = get_uint64(at);
    for (uint64_t i = 0; i < regions && !at->bad; i++) {
        uint32_t name = get_below(at, strings), file = get_below(at, strings);
        uint32_t line = get_below(at, UINT32_MAX);
        uint32_t kind = get_below(at, HFI_REGION_ARTIFICIAL + 1);
        at->bad = at->bad ||
                  hfi_definitions_add_region(
                      definitions, hfi_definitions_get_string(definitions, name),
                      hfi_definitions_get_string(definitions, file), line,
                      (hfi_region_kind)kind, &id) != HF_OK ||
                  id != i;
    }
    uint64_t parameters = get_uint64(at);
    for (uint64_t i = 0; i < parameters && !at->bad; i++) {
        uint32_t name = get_below(at, strings);
        uint32_t kind = get_below(at, HFI_PARAMETER_STRING + 1);
        at->bad = at->bad ||
                  hfi_definitions_add_parameter(
                      definitions, hfi_definitions_get_string(definitions, name),
                      (hfi_parameter_kind)kind, &id) != HF_OK ||
                  id != i;
    }
}

/* The list grows with the items that are read, not with the count that the file
 * claims. */
static void
get_locations(cursor *at, hfi_recording_summary *summary) {
    uint64_t count = get_uint64(at);
    hfi_location_summary *locations = NULL;
    for (uint64_t i = 0; i < count && !at->bad; i++) {
        if ((i & (i - 1)) == 0) {
            void *grown = realloc(locations, (i ? 2 * i : 1) * sizeof *locations);
            at->bad = at->bad || !grown;
            locations = grown ? grown : locations;
        }
        hfi_location_summary one = {.id = get_uint64(at), .events = get_uint64(at)};
        char *name = strdup(get_text(at));
        one.name = name;
        if (at->bad || !name) {
            free(name);
            at->bad = true;
            break;
        }
        locations[summary->location_count++] = one;
    }
    summary->locations = locations;
}

/* The root exists already. */
static void
get_paths(cursor *at, hfi_profile *profile, uint64_t regions) {
    uint32_t node;
    uint64_t count = get_uint64(at);
    for (uint64_t i = 1; i < count && !at->bad; i++) {
        uint32_t parent = get_below(at, i), region = get_below(at, regions);
        at->bad = at->bad ||
                  hfi_calltree_path(profile->tree, parent, region, &node) != HF_OK ||
                  node != i;
    }
}

/* At most one cost for each path. */
static void
get_costs(cursor *at, hfi_profile *profile, hfi_path_cost *costs) {
    size_t paths = hfi_calltree_count(profile->tree);
    uint64_t id = get_uint64(at);
    uint32_t process = get_below(at, profile->process_count);
    char *name = strdup(get_text(at));
    uint32_t count = get_below(at, paths);
    for (uint32_t i = 0; i < count && !at->bad; i++) {
        uint64_t words[6] = {0};
        at->bad = fread(words, sizeof words, 1, at->file) != 1 || words[0] >= paths;
        costs[i] = (hfi_path_cost){(uint32_t)words[0], words[1], words[2],
                                   words[3],           words[4], words[5]};
    }
    at->bad = at->bad || !name ||
              hfi_profile_add_costs(profile, process, id, name, costs, count) != HF_OK;
    free(name);
}

static void
get_processes(cursor *at, hfi_profile *profile) {
    uint64_t count = get_uint64(at);
    for (uint64_t i = 0; i < count && !at->bad; i++) {
        uint32_t id;
        char *name = strdup(get_text(at));
        const char *host = get_text(at);
        at->bad = at->bad || !name ||
                  hfi_profile_add_process(profile, name, host, &id) != HF_OK;
        free(name);
    }
}

static void
get_profile(cursor *at, hfi_recording_summary *summary) {
    hfi_profile *profile = NULL;
    at->bad = at->bad || hfi_profile_create(&profile) != HF_OK;
    if (at->bad)
        return;
    summary->profile = profile;
    summary->profile_files.formats = get_below(at, UINT32_MAX);
    summary->profile_files.name = strdup(get_text(at));
    get_definitions(at, profile->definitions);
    size_t regions = hfi_definitions_count_regions(profile->definitions);
    profile->collapsed = get_below(at, UINT32_MAX);
    get_paths(at, profile, regions);
    get_processes(at, profile);
    hfi_path_cost *costs = calloc(hfi_calltree_count(profile->tree), sizeof *costs);
    at->bad = at->bad || !summary->profile_files.name || !costs ||
              strchr(summary->profile_files.name, '/');
    uint64_t locations = get_uint64(at);
    for (uint64_t i = 0; i < locations && !at->bad; i++)
        get_costs(at, profile, costs);
    free(costs);
}

void
hfi_trace_part_file_free(hfi_recording_summary *summary) {
    if (!summary)
        return;
    hfi_definitions_close((hfi_definitions *)summary->definitions);
    for (size_t i = 0; i < summary->location_count; i++)
        free((char *)summary->locations[i].name);
    free((hfi_location_summary *)summary->locations);
    free((char *)summary->process_name);
    free((char *)summary->host_name);
    free((char *)summary->machine);
    hfi_profile_close((hfi_profile *)summary->profile);
    free((char *)summary->profile_files.name);
    free(summary);
}

static hf_status
read_summary(cursor *at, hfi_recording_summary *summary) {
    hfi_definitions *definitions;
    if (get_uint64(at) != MARK)
        return HF_E_CORRUPT;
    hf_status status = hfi_definitions_create(&definitions);
    if (status != HF_OK)
        return status;
    summary->definitions = definitions;
    summary->ticks_per_second = get_uint64(at);
    summary->begin_time = get_uint64(at);
    summary->end_time = get_uint64(at);
    summary->begin_realtime = get_uint64(at);
    summary->end_realtime = get_uint64(at);
    summary->cpu_ns = get_uint64(at);
    summary->has_rank = get_below(at, 2);
    summary->rank = get_below(at, UINT32_MAX);
    summary->process_name = strdup(get_text(at));
    summary->host_name = strdup(get_text(at));
    summary->machine = strdup(get_text(at));
    summary->was_killed = get_below(at, 2);
    summary->is_traced = get_below(at, 2);
    get_definitions(at, definitions);
    get_locations(at, summary);
    if (get_below(at, 2))
        get_profile(at, summary);
    if (!summary->process_name || !summary->host_name || !summary->machine)
        return HF_E_NOMEM;
    return at->bad ? HF_E_CORRUPT : HF_OK;
}

hf_status
hfi_trace_part_file_read(const char *path, hfi_recording_summary **ret_summary,
                         hf_error *reterr) {
    cursor *at = calloc(1, sizeof *at);
    hfi_recording_summary *summary = calloc(1, sizeof *summary);
    hf_status status = HF_E_NOMEM;
    if (!at || !summary)
        goto out;
    at->file = fopen(path, "re");
    if (!at->file) {
        status = errno == ENOENT
                     ? HF_NOT_FOUND
                     : hf_error_set_errno(reterr, errno, "opening %s", path);
        goto out;
    }
    status = read_summary(at, summary);
    fclose(at->file);
    if (status == HF_E_CORRUPT)
        status = hf_error_set(reterr, status, "%s can't be understood", path);
out:
    free(at);
    if (status == HF_OK)
        *ret_summary = summary;
    else
        hfi_trace_part_file_free(summary);
    return status;
}
