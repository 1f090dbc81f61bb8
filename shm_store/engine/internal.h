/* internal.h - a session as this process holds it, and what the engine's files share.
 *
 * Locks, in the order in which they may be taken:
 *   session->mutex         regions, pins, leases, the cache of blocks
 *   session->writer_mutex  together with the writer lock in shared memory (hfi_lock):
 *                          the extent table, the roots, the counters
 * Readers of a snapshot take neither. */
#ifndef HFI_INTERNAL_H
#define HFI_INTERNAL_H

#include <errno.h>
#include <stddef.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/pool.h"
#include "base/spool.h"
#include "base/step.h"
#include "holdfast/store.h"
#include "layout/layout.h"
#include "platform/limit.h"
#include "platform/lock.h"
#include "platform/object.h"
#include "platform/pages.h"
#include "platform/populate.h"
#include "platform/process.h"

#define HFI_CACHE_BINS 64

typedef struct hfi_prepared_state {
    uint32_t *extents; /* PREPARED by us */
    size_t extent_count;
    hf_region **regions; /* acquired: their pins keep what the commit refers to */
    size_t region_count;
} hfi_prepared_state;

typedef struct hfi_provision {
    size_t sizes[HF_TAKEN_MAX];
    size_t count, next; /* of the sizes, and the first that wasn't looked at */
    hf_region *held;    /* blocks with memory, by cache_next */
    hf_region *open;    /* one that gets it, or NULL */
    size_t filled;      /* bytes of that */
} hfi_provision;

/* What a descriptor is of. */
typedef struct hfi_identity {
    uint64_t device, inode;
} hfi_identity;

struct hf_session {
    _Atomic int fd;      /* hfi_session_fd */
    hfi_identity object; /* what it is of */
    uint32_t slot;
    uint64_t lock_word; /* what we write into the writer lock */
    hfi_superblock *super;
    hfi_slot *slots;
    hfi_extent *extents;
    const unsigned char *window; /* the whole object, read-only */
    size_t window_size;
    _Atomic uint64_t file_size; /* as far as it was looked at: hfi_window_at */
    size_t page;
    /* What lower layers need of higher ones. */
    hf_status (*recover)(hf_session *session, hf_error *reterr); /* lock held */
    void (*make_room)(hf_session *session); /* give back what only saves time */
    int is_copy; /* super, slots and extents are copies: hfi_session_peek */
    char name[HF_SESSION_NAME_SIZE];
    hf_session *next_open; /* inherit.c */
    int inherited;         /* the handle of a process that forked this one */
    int verifies; /* changed pages are compared, too: hf_session_verify_pages */
    uint64_t pages_overlooked; /* by what the system tells of them */
    uint32_t heir;             /* slot of the fork that is being made, or HFI_NONE */
    pthread_t heir_thread;     /* that makes it */
    int heir_failed;           /* its memory couldn't be made its own */

    pthread_mutex_t writer_mutex;

    pthread_mutex_t mutex;
    int pagemap; /* descriptor of hfi_pages_open, or -1: hfi_session_pagemap */
    hfi_identity pagemap_file;
    uint32_t lease_uses[HFI_LEASE_COUNT]; /* snapshots on each lease */
    uint32_t *pin_counts;                 /* by extent: our regions on it */
    size_t pin_capacity;
    hf_region *regions; /* root of a treap by address */
    hf_region *cache[HFI_CACHE_BINS];
    uint64_t cache_bytes, cache_limit;
    uint64_t cache_used[HFI_CACHE_BINS], cache_clock; /* when each bin was of use */
    uint64_t own_bytes, own_peak; /* of blocks in use, and the most since a flush */
    size_t taken[HF_TAKEN_MAX]; /* bytes of new blocks that were asked for (stock.c) */
    size_t taken_count;

    /* of the thread that provides (provision.c) */
    hfi_provision provision;

    /* of the scrubbing thread: the extent at which it stands, read in part */
    uint32_t scrub_extent, scrub_crc;
    uint64_t scrub_birth, scrub_done;

    /* of the committing thread */
    int committing;
    hfi_pool drafts;   /* a commit's nodes and their children */
    hfi_spool entries; /* its records */
    char *scratch;     /* where its nodes are put together (writer.c) */
    size_t scratch_size;
    hfi_prepared_state prepared;
};

static inline uint64_t
hfi_round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* ---- sessions without an owner (orphan.c) ---- */

