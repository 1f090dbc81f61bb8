/* otf2_merge.c - one archive of what several processes recorded.
 *
 * Each process numbers its regions as it meets them. Its event files stay as they are:
 * a mapping table in the local definition file of each of its locations says what its
 * numbers are in the whole archive, and readers apply it. The first process comes
 * first, so its numbers are the archive's, and a forked child, which goes on with its
 * parent's definitions, has most in common with it: a table holds what differs.
 *
 * The definitions are written beside the archive and take its place when they are
 * whole, the anchor file last. So the archive can be written again when a process that
 * outlived the first one has ended, and what is there at any time can be read. Where
 * the first process ends last, as one without children does, nothing is there to
 * replace: its own archive is completed, without a detour over files that are moved and
 * directories that are removed (1.2 of 1.4 ms).
 *
 * The system tree has a node for each machine and a group for each process.
 */
#include "otf2_files.h"
#include "part_file.h"
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct merged_part {
    uint32_t number;
    const hfi_recording_summary *summary;
    hfi_recording_summary *read;              /* the same, where it comes from a file */
    uint32_t *strings, *regions, *parameters; /* the archive's ids */
} merged_part;

typedef struct merge {
    const char *directory;
    hfi_definitions *definitions;
    merged_part *parts; /* by number */
    size_t count, capacity;
} merge;

/* -- which parts there are -----------------------------------------------------------
 */

static hf_status
add_part(merge *self, merged_part part) {
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 8;
        merged_part *grown = realloc(self->parts, capacity * sizeof *grown);
        if (!grown)
            return HF_E_NOMEM;
        self->parts = grown;
        self->capacity = capacity;
    }
    self->parts[self->count++] = part;
    return HF_OK;
}

static int
by_number(const void *left, const void *right) {
    uint32_t a = ((const merged_part *)left)->number;
    uint32_t b = ((const merged_part *)right)->number;
    return (a > b) - (a < b);
}

/* What a process left that was killed can't be understood: its part is passed over. */
static hf_status
read_part(merge *self, const char *name, uint32_t own) {
    char *end, *path = NULL;
    unsigned long number = strtoul(name, &end, 10);
    if (*end || end == name || number == own || number > UINT32_MAX)
        return HF_OK;
    if (asprintf(&path, "%s/parts/%s/part", self->directory, name) < 0)
        return HF_E_NOMEM;
    merged_part part = {.number = (uint32_t)number};
    hf_status status = hfi_part_file_read(path, &part.read, NULL);
    free(path);
    if (status != HF_OK)
        return status == HF_E_NOMEM ? status : HF_OK;
    part.summary = part.read;
    status = add_part(self, part);
    if (status != HF_OK)
        hfi_part_file_free(part.read);
    return status;
}

static hf_status
find_parts(merge *self, uint32_t own, const hfi_recording_summary *summary) {
    char *path = NULL;
    if (asprintf(&path, "%s/parts", self->directory) < 0)
        return HF_E_NOMEM;
    hf_status status = add_part(self, (merged_part){.number = own, .summary = summary});
    DIR *parts = opendir(path);
    for (struct dirent *entry; status == HF_OK && parts && (entry = readdir(parts));)
        status = read_part(self, entry->d_name, own);
    if (parts)
        closedir(parts);
    free(path);
    qsort(self->parts, self->count, sizeof *self->parts, by_number);
    return status;
}

/* -- the archive's ids ---------------------------------------------------------------
 */

static uint32_t *
make_map(size_t count) {
    return malloc((count ? count : 1) * sizeof(uint32_t));
}

