/* extent.c - the table of extents: which pages of the arena belong to which process.
 *
 * A record has an extent's place, its state, and the generations that reach it. The
 * records that aren't UNUSED cover the arena without gaps, in a list by address. FREE
 * ones are also in one of 64 bins, by the power of two of their pages. RETIRED ones are
 * in a list that each commit looks through. All of this is under the writer lock.
 *
 * Only this must survive a crash: the offset, size and state of each record that is
 * neither UNUSED nor FREE. So the state is the last thing that a record gets, and the
 * first that it loses. Lists, neighbours, free space and counters are rebuilt from
 * these (recovery.c). So a process may die at any point of every function here.
 *
 * Freed extents keep their pages: the first touch of fresh pages of shared memory costs
 * half a second a gigabyte, that of recycled pages nothing. Extents whose pages were
 * given back are marked HOLE, and get memory again before they are used.
 *
 * Rejected: a buddy allocator (rounds a 1.1 GiB array up to 2); a tree by size
 * (pointers to repair after a crash, for little at the hundreds of extents that
 * sessions have).
 */
#include "engine/extent.h"

#include <string.h>

#include "base/step.h"
#include "engine/slot.h"
#include "platform/object.h"

hfi_extent *
hfi_extent_at(hf_session *session, uint32_t index) {
    return index < hfi_extent_count(session) ? &session->extents[index] : NULL;
}

unsigned
hfi_extent_bin(const hf_session *session, uint64_t size) {
    uint64_t pages = size / session->page;
    unsigned bin = 0;
    while (pages > 1 && bin < HFI_BIN_COUNT - 1) {
        pages >>= 1;
        bin++;
    }
    return bin;
}

static uint32_t *
list_of_state(hf_session *session, const hfi_extent *extent,
              enum hfi_extent_state state) {
    switch (state) {
    case HFI_UNUSED:
        return &session->super->unused;
    case HFI_FREE:
        return &session->super->bins[hfi_extent_bin(session, extent->size)];
    case HFI_RETIRED:
        return &session->super->retired;
    default:
        return NULL;
    }
}

static void
list_leave(hf_session *session, uint32_t index, uint32_t *head) {
    hfi_extent *extent = &session->extents[index], *other;
    if ((other = hfi_extent_at(session, extent->previous)))
        other->next = extent->next;
    else if (*head == index)
        *head = extent->next;
    if ((other = hfi_extent_at(session, extent->next)))
        other->previous = extent->previous;
    extent->previous = extent->next = HFI_NONE;
}

static void
list_enter(hf_session *session, uint32_t index, uint32_t *head) {
    hfi_extent *extent = &session->extents[index],
               *other = hfi_extent_at(session, *head);
    extent->previous = HFI_NONE;
    extent->next = *head;
    if (other)
        other->previous = index;
    *head = index;
}

/* Count an extent in (sign 1) or out (-1). A damaged segment may have an invalid state,
 * which isn't counted. */
void
hfi_extent_count_bytes(hf_session *session, const hfi_extent *extent,
                       enum hfi_extent_state state, int sign) {
    hfi_superblock *super = session->super;
    uint64_t size = sign > 0 ? extent->size : 0 - extent->size;
    uint64_t live = sign > 0 ? extent->live_bytes : 0 - extent->live_bytes;
    if ((size_t)state >= sizeof super->bytes / sizeof *super->bytes)
        return;
    super->bytes[state] += size;
    if (state == HFI_FREE && (extent->flags & HFI_EXTENT_HOLE))
        super->hole_bytes += size;
    if (state == HFI_RESERVED && (extent->flags & HFI_EXTENT_SPARE))
        super->spare_bytes += size;
    if (state == HFI_COMMITTED && (extent->flags & HFI_EXTENT_LOG)) {
        super->log_bytes += size;
        super->log_live += live;
    }
}

void
hfi_extent_leave(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    enum hfi_extent_state state = hfi_extent_state(extent);
    uint32_t *head = list_of_state(session, extent, state);
    if (head)
        list_leave(session, index, head);
    hfi_extent_count_bytes(session, extent, state, -1);
}

void
hfi_extent_enter(hf_session *session, uint32_t index, enum hfi_extent_state state,
                 uint32_t slot) {
    hfi_extent *extent = &session->extents[index];
    hfi_extent_count_bytes(session, extent, state, 1);
    uint32_t *head = list_of_state(session, extent, state);
    if (head)
        list_enter(session, index, head);
    atomic_store_explicit(&extent->state, hfi_state_word(state, slot),
                          memory_order_release);
}

void
hfi_extent_set(hf_session *session, uint32_t index, enum hfi_extent_state state,
               uint32_t slot) {
    hfi_extent_leave(session, index);
    hfi_extent_enter(session, index, state, slot);
}

int
hfi_extent_is_pinned(const hfi_extent *extent) {
    for (unsigned i = 0; i < HFI_SLOT_COUNT / 64; i++)
        if (atomic_load(&extent->pins[i]))
            return 1;
    return 0;
}

/* ---- records and neighbours ---- */

