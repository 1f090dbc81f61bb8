/* slices.h - the calls of one location as blocks that a screen can show.
 *
 * Enters and leaves are added in their order. Several resolutions are kept at the same
 * time, each four times as fine as the one before; one that has more slices than are
 * wanted is dropped.
 *
 * Threads: one at a time.
 */
#ifndef HOLDFAST_VIEWS_SLICES_H
#define HOLDFAST_VIEWS_SLICES_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/status.h"

typedef struct hfi_slices hfi_slices;

/* One call, or `calls` > 1 of the same depth that are shorter than the resolution and
 * lie within it; `region` is then the one that took most of their time. */
typedef struct hfi_slice {
    uint64_t begin, length; /* ticks */
    uint64_t busy, longest; /* of its calls: their sum, without gaps between them */
    uint32_t region;
    uint32_t calls;
    uint32_t depth; /* 0: the outermost calls */
} hfi_slice;

/* `from`, `to`: the window, in ticks; at most about `slices_max` are kept. Failures:
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_slices_create(uint64_t from, uint64_t to, size_t slices_max,
                                     hfi_slices **ret_slices);
void hfi_slices_close(hfi_slices *slices);

/* Enters and leaves nest, times don't step back. Without memory they do nothing, and
 * finish returns HF_E_NOMEM. */
void hfi_slices_enter(hfi_slices *slices, uint64_t time, uint32_t region);
void hfi_slices_leave(hfi_slices *slices, uint64_t time);

/* After the last leave: the slices of the finest resolution that had room, by begin,
 * then by depth. They live as long as the slices. ret_pixel: shorter calls may be
 * merged; 0: none is. Failures: HF_E_NOMEM. */
HF_CHECK hf_status hfi_slices_finish(hfi_slices *slices, const hfi_slice **ret_slices,
                                     size_t *ret_count, uint64_t *ret_pixel);

uint64_t hfi_slices_count_calls(const hfi_slices *slices);
/* Of calls, also of those that lie too deep to be shown. */
uint64_t hfi_slices_count_levels(const hfi_slices *slices);
/* Calls that lie too deep to be shown. */
uint64_t hfi_slices_count_hidden(const hfi_slices *slices);

#endif