static hf_status
translate(merge *self, merged_part *part) {
    const hfi_definitions *from = part->summary->definitions;
    size_t strings = hfi_definitions_count_strings(from);
    size_t regions = hfi_definitions_count_regions(from);
    size_t parameters = hfi_definitions_count_parameters(from);
    part->strings = make_map(strings);
    part->regions = make_map(regions);
    part->parameters = make_map(parameters);
    if (!part->strings || !part->regions || !part->parameters)
        return HF_E_NOMEM;
    hf_status status = HF_OK;
    for (uint32_t i = 0; i < strings && status == HF_OK; i++)
        status = hfi_definitions_add_string(
            self->definitions, hfi_definitions_get_string(from, i), &part->strings[i]);
    for (uint32_t i = 0; i < regions && status == HF_OK; i++) {
        const hfi_region *region = hfi_definitions_get_region(from, i);
        status = hfi_definitions_add_region(
            self->definitions, hfi_definitions_get_string(from, region->name),
            hfi_definitions_get_string(from, region->file), region->line, region->kind,
            &part->regions[i]);
    }
    for (uint32_t i = 0; i < parameters && status == HF_OK; i++) {
        const hfi_parameter *parameter = hfi_definitions_get_parameter(from, i);
        status = hfi_definitions_add_parameter(
            self->definitions, hfi_definitions_get_string(from, parameter->name),
            parameter->kind, &part->parameters[i]);
    }
    return status;
}

/* -- local definitions ---------------------------------------------------------------
 */

/* NULL where the ids are the archive's. */
static OTF2_IdMap *
make_id_map(size_t count, const uint32_t *map) {
    size_t same = 0;
    while (same < count && map[same] == same)
        same++;
    return same == count ? NULL : OTF2_IdMap_CreateFromUint32Array(count, map, true);
}

static OTF2_ErrorCode
write_local(OTF2_Archive *archive, const merged_part *part) {
    const hfi_definitions *from = part->summary->definitions;
    OTF2_IdMap *maps[] = {
        make_id_map(hfi_definitions_count_strings(from), part->strings),
        make_id_map(hfi_definitions_count_regions(from), part->regions),
        make_id_map(hfi_definitions_count_parameters(from), part->parameters)};
    static const OTF2_MappingType types[] = {OTF2_MAPPING_STRING, OTF2_MAPPING_REGION,
                                             OTF2_MAPPING_PARAMETER};
    OTF2_ErrorCode bad = OTF2_SUCCESS;
    for (size_t i = 0; i < part->summary->location_count && !bad; i++) {
        OTF2_DefWriter *local =
            OTF2_Archive_GetDefWriter(archive, part->summary->locations[i].id);
        if (!local)
            bad = OTF2_ERROR_INVALID_CALL;
        for (size_t k = 0; k < 3 && !bad; k++)
            if (maps[k])
                bad = OTF2_DefWriter_WriteMappingTable(local, types[k], maps[k]);
        if (!bad)
            bad = OTF2_Archive_CloseDefWriter(archive, local);
    }
    for (size_t k = 0; k < 3; k++)
        OTF2_IdMap_Free(maps[k]);
    return bad;
}

/* -- global definitions --------------------------------------------------------------
 */

/* What the definitions are written through, and where the next free string id is: names
 * that only the archive needs come after the recording's own. */
typedef struct def_file {
    OTF2_GlobalDefWriter *writer;
    uint32_t next_string;
    OTF2_ErrorCode bad; /* the first error; later writes are skipped */
} def_file;

static uint32_t
write_string(def_file *file, const char *text) {
    uint32_t id = file->next_string++;
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteString(file->writer, id, text);
    return id;
}

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

/* The node of the system tree for this machine: 0 is the root. */
static uint32_t
write_node(def_file *file, const merge *self, size_t at, const uint32_t *nodes,
           uint32_t kind) {
    const char *host = self->parts[at].summary->host_name;
    uint32_t last = 0;
    for (size_t i = 0; i < at; i++) {
        if (strcmp(self->parts[i].summary->host_name, host) == 0)
            return nodes[i];
        last = nodes[i] > last ? nodes[i] : last;
    }
    uint32_t name = write_string(file, host);
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteSystemTreeNode(file->writer, last + 1,
                                                             name, kind, 0);
    return last + 1;
}

