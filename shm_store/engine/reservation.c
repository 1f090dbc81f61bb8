/* reservation.c - getting pages of the arena, and giving them back to the file system.
 *
 * The smallest free extent that fits is split. (A small request doesn't split a large
 * one, which is kept for large requests.) Extents with pages come first, also retired
 * ones that nobody reads any more: fresh pages cost two to ten times a copy. Then come
 * holes, and at last the arena grows at its end. Under the writer lock an extent only
 * changes hands. Its memory is allocated after that, without the lock: gigabytes take
 * tenths of a second, and the extent is already ours. If the file system is full,
 * memory that only saves time is given back first: the cache of blocks, retired extents
 * that nobody reads, the pages of free ones. Then the yielded generations go, one after
 * the other, the oldest first (yield.c). After each the request is tried again. If none
 * is left, the result is HF_E_NOSPACE.
 *
 * An extent that is written whole needn't be allocated before: pwrite allocates what it
 * writes, in one call instead of two, and also reports ENOSPC. So it is reserved bare,
 * and is a HOLE until it was written. If the write fails, the extent is punched, and
 * dropped with the rest of its commit.
 *
 * Free extents keep their pages, but only as many as are likely to be used. Before
 * fresh pages are taken, free ones are given back. Those that have memory, used and
 * free, may be no more than the maximum in use at once since a trim, and 16 MiB. The
 * smallest go first, which fit the fewest requests. A large one is rather split.
 *
 * If nobody has taken pages for a while, older generations count, too: all memory may be
 * no more than that maximum, or twice what is committed, and 48 MiB. Between cells that
 * follow each other it may be more, since each writes where the last but one did.
 *
 * Trimming punches free extents and cuts the end of the file, so that a session that
 * was large once doesn't stay so.
 *
 * Rejected: growing without allocating. The first write to a hole of a full tmpfs is a
 * SIGBUS in the middle of a computation.
 */
#include "engine/reservation.h"

#include "base/step.h"
#include "engine/extent.h"
#include "engine/slot.h"
#include "platform/bulk.h"
#include "platform/object.h"

#define SEARCH_MAX 64          /* tries in the bin whose extents may be too small */
#define LARGE      (1u << 20)  /* what is smaller */
#define SPLIT_MAX  (16u << 20) /* a small request doesn't split a larger extent */
#define KEPT_MIN   (16ull << 20)
#define KEPT_IDLE  (48ull << 20)

/* If there are huge pages, an extent of the size of one or more begins at a multiple of
 * it. */
static uint64_t
alignment_of(const hf_session *session, uint64_t size) {
    uint64_t huge = session->super->huge_page;
    return huge && !(huge & (huge - 1)) && size >= huge ? huge : session->page;
}

/* Bytes to leave out at the beginning of an extent. */
static uint64_t
padding_bytes(const hf_session *session, uint64_t offset, uint64_t size) {
    return (0 - offset) & (alignment_of(session, size) - 1);
}

/* The largest extent that may be split for so little. A page taken from the middle of a
 * recycled gigabyte would leave nothing for the next array of that size. */
static uint64_t
split_limit(uint64_t size) {
    return size < LARGE ? SPLIT_MAX : UINT64_MAX;
}

/* The smallest free extent that fits, up to `limit`: `hole` is HFI_EXTENT_HOLE for
 * those without pages, 0 for those with all of them. */
static uint32_t
find_free(hf_session *session, uint64_t size, uint64_t limit, uint32_t hole) {
    uint32_t best = HFI_NONE;
    for (unsigned bin = hfi_extent_bin(session, size); bin < HFI_BIN_COUNT; bin++) {
        uint32_t index = session->super->bins[bin];
        hfi_extent *extent;
        for (int n = 0; n < SEARCH_MAX && (extent = hfi_extent_at(session, index));
             n++) {
            if (extent->size >= size + padding_bytes(session, extent->offset, size) &&
                extent->size <= limit && (extent->flags & HFI_EXTENT_HOLE) == hole &&
                (best == HFI_NONE || extent->size < session->extents[best].size))
                best = index;
            index = extent->next;
        }
        if (best != HFI_NONE)
            break;
    }
    return best;
}

