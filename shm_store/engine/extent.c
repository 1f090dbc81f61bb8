/* extent.c - the table of extents: who has which pages of the arena.
 *
 * A record says where an extent lies, its state, and which generations know it. The
 * records that are not UNUSED tile the arena without gaps, in a list by address. FREE
 * ones are also in one of 64 bins by the power of two of their pages; RETIRED ones in a
 * list that each commit looks through. All of it is under the writer lock.
 *
 * What must survive a crash is only this: the offset, size and state of each record
 * that is neither UNUSED nor FREE. So a record gets its place first and its state last,
 * and loses its state first. Lists, neighbours, free space and counters are built anew
 * from that (hfi_extent_rebuild), which makes every function here safe to die in.
 *
 * Freed extents keep their pages: fresh pages of shared memory cost half a second a
 * gigabyte at first touch, recycled ones nothing. Those whose pages were given back are
 * marked HOLE, and get memory again before anybody sees them.
 *
 * Rejected: a buddy allocator (rounds a 1.1 GiB array up to 2); a tree by size
 * (pointers to repair after a crash, for little at the hundreds of extents that
 * sessions have).
 */
#include "engine/internal.h"

#define SEARCH_MAX 64 /* extents looked at in the one bin that may be too small */

static hfi_extent *
record(hf_session *session, uint32_t index) {
    return index < hfi_extent_count(session) ? &session->extents[index] : NULL;
}

static unsigned
bin_of(const hf_session *session, uint64_t size) {
    uint64_t pages = size / session->page;
    unsigned bin = 0;
    while (pages > 1 && bin < HFI_BIN_COUNT - 1) {
        pages >>= 1;
        bin++;
    }
    return bin;
}

static uint32_t *
list_of(hf_session *session, const hfi_extent *extent, enum hfi_extent_state state) {
    switch (state) {
    case HFI_UNUSED:
        return &session->super->unused;
    case HFI_FREE:
        return &session->super->bins[bin_of(session, extent->size)];
    case HFI_RETIRED:
        return &session->super->retired;
    default:
        return NULL;
    }
}

static void
list_leave(hf_session *session, uint32_t index, uint32_t *head) {
    hfi_extent *extent = &session->extents[index], *other;
    if ((other = record(session, extent->previous)))
        other->next = extent->next;
    else if (*head == index)
        *head = extent->next;
    if ((other = record(session, extent->next)))
        other->previous = extent->previous;
    extent->previous = extent->next = HFI_NONE;
}

static void
list_enter(hf_session *session, uint32_t index, uint32_t *head) {
    hfi_extent *extent = &session->extents[index], *other = record(session, *head);
    extent->previous = HFI_NONE;
    extent->next = *head;
    if (other)
        other->previous = index;
    *head = index;
}

/* Count an extent in (sign 1) or out (-1). */
static void
count(hf_session *session, const hfi_extent *extent, enum hfi_extent_state state,
      int sign) {
    hfi_superblock *super = session->super;
    uint64_t size = sign > 0 ? extent->size : 0 - extent->size;
    uint64_t live = sign > 0 ? extent->live_bytes : 0 - extent->live_bytes;
    super->bytes[state] += size;
    if (state == HFI_FREE && (extent->flags & HFI_EXTENT_HOLE))
        super->hole_bytes += size;
    if (state == HFI_COMMITTED && (extent->flags & HFI_EXTENT_LOG)) {
        super->log_bytes += size;
        super->log_live += live;
    }
}

static void
leave_state(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    enum hfi_extent_state state = hfi_extent_state(extent);
    uint32_t *head = list_of(session, extent, state);
    if (head)
        list_leave(session, index, head);
    count(session, extent, state, -1);
}

static void
enter_state(hf_session *session, uint32_t index, enum hfi_extent_state state,
            uint32_t slot) {
    hfi_extent *extent = &session->extents[index];
    count(session, extent, state, 1);
    uint32_t *head = list_of(session, extent, state);
    if (head)
        list_enter(session, index, head);
    atomic_store_explicit(&extent->state, hfi_state_word(state, slot),
                          memory_order_release);
}

