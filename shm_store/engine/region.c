/* region.c - memory of the arena that is mapped here: find it by its address, share it,
 * make it private.
 *
 * An own region is a block (block.c) that a caller asked for: one extent, mapped shared
 * and writable. A committed region is a list of pieces, mapped privately
 * (region_map.c). An own region becomes private when it was published, or when this
 * process forks. For that hfi_region_privatize maps the same pages at the same
 * addresses, so that no other process sees later writes.
 *
 * Regions are found by address in a treap. Find, insert and remove are O(log n),
 * without rotations, in which errors are easy to make. A region holds a pin on each of
 * its extents. An own region does, too, so that its memory stays when it is published.
 *
 * Rejected: a sorted array (a notebook with 100,000 arrays moves a megabyte per
 * insert).
 */
#include "engine/region.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "engine/extent.h"
#include "platform/object.h"

/* ---- the treap ---- */

static hf_region *
join_treaps(hf_region *a, hf_region *b) {
    if (!a)
        return b;
    if (!b)
        return a;
    if (a->priority >= b->priority) {
        a->right = join_treaps(a->right, b);
        return a;
    }
    b->left = join_treaps(a, b->left);
    return b;
}

/* Split into what lies below `address` and the rest. */
static void
split_treap(hf_region *t, const char *address, hf_region **ret_below,
            hf_region **ret_rest) {
    if (!t) {
        *ret_below = *ret_rest = NULL;
    } else if (t->address < address) {
        split_treap(t->right, address, &t->right, ret_rest);
        *ret_below = t;
    } else {
        split_treap(t->left, address, ret_below, &t->left);
        *ret_rest = t;
    }
}

void
hfi_regions_insert(hf_session *session, hf_region *region) {
    uint64_t x = (uint64_t)(uintptr_t)region->address * 0x9e3779b97f4a7c15u;
    region->priority = (uint32_t)(x >> 32);
    region->left = region->right = NULL;
    hf_region *below, *rest;
    split_treap(session->regions->root, region->address, &below, &rest);
    session->regions->root = join_treaps(join_treaps(below, region), rest);
    session->regions->large += region->size >= HFI_LARGE;
}

static void
remove_region(hf_session *session, hf_region *region) {
    hf_region *below, *rest, *self;
    split_treap(session->regions->root, region->address, &below, &rest);
    split_treap(rest, region->address + 1, &self, &rest);
    session->regions->root = join_treaps(below, rest);
    session->regions->large -= region->size >= HFI_LARGE;
}

int
hfi_session_has_large_regions(hf_session *session) {
    pthread_mutex_lock(&session->mutex);
    int has = session->regions->large > 0;
    pthread_mutex_unlock(&session->mutex);
    return has;
}

/* The region in which `address` lies, or NULL. */
static hf_region *
find_in_treap(hf_session *session, const void *address) {
    const char *p = address;
    hf_region *t = session->regions->root, *best = NULL;
    while (t)
        if (t->address <= p) {
            best = t;
            t = t->right;
        } else
            t = t->left;
    return best && p < best->address + best->mapped ? best : NULL;
}

hf_region *
hfi_regions_above(hf_session *session, const void *address) {
    hf_region *t = session->regions->root, *best = NULL;
    while (t)
        if (t->address > (const char *)address) {
            best = t;
            t = t->left;
        } else
            t = t->right;
    return best;
}

hf_status
hf_region_reserve(hf_session *session, size_t size, int zeroed, hf_region **ret_region,
                  int *ret_zeroed, hf_error *reterr) {
    HFI_NEED(reterr, session, ret_region);
    if (size > 1ull << 46)
        return hf_error_set(reterr, HF_E_NOSPACE, "%zu bytes are too many", size);
    hf_status status = hfi_session_check(session, reterr);
    if (status)
        return status;
    hf_region *region;
    int is_zero;
    if ((status = hfi_block_take(session, hfi_block_size(session, size), 0, &region,
                                 &is_zero, reterr)))
        return status;
    if (zeroed && !is_zero) {
        memset(region->address, 0, size);
        is_zero = 1;
    }
    region->size = size;
    region->is_own = 1;
    region->pieces = &region->own_piece;
    region->piece_count = 1;
    region->cache_next = NULL;
    atomic_store(&region->references, 1);
    pthread_mutex_lock(&session->mutex);
    if (region->is_new)
        hfi_block_note(session, region);
    region->is_new = 0;
    hfi_regions_insert(session, region);
    pthread_mutex_unlock(&session->mutex);
    if (ret_zeroed)
        *ret_zeroed = is_zero;
    *ret_region = region;
    return HF_OK;
}