/* A free extent at the end of the arena that is large enough, without memory yet. */
static hf_status
grow_arena(hf_session *session, uint64_t size, uint32_t *ret_index, hf_error *reterr) {
    hfi_superblock *super = session->super;
    uint64_t end = atomic_load(&super->arena_end);
    hfi_extent *last = hfi_extent_at(session, super->last);
    uint64_t have = last && hfi_extent_state(last) == HFI_FREE ? last->size : 0;
    if (have > split_limit(size))
        have = 0;
    /* A free extent that was large enough would have been found. */
    uint64_t more = size + padding_bytes(session, end - have, size) - have;
    if (end - HFI_ARENA_OFFSET > super->capacity ||
        more > super->capacity - (end - HFI_ARENA_OFFSET))
        return hf_error_set(
            reterr, HF_E_NOSPACE,
            "the arena may hold %llu MiB, and %llu more bytes were needed",
            (unsigned long long)(super->capacity >> 20), (unsigned long long)more);
    uint32_t index;
    hf_status status =
        hfi_extent_make(session, end, more, HFI_EXTENT_HOLE | HFI_EXTENT_ZERO,
                        super->last, &index, reterr);
    if (status)
        return status;
    atomic_store_explicit(&super->arena_end, end + more, memory_order_release);
    hfi_step("grow:end-moved");
    if (have) { /* one extent, and a part of it has no memory */
        hfi_extent *extent = &session->extents[index];
        index = extent->before;
        extent = &session->extents[index];
        hfi_extent_count_bytes(session, extent, HFI_FREE, -1);
        extent->flags = HFI_EXTENT_HOLE;
        hfi_extent_count_bytes(session, extent, HFI_FREE, 1);
        hfi_extent_join(session, index);
    }
    *ret_index = index;
    return HF_OK;
}

/* Cut a free extent in two; `ret_rest` is what comes after the first `size` bytes. */
static hf_status
split_extent(hf_session *session, uint32_t index, uint64_t size, uint32_t *ret_rest,
             hf_error *reterr) {
    hfi_extent *extent = &session->extents[index];
    uint64_t rest = extent->size - size;
    hfi_extent_leave(session, index);
    extent->size = size;
    hfi_extent_enter(session, index, HFI_FREE, 0);
    hf_status status = hfi_extent_make(session, extent->offset + size, rest,
                                       extent->flags, index, ret_rest, reterr);
    if (status) {
        hfi_extent_leave(session, index);
        extent->size = size + rest;
        hfi_extent_enter(session, index, HFI_FREE, 0);
    }
    return status;
}

/* Without memory of older generations: for these no free pages need be kept. */
static uint64_t
used_bytes(const hfi_superblock *super) {
    return super->bytes[HFI_RESERVED] - super->spare_bytes +
           super->bytes[HFI_PREPARED] + super->bytes[HFI_COMMITTED];
}

static uint64_t
free_pages(const hfi_superblock *super) {
    return super->bytes[HFI_FREE] - super->hole_bytes + super->spare_bytes;
}

static uint64_t
larger_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* By how many bytes the free pages would exceed their limit with so many fresh ones. */
static uint64_t
excess_bytes(const hfi_superblock *super, uint64_t fresh) {
    uint64_t used = used_bytes(super) + fresh;
    uint64_t most = larger_of(used, super->peak) + KEPT_MIN;
    uint64_t all = used + free_pages(super);
    return all > most ? all - most : 0;
}

uint64_t
hfi_extent_excess(const hf_session *session, uint64_t fresh) {
    const hfi_superblock *super = session->super;
    uint64_t used = used_bytes(super), waits = free_pages(super) + fresh;
    uint64_t most =
        larger_of(larger_of(used, super->peak), 2 * super->bytes[HFI_COMMITTED]) +
        KEPT_IDLE;
    uint64_t all = used + super->bytes[HFI_RETIRED] + waits;
    uint64_t over = all > most ? all - most : 0;
    return over < waits ? over : waits;
}

/* Give the pages of a free extent back. */
static int
punch_free(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    if (hfi_object_punch(hfi_session_fd(session), extent->offset, extent->size) != 0)
        return 0;
    hfi_extent_count_bytes(session, extent, HFI_FREE, -1);
    extent->flags = HFI_EXTENT_HOLE | HFI_EXTENT_ZERO;
    hfi_extent_count_bytes(session, extent, HFI_FREE, 1);
    hfi_step("trim:punched");
    return 1;
}

/* One of the smallest free extents that have pages, or NONE. */
static uint32_t
smallest_free(hf_session *session) {
    for (unsigned bin = 0; bin < HFI_BIN_COUNT; bin++) {
        uint32_t index = session->super->bins[bin], guard = hfi_extent_count(session);
        hfi_extent *extent;
        for (; (extent = hfi_extent_at(session, index)) && guard--;
             index = extent->next)
            if (!(extent->flags & HFI_EXTENT_HOLE))
                return index;
    }
    return HFI_NONE;
}

/* Before so many fresh pages are taken. */
static void
bound_free_pages(hf_session *session, uint64_t fresh) {
    while (excess_bytes(session->super, fresh)) {
        uint32_t index = smallest_free(session);
        if (index == HFI_NONE || !punch_free(session, index))
            return;
        uint32_t before = session->extents[index].before;
        hfi_extent_join(session, index);
        hfi_extent_join(session, before);
    }
}

