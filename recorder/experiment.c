/* experiment.c - one archive and one profile of what several processes recorded.
 *
 * A process that ends leaves its part file (part_file.c) and its events. The first
 * process and the one that ends last read these files, and write one archive
 * (otf2_merge.c) and one profile of all. Each process is a process of the profile, with
 * its threads. If a format has no processes, the figures for the same functions are
 * added up. The first process decides which formats are written. Ranks of MPI come
 * first, in their order, then the others by the numbers of their parts.
 *
 * Archive and profile are independent: if one can't be written, the other one is, and
 * the first failure is returned.
 */
#include "otf2_files.h"
#include "part_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct experiment {
    const char *directory;
    hfi_experiment_part *parts;
    size_t count, capacity;
} experiment;

/* -- which parts there are --------------------------------------------------------- */

static hf_status
add_part(experiment *self, hfi_experiment_part part) {
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? self->capacity * 2 : 8;
        hfi_experiment_part *grown = realloc(self->parts, capacity * sizeof *grown);
        if (!grown)
            return HF_E_NOMEM;
        self->parts = grown;
        self->capacity = capacity;
    }
    self->parts[self->count++] = part;
    return HF_OK;
}

static int
in_order(const void *left, const void *right) {
    const hfi_experiment_part *a = left, *b = right;
    if (a->summary->has_rank != b->summary->has_rank)
        return a->summary->has_rank ? -1 : 1;
    if (a->summary->has_rank && a->summary->rank != b->summary->rank)
        return a->summary->rank < b->summary->rank ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* The file of a killed process may be damaged: then its part is left out. */
static hf_status
read_part(experiment *self, const char *name, uint32_t own) {
    char *end, *path = NULL;
    unsigned long number = strtoul(name, &end, 10);
    if (*end || end == name || number == own || number > UINT32_MAX)
        return HF_OK;
    if (asprintf(&path, "%s/parts/%s/part", self->directory, name) < 0)
        return HF_E_NOMEM;
    hfi_experiment_part part = {.number = (uint32_t)number};
    hf_status status = hfi_trace_part_file_read(path, &part.read, NULL);
    free(path);
    if (status != HF_OK)
        return status == HF_E_NOMEM ? status : HF_OK;
    part.summary = part.read;
    status = add_part(self, part);
    if (status != HF_OK)
        hfi_trace_part_file_free(part.read);
    return status;
}

static hf_status
find_parts(experiment *self, uint32_t own, const hfi_recording_summary *summary) {
    char *path = NULL;
    if (asprintf(&path, "%s/parts", self->directory) < 0)
        return HF_E_NOMEM;
    hf_status status = HF_OK;
    if (summary)
        status = add_part(self, (hfi_experiment_part){own, summary, NULL});
    DIR *parts = opendir(path);
    for (struct dirent *entry; status == HF_OK && parts && (entry = readdir(parts));)
        status = read_part(self, entry->d_name, own);
    if (parts)
        closedir(parts);
    free(path);
    if (self->count)
        qsort(self->parts, self->count, sizeof *self->parts, in_order);
    return status;
}

/* -- what is made of them ---------------------------------------------------------- */

static hf_status
merge_profiles(const experiment *self, hfi_profile *profile,
               const hfi_profile_files **ret_files) {
    hf_status status = HF_OK;
    for (size_t i = 0; i < self->count && status == HF_OK; i++) {
        const hfi_recording_summary *part = self->parts[i].summary;
        if (part->profile)
            status = hfi_profile_merge(profile, part->profile);
        if (part->profile && !*ret_files)
            *ret_files = &part->profile_files;
    }
    return status;
}

/* If there is one process only, its own profile is written as it is. */
static hf_status
write_profile(const experiment *self, hf_error *reterr) {
    const hfi_recording_summary *first = self->count ? self->parts[0].summary : NULL;
    const hfi_profile_files *files = NULL;
    hfi_profile *profile;
    if (self->count == 1 && first->profile)
        return hfi_profile_write(first->profile, self->directory, &first->profile_files,
                                 reterr);
    hf_status status = hfi_profile_create(&profile);
    if (status != HF_OK)
        return status;
    status = merge_profiles(self, profile, &files);
    if (status == HF_OK)
        status = files ? hfi_profile_write(profile, self->directory, files, reterr)
                       : HF_NOT_FOUND;
    hfi_profile_close(profile);
    return status;
}

/* The parts that have events for the archive. */
static hf_status
write_archive(const experiment *self, OTF2_Archive *archive, hf_error *reterr) {
    hfi_experiment_part *traced = calloc(self->count + 1, sizeof *traced);
    size_t count = 0;
    if (!traced)
        return HF_E_NOMEM;
    for (size_t i = 0; i < self->count; i++)
        if (self->parts[i].summary->is_traced && !self->parts[i].summary->is_cut)
            traced[count++] = self->parts[i];
    hf_status status = HF_NOT_FOUND;
    if (count)
        status = hfi_otf2_merge(self->directory, traced, count, archive, reterr);
    free(traced);
    return status;
}

/* What all processes but this one have. */
static hfi_others
count_others(const experiment *self) {
    hfi_others others = {0};
    for (size_t i = 0; i < self->count; i++) {
        /* NULL: this process's */
        const hfi_recording_summary *other = self->parts[i].read;
        for (size_t l = 0; other && l < other->location_count; l++)
            others.events += other->locations[l].events;
        others.cpu_ns += other ? other->cpu_ns : 0;
    }
    return others;
}

hf_status
hfi_experiment_write(const char *directory, uint32_t number,
                     const hfi_recording_summary *summary, OTF2_Archive *archive,
                     hfi_others *ret_others, hf_error *reterr) {
    experiment self = {.directory = directory};
    hf_status status = find_parts(&self, number, summary);
    if (status == HF_OK) {
        status = write_archive(&self, archive, reterr);
        hf_status profile = write_profile(&self, status < 0 ? NULL : reterr);
        /* If there is nothing of one kind, but something of the other, that is no
         * failure. */
        if (status >= 0 && profile != HF_NOT_FOUND)
            status = profile;
    }
    if (ret_others)
        *ret_others = count_others(&self);
    for (size_t i = 0; i < self.count; i++)
        hfi_trace_part_file_free(self.parts[i].read);
    free(self.parts);
    return status;
}
