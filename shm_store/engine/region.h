/* region.h - memory of the arena that is mapped here and that somebody uses.
 *
 * session->mutex guards the tree by address, what a region is made of (pieces), and the
 * pins; every function wants it held, but for hfi_region_scan and hfi_regions_release.
 * struct hf_region is in block.h.
 *
 * Invariant: each region in the tree pins every extent of its pieces, of what it was and
 * of what it will be; no two regions overlap. */
#ifndef HFI_REGION_H
#define HFI_REGION_H

#include "engine/block.h"
#include "platform/pages.h"

typedef struct hfi_regions {
    hf_region *root; /* of a treap by address */
    int verifies;    /* changed pages are compared, too: hf_session_verify_pages */
    uint64_t pages_overlooked; /* changed, and not found by what the system reports */
} hfi_regions;

/* ---- by address ---- */

void hfi_regions_insert(hf_session *session, hf_region *region);
void hfi_regions_remove(hf_session *session, hf_region *region);
/* The region in which `address` lies, or NULL. */
hf_region *hfi_regions_find(hf_session *session, const void *address);
/* The first region after `address`, or NULL: for walks. */
hf_region *hfi_regions_above(hf_session *session, const void *address);

/* ---- what it was, is and will be ---- */

/* Forget what it was before it was unsealed. */
void hfi_region_drop_was(hf_region *region);
/* Forget what an abandoned commit wrote of it. */
void hfi_region_drop_next(hf_region *region);
/* Map an own region privately, over the same pages at the same addresses. 0; or an errno,
 * and the region is as it was. */
int hfi_region_privatize(hf_region *region);
/* The pages of a committed region that were written here. The caller frees the runs with
 * hfi_runs_fini. Takes no mutex; the caller has a reference. HF_E_NOMEM. */
hf_status hfi_region_scan(hf_region *region, hfi_runs *ret_runs,
                          hf_error *reterr) HF_CHECK;

/* Release `count` regions and free the list. Takes the mutex. */
void hfi_regions_release(hf_region **regions, size_t count);

#endif