void
hfi_extent_set(hf_session *session, uint32_t index, enum hfi_extent_state state,
               uint32_t slot) {
    leave_state(session, index);
    enter_state(session, index, state, slot);
}

int
hfi_extent_is_pinned(const hfi_extent *extent) {
    for (unsigned i = 0; i < HFI_SLOT_COUNT / 64; i++)
        if (atomic_load(&extent->pins[i]))
            return 1;
    return 0;
}

/* ---- records and neighbours ---------------------------------------------------- */

hf_status
hfi_extent_add_records(hf_session *session, hf_error *reterr) {
    uint32_t first = hfi_extent_count(session);
    if (first + HFI_EXTENT_CHUNK > HFI_EXTENT_MAX)
        return hf_error_set(reterr, HF_E_LIMIT, "the arena has too many extents (%u)",
                            first);
    uint64_t offset = HFI_TABLE_OFFSET + (uint64_t)first * sizeof(hfi_extent);
    int err =
        hfi_object_allocate(session->fd, offset, HFI_EXTENT_CHUNK * sizeof(hfi_extent));
    if (err)
        return hfi_space_error(reterr, err, "can't grow the extent table");
    for (uint32_t i = first; i < first + HFI_EXTENT_CHUNK; i++) {
        hfi_extent *extent = &session->extents[i];
        memset(extent, 0, sizeof *extent);
        extent->before = extent->after = HFI_NONE;
        extent->previous = i > first ? i - 1 : HFI_NONE;
        extent->next =
            i + 1 < first + HFI_EXTENT_CHUNK ? i + 1 : session->super->unused;
    }
    hfi_extent *after = record(session, session->super->unused);
    if (after)
        after->previous = first + HFI_EXTENT_CHUNK - 1;
    atomic_store_explicit(&session->super->extent_count, first + HFI_EXTENT_CHUNK,
                          memory_order_release);
    session->super->unused = first;
    return HF_OK;
}

/* A FREE extent made from an unused record, put behind `before` by address. */
static hf_status
make_free(hf_session *session, uint64_t offset, uint64_t size, uint32_t flags,
          uint32_t before, uint32_t *ret_index, hf_error *reterr) {
    hfi_superblock *super = session->super;
    hfi_extent *extent = record(session, super->unused);
    if (!extent) {
        hf_status status = hfi_extent_add_records(session, reterr);
        if (status)
            return status;
        extent = record(session, super->unused);
    }
    uint32_t index = super->unused;
    leave_state(session, index);
    extent->offset = offset;
    extent->size = size;
    extent->flags = flags;
    extent->birth = extent->death = extent->live_bytes = 0;
    extent->live = 0;
    hfi_extent *left = record(session, before);
    extent->before = before;
    extent->after = left ? left->after : HFI_NONE;
    hfi_extent *right = record(session, extent->after);
    if (left)
        left->after = index;
    if (right)
        right->before = index;
    else
        super->last = index;
    enter_state(session, index, HFI_FREE, 0);
    *ret_index = index;
    return HF_OK;
}

static void
forget(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    hfi_extent *left = record(session, extent->before);
    hfi_extent *right = record(session, extent->after);
    if (left)
        left->after = extent->after;
    if (right)
        right->before = extent->before;
    else
        session->super->last = extent->before;
    leave_state(session, index);
    extent->size = 0;
    extent->flags = 0;
    extent->live_bytes = 0;
    enter_state(session, index, HFI_UNUSED, 0);
}

/* Join a free extent with the free one after it, where both have memory or neither. */
static int
join_after(hf_session *session, uint32_t index) {
    hfi_extent *extent = record(session, index);
    hfi_extent *right = extent ? record(session, extent->after) : NULL;
    if (!right || hfi_extent_state(extent) != HFI_FREE ||
        hfi_extent_state(right) != HFI_FREE ||
        ((extent->flags ^ right->flags) & HFI_EXTENT_HOLE))
        return 0;
    uint64_t size = right->size;
    uint32_t zero = extent->flags & right->flags & HFI_EXTENT_ZERO;
    forget(session, extent->after);
    leave_state(session, index);
    extent->size += size;
    extent->flags = (extent->flags & HFI_EXTENT_HOLE) | zero;
    enter_state(session, index, HFI_FREE, 0);
    return 1;
}

