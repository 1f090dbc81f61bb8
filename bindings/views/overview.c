/* overview.c - an archive in a form for people: a profile, and a row of blocks for each
 * thread.
 *
 * Both are made in one reading, one location after another. Each call goes into a
 * call-path tree (calltree.c) and into the row of slices (slices.c). The trees become
 * one profile, by the code that merges those of a recording. So a profile that was made
 * from a trace is like one that was made while recording, and can be written to the
 * same files.
 *
 * The room for slices is divided by the number of events. A thread that did little
 * needs little, but each gets at least ROW_MIN.
 *
 * Writing out a full buffer is a call of BUFFER FLUSH in the rows, as in the profile.
 */
#include "overview.h"

#include <stdlib.h>

#define ROW_MIN   500u
#define DEPTH_MAX 1000u    /* of paths */
#define PATHS_MAX 2000000u /* 100 bytes each */

struct hfi_overview {
    hfi_profile *profile;
    hfi_overview_row *rows;
    hfi_slices **slices; /* a row's, or NULL */
    size_t row_count;
    uint32_t *regions; /* the profile's: the archive's */
    uint64_t events;
};

typedef struct overview_window {
    uint64_t from, to;
    size_t slices_max;
} overview_window;

/* One location while it is read. */
typedef struct reading {
    hfi_calltree *tree;
    hfi_slices *slices; /* or NULL */
    uint32_t flush;     /* the region */
    uint64_t calls;
} reading;

static void
enter_region(void *context, uint64_t time, uint32_t region) {
    reading *self = context;
    /* Without memory the call counts to its caller. */
    (void)!hfi_calltree_enter(self->tree, region, time);
    if (self->slices)
        hfi_slices_enter(self->slices, time, region);
    self->calls++;
}

static void
leave_region(void *context, uint64_t time) {
    reading *self = context;
    hfi_calltree_leave(self->tree, time);
    if (self->slices)
        hfi_slices_leave(self->slices, time);
}

static void
add_flush(void *context, uint64_t begin, uint64_t end) {
    reading *self = context;
    hfi_calltree_add_flush(self->tree, end - begin);
    if (self->slices) {
        hfi_slices_enter(self->slices, begin, self->flush);
        hfi_slices_leave(self->slices, end);
    }
}

void
hfi_overview_close(hfi_overview *overview) {
    if (!overview)
        return;
    for (size_t i = 0; i < overview->row_count; i++)
        hfi_slices_close(overview->slices[i]);
    free(overview->slices);
    free(overview->rows);
    free(overview->regions);
    hfi_profile_close(overview->profile);
    free(overview);
}

static size_t
share_of(const hfi_archive *archive, size_t location, size_t slices_max) {
    double all = 1;
    for (size_t i = 0; i < hfi_archive_count_locations(archive); i++)
        all += (double)hfi_archive_get_location(archive, i)->events;
    double part = (double)hfi_archive_get_location(archive, location)->events / all;
    size_t share = (size_t)((double)slices_max * part);
    return share > ROW_MIN ? share : ROW_MIN;
}

/* The calls of a location, if there are any, become a row and a part of the profile. */
static hf_status
keep_location(hfi_overview *overview, hfi_archive *archive, size_t location,
              reading *read, uint64_t events) {
    hfi_overview_row *row = &overview->rows[overview->row_count];
    *row = (hfi_overview_row){.location = hfi_archive_get_location(archive, location),
                              .events = events,
                              .calls = read->calls};
    overview->events += events;
    if (!read->calls)
        return HF_OK;
    hf_status status = HF_OK;
    if (read->slices) {
        status =
            hfi_slices_finish(read->slices, &row->slices, &row->count, &row->pixel);
        row->levels = hfi_slices_count_levels(read->slices);
        row->hidden = hfi_slices_count_hidden(read->slices);
    }
    if (status == HF_OK)
        status = hfi_profile_add_location(
            overview->profile,
            row->location->process == UINT32_MAX ? 0 : row->location->process,
            row->location->id,
            hfi_definitions_get_string(hfi_archive_definitions(archive),
                                       row->location->name),
            hfi_archive_definitions(archive), read->tree,
            hfi_archive_get_clock(archive).ticks_per_second);
    if (status == HF_OK) {
        overview->slices[overview->row_count++] = read->slices;
        read->slices = NULL;
    }
    return status;
}