hf_status
hfi_extent_add_records(hf_session *session, hf_error *reterr) {
    uint32_t first = hfi_extent_count(session);
    if (first + HFI_EXTENT_CHUNK > HFI_EXTENT_MAX)
        return hf_error_set(reterr, HF_E_LIMIT, "the arena has too many extents (%u)",
                            first);
    uint64_t offset = HFI_TABLE_OFFSET + (uint64_t)first * sizeof(hfi_extent);
    int err = hfi_object_allocate(hfi_session_fd(session), offset,
                                  HFI_EXTENT_CHUNK * sizeof(hfi_extent));
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
    hfi_extent *after = hfi_extent_at(session, session->super->unused);
    if (after)
        after->previous = first + HFI_EXTENT_CHUNK - 1;
    atomic_store_explicit(&session->super->extent_count, first + HFI_EXTENT_CHUNK,
                          memory_order_release);
    session->super->unused = first;
    return HF_OK;
}

hf_status
hfi_extent_make(hf_session *session, uint64_t offset, uint64_t size, uint32_t flags,
                uint32_t before, uint32_t *ret_index, hf_error *reterr) {
    hfi_superblock *super = session->super;
    hfi_extent *extent = hfi_extent_at(session, super->unused);
    if (!extent) {
        hf_status status = hfi_extent_add_records(session, reterr);
        if (status)
            return status;
        extent = hfi_extent_at(session, super->unused);
    }
    uint32_t index = super->unused;
    hfi_extent_leave(session, index);
    extent->offset = offset;
    extent->size = size;
    extent->flags = flags;
    extent->birth = extent->death = extent->live_bytes = 0;
    extent->live = extent->emptied_mib = 0;
    atomic_store(&extent->idle, HFI_IDLE_NOT);
    hfi_extent *left = hfi_extent_at(session, before);
    extent->before = before;
    extent->after = left ? left->after : HFI_NONE;
    hfi_extent *right = hfi_extent_at(session, extent->after);
    if (left)
        left->after = index;
    if (right)
        right->before = index;
    else
        super->last = index;
    hfi_extent_enter(session, index, HFI_FREE, 0);
    *ret_index = index;
    return HF_OK;
}

void
hfi_extent_forget(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    hfi_extent *left = hfi_extent_at(session, extent->before);
    hfi_extent *right = hfi_extent_at(session, extent->after);
    if (left)
        left->after = extent->after;
    if (right)
        right->before = extent->before;
    else
        session->super->last = extent->before;
    hfi_extent_leave(session, index);
    extent->size = 0;
    extent->flags = 0;
    extent->live_bytes = 0;
    hfi_extent_enter(session, index, HFI_UNUSED, 0);
}

int
hfi_extent_join(hf_session *session, uint32_t index) {
    hfi_extent *extent = hfi_extent_at(session, index);
    hfi_extent *right = extent ? hfi_extent_at(session, extent->after) : NULL;
    if (!right || hfi_extent_state(extent) != HFI_FREE ||
        hfi_extent_state(right) != HFI_FREE ||
        ((extent->flags ^ right->flags) & HFI_EXTENT_HOLE))
        return 0;
    uint64_t size = right->size;
    uint32_t zero = extent->flags & right->flags & HFI_EXTENT_ZERO;
    hfi_extent_forget(session, extent->after);
    hfi_extent_leave(session, index);
    extent->size += size;
    extent->flags = (extent->flags & HFI_EXTENT_HOLE) | zero;
    hfi_extent_enter(session, index, HFI_FREE, 0);
    return 1;
}

void
hfi_extent_free(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    hfi_extent_leave(session, index);
    extent->birth = extent->death = extent->live_bytes = 0;
    extent->live = extent->emptied_mib = 0;
    atomic_store(&extent->idle, HFI_IDLE_NOT);
    extent->flags &= HFI_EXTENT_HOLE;
    for (unsigned i = 0; i < HFI_SLOT_COUNT / 64; i++)
        atomic_store(&extent->pins[i], 0);
    hfi_extent_enter(session, index, HFI_FREE, 0);
    hfi_step("free:done");
    hfi_extent_join(session, index);
    hfi_extent_join(session, extent->before);
}

void
hfi_extent_give_up(hf_session *session, uint32_t index) {
    hfi_extent *extent = &session->extents[index];
    uint32_t own = hfi_extent_word(extent) >> 8;
    for (uint32_t slot = 0; slot < HFI_SLOT_COUNT; slot++)
        if (slot != own &&
            (atomic_load(&extent->pins[slot / 64]) & 1ull << (slot % 64))) {
            hfi_extent_set(session, index, HFI_RESERVED, slot);
            return;
        }
    hfi_extent_free(session, index);
}

void
hfi_extent_reclaim(hf_session *session) {
    uint32_t index = session->super->retired, guard = hfi_extent_count(session);
    hfi_extent *extent;
    hfi_leases leases;
    if (index == HFI_NONE)
        return;
    /* Leases first: a process that maps from a snapshot pins before it gives the lease
     * up. */
    hfi_leases_read(session, 0, &leases);
    while ((extent = hfi_extent_at(session, index)) && guard--) {
        uint32_t next = extent->next;
        if (!hfi_leases_keep(&leases, extent) && !hfi_extent_is_pinned(extent)) {
            hfi_step("reclaim:one");
            hfi_extent_free(session,
                            index); /* only free ones are joined: `next` stays valid */
        }
        index = next;
    }
}