void
hfi_extent_free(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    leave_state(session, index);
    extent->birth = extent->death = extent->live_bytes = 0;
    extent->live = 0;
    extent->flags &= HFI_EXTENT_HOLE;
    for (unsigned i = 0; i < HFI_SLOT_COUNT / 64; i++)
        atomic_store(&extent->pins[i], 0);
    enter_state(session, index, HFI_FREE, 0);
    hfi_step("free:done");
    join_after(session, index);
    join_after(session, extent->before);
}

hf_status
hfi_extent_shrink(hf_session *session, uint32_t index, uint64_t size,
                  hf_error *reterr) {
    hfi_extent *extent = &session->extents[index];
    if (size == 0 || size >= extent->size)
        return HF_OK;
    uint64_t rest = extent->size - size;
    enum hfi_extent_state state = hfi_extent_state(extent);
    count(session, extent, state, -1);
    extent->size = size;
    count(session, extent, state, 1);
    uint32_t made;
    hf_status status = make_free(session, extent->offset + size, rest,
                                 extent->flags & HFI_EXTENT_HOLE, index, &made, reterr);
    if (status) {
        count(session, extent, state, -1);
        extent->size = size + rest;
        count(session, extent, state, 1);
        return status;
    }
    join_after(session, made);
    return HF_OK;
}

void
hfi_extent_reclaim(hf_session *session) {
    uint32_t index = session->super->retired, guard = hfi_extent_count(session);
    hfi_extent *extent;
    while ((extent = record(session, index)) && guard--) {
        uint32_t next = extent->next;
        /* Leases first: who maps from a snapshot pins before it gives the lease up. */
        if (!hfi_slot_leases(session, extent->birth, extent->death) &&
            !hfi_extent_is_pinned(extent)) {
            hfi_step("reclaim:one");
            hfi_extent_free(session, index); /* joins free ones only: `next` stays */
        }
        index = next;
    }
}

/* ---- taking ---------------------------------------------------------------------- */

