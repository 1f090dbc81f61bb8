/* otf2_definitions.c - the definitions of an archive, for all its processes.
 *
 * The system tree has a node for each machine, in it a group for each process, and in
 * it a location for each thread. Vampir and other readers need three kinds of groups:
 * - all locations, by which they know that these are processes and threads
 * - the ranks of MPI, in their order, with MPI_COMM_WORLD over them
 * - the regions of each module or class, by which views are coloured and summed up; as
 *   with Score-P, the part of a region's name before the colon is its group
 *
 * Times are ticks of the first part's machine. A part of another machine is placed by
 * the times of day at its begin and end, which is as exact as the machines' clocks
 * agree. To measure their difference by messages would need MPI, in a program that may
 * never initialize it.
 */
#include "otf2_files.h"

#include <stdlib.h>
#include <string.h>

/* The writer of the definitions, and the next free id. Names that only the archive
 * needs come after those of the recording. */
typedef struct def_file {
    OTF2_GlobalDefWriter *writer;
    uint32_t next_string, next_group, next_comm;
    OTF2_ErrorCode bad; /* the first error; later writes are skipped */
} def_file;

typedef struct part_list {
    const hfi_recording_summary *const *items;
    size_t count;
} part_list;

static uint32_t
write_string(def_file *file, const char *text) {
    uint32_t id = file->next_string++;
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteString(file->writer, id, text);
    return id;
}

/* -- what events refer to ---------------------------------------------------------- */

static OTF2_Paradigm
region_paradigm(hfi_region_kind kind) {
    return kind == HFI_REGION_USER ? OTF2_PARADIGM_USER : OTF2_PARADIGM_COMPILER;
}

static void
write_regions(def_file *file, const hfi_definitions *definitions) {
    for (size_t i = 0; i < hfi_definitions_count_strings(definitions) && !file->bad;
         i++)
        file->bad = OTF2_GlobalDefWriter_WriteString(
            file->writer, (uint32_t)i,
            hfi_definitions_get_string(definitions, (uint32_t)i));
    for (size_t i = 0; i < hfi_definitions_count_regions(definitions) && !file->bad;
         i++) {
        const hfi_region *region = hfi_definitions_get_region(definitions, (uint32_t)i);
        file->bad = OTF2_GlobalDefWriter_WriteRegion(
            file->writer, (uint32_t)i, region->name, region->name, 0,
            region->kind == HFI_REGION_USER ? OTF2_REGION_ROLE_CODE
                                            : OTF2_REGION_ROLE_FUNCTION,
            region_paradigm(region->kind), OTF2_REGION_FLAG_NONE, region->file,
            region->line, 0);
    }
}

static void
write_parameters(def_file *file, const hfi_definitions *definitions) {
    static const OTF2_ParameterType types[] = {
        [HFI_PARAMETER_INT] = OTF2_PARAMETER_TYPE_INT64,
        [HFI_PARAMETER_UINT] = OTF2_PARAMETER_TYPE_UINT64,
        [HFI_PARAMETER_STRING] = OTF2_PARAMETER_TYPE_STRING};
    for (size_t i = 0; i < hfi_definitions_count_parameters(definitions) && !file->bad;
         i++) {
        const hfi_parameter *parameter =
            hfi_definitions_get_parameter(definitions, (uint32_t)i);
        file->bad = OTF2_GlobalDefWriter_WriteParameter(
            file->writer, (uint32_t)i, parameter->name, types[parameter->kind]);
    }
}

/* -- where they happened ----------------------------------------------------------- */

static void
write_node(def_file *file, uint32_t node, uint32_t name, uint32_t kind, uint32_t parent,
           OTF2_SystemTreeDomain domain) {
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteSystemTreeNode(file->writer, node, name,
                                                             kind, parent);
    if (!file->bad)
        file->bad =
            OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain(file->writer, node, domain);
}

/* Write the node for this part's host, if no earlier part has it; 0 is the root. */
static uint32_t
write_host(def_file *file, const part_list *parts, size_t at, const uint32_t *nodes,
           uint32_t kind) {
    const char *host = parts->items[at]->host_name;
    uint32_t last = 0;
    for (size_t i = 0; i < at; i++) {
        if (strcmp(parts->items[i]->host_name, host) == 0)
            return nodes[i];
        last = nodes[i] > last ? nodes[i] : last;
    }
    write_node(file, last + 1, write_string(file, host), kind, 0,
               OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY);
    return last + 1;
}

