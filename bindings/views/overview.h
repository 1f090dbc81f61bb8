/* overview.h - an archive in a form for people: a profile, and a row of blocks for each
 * thread.
 */
#ifndef HOLDFAST_VIEWS_OVERVIEW_H
#define HOLDFAST_VIEWS_OVERVIEW_H

#include "recorder/profile.h"
#include "archive.h"
#include "slices.h"

typedef struct hfi_overview hfi_overview;

typedef struct hfi_overview_row {
    const hfi_archive_location *location;
    const hfi_slice *slices; /* see slices.h */
    size_t count;
    uint64_t pixel;  /* ticks; shorter calls may be merged; 0: none is */
    uint64_t events; /* of all kinds, in the archive */
    uint64_t calls;  /* in the window */
    uint64_t levels; /* of calls */
    uint64_t hidden; /* calls that lie too deep */
} hfi_overview_row;

/* The window [from, to] of an archive, in ticks; at most about `slices_max` slices, of
 * all rows together; 0: no rows are made. Rows are those of locations with calls.
 * Failures: HF_E_NOMEM, HF_E_CORRUPT. */
HF_CHECK hf_status hfi_overview_create(hfi_archive *archive, uint64_t from, uint64_t to,
                                       size_t slices_max, hfi_overview **ret_overview,
                                       hf_error *reterr);
void hfi_overview_close(hfi_overview *overview);

/* Its region numbers are its own: those of the regions that were seen. */
const hfi_profile *hfi_overview_profile(const hfi_overview *overview);
/* The archive's number of a region of the profile. */
uint32_t hfi_overview_region(const hfi_overview *overview, uint32_t region);
size_t hfi_overview_count_rows(const hfi_overview *overview);
const hfi_overview_row *hfi_overview_get_row(const hfi_overview *overview, size_t row);
uint64_t hfi_overview_count_events(const hfi_overview *overview);

#endif