static void
write_process(def_file *file, const merged_part *part, uint32_t group, uint32_t node) {
    const hfi_recording_summary *summary = part->summary;
    uint32_t process = write_string(file, summary->process_name);
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteLocationGroup(
            file->writer, group, process, OTF2_LOCATION_GROUP_TYPE_PROCESS, node,
            OTF2_UNDEFINED_LOCATION_GROUP);
    for (size_t i = 0; i < summary->location_count; i++) {
        const hfi_location_summary *location = &summary->locations[i];
        uint32_t name = write_string(file, location->name);
        if (!file->bad)
            file->bad = OTF2_GlobalDefWriter_WriteLocation(
                file->writer, location->id, name, OTF2_LOCATION_TYPE_CPU_THREAD,
                location->events, group);
    }
}

static void
write_places(def_file *file, const merge *self) {
    uint32_t machine = write_string(file, "machine");
    uint32_t kind = write_string(file, "node");
    uint32_t *nodes = calloc(self->count, sizeof *nodes);
    if (!nodes)
        file->bad = OTF2_ERROR_MEM_ALLOC_FAILED;
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteSystemTreeNode(
            file->writer, 0, machine, machine, OTF2_UNDEFINED_SYSTEM_TREE_NODE);
    for (size_t i = 0; i < self->count && nodes; i++) {
        nodes[i] = write_node(file, self, i, nodes, kind);
        write_process(file, &self->parts[i], (uint32_t)i, nodes[i]);
    }
    free(nodes);
}

static void
write_clock(def_file *file, const merge *self, uint64_t ticks_per_second) {
    const hfi_recording_summary *first = self->parts[0].summary;
    uint64_t end = 0;
    for (size_t i = 0; i < self->count; i++) {
        const hfi_recording_summary *one = self->parts[i].summary;
        first = one->begin_time < first->begin_time ? one : first;
        end = one->end_time > end ? one->end_time : end;
    }
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteClockProperties(
            file->writer, ticks_per_second, first->begin_time, end - first->begin_time,
            first->begin_realtime);
}

static OTF2_ErrorCode
write_definitions(OTF2_Archive *archive, const merge *self, uint64_t ticks_per_second) {
    OTF2_ErrorCode bad = OTF2_Archive_OpenDefFiles(archive);
    for (size_t i = 0; i < self->count && !bad; i++)
        bad = write_local(archive, &self->parts[i]);
    if (!bad)
        bad = OTF2_Archive_CloseDefFiles(archive);
    def_file file = {OTF2_Archive_GetGlobalDefWriter(archive),
                     (uint32_t)hfi_definitions_count_strings(self->definitions), bad};
    if (!file.writer)
        return bad ? bad : OTF2_ERROR_INVALID_CALL;
    write_clock(&file, self, ticks_per_second);
    write_regions(&file, self->definitions);
    write_parameters(&file, self->definitions);
    write_places(&file, self);
    return file.bad;
}

static hf_status
write_beside(const merge *self, const char *unfinished, uint64_t ticks_per_second,
             hf_error *reterr) {
    OTF2_Archive *archive;
    hfi_part_remove(unfinished); /* of one who could not finish it */
    hf_status status = hfi_otf2_create(unfinished, &archive, reterr);
    if (status != HF_OK)
        return status;
    if (write_definitions(archive, self, ticks_per_second))
        status = hfi_otf2_fail(reterr, "writing the definitions");
    if (OTF2_Archive_Close(archive) && status == HF_OK)
        status = hfi_otf2_fail(reterr, "closing the archive");
    /* Some writes that failed are only told to the callback. */
    if (hfi_otf2_has_failed() && status == HF_OK)
        status = hfi_otf2_fail(reterr, "writing the archive");
    return status;
}

