/* extent.h - the table of extents, as extent.c, reservation.c and recovery.c share it.
 * Everything here wants the writer lock held. */
#ifndef HFI_EXTENT_H
#define HFI_EXTENT_H

#include "engine/internal.h"

/* The record of a number, or NULL where there is none (HFI_NONE too). */
hfi_extent *hfi_extent_at(hf_session *session, uint32_t index);
/* The list of free extents in which one of `size` bytes stands. */
unsigned hfi_extent_bin(const hf_session *session, uint64_t size);
/* Count an extent into the sums of `state` (sign 1) or out of them (-1). */
void hfi_extent_count_bytes(hf_session *session, const hfi_extent *extent,
                            enum hfi_extent_state state, int sign);
/* Out of the list and sums of its state; into those of another. Size and flags may
 * change between the two. */
void hfi_extent_leave(hf_session *session, uint32_t index);
void hfi_extent_enter(hf_session *session, uint32_t index, enum hfi_extent_state state,
                      uint32_t slot);
/* A FREE extent made from an unused record, put behind `before` by address. */
hf_status hfi_extent_make(hf_session *session, uint64_t offset, uint64_t size,
                          uint32_t flags, uint32_t before, uint32_t *ret_index,
                          hf_error *reterr) HF_CHECK;
/* Make the record unused and close the gap in the list by address. */
void hfi_extent_forget(hf_session *session, uint32_t index);
/* Join a free extent with the free one after it, where both have memory or neither. */
int hfi_extent_join(hf_session *session, uint32_t index);

#endif
