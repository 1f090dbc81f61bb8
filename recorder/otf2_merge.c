/* otf2_merge.c - one archive of what several processes recorded.
 *
 * Each process numbers its regions as it meets them. Its event files stay as they are:
 * in the local definition file of each location a mapping table says which numbers in
 * the archive its own numbers are, and readers apply the table. The first process comes
 * first, so its numbers are the archive's. A forked child goes on with its parent's
 * definitions, so its table is short: it holds only what differs.
 *
 * The definitions are written beside the archive, and replace the old ones when they
 * are complete, the anchor file last. So the archive can be read at any time, and can
 * be written again when a process that outlived the first one has ended. If the first
 * process ends last, as one without children does, there is nothing to replace. Then
 * its own archive is completed, without moving files and removing directories (1.2 of
 * 1.4 ms).
 *
 * Events have the ticks of their own machine. If that isn't the first process's, the
 * local definitions say how to correct them. otf2_definitions.c writes the definitions
 * for all.
 */
#include "otf2_files.h"
#include "parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct merged_part {
    uint32_t number;
    const hfi_recording_summary *summary;
    uint32_t *strings, *regions, *parameters; /* ids in the archive */
} merged_part;

typedef struct merge {
    const char *directory;
    hfi_definitions *definitions;
    merged_part *parts;
    size_t count;
} merge;

/* -- the archive's ids ------------------------------------------------------------- */

static uint32_t *
make_map(size_t count) {
    return malloc((count ? count : 1) * sizeof(uint32_t));
}

static hf_status
translate_part(merge *self, merged_part *part) {
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

/* -- local definitions ------------------------------------------------------------- */

/* NULL if the ids are those of the archive. */
static OTF2_IdMap *
make_id_map(size_t count, const uint32_t *map) {
    size_t same = 0;
    while (same < count && map[same] == same)
        same++;
    return same == count ? NULL : OTF2_IdMap_CreateFromUint32Array(count, map, true);
}

/* Write by how much another machine's counter is behind the first one's at two times,
 * between which readers interpolate. We rely on the times of day of both machines. */
static OTF2_ErrorCode
write_offsets(OTF2_DefWriter *local, const hfi_recording_summary *first,
              const hfi_recording_summary *part) {
    const uint64_t times[] = {part->begin_time, part->end_time};
    const uint64_t realtimes[] = {part->begin_realtime, part->end_realtime};
    OTF2_ErrorCode bad = OTF2_SUCCESS;
    for (size_t i = 0; i < 2 && !bad && !hfi_otf2_has_clock_of(part, first); i++)
        bad = OTF2_DefWriter_WriteClockOffset(
            local, times[i],
            (int64_t)(hfi_otf2_first_time(first, part, times[i], realtimes[i]) -
                      times[i]),
            0);
    return bad;
}

static OTF2_ErrorCode
write_local(OTF2_Archive *archive, const hfi_recording_summary *first,
            const merged_part *part) {
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
        if (!bad)
            bad = write_offsets(local, first, part->summary);
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

/* -- all definitions --------------------------------------------------------------- */

static OTF2_ErrorCode
write_definitions(OTF2_Archive *archive, const merge *self) {
    OTF2_ErrorCode bad = OTF2_Archive_OpenDefFiles(archive);
    for (size_t i = 0; i < self->count && !bad; i++)
        bad = write_local(archive, self->parts[0].summary, &self->parts[i]);
    if (!bad)
        bad = OTF2_Archive_CloseDefFiles(archive);
    const hfi_recording_summary **parts = calloc(self->count, sizeof *parts);
    if (!parts)
        return OTF2_ERROR_MEM_ALLOC_FAILED;
    for (size_t i = 0; i < self->count; i++)
        parts[i] = self->parts[i].summary;
    if (!bad)
        bad = hfi_otf2_write_global(archive, self->definitions, parts, self->count);
    free(parts);
    return bad;
}

static hf_status
write_beside(const merge *self, const char *unfinished, hf_error *reterr) {
    OTF2_Archive *archive;
    hfi_trace_part_remove(unfinished); /* of a process that couldn't finish it */
    hf_status status = hfi_otf2_create(unfinished, &archive, reterr);
    if (status != HF_OK)
        return status;
    if (write_definitions(archive, self))
        status = hfi_otf2_fail(reterr, "writing the definitions");
    hf_status closed = hfi_otf2_close(archive, status == HF_OK ? reterr : NULL);
    return status == HF_OK ? closed : status;
}

/* -- to their place ---------------------------------------------------------------- */

/* If the file isn't there, it was moved before. */
static hf_status
move_file(const char *from, const char *to, const char *name, hf_error *reterr) {
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

/* `unfinished`: the directory with the local definitions; NULL: they are in place. */
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
        status = move_file(own, self->directory, name, reterr);
        snprintf(name, sizeof name, "traces/%" PRIu64 ".def", id);
        if (status == HF_OK && unfinished)
            status = move_file(unfinished, self->directory, name, reterr);
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
        status = move_file(unfinished, self->directory, "traces.def", reterr);
    if (status == HF_OK && unfinished)
        status = move_file(unfinished, self->directory, "traces.otf2", reterr);
    return status;
}

static hf_status
write_merged(const merge *self, OTF2_Archive *archive, hf_error *reterr) {
    if (archive)
        return write_definitions(archive, self)
                   ? hfi_otf2_fail(reterr, "writing the definitions")
                   : move_all(self, NULL, reterr);
    char *unfinished = NULL;
    if (asprintf(&unfinished, "%s/parts/merged", self->directory) < 0)
        return HF_E_NOMEM;
    hf_status status = write_beside(self, unfinished, reterr);
    if (status == HF_OK)
        status = move_all(self, unfinished, reterr);
    free(unfinished);
    return status;
}

hf_status
hfi_otf2_merge(const char *directory, const hfi_experiment_part *parts, size_t count,
               OTF2_Archive *archive, hf_error *reterr) {
    merge self = {.directory = directory};
    hf_status status = hfi_definitions_create(&self.definitions);
    if (status != HF_OK)
        return status;
    self.parts = calloc(count, sizeof *self.parts);
    if (!self.parts)
        status = HF_E_NOMEM;
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        self.parts[self.count++] =
            (merged_part){.number = parts[i].number, .summary = parts[i].summary};
        status = translate_part(&self, &self.parts[i]);
    }
    if (status == HF_OK)
        status = write_merged(&self, archive, reterr);
    for (size_t i = 0; i < self.count; i++) {
        free(self.parts[i].strings);
        free(self.parts[i].regions);
        free(self.parts[i].parameters);
    }
    free(self.parts);
    hfi_definitions_close(self.definitions);
    return status;
}