/* Whether it may be taken up; whether somebody frees it in the end. */
int hfi_orphan_is_kept(const hfi_superblock *super);
int hfi_orphan_has_reaper(const hfi_superblock *super);

/* ---- descriptors (descriptor.c) ---- */

int hfi_identity_of(int fd, hfi_identity *ret_identity); /* 0 or an errno */
/* The object's descriptor, known to be that; -1 where it was closed and can't be opened
 * again. To be asked for at each use. */
int hfi_session_fd(hf_session *session);
/* The same of the page map of this process, opened at the first use. */
int hfi_session_pagemap(hf_session *session);
/* Close them, where they are still ours. */
void hfi_session_fd_close(hf_session *session);
void hfi_session_pagemap_close(hf_session *session);

/* ---- the writer lock and the extent table (extent.c); all but hfi_lock want it held
 * ---- */

/* What a process writes into the lock. */
uint64_t hfi_lock_word(uint32_t slot, const hfi_process *self);
/* Whether that is of a process that is dead; `context`: the session. */
int hfi_lock_holder_is_dead(void *context, uint64_t holder);
hf_status hfi_lock(hf_session *session, hf_error *reterr) HF_CHECK;
void hfi_unlock(hf_session *session);

static inline uint32_t
hfi_extent_count(const hf_session *session) {
    uint32_t n =
        atomic_load_explicit(&session->super->extent_count, memory_order_acquire);
    return n < HFI_EXTENT_MAX ? n : HFI_EXTENT_MAX;
}

static inline uint32_t
hfi_extent_word(const hfi_extent *extent) {
    return atomic_load_explicit(&extent->state, memory_order_acquire);
}

static inline enum hfi_extent_state
hfi_extent_state(const hfi_extent *extent) {
    return (enum hfi_extent_state)(hfi_extent_word(extent) & 0xff);
}

static inline uint32_t
hfi_state_word(enum hfi_extent_state state, uint32_t slot) {
    return (uint32_t)state | slot << 8;
}

/* 1 where the extent is this process's and in `state`. */
static inline int
hfi_extent_is_mine(const hf_session *session, uint32_t index,
                   enum hfi_extent_state state) {
    return index < hfi_extent_count(session) &&
           hfi_extent_word(&session->extents[index]) ==
               hfi_state_word(state, session->slot);
}

/* Move an extent to another state, keeping counters and lists. */
void hfi_extent_set(hf_session *session, uint32_t index, enum hfi_extent_state state,
                    uint32_t slot);
void hfi_extent_free(hf_session *session, uint32_t index);
/* This process, or a dead one, is done with an extent that it reserved or prepared: a
 * slot that pins it, which is a fork's (inherit.c), gets it; else it is free. */
void hfi_extent_give_up(hf_session *session, uint32_t index);
/* Free retired extents that nobody leases or pins. */
void hfi_extent_reclaim(hf_session *session);
/* 1 while some slot maps it. */
int hfi_extent_is_pinned(const hfi_extent *extent);
/* Free space back to the file system. */
void hfi_extent_trim(hf_session *session);
/* Reserve `size` bytes for this process. Takes the lock itself. `flags`: HFI_EXTENT_*
 * for the extent, and how it is to be had: with memory, if nothing else is said. */
enum {
    HFI_RESERVE_BARE = 1u << 28,     /* memory may be missing: for hfi_extent_write */
    HFI_RESERVE_RECYCLED = 1u << 29, /* HF_NOT_FOUND where that needs fresh pages */
    HFI_RESERVE_SPARE = 1u << 30,    /* HF_E_NOSPACE where others had to give way */
};
hf_status hfi_extent_reserve(hf_session *session, uint64_t size, uint32_t flags,
                             uint32_t *ret_index, hf_error *reterr) HF_CHECK;
/* Write a reserved extent up to its last page: the parts one after the other. On
 * failure the extent is given back. `ret_digest`: NULL, or what hf_digest_add makes of
 * the only part. */
hf_status hfi_extent_write(hf_session *session, uint32_t index,
                           const struct iovec *parts, size_t count,
                           hf_digest *ret_digest, hf_error *reterr) HF_CHECK;
/* Reserve an extent and write it, `size` bytes in all. Where memory is full, room is
 * made, and it is tried once more. */