/* -- to their place ------------------------------------------------------------------
 */

/* What isn't there has been moved before. */
static hf_status
move(const char *from, const char *to, const char *name, hf_error *reterr) {
    char *source = NULL, *target = NULL;
    hf_status status = HF_OK;
    if (asprintf(&source, "%s/%s", from, name) < 0 ||
        asprintf(&target, "%s/%s", to, name) < 0)
        status = HF_E_NOMEM;
    else if (rename(source, target) != 0 && errno != ENOENT)
        status = hf_error_set_errno(reterr, errno, "writing %s", target);
    free(source);
    free(target);
    return status;
}

/* `unfinished`: where the local definitions are, or NULL where they are in place. */
static hf_status
move_events(const merge *self, const char *unfinished, const merged_part *part,
            hf_error *reterr) {
    char *own = NULL;
    if (asprintf(&own, "%s/parts/%u", self->directory, part->number) < 0)
        return HF_E_NOMEM;
    hf_status status = HF_OK;
    for (size_t i = 0; i < part->summary->location_count && status == HF_OK; i++) {
        char name[48];
        uint64_t id = part->summary->locations[i].id;
        snprintf(name, sizeof name, "traces/%" PRIu64 ".evt", id);
        status = move(own, self->directory, name, reterr);
        snprintf(name, sizeof name, "traces/%" PRIu64 ".def", id);
        if (status == HF_OK && unfinished)
            status = move(unfinished, self->directory, name, reterr);
    }
    free(own);
    return status;
}

static hf_status
move_all(const merge *self, const char *unfinished, hf_error *reterr) {
    char *traces = NULL;
    if (asprintf(&traces, "%s/traces", self->directory) < 0)
        return HF_E_NOMEM;
    hf_status status = HF_OK;
    if (mkdir(traces, 0777) != 0 && errno != EEXIST)
        status = hf_error_set_errno(reterr, errno, "creating %s", traces);
    free(traces);
    for (size_t i = 0; i < self->count && status == HF_OK; i++)
        status = move_events(self, unfinished, &self->parts[i], reterr);
    if (status == HF_OK && unfinished)
        status = move(unfinished, self->directory, "traces.def", reterr);
    if (status == HF_OK && unfinished)
        status = move(unfinished, self->directory, "traces.otf2", reterr);
    return status;
}

static hf_status
write_merged(const merge *self, OTF2_Archive *archive, uint64_t ticks_per_second,
             hf_error *reterr) {
    if (archive)
        return write_definitions(archive, self, ticks_per_second)
                   ? hfi_otf2_fail(reterr, "writing the definitions")
                   : move_all(self, NULL, reterr);
    char *unfinished = NULL;
    if (asprintf(&unfinished, "%s/parts/merged", self->directory) < 0)
        return HF_E_NOMEM;
    hf_status status = write_beside(self, unfinished, ticks_per_second, reterr);
    if (status == HF_OK)
        status = move_all(self, unfinished, reterr);
    free(unfinished);
    return status;
}

hf_status
hfi_otf2_merge(const char *directory, uint32_t number,
               const hfi_recording_summary *summary, OTF2_Archive *archive,
               hf_error *reterr) {
    merge self = {.directory = directory};
    hf_status status = hfi_definitions_create(&self.definitions);
    if (status == HF_OK)
        status = find_parts(&self, number, summary);
    for (size_t i = 0; i < self.count && status == HF_OK; i++)
        status = translate(&self, &self.parts[i]);
    if (status == HF_OK)
        status = write_merged(&self, archive, summary->ticks_per_second, reterr);
    for (size_t i = 0; i < self.count; i++) {
        hfi_part_file_free(self.parts[i].read);
        free(self.parts[i].strings);
        free(self.parts[i].regions);
        free(self.parts[i].parameters);
    }
    free(self.parts);
    hfi_definitions_close(self.definitions);
    return status;
}