uint64_t
hfi_extent_bound(hf_session *session, uint64_t budget) {
    uint64_t bytes = 0;
    hf_error ignored;
    hfi_extent_reclaim(session);
    uint64_t over;
    while (bytes < budget && (over = hfi_extent_excess(session, 0))) {
        uint32_t index = smallest_free(session), rest;
        uint64_t part = over < budget - bytes ? over : budget - bytes;
        part = hfi_round_up(part, session->page);
        if (index == HFI_NONE ||
            (session->extents[index].size > part &&
             split_extent(session, index, part, &rest, &ignored)) ||
            !punch_free(session, index))
            break;
        bytes += session->extents[index].size;
        uint32_t before = session->extents[index].before;
        hfi_extent_join(session, index);
        hfi_extent_join(session, before);
    }
    return bytes;
}

/* A free extent with pages, or NONE. */
static uint32_t
find_recycled(hf_session *session, uint64_t size) {
    uint64_t limit = split_limit(size);
    uint32_t index = find_free(session, size, limit, 0);
    if (index == HFI_NONE && session->super->bytes[HFI_RETIRED]) {
        hfi_extent_reclaim(session);
        index = find_free(session, size, limit, 0);
    }
    if (index == HFI_NONE && excess_bytes(session->super, size))
        index = find_free(session, size, UINT64_MAX, 0);
    return index;
}

static hf_status
take_extent(hf_session *session, uint64_t size, uint32_t flags, uint32_t *ret_index,
            hf_error *reterr) {
    uint64_t limit = split_limit(size);
    uint32_t index = find_recycled(session, size);
    if (index == HFI_NONE && (flags & HFI_RESERVE_RECYCLED))
        return HF_NOT_FOUND;
    if (index == HFI_NONE)
        bound_free_pages(session, size);
    if (index == HFI_NONE)
        index = find_free(session, size, limit, HFI_EXTENT_HOLE);
    hf_status status = HF_OK;
    if (index == HFI_NONE)
        status = grow_arena(session, size, &index, reterr);
    if (status == HF_E_NOSPACE) /* then part of a large one after all */
        index = find_free(session, size, UINT64_MAX, 0);
    if (status && index == HFI_NONE)
        return status;
    uint64_t pad = padding_bytes(session, session->extents[index].offset, size);
    uint32_t rest;
    if (pad && (status = split_extent(session, index, pad, &index, reterr)))
        return status;
    if (session->extents[index].size > size &&
        (status = split_extent(session, index, size, &rest, reterr)))
        return status;
    hfi_extent *extent = &session->extents[index];
    hfi_extent_leave(session, index);
    extent->flags |= flags & HFI_EXTENT_FLAGS;
    hfi_extent_enter(session, index, HFI_RESERVED, session->slot);
    session->super->peak = larger_of(session->super->peak, used_bytes(session->super));
    if (!(flags & HFI_EXTENT_SPARE))
        session->super->taken_ms = hfi_idle_now();
    hfi_step("reserve:taken");
    *ret_index = index;
    return HF_OK;
}

void
hfi_extent_give_back(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    hf_error ignored;
    if (extent->flags & HFI_EXTENT_HOLE) /* a part of its pages may exist */
        hfi_object_punch(hfi_session_fd(session), extent->offset, extent->size);
    if (hfi_lock(session, &ignored))
        return;
    hfi_extent_free(session, index);
    hfi_unlock(session);
}

/* Whether the object reaches so far. A touch beyond its end is a SIGBUS. */
static int
is_in_object(hf_session *session, const hfi_extent *extent) {
    uint64_t size = hfi_session_size(session);
    return extent->offset <= size && extent->size <= size - extent->offset;
}

int
hf_session_is_cut(hf_session *session) {
    if (!session)
        return 0;
    uint64_t size = hfi_object_size(hfi_session_fd(session));
    if (size < HFI_TABLE_OFFSET ||
        size < HFI_TABLE_OFFSET + hfi_extent_count(session) * sizeof(hfi_extent))
        return 1;
    hf_error ignored;
    int is_cut = 0;
    if (hfi_lock(session, &ignored))
        return 0;
    uint32_t index = session->super->last, guard = hfi_extent_count(session);
    hfi_extent *extent;
    while (!is_cut && (extent = hfi_extent_at(session, index)) && guard--) {
        is_cut = hfi_extent_state(extent) != HFI_FREE &&
                 !(extent->flags & HFI_EXTENT_HOLE) && !is_in_object(session, extent);
        index = extent->before;
    }
    hfi_unlock(session);
    return is_cut;
}