/* Note that a process ended without closing its recording. */
static void
write_end(def_file *file, uint32_t group) {
    uint32_t name = write_string(file, "Ended");
    OTF2_AttributeValue value = {
        .stringRef =
            write_string(file, "without closing its recording; what was open is "
                               "left at the last event of its thread")};
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteLocationGroupProperty(
            file->writer, group, name, OTF2_TYPE_STRING, value);
}

static void
write_process(def_file *file, const hfi_recording_summary *part, uint32_t group,
              uint32_t node) {
    uint32_t process = write_string(file, part->process_name);
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteLocationGroup(
            file->writer, group, process, OTF2_LOCATION_GROUP_TYPE_PROCESS, node,
            OTF2_UNDEFINED_LOCATION_GROUP);
    if (part->was_killed)
        write_end(file, group);
    for (size_t i = 0; i < part->location_count; i++) {
        const hfi_location_summary *location = &part->locations[i];
        uint32_t name = write_string(file, location->name);
        if (!file->bad)
            file->bad = OTF2_GlobalDefWriter_WriteLocation(
                file->writer, location->id, name, OTF2_LOCATION_TYPE_CPU_THREAD,
                location->events, group);
    }
}

static void
write_places(def_file *file, const part_list *parts) {
    uint32_t machine = write_string(file, "machine");
    uint32_t kind = write_string(file, "node");
    uint32_t *nodes = calloc(parts->count, sizeof *nodes);
    if (!nodes)
        file->bad = OTF2_ERROR_MEM_ALLOC_FAILED;
    write_node(file, 0, machine, machine, OTF2_UNDEFINED_SYSTEM_TREE_NODE,
               OTF2_SYSTEM_TREE_DOMAIN_MACHINE);
    for (size_t i = 0; i < parts->count && nodes; i++) {
        nodes[i] = write_host(file, parts, i, nodes, kind);
        write_process(file, parts->items[i], (uint32_t)i, nodes[i]);
    }
    free(nodes);
}

/* -- groups ------------------------------------------------------------------------ */

static uint32_t
write_group(def_file *file, const char *name, OTF2_GroupType type,
            OTF2_Paradigm paradigm, const uint64_t *members, size_t count) {
    uint32_t id = file->next_group++, named = write_string(file, name);
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteGroup(file->writer, id, named, type,
                                                    paradigm, OTF2_GROUP_FLAG_NONE,
                                                    (uint32_t)count, members);
    return id;
}

/* Write the locations of a paradigm as one group, and its communicator. The members of
 * the second group are places in the first one. `members` is overwritten. */
static void
write_communicator(def_file *file, const char *locations, const char *all,
                   const char *communicator, OTF2_Paradigm paradigm, uint64_t *members,
                   size_t count) {
    (void)write_group(file, locations, OTF2_GROUP_TYPE_COMM_LOCATIONS, paradigm,
                      members, count);
    for (size_t i = 0; i < count; i++)
        members[i] = i;
    uint32_t group =
        write_group(file, all, OTF2_GROUP_TYPE_COMM_GROUP, paradigm, members, count);
    uint32_t name = write_string(file, communicator);
    if (!file->bad)
        file->bad =
            OTF2_GlobalDefWriter_WriteComm(file->writer, file->next_comm++, name, group,
                                           OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE);
}

/* Collect the first thread of each rank. Ranks come first and in order. If one has
 * recorded nothing, places in the group can't be ranks. */
static size_t
collect_ranks(const part_list *parts, uint64_t *members) {
    size_t count = 0;
    while (count < parts->count && parts->items[count]->has_rank &&
           parts->items[count]->rank == count && parts->items[count]->location_count) {
        members[count] = parts->items[count]->locations[0].id;
        count++;
    }
    bool is_all = count == parts->count || !parts->items[count]->has_rank;
    return is_all ? count : 0;
}

static void
write_location_groups(def_file *file, const part_list *parts) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < parts->count; i++)
        count += parts->items[i]->location_count;
    uint64_t *members = calloc(count + parts->count, sizeof *members);
    if (!members) {
        file->bad = OTF2_ERROR_MEM_ALLOC_FAILED;
        return;
    }
    for (size_t i = 0; i < parts->count; i++)
        for (size_t k = 0; k < parts->items[i]->location_count; k++)
            members[at++] = parts->items[i]->locations[k].id;
    write_communicator(file, "Locations", "Processes and threads",
                       "Processes and threads", OTF2_PARADIGM_MEASUREMENT_SYSTEM,
                       members, count);
    size_t ranks = collect_ranks(parts, members);
    if (ranks && !file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteParadigm(file->writer, OTF2_PARADIGM_MPI,
                                                       write_string(file, "MPI"),
                                                       OTF2_PARADIGM_CLASS_PROCESS);
    if (ranks)
        write_communicator(file, "MPI_Locations", "MPI_COMM_WORLD", "MPI_COMM_WORLD",
                           OTF2_PARADIGM_MPI, members, ranks);
    free(members);
}