static uint32_t
find_free(hf_session *session, uint64_t size) {
    uint32_t best = HFI_NONE;
    for (unsigned bin = bin_of(session, size); bin < HFI_BIN_COUNT; bin++) {
        uint32_t index = session->super->bins[bin];
        hfi_extent *extent;
        for (int n = 0; n < SEARCH_MAX && (extent = record(session, index)); n++) {
            if (extent->size >= size &&
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
grow(hf_session *session, uint64_t size, uint32_t *ret_index, hf_error *reterr) {
    hfi_superblock *super = session->super;
    uint64_t end = atomic_load(&super->arena_end);
    hfi_extent *last = record(session, super->last);
    uint64_t have = last && hfi_extent_state(last) == HFI_FREE ? last->size : 0;
    uint64_t more = size - have; /* a free extent that sufficed would have been found */
    if (end - HFI_ARENA_OFFSET > super->capacity ||
        more > super->capacity - (end - HFI_ARENA_OFFSET))
        return hf_error_set(
            reterr, HF_E_NOSPACE,
            "the arena may hold %llu MiB, and %llu more bytes were needed",
            (unsigned long long)(super->capacity >> 20), (unsigned long long)more);
    uint32_t index;
    hf_status status = make_free(session, end, more, HFI_EXTENT_HOLE | HFI_EXTENT_ZERO,
                                 super->last, &index, reterr);
    if (status)
        return status;
    atomic_store_explicit(&super->arena_end, end + more, memory_order_release);
    hfi_step("grow:end-moved");
    if (have) { /* one extent, of which a part has no memory */
        hfi_extent *extent = &session->extents[index];
        index = extent->before;
        extent = &session->extents[index];
        count(session, extent, HFI_FREE, -1);
        extent->flags = HFI_EXTENT_HOLE;
        count(session, extent, HFI_FREE, 1);
        join_after(session, index);
    }
    *ret_index = index;
    return HF_OK;
}

static hf_status
take(hf_session *session, uint64_t size, uint32_t flags, uint32_t *ret_index,
     hf_error *reterr) {
    uint32_t index = find_free(session, size);
    if (index == HFI_NONE && record(session, session->super->retired)) {
        hfi_extent_reclaim(session);
        index = find_free(session, size);
    }
    hf_status status;
    if (index == HFI_NONE && (status = grow(session, size, &index, reterr)))
        return status;
    hfi_extent *extent = &session->extents[index];
    if (extent->size > size) {
        uint64_t rest = extent->size - size;
        leave_state(session, index);
        extent->size = size;
        enter_state(session, index, HFI_FREE, 0);
        uint32_t made;
        status = make_free(session, extent->offset + size, rest, extent->flags, index,
                           &made, reterr);
        if (status) {
            leave_state(session, index);
            extent->size = size + rest;
            enter_state(session, index, HFI_FREE, 0);
            return status;
        }
    }
    leave_state(session, index);
    extent->flags |= flags;
    enter_state(session, index, HFI_RESERVED, session->slot);
    hfi_step("reserve:taken");
    *ret_index = index;
    return HF_OK;
}

hf_status
hfi_space_error(hf_error *reterr, int err, const char *what) {
    if (err == ENOSPC || err == EFBIG || err == ENOMEM || err == EDQUOT)
        return hf_error_set_at(reterr, HF_E_NOSPACE, err, __func__, "%s", what);
    return hf_error_set_errno(reterr, err, "%s", what);
}

static hf_status
reserve_once(hf_session *session, uint64_t size, uint32_t flags, uint32_t *ret_index,
             hf_error *reterr) {
    uint32_t index;
    hf_status status = hfi_lock(session, reterr);
    if (status)
        return status;
    status = take(session, size, flags, &index, reterr);
    hfi_unlock(session);
    if (status)
        return status;
    hfi_extent *extent = &session->extents[index];
    if (extent->flags & HFI_EXTENT_HOLE) { /* ours: nobody else looks at it now */
        int err = hfi_object_allocate(session->fd, extent->offset, size);
        if (err) {
            hfi_object_punch(session->fd, extent->offset, size);
            hf_error ignored;
            if (!hfi_lock(session, &ignored)) {
                hfi_extent_free(session, index);
                hfi_unlock(session);
            }
            return hfi_space_error(reterr, err, "shared memory is full");
        }
        extent->flags &= ~(uint32_t)HFI_EXTENT_HOLE;
        hfi_step("reserve:allocated");
    }
    *ret_index = index;
    return HF_OK;
}

hf_status
hfi_extent_reserve(hf_session *session, uint64_t size, uint32_t flags,
                   uint32_t *ret_index, hf_error *reterr) {
    size = hfi_round_up(size ? size : 1, session->page);
    if (size > session->super->capacity)
        return hf_error_set(reterr, HF_E_NOSPACE,
                            "%llu bytes are more than the arena may hold",
                            (unsigned long long)size);
    hf_status status = reserve_once(session, size, flags, ret_index, reterr);
    if (status != HF_E_NOSPACE)
        return status;
    /* Full: give back what only makes things faster, and try once more. */
    hfi_cache_flush(session);
    hf_error ignored;
    if (hfi_lock(session, &ignored))
        return status;
    hfi_extent_reclaim(session);
    hfi_extent_trim(session);
    hfi_unlock(session);
    return reserve_once(session, size, flags, ret_index, reterr);
}

void
hfi_extent_trim(hf_session *session) {
    hfi_superblock *super = session->super;
    uint32_t index = super->last, guard = hfi_extent_count(session);
    hfi_extent *extent;
    while ((extent = record(session, index)) && guard--) {
        uint32_t before = extent->before;
        if (hfi_extent_state(extent) == HFI_FREE) {
            if (!(extent->flags & HFI_EXTENT_HOLE) &&
                hfi_object_punch(session->fd, extent->offset, extent->size) == 0) {
                count(session, extent, HFI_FREE, -1);
                extent->flags = HFI_EXTENT_HOLE | HFI_EXTENT_ZERO;
                count(session, extent, HFI_FREE, 1);
                hfi_step("trim:punched");
            }
            join_after(session, index);
        }
        index = before;
    }
    extent = record(session, super->last);
    if (extent && hfi_extent_state(extent) == HFI_FREE) {
        uint64_t end = extent->offset;
        forget(session, super->last);
        atomic_store_explicit(&super->arena_end, end, memory_order_release);
        hfi_step("trim:end-moved");
        hfi_object_truncate(session->fd, end);
    }
}

/* ---- rebuilding --------------------------------------------------------------------
 */

typedef struct kept {
    uint64_t offset, size;
    uint32_t index;
} kept;

static int
by_offset(const void *a, const void *b) {
    const kept *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static hf_status
collect_kept(hf_session *session, kept *list, uint32_t *ret_count, hf_error *reterr) {
    uint32_t n = 0, total = hfi_extent_count(session);
    uint64_t end = atomic_load(&session->super->arena_end), at = HFI_ARENA_OFFSET;
    for (uint32_t i = 0; i < total; i++) {
        enum hfi_extent_state state = hfi_extent_state(&session->extents[i]);
        if (state == HFI_UNUSED || state == HFI_FREE)
            continue;
        list[n++] = (kept){session->extents[i].offset, session->extents[i].size, i};
    }
    if (n)
        qsort(list, n, sizeof *list, by_offset);
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].offset < at || list[i].offset > end || list[i].size == 0 ||
            list[i].size > end - list[i].offset || list[i].size % session->page ||
            hfi_extent_state(&session->extents[list[i].index]) >= HFI_STATE_COUNT)
            return hf_error_set(reterr, HF_E_CORRUPT, "extent %u lies about its place",
                                list[i].index);
        at = list[i].offset + list[i].size;
    }
    *ret_count = n;
    return HF_OK;
}

/* Empty lists and counters; every record that isn't kept becomes unused. */
static void
reset(hf_session *session) {
    hfi_superblock *super = session->super;
    for (unsigned i = 0; i < HFI_BIN_COUNT; i++)
        super->bins[i] = HFI_NONE;
    super->unused = super->retired = super->last = HFI_NONE;
    memset(super->bytes, 0, sizeof super->bytes);
    super->hole_bytes = super->log_bytes = super->log_live = 0;
    for (uint32_t i = hfi_extent_count(session); i-- > 0;) {
        hfi_extent *extent = &session->extents[i];
        enum hfi_extent_state state = hfi_extent_state(extent);
        extent->previous = extent->next = extent->before = extent->after = HFI_NONE;
        if (state != HFI_UNUSED && state != HFI_FREE)
            continue;
        extent->size = extent->live_bytes = 0;
        extent->live = extent->flags = 0;
        enter_state(session, i, HFI_UNUSED, 0);
    }
}

hf_status
hfi_extent_rebuild(hf_session *session, hf_error *reterr) {
    hfi_superblock *super = session->super;
    uint32_t n = 0;
    kept *list = malloc(((size_t)hfi_extent_count(session) + 1) * sizeof *list);
    if (!list)
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory in recovery");
    hf_status status = collect_kept(session, list, &n, reterr);
    if (status)
        goto out;
    reset(session);
    uint64_t at = HFI_ARENA_OFFSET, end = atomic_load(&super->arena_end);
    for (uint32_t i = 0; i <= n; i++) {
        uint64_t next = i < n ? list[i].offset : end;
        uint32_t made;
        if (next > at && (status = make_free(session, at, next - at, HFI_EXTENT_HOLE,
                                             super->last, &made, reterr)))
            goto out;
        if (i == n)
            break;
        hfi_extent *extent = &session->extents[list[i].index];
        uint32_t word = hfi_extent_word(extent);
        extent->before = super->last;
        if (super->last != HFI_NONE)
            session->extents[super->last].after = list[i].index;
        super->last = list[i].index;
        enter_state(session, list[i].index, (enum hfi_extent_state)(word & 0xff),
                    word >> 8);
        at = extent->offset + extent->size;
    }
out:
    free(list);
    return status;
}