static hf_status
reserve_once(hf_session *session, uint64_t size, uint32_t flags, uint32_t *ret_index,
             hf_error *reterr) {
    uint32_t index;
    hf_status status = hfi_session_check_writable(session, reterr);
    if (status || (status = hfi_lock(session, reterr)))
        return status;
    status = take_extent(session, size, flags, &index, reterr);
    hfi_unlock(session);
    if (status)
        return status;
    hfi_extent *extent = &session->extents[index];
    /* It is ours: no other process looks at it now. */
    if (!is_in_object(session, extent)) /* the table is damaged */
        extent->flags |= HFI_EXTENT_HOLE;
    if ((extent->flags & HFI_EXTENT_HOLE) && !(flags & HFI_RESERVE_BARE)) {
        int err = hfi_object_allocate(hfi_session_fd(session), extent->offset, size);
        if (err) {
            hfi_extent_give_back(session, index);
            return hfi_space_error(reterr, err, "shared memory is full");
        }
        extent->flags &= ~(uint32_t)HFI_EXTENT_HOLE;
        hfi_step("reserve:allocated");
    }
    *ret_index = index;
    return HF_OK;
}

int
hfi_extent_give_way(hf_session *session, int attempt) {
    if (attempt == 0)
        session->make_room(session);
    hf_error ignored;
    if (hfi_lock(session, &ignored))
        return 0;
    int gives = attempt == 0 || hfi_leases_take_yielded(session);
    if (gives) {
        hfi_extent_reclaim(session);
        hfi_extent_trim(session);
    }
    hfi_unlock(session);
    return gives;
}

hf_status
hfi_extent_reserve(hf_session *session, uint64_t size, uint32_t flags,
                   uint32_t *ret_index, hf_error *reterr) {
    size = hfi_round_up(size ? size : 1, session->page);
    if (size > session->super->capacity)
        return hf_error_set(reterr, HF_E_NOSPACE,
                            "%llu bytes are more than the arena may hold",
                            (unsigned long long)size);
    for (int attempt = 0;; attempt++) {
        hf_status status = reserve_once(session, size, flags, ret_index, reterr);
        if (status != HF_E_NOSPACE || (flags & HFI_RESERVE_SPARE) ||
            !hfi_extent_give_way(session, attempt))
            return status;
    }
}

hf_status
hfi_extent_write(hf_session *session, uint32_t index, const struct iovec *parts,
                 size_t count, hf_digest *ret_digest, hf_error *reterr) {
    hfi_extent *extent = &session->extents[index];
    size_t huge = (size_t)session->super->huge_page;
    hfi_block_write block = {.data = parts->iov_base,
                             .size = parts->iov_len,
                             .offset = extent->offset,
                             .is_hole = (extent->flags & HFI_EXTENT_HOLE) != 0,
                             .huge = extent->size >= huge ? huge : 0,
                             .ret_digest = ret_digest};
    int err = count == 1 ? hfi_bulk_write(hfi_session_fd(session), &block)
                         : hfi_object_write_parts(hfi_session_fd(session), parts, count,
                                                  extent->offset);
    if (err) {
        hfi_extent_give_back(session, index);
        return hfi_space_error(reterr, err, "can't write to the arena");
    }
    extent->flags &= ~(uint32_t)(HFI_EXTENT_HOLE | HFI_EXTENT_ZERO);
    hfi_step("reserve:written");
    return HF_OK;
}

hf_status
hfi_extent_store(hf_session *session, uint32_t flags, const struct iovec *parts,
                 size_t count, uint64_t size, uint32_t *ret_index,
                 hf_digest *ret_digest, hf_error *reterr) {
    hf_status status;
    for (int attempt = 0;; attempt++) {
        status = hfi_extent_reserve(session, size, flags | HFI_RESERVE_BARE, ret_index,
                                    reterr);
        if (status)
            return status;
        status =
            hfi_extent_write(session, *ret_index, parts, count, ret_digest, reterr);
        if (status != HF_E_NOSPACE || !hfi_extent_give_way(session, attempt))
            return status;
    }
}

void
hfi_extent_trim(hf_session *session) {
    hfi_superblock *super = session->super;
    super->peak = used_bytes(super);
    uint32_t index = super->last, guard = hfi_extent_count(session);
    hfi_extent *extent;
    while ((extent = hfi_extent_at(session, index)) && guard--) {
        uint32_t before = extent->before;
        if (hfi_extent_state(extent) == HFI_FREE) {
            const uint32_t empty = HFI_EXTENT_HOLE | HFI_EXTENT_ZERO;
            if ((extent->flags & empty) != empty) /* a HOLE may have some pages */
                punch_free(session, index);
            hfi_extent_join(session, index);
        }
        index = before;
    }
    extent = hfi_extent_at(session, super->last);
    if (extent && hfi_extent_state(extent) == HFI_FREE) {
        uint64_t end = extent->offset;
        hfi_extent_forget(session, super->last);
        atomic_store_explicit(&super->arena_end, end, memory_order_release);
        hfi_step("trim:end-moved");
        hfi_object_truncate(hfi_session_fd(session), end);
    }
}