hf_status hfi_extent_store(hf_session *session, uint32_t flags,
                           const struct iovec *parts, size_t count, uint64_t size,
                           uint32_t *ret_index, hf_digest *ret_digest,
                           hf_error *reterr) HF_CHECK;
/* Free an extent that this process reserved. */
void hfi_extent_give_back(hf_session *session, uint32_t index);
/* Shared memory is full: at the first attempt free what only makes things faster, then
 * at each further one the oldest generation that was yielded. 0 where nothing is left
 * to be tried. */
int hfi_extent_give_way(hf_session *session, int attempt);
/* One more chunk of records at least; extents must be rebuilt or none exist. */
hf_status hfi_extent_add_records(hf_session *session, hf_error *reterr) HF_CHECK;

/* Sessions that a fork must mark in the child (inherit.c). */
void hfi_inherit_watch(hf_session *session);
void hfi_inherit_forget(hf_session *session);

/* HF_E_GONE where the session was destroyed, or is a parent's (session.c). */
hf_status hfi_session_check(const hf_session *session, hf_error *reterr) HF_CHECK;

/* Map a session to look at it, without taking a slot; only reads, and destroy. */
hf_status hfi_session_peek(const char *name, hf_session **ret_session,
                           hf_error *reterr) HF_CHECK;
void hfi_session_unpeek(hf_session *session);

/* HF_E_NOSPACE where `err` says that memory is short, else HF_E_SYSTEM. */
hf_status hfi_space_error(hf_error *reterr, int err, const char *what);

/* ---- processes (slot.c) ---- */

/* The session's own slot, or one for a fork that is to be made (the session has one
 * then): it counts as this process's until hfi_slot_assign. */
hf_status hfi_slot_claim(hf_session *session, hf_error *reterr) HF_CHECK;
hf_status hfi_slot_claim_heir(hf_session *session, hf_error *reterr) HF_CHECK;
/* A free slot, in the name of `self`; HFI_NONE if there is none. */
uint32_t hfi_slot_take(hf_session *session, const hfi_process *self);
/* Name the process `pid` as the slot's owner. */
void hfi_slot_assign(hf_session *session, uint32_t slot, uint64_t pid);
int hfi_slot_alive(const hf_session *session, uint32_t slot);
/* Drop what a slot holds: extents, pins, leases, and the slot. Lock held. */
void hfi_slot_clear(hf_session *session, uint32_t slot);
/* Clear the slots of dead processes; gives their number. Lock held. */
uint32_t hfi_slot_reap(hf_session *session);

/* The generations that are leased, read once for many extents. A lease that comes later
 * is of the current generation, which reaches nothing that is retired. */
#define HFI_LEASES_LISTED 256
typedef struct hfi_leases {
    uint64_t generations[HFI_LEASES_LISTED];
    size_t count;
    int is_whole; /* else there are more, and whatever is retired counts as leased */
} hfi_leases;
void hfi_leases_read(const hf_session *session, int only_yielded,
                     hfi_leases *ret_leases);
int hfi_leases_keep(const hfi_leases *leases, const hfi_extent *extent);
/* Take the oldest yielded lease away; 0 where there is none. Lock held. */
int hfi_leases_take_yielded(hf_session *session);

/* ---- recovery (recovery.c): lock held ---- */

hf_status hfi_recovery_run(hf_session *session, hf_error *reterr) HF_CHECK;

/* ---- roots and the tree as committed (root.c, tree.c): no lock ---- */

void hfi_root_seal(hfi_root *root);
int hfi_root_is_valid(const hfi_root *root, uint64_t generation);
hf_status hfi_root_read(hf_session *session, hfi_root *ret_root,
                        hf_error *reterr) HF_CHECK;

uint64_t hfi_key_hash(const char *key, size_t size);
/* Bits that are set. The compiler's builtin is a call into a table where the processor
 * isn't known to count bits by itself. */
