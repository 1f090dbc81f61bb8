/* reservation.h - taking pages of the arena, writing them, and giving them back.
 *
 * A reserved extent belongs to one process: no other one looks at its memory. Functions
 * here take the writer lock themselves, except hfi_extent_trim.
 *
 * Invariant: an extent that was reserved without HFI_RESERVE_BARE has memory for every
 * page, so no write to it is a SIGBUS.
 */
#ifndef HFI_RESERVATION_H
#define HFI_RESERVATION_H

#include <sys/uio.h>

#include "engine/handle.h"

/* How an extent is reserved, in addition to the HFI_EXTENT_* with which it is marked.
 * */
enum {
    HFI_RESERVE_BARE = 1u << 28,     /* memory may be missing: for hfi_extent_write */
    HFI_RESERVE_RECYCLED = 1u << 29, /* HF_NOT_FOUND if that needs fresh pages */
    HFI_RESERVE_SPARE =
        1u << 30, /* HF_E_NOSPACE if other processes had to give memory up */
};

/* Reserve `size` bytes, rounded up to pages. HF_NOT_FOUND and HF_E_NOSPACE as said
 * above, HF_E_LIMIT for the table's end, HF_E_SYSTEM, and what hfi_lock returns. */
hf_status hfi_extent_reserve(hf_session *session, uint64_t size, uint32_t flags,
                             uint32_t *ret_index, hf_error *reterr) HF_CHECK;
/* Write a reserved extent up to its last page, the parts one after the other. On
 * failure (HF_E_NOSPACE, HF_E_SYSTEM) the extent is given back. `ret_digest`: NULL; or,
 * if there is only one part, the digest as from hf_digest_add. */
hf_status hfi_extent_write(hf_session *session, uint32_t index,
                           const struct iovec *parts, size_t count,
                           hf_digest *ret_digest, hf_error *reterr) HF_CHECK;
/* Reserve an extent and write it, `size` bytes in all. If memory is full, room is made,
 * and it is tried once more. Statuses as for reserving and hfi_extent_write. */
hf_status hfi_extent_store(hf_session *session, uint32_t flags,
                           const struct iovec *parts, size_t count, uint64_t size,
                           uint32_t *ret_index, hf_digest *ret_digest,
                           hf_error *reterr) HF_CHECK;
/* Free an extent that this process reserved. */
void hfi_extent_give_back(hf_session *session, uint32_t index);
/* Call this if shared memory is full. The first attempt frees memory that only saves
 * time. Each further one frees the oldest generation that was yielded. 0 if there is
 * nothing left to free. */
int hfi_extent_give_way(hf_session *session, int attempt);
/* How many bytes of free pages an idle session would have too many, with so many fresh
 * ones. */
uint64_t hfi_extent_excess(const hf_session *session, uint64_t fresh);
/* Give those back, about so many of them at once; how many. Lock held. */
uint64_t hfi_extent_bound(hf_session *session, uint64_t budget);
/* Give free space back to the file system. Lock held. */
void hfi_extent_trim(hf_session *session);

#endif
