/* commit.h - a commit in the making, from its first key to the prepared bytes.
 *
 * Shared by its stages, lowest first: draft.c (what was written, what will change),
 * overlay.c (the tree), compact.c and restore.c (whole subtrees), commit_region.c
 * (regions as buffers), writer.c (the bytes), commit.c (the public functions).
 *
 * One thread makes a commit; nothing of it is shared, so no lock guards it. A function
 * that moves extents takes the writer lock itself, and session->mutex before it.
 *
 * Statuses, if nothing else is said: HF_E_NOMEM, HF_E_NOSPACE, HF_E_LIMIT and
 * HF_E_SYSTEM from writing, HF_E_CORRUPT from reading the base. After a failure the
 * commit can only be aborted.
 *
 * Invariant: the base's lease keeps everything that the draft refers to; every extent
 * that the commit reserved is in `written`.
 */
#ifndef HFI_COMMIT_H
#define HFI_COMMIT_H

#include <sys/uio.h>

#include "base/pool.h"
#include "base/spool.h"
#include "engine/snapshot.h"

/* The memory that a process keeps from one commit to the next. */
typedef struct hfi_committer {
    hfi_pool drafts;   /* a commit's nodes and their children */
    hfi_spool entries; /* its records */
    char *scratch;     /* where its nodes are put together (writer.c) */
    size_t scratch_size;
} hfi_committer;

/* A piece of a pack that has no place in the arena yet: extent is this | its number. */
#define HFI_PACK_MARK 0xf0000000u
#define HFI_PACK_MAX  0x0fffffffu

enum hfi_child_kind { HFI_CHILD_REF, HFI_CHILD_NODE, HFI_CHILD_ENTRY };

typedef struct hfi_draft_node hfi_draft_node;

/* A child in the overlay: as committed, or changed here. */
typedef struct hfi_child {
    union {
        const hfi_ref *ref; /* in a node; the base's lease keeps it */
        hfi_draft_node *node;
        hfi_entry_record
            *record; /* an entry as it will be written: in the committer's entries */
    } as;
    enum hfi_child_kind kind;
    uint32_t chunk; /* of an entry: that of the committer's entries */
} hfi_child;

struct hfi_draft_node {
    uint32_t shift;
    uint32_t bitmap;
    uint32_t count, capacity;
    hfi_child *children;
};

typedef struct hfi_delta_map { /* open addressing; extent HFI_NONE: empty */
    hfi_delta *items;
    size_t count, capacity;
} hfi_delta_map;

typedef struct hfi_list32 {
    uint32_t *items;
    size_t count, capacity;
} hfi_list32;

typedef struct hfi_piece_list { /* of one buffer */
    hfi_piece items[HF_BUFFER_EXTENTS_MAX + 1];
    uint32_t count;
    int overflow;
} hfi_piece_list;

struct hf_commit {
    hf_session *session;
    hf_snapshot *base;
    uint64_t number; /* among this process's commits */
    hfi_child root;
    hfi_ref base_root; /* the reference of `root` while nothing has changed */
    int is_empty;
    uint64_t entry_count, next_sequence;
    int64_t piece_total;
    hfi_delta_map deltas;
    hfi_list32 written; /* extents that this commit reserved */
    hfi_list32 shared;  /* extents of own regions that it publishes */
    hf_region **regions;
    size_t region_count, region_capacity;
    char *pack; /* small buffers, one after the other, whole pages */
    size_t pack_used, pack_capacity;
    hfi_piece *packs; /* where the full ones went */
    size_t pack_count;
    int failed;
    hf_commit_stats stats;
};

void hfi_committer_fini(hfi_committer *committer);

/* ---- the data written, and the changes to make (draft.c) ---- */

/* Set and return HF_E_NOMEM. */
hf_status hfi_no_memory(hf_error *reterr);
hf_status hfi_list32_add(hfi_list32 *list, uint32_t value, hf_error *reterr) HF_CHECK;
/* Add to the change that publishing makes to an extent's living objects, and their
 * bytes. HF_E_NOMEM. */
hf_status hfi_delta_add(hf_commit *commit, uint32_t extent, int32_t live, int64_t bytes,
                        hf_error *reterr) HF_CHECK;
/* Count everything that a record refers to (payload, pieces), sign 1 or -1.
 * HF_E_NOMEM. */
hf_status hfi_record_count(hf_commit *commit, const hfi_entry_record *record, int sign,
                           hf_error *reterr) HF_CHECK;
/* An extent with `size` bytes of `data`, noted in `written`. `ret_digest` may be
 * NULL. */
hf_status hfi_commit_write_extent(hf_commit *commit, const void *data, size_t size,
                                  uint32_t *ret_extent, hf_digest *ret_digest,
                                  hf_error *reterr) HF_CHECK;
/* The same of several parts, `size` bytes together. */
hf_status hfi_commit_write_parts(hf_commit *commit, const struct iovec *parts,
                                 size_t count, size_t size, uint32_t *ret_extent,
                                 hf_error *reterr) HF_CHECK;
/* Copy a small buffer into the open pack. The piece's extent is HFI_PACK_MARK | the
 * pack's number until writer.c gives it its place. */
hf_status hfi_pack_add(hf_commit *commit, const void *data, size_t size,
                       hfi_piece *ret_piece, hf_error *reterr) HF_CHECK;
/* Write the open pack. */
hf_status hfi_pack_flush(hf_commit *commit, hf_error *reterr) HF_CHECK;

/* ---- the tree (overlay.c) ---- */

/* Put an entry, which lies in that chunk of the committer's entries. */
hf_status hfi_overlay_put(hf_commit *commit, hfi_entry_record *record, uint32_t chunk,
                          hf_error *reterr) HF_CHECK;
/* HF_NOT_FOUND if there is no such key. */
hf_status hfi_overlay_remove(hf_commit *commit, const char *key, size_t key_size,
                             hf_error *reterr) HF_CHECK;
/* Make a committed child ready to be changed; its old place is counted out. */
hf_status hfi_overlay_open(hf_commit *commit, hfi_child *child, uint32_t shift,
                           hf_error *reterr) HF_CHECK;

/* ---- the stages above it ---- */

/* Rewrite the living objects of mostly dead commit extents, if that is worth it. */
hf_status hfi_compact(hf_commit *commit, hf_error *reterr) HF_CHECK;
/* Append the region as a buffer, by reference if possible. The commit holds the region
 * from here on. */
hf_status hfi_commit_put_region(hf_commit *commit, hf_region *region,
                                hfi_piece_list *list, hf_error *reterr) HF_CHECK;
/* Write nodes, entries and manifest, and mark every extent PREPARED. */
hf_status hfi_writer_run(hf_commit *commit, hf_prepared *ret_prepared,
                         hf_error *reterr) HF_CHECK;

#endif