typedef struct grouped_region {
    const char *name;
    size_t prefix; /* the length of its group's name */
    uint32_t id;
} grouped_region;

static int
by_group(const void *left, const void *right) {
    const grouped_region *a = left, *b = right;
    size_t shorter = a->prefix < b->prefix ? a->prefix : b->prefix;
    int order = memcmp(a->name, b->name, shorter);
    if (order)
        return order;
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static bool
is_same_group(const grouped_region *a, const grouped_region *b) {
    return a->prefix == b->prefix && memcmp(a->name, b->name, a->prefix) == 0;
}

static void
write_groups_of(def_file *file, const grouped_region *regions, size_t count,
                uint64_t *members) {
    for (size_t i = 0; i < count && !file->bad;) {
        const grouped_region *first = &regions[i];
        size_t size = 0;
        while (i < count && is_same_group(first, &regions[i]))
            members[size++] = regions[i++].id;
        char *name = strndup(first->name, first->prefix);
        if (name)
            (void)write_group(file, name, OTF2_GROUP_TYPE_REGIONS, OTF2_PARADIGM_NONE,
                              members, size);
        else
            file->bad = OTF2_ERROR_MEM_ALLOC_FAILED;
        free(name);
    }
}

static void
write_region_groups(def_file *file, const hfi_definitions *definitions) {
    size_t all = hfi_definitions_count_regions(definitions), count = 0;
    grouped_region *regions = calloc(all + 1, sizeof *regions);
    uint64_t *members = calloc(all + 1, sizeof *members);
    for (uint32_t i = 0; i < all && regions; i++) {
        const hfi_region *region = hfi_definitions_get_region(definitions, i);
        const char *name = hfi_definitions_get_string(definitions, region->name);
        const char *colon = strchr(name, ':');
        if (colon)
            regions[count++] = (grouped_region){name, (size_t)(colon - name), i};
    }
    if (regions && members) {
        qsort(regions, count, sizeof *regions, by_group);
        write_groups_of(file, regions, count, members);
    } else {
        file->bad = OTF2_ERROR_MEM_ALLOC_FAILED;
    }
    free(regions);
    free(members);
}

/* -- the clock --------------------------------------------------------------------- */

bool
hfi_otf2_has_clock_of(const hfi_recording_summary *part,
                      const hfi_recording_summary *first) {
    return !part->machine || !first->machine ||
           strcmp(part->machine, first->machine) == 0;
}

uint64_t
hfi_otf2_first_time(const hfi_recording_summary *first,
                    const hfi_recording_summary *part, uint64_t time,
                    uint64_t realtime) {
    if (hfi_otf2_has_clock_of(part, first))
        return time;
    double ns = (double)(int64_t)(realtime - first->begin_realtime);
    double ticks = ns * ((double)first->ticks_per_second / 1e9);
    return first->begin_time + (uint64_t)(int64_t)ticks;
}

static void
write_clock(def_file *file, const part_list *parts) {
    const hfi_recording_summary *first = parts->items[0];
    uint64_t begin = first->begin_time, realtime = first->begin_realtime, end = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const hfi_recording_summary *one = parts->items[i];
        uint64_t began =
            hfi_otf2_first_time(first, one, one->begin_time, one->begin_realtime);
        uint64_t ended =
            hfi_otf2_first_time(first, one, one->end_time, one->end_realtime);
        realtime = began < begin ? one->begin_realtime : realtime;
        begin = began < begin ? began : begin;
        end = ended > end ? ended : end;
    }
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteClockProperties(
            file->writer, first->ticks_per_second, begin, end - begin, realtime);
}

OTF2_ErrorCode
hfi_otf2_write_global(OTF2_Archive *archive, const hfi_definitions *definitions,
                      const hfi_recording_summary *const *parts, size_t count) {
    const part_list list = {parts, count};
    def_file file = {.writer = OTF2_Archive_GetGlobalDefWriter(archive),
                     .next_string =
                         (uint32_t)hfi_definitions_count_strings(definitions)};
    if (!file.writer)
        return OTF2_ERROR_INVALID_CALL;
    write_clock(&file, &list);
    write_regions(&file, definitions);
    write_parameters(&file, definitions);
    write_places(&file, &list);
    write_location_groups(&file, &list);
    write_region_groups(&file, definitions);
    return file.bad;
}