static inline uint32_t
hfi_bit_count(uint32_t x) {
    x -= (x >> 1) & 0x55555555u;
    x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
    return (((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24;
}
static inline uint32_t
hfi_hash_digit(uint64_t hash, uint32_t shift) {
    return (uint32_t)(hash >> shift) & 31;
}

/* Bytes of the object, or NULL where the range lies outside of the arena. */
const void *hfi_window_at(hf_session *session, uint64_t offset, uint64_t size);
hf_status hfi_node_load(hf_session *session, const hfi_ref *ref, uint32_t shift,
                        const hfi_node **ret_node, hf_error *reterr) HF_CHECK;
hf_status hfi_record_load(hf_session *session, const hfi_ref *ref,
                          const hfi_record **ret_record, hf_error *reterr) HF_CHECK;
static inline const hfi_buffer_head *
hfi_record_buffers(const hfi_record *record) {
    return (const hfi_buffer_head *)(record + 1);
}
static inline const hfi_piece *
hfi_record_pieces(const hfi_record *record) {
    return (const hfi_piece *)(hfi_record_buffers(record) + record->buffer_count);
}
/* The place of a payload that is too large for the record, else NULL. */
static inline const hfi_piece *
hfi_record_outside(const hfi_record *record) {
    return record->payload_size > HFI_INLINE_MAX
               ? hfi_record_pieces(record) + record->piece_count
               : NULL;
}
static inline uint64_t
hfi_record_key_offset(const hfi_record *record) {
    uint64_t pieces =
        (uint64_t)record->piece_count + (record->payload_size > HFI_INLINE_MAX);
    return sizeof *record + record->buffer_count * (uint64_t)sizeof(hfi_buffer_head) +
           pieces * sizeof(hfi_piece);
}
static inline const char *
hfi_record_key(const hfi_record *record) {
    return (const char *)record + hfi_record_key_offset(record);
}
static inline uint64_t
hfi_record_meta_offset(const hfi_record *record) {
    return hfi_record_key_offset(record) + record->key_size + 1;
}
/* Where the record itself is to begin: its payload has its alignment from there. */
static inline uint64_t
hfi_record_alignment(uint64_t payload_size) {
    return payload_size < 64 || payload_size > HFI_INLINE_MAX ? 8 : 64;
}
/* Of a payload inside. */
static inline uint64_t
hfi_record_payload_offset(const hfi_record *record) {
    return hfi_round_up(hfi_record_meta_offset(record) + record->meta_size,
                        hfi_record_alignment(record->payload_size));
}
/* Of all its bytes. */
static inline uint64_t
hfi_record_length(const hfi_record *record) {
    if (!record->payload_size || record->payload_size > HFI_INLINE_MAX)
        return hfi_record_meta_offset(record) + record->meta_size;
    return hfi_record_payload_offset(record) + record->payload_size;
}
void hfi_entry_fill(hf_session *session, const hfi_record *record, hf_entry *ret_entry);

/* Visit every ref of a tree, nodes before their children. `record` is NULL for nodes.
 */
typedef hf_status (*hfi_tree_visit)(void *context, const hfi_ref *ref,
                                    const hfi_record *record, hf_error *reterr);
hf_status hfi_tree_each(hf_session *session, const hfi_ref *root, hfi_tree_visit visit,
                        void *context, hf_error *reterr) HF_CHECK;
/* The same for the subtree of `ref`, a node of `shift` or an entry. */
hf_status hfi_tree_each_at(hf_session *session, const hfi_ref *ref, uint32_t shift,
                           hfi_tree_visit visit, void *context,
                           hf_error *reterr) HF_CHECK;
hf_status hfi_tree_find(hf_session *session, const hfi_ref *root, const char *key,
                        size_t key_size, hfi_ref *ret_ref,
                        const hfi_record **ret_record, hf_error *reterr) HF_CHECK;

/* ---- snapshots ---- */

struct hf_snapshot {
    hf_session *session;
    uint32_t lease;
    int is_yielded; /* session->mutex */
    hfi_root root;
};

/* Whether the arena holds `data` at `offset`, a place that was checked. Large data is
 * read by several threads, which end with the call. */
int hfi_window_equals(hf_session *session, uint64_t offset, const void *data,
                      size_t size);

/* A lease of this process that no snapshot is on; HFI_LEASE_COUNT if all are taken.
 * Mutex held. */
uint32_t hfi_snapshot_unused_lease(const hf_session *session);
/* Of this process's session, without root and lease. */
hf_status hfi_snapshot_create(hf_session *session, hf_snapshot **ret_snapshot,
                              hf_error *reterr) HF_CHECK;

/* ---- regions (region.c, region_map.c, seal.c, unseal.c) ---- */

struct hf_region {
    hf_session *session;
    _Atomic uint32_t references;
    /* One extent, mapped shared and writable, until it is made private: sealed because
     * it was published, or because this process forks (inherit.c). In the latter case
     * its one piece is an extent that is still RESERVED. */
    int is_own;
    /* Of an own region: bytes at its beginning that are mapped privately all the same,
     * because a mapping failed half-way (unseal.c). Until the rest is, too
     * (hfi_region_privatize), the region is neither published nor kept as a block. */
    size_t private_below;
    char *address;
    size_t size;   /* asked for */
    size_t mapped; /* whole pages */
    hfi_piece *pieces;
    uint32_t piece_count;
    hfi_piece own_piece; /* what `pieces` points to for an own region */
    /* What it was before it was unsealed, unchanged as committed; or NULL (unseal.c).
     */
    hfi_piece *was_pieces;
    uint32_t was_count;
    /* What the last commit wrote of it, not mapped yet: the whole new list. */
    hfi_piece *next_pieces;
    uint32_t next_count;
    uint64_t next_commit; /* number of that commit in this process */
    /* treap; session->mutex */
    hf_region *left, *right;
    uint32_t priority;
    /* Of a block in the cache, or just taken. */
    hf_region *cache_next;
    int is_new;  /* not asked for yet, or for the first time */
    int is_zero; /* and nobody has written to it */
    int is_met;  /* its page tables are filled */
};

void hfi_regions_insert(hf_session *session, hf_region *region); /* mutex held */
void hfi_regions_remove(hf_session *session, hf_region *region); /* mutex held */
void hfi_region_drop_was(hf_region *region);                     /* mutex held */
hf_region *hfi_regions_find(hf_session *session, const void *address);
/* The region after `address`, for walks. */
hf_region *hfi_regions_above(hf_session *session, const void *address);
/* An own block of at least `mapped` bytes: reserved (`how`: HFI_RESERVE_*), mapped and
 * pinned, and not among the regions yet. `ret_zero`: its pages are known to be zero. */
hf_status hfi_block_take(hf_session *session, size_t mapped, uint32_t how,
                         hf_region **ret_block, int *ret_zero,
                         hf_error *reterr) HF_CHECK;
void hfi_block_free(hf_region *block); /* mutex held */
/* Count bytes of blocks in use. Mutex held. */
static inline void
hfi_own_count(hf_session *session, size_t bytes) {
    session->own_bytes += bytes;
    if (session->own_bytes > session->own_peak)
        session->own_peak = session->own_bytes;
}
/* One that isn't pinned yet: mapped, of a hole where it is reserved bare. */
hf_status hfi_block_map(hf_session *session, size_t mapped, uint32_t how,
                        hf_region **ret_block, hf_error *reterr) HF_CHECK;
/* What a block for `size` bytes has: they fit each other. */
size_t hfi_block_size(const hf_session *session, size_t size);
/* For the next who asks; freed, where the cache is full. Mutex held. */
void hfi_cache_put(hf_session *session, hf_region *block);
/* Give cached blocks back. */
void hfi_cache_flush(hf_session *session);
/* List a new block that is asked for: for hf_session_taken. Mutex held. */
void hfi_block_note(hf_session *session, const hf_region *block);
hf_status hfi_pin(hf_session *session, uint32_t extent, hf_error *reterr) HF_CHECK;
void hfi_unpin(hf_session *session, uint32_t extent);
/* A piece of a region that is no part of it any more: unpinned, and where it was never
 * published and no region of this process has it, given up. Mutex held. */
void hfi_piece_drop(hf_session *session, uint32_t extent);
/* Map an own region privately, over the same pages at the same addresses. 0, or an
 * errno and the region is as it was. Mutex held. */
int hfi_region_privatize(hf_region *region);
hf_status hfi_region_scan(hf_region *region, hfi_runs *ret_runs,
                          hf_error *reterr) HF_CHECK;
/* Release `count` regions and free the list. */
void hfi_regions_release(hf_region **regions, size_t count);
/* Forget what an abandoned commit wrote of a region. Mutex held. */
void hfi_region_drop_next(hf_region *region);

/* ---- commits (commit.c, overlay.c, writer.c, prepared.c) ---- */

/* Undo or forget what this process prepared, whichever it has come to. */
void hfi_prepared_settle(hf_session *session, int drop);
/* Forget what was published; HF_BUSY if a commit of this process still isn't. */
hf_status hfi_prepared_finish(hf_session *session, hf_error *reterr) HF_CHECK;
/* Undo one extent that this process reserved or prepared: back to its region, or free.
 * Both locks held. */
void hfi_prepared_drop_extent(hf_session *session, uint32_t index);

#endif