static hf_status
read_location(hfi_overview *overview, hfi_archive *archive, size_t location,
              const overview_window *window, uint32_t flush, hfi_calltree_room *room,
              hf_error *reterr) {
    reading read = {.flush = flush};
    hfi_archive_sink sink = {enter_region, leave_region, add_flush,
                             &read,        window->from, window->to};
    uint64_t events = 0;
    hf_status status = hfi_calltree_create(room, &read.tree);
    if (status == HF_OK && window->slices_max)
        status = hfi_slices_create(window->from, window->to,
                                   share_of(archive, location, window->slices_max),
                                   &read.slices);
    if (status == HF_OK)
        status = hfi_archive_read(archive, location, &sink, &events, reterr);
    if (status == HF_OK)
        status = keep_location(overview, archive, location, &read, events);
    hfi_slices_close(read.slices);
    hfi_calltree_close(read.tree);
    return status;
}

static hf_status
add_processes(hfi_overview *overview, const hfi_archive *archive) {
    hf_status status = HF_OK;
    uint32_t process;
    size_t count = hfi_archive_count_processes(archive);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status =
            hfi_profile_add_process(overview->profile, hfi_archive_process(archive, i),
                                    hfi_archive_host(archive, i), &process);
    if (!count) /* of a trace that names threads only */
        status = hfi_profile_add_process(overview->profile, "", "", &process);
    return status;
}

/* The profile has its own numbers for the regions that were seen: find the archive's
 * number of each. Regions that only a profile has are added to the archive's. */
static hf_status
map_regions(hfi_overview *overview, hfi_archive *archive) {
    const hfi_profile *profile = overview->profile;
    size_t count = hfi_definitions_count_regions(profile->definitions);
    overview->regions = calloc(count + 1, sizeof *overview->regions);
    hf_status status = overview->regions ? HF_OK : HF_E_NOMEM;
    for (uint32_t i = 0; i < count && status == HF_OK; i++) {
        const hfi_region *region = hfi_definitions_get_region(profile->definitions, i);
        status = hfi_definitions_add_region(hfi_archive_definitions(archive),
                                            hfi_profile_name(profile, i),
                                            hfi_profile_file(profile, i), region->line,
                                            region->kind, &overview->regions[i]);
    }
    return status;
}

static hf_status
overview_fill(hfi_overview *overview, hfi_archive *archive,
              const overview_window *window, hf_error *reterr) {
    size_t count = hfi_archive_count_locations(archive);
    hfi_calltree_room room = {DEPTH_MAX, PATHS_MAX};
    uint32_t flush = 0;
    overview->rows = calloc(count + 1, sizeof *overview->rows);
    overview->slices = calloc(count + 1, sizeof(hfi_slices *));
    hf_status status = overview->rows && overview->slices ? HF_OK : HF_E_NOMEM;
    if (status == HF_OK)
        status = hfi_profile_create(&overview->profile);
    if (status == HF_OK)
        status = add_processes(overview, archive);
    if (status == HF_OK)
        status =
            hfi_definitions_add_region(hfi_archive_definitions(archive), "BUFFER FLUSH",
                                       "", 0, HFI_REGION_ARTIFICIAL, &flush);
    for (size_t i = 0; i < count && status == HF_OK; i++)
        status = read_location(overview, archive, i, window, flush, &room, reterr);
    if (status == HF_OK)
        status = map_regions(overview, archive);
    if (status == HF_E_NOMEM)
        return hf_error_set(reterr, status, "out of memory");
    return status;
}

hf_status
hfi_overview_create(hfi_archive *archive, uint64_t from, uint64_t to, size_t slices_max,
                    hfi_overview **ret_overview, hf_error *reterr) {
    const overview_window wanted = {from, to, slices_max};
    hfi_overview *overview = calloc(1, sizeof *overview);
    if (!overview)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    hf_status status = overview_fill(overview, archive, &wanted, reterr);
    if (status != HF_OK) {
        hfi_overview_close(overview);
        return status;
    }
    *ret_overview = overview;
    return HF_OK;
}

const hfi_profile *
hfi_overview_profile(const hfi_overview *overview) {
    return overview->profile;
}

uint32_t
hfi_overview_region(const hfi_overview *overview, uint32_t region) {
    return overview->regions[region];
}

size_t
hfi_overview_count_rows(const hfi_overview *overview) {
    return overview->row_count;
}

const hfi_overview_row *
hfi_overview_get_row(const hfi_overview *overview, size_t row) {
    return &overview->rows[row];
}

uint64_t
hfi_overview_count_events(const hfi_overview *overview) {
    return overview->events;
}