/* ---- every region ---- */

void
hfi_region_drop_next(hf_region *region) {
    for (uint32_t i = 0; i < region->next_count; i++)
        hfi_unpin(region->session, region->next_pieces[i].extent);
    free(region->next_pieces);
    region->next_pieces = NULL;
    region->next_count = 0;
    region->next_commit = 0;
}

void
hfi_region_drop_was(hf_region *region) {
    for (uint32_t i = 0; i < region->was_count; i++)
        hfi_piece_drop(region->session, region->was_pieces[i].extent);
    free(region->was_pieces);
    region->was_pieces = NULL;
    region->was_count = 0;
}

hf_region *
hf_region_find(hf_session *session, const void *address) {
    if (!session)
        return NULL;
    pthread_mutex_lock(&session->mutex);
    hf_region *region = find_in_treap(session, address);
    if (region)
        atomic_fetch_add(&region->references, 1);
    pthread_mutex_unlock(&session->mutex);
    return region;
}

hf_region *
hf_region_acquire(hf_region *region) {
    if (!region)
        return NULL;
    atomic_fetch_add(&region->references, 1);
    return region;
}

/* The last reference is gone, and the region isn't in the treap any more. Mutex held.
 * */
static void
dispose_region(hf_region *region) {
    hf_session *session = region->session;
    hfi_region_drop_next(region);
    hfi_region_drop_was(region);
    if (region->is_own && !region->private_below && !session->inherited &&
        hfi_extent_is_mine(session, region->own_piece.extent, HFI_RESERVED)) {
        hfi_cache_put(session, region);
        return;
    }
    if (region->is_own)
        session->blocks->own_bytes -= region->mapped;
    hfi_object_unmap(region->address, region->mapped);
    for (uint32_t i = 0; i < region->piece_count; i++)
        hfi_piece_drop(session, region->pieces[i].extent);
    if (region->pieces != &region->own_piece)
        free(region->pieces);
    free(region);
}

void
hf_region_release(hf_region *region) {
    if (!region)
        return;
    uint32_t n = atomic_load(&region->references);
    while (n > 1)
        if (atomic_compare_exchange_weak(&region->references, &n, n - 1))
            return;
    hf_session *session = region->session;
    pthread_mutex_lock(&session->mutex); /* hf_region_find may still take it */
    if (atomic_fetch_sub(&region->references, 1) == 1) {
        remove_region(session, region);
        dispose_region(region);
    }
    pthread_mutex_unlock(&session->mutex);
}

void
hfi_regions_release(hf_region **regions, size_t count) {
    for (size_t i = 0; i < count; i++)
        hf_region_release(regions[i]);
    free(regions);
}

void *
hf_region_address(const hf_region *region) {
    return region ? region->address : NULL;
}

size_t
hf_region_size(const hf_region *region) {
    return region ? region->size : 0;
}

int
hf_region_is_own(const hf_region *region) {
    return region && region->is_own &&
           hfi_extent_is_mine(region->session, region->own_piece.extent, HFI_RESERVED);
}

int
hf_region_is_committed(const hf_region *region) {
    if (!region || region->is_own)
        return 0;
    for (uint32_t i = 0; i < region->piece_count; i++)
        if (hfi_extent_is_mine(region->session, region->pieces[i].extent, HFI_RESERVED))
            return 0;
    return 1;
}

/* ---- made private ---- */

/* A block may be larger than what its user asked for. Only that part is published. From
 * here on the region stands for what was published, without the rest. */
static void
trim_to_size(hf_region *region) {
    size_t used = hfi_round_up(region->size ? region->size : 1, region->session->page);
    if (used >= region->mapped)
        return;
    hfi_object_unmap(region->address + used, region->mapped - used);
    region->mapped = used;
    region->own_piece.length = used;
}

int
hfi_region_privatize(hf_region *region) {
    size_t done = region->private_below, rest = region->mapped - done;
    void *there;
    hfi_tables_leave(region->session, region->own_piece.offset + done,
                     region->address + done, rest);
    int err =
        hfi_object_map(hfi_session_fd(region->session), region->own_piece.offset + done,
                       rest, HFI_MAP_PRIVATE, region->address + done, &there);
    if (!err) {
        region->is_own = 0;
        region->session->blocks->own_bytes -= region->mapped;
        if (!done) /* else the old pieces are mapped, and stay pinned */
            hfi_region_drop_was(region);
        region->private_below = 0;
        trim_to_size(region);
    }
    return err;
}
