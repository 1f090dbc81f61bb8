/* holdfast/store.h - a session's named values in POSIX shared memory.
 *
 * The concepts, each an opaque handle of one process:
 *
 *   session   one shared-memory object, attached. Created by one process (its owner,
 *             usually a kernel frontend), attached by workers through its name or an
 *             inherited descriptor. Mode 0600; the owner's user only.
 *   snapshot  one committed generation, leased: whole, immutable, kept while held.
 *   region    a range of this process's addresses backed by the arena. Either *own*
 *             (reserved, mapped shared and writable, seen by nobody else) or
 *             *committed* (mapped MAP_PRIVATE: reading copies nothing, a write touches
 *             a private page and nothing that others see).
 *   commit    a set of changes in preparation: invisible until its one root is
 *             published, whole afterwards.
 *
 * A session maps keys (bytes; UTF-8 variable names by custom) to entries. An entry has
 * a codec number and small opaque bytes, `meta`, that the codec wrote; a `payload` of
 * bytes; and any number of buffers, each page-aligned so that it can be mapped. The
 * store never interprets any of them and never calls a codec.
 *
 * Threads: different handles may be used by different threads at once. One handle is
 * used by one thread at a time, except that hf_region_* may be called from any thread
 * (allocators run everywhere). Signals: nothing here is async-signal-safe.
 * Fork: a child attaches anew (hf_session_open_fd). Its copies of its parent's handles
 * give HF_E_GONE; what it inherits of its parent's regions is private to it, and
 * handles may be released or closed, which gives nothing of the parent's away.
 * Processes are identified by pid, start time, boot id and pid namespace.
 */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_session hf_session;
typedef struct hf_snapshot hf_snapshot;
typedef struct hf_region hf_region;
typedef struct hf_commit hf_commit;

#define HF_SESSION_NAME_SIZE  64  /* with the terminating NUL */
#define HF_SESSION_LABEL_SIZE 256 /* with the terminating NUL */
#define HF_KEY_SIZE_MAX       1024
#define HF_BUFFER_EXTENTS_MAX 256 /* extents of one buffer; compacted beyond */

/* ---- sessions ---- */

enum {
    HF_SESSION_MEMFD = 1u << 0, /* no name in /dev/shm: attach by descriptor only */
};

typedef struct hf_session_options {
    size_t struct_size;      /* sizeof(hf_session_options) */
    uint64_t capacity_bytes; /* most the arena may grow to; 0: what the file system and
                              * the process's control groups allow. Never more than a
                              * third of the addresses that this process may have */
    const char *label;       /* for people, such as the notebook's path; may be NULL */
    unsigned flags;
} hf_session_options;

/* Create a session owned by this process. `options` may be NULL. Falls back to a memfd
 * where POSIX shared memory can't hold the control area. Caller closes the result.
 * HF_E_SYSTEM, HF_E_NOSPACE, HF_E_NOMEM, HF_E_INVALID. */
HF_EXPORT HF_CHECK hf_status hf_session_create(const hf_session_options *options,
                                               hf_session **ret_session,
                                               hf_error *reterr);

/* Attach by name. HF_NOT_FOUND (words given), HF_E_ACCESS (not this user's),
 * HF_E_VERSION, HF_E_CORRUPT, HF_E_GONE, HF_E_LIMIT (no free process slot),
 * HF_E_SYSTEM. */
HF_EXPORT HF_CHECK hf_status hf_session_open(const char *name, hf_session **ret_session,
                                             hf_error *reterr);

/* Attach by a descriptor of the object, which is duplicated. As hf_session_open. */
HF_EXPORT HF_CHECK hf_status hf_session_open_fd(int fd, hf_session **ret_session,
                                                hf_error *reterr);

/* Detach: releases this process's slot, leases, pins and uncommitted extents. Regions,
 * snapshots and commits of the session must have been released. NULL is fine. */
HF_EXPORT void hf_session_close(hf_session *session);

/* Remove the object's name and mark it gone, so that attached processes see HF_E_GONE
 * and nobody attaches anew; memory goes when the last one detaches. Owner or reaper. */
HF_EXPORT HF_CHECK hf_status hf_session_destroy(hf_session *session, hf_error *reterr);

/* Borrowed. The descriptor is close-on-exec; it may be passed to a child. If code of
 * this process has closed it, the object is opened again, and that is another number;
 * -1 where it can't be. The name is "" for a memfd. */
HF_EXPORT int hf_session_fd(hf_session *session);
HF_EXPORT const char *hf_session_name(const hf_session *session);

typedef struct hf_session_info {
    char name[HF_SESSION_NAME_SIZE];
    char label[HF_SESSION_LABEL_SIZE];
    int64_t owner_pid; /* in the owner's pid namespace */
    int owner_alive;   /* 1 alive, 0 dead, -1 not known (other namespace) */
    int64_t created_unix_ns;
    uint64_t generation; /* 0: nothing committed yet */
    uint64_t entry_count;
    uint64_t capacity_bytes;  /* most it may grow to */
    uint64_t allocated_bytes; /* really allocated from the file system */
    uint64_t committed_bytes; /* extents of the current generation */
    uint64_t reserved_bytes;  /* uncommitted extents of all processes */
    uint64_t retired_bytes;   /* replaced, but still leased or pinned */
    uint64_t free_bytes;      /* allocated and free for the next extent */
    uint32_t process_count;   /* attached processes */
    uint32_t extent_count;
    hf_status state; /* HF_OK, or why it can't be attached: HF_E_CORRUPT, HF_E_VERSION,
                      * HF_E_GONE. Then only name and allocated_bytes are filled in, and
                      * owner_alive is -1. In lists only. */
    int is_orphan;   /* its owner is dead, and its reaper waits for who takes it up */
} hf_session_info;

HF_EXPORT HF_CHECK hf_status hf_session_describe(hf_session *session,
                                                 hf_session_info *ret_info,
                                                 hf_error *reterr);

/* Current generation: one atomic load. */
HF_EXPORT uint64_t hf_session_generation(const hf_session *session);

/* Free what dead processes left: their lock, leases, pins and uncommitted extents.
 * Also trims free space back to the file system where `trim` is set. */
HF_EXPORT HF_CHECK hf_status hf_session_reap(hf_session *session, int trim,
                                             uint32_t *ret_processes, hf_error *reterr);

/* Check every checksum of the current generation: the directory, and what
 * hf_session_scrub has come to of payloads and buffers. HF_E_CORRUPT names the first
 * bad entry. */
HF_EXPORT HF_CHECK hf_status hf_session_verify(hf_session *session, hf_error *reterr);

/* Checksum up to `budget_bytes` of payloads and buffers that have no checksum yet, for
 * hf_session_verify to compare with (some 80 ms per GiB). For a process that is idle,
 * while everyone who published has sealed or left. A call goes on where the last one of
 * this handle ended. `ret_bytes` (may be NULL): how many were read; 0 when all is done.
 * HF_E_GONE, HF_E_LIMIT, HF_E_CORRUPT. */
HF_EXPORT HF_CHECK hf_status hf_session_scrub(hf_session *session,
                                              uint64_t budget_bytes,
                                              uint64_t *ret_bytes, hf_error *reterr);

/* Visit this user's sessions by name. `visit` returns 0, or HF_STOP to end the walk.
 * Objects that are not ours are skipped; broken ones are told by `state`. */
typedef int (*hf_session_visit)(void *context, const hf_session_info *info);
HF_EXPORT HF_CHECK hf_status hf_session_list(hf_session_visit visit, void *context,
                                             hf_error *reterr);

/* Destroy this user's sessions whose owner is dead and to which no live process is
 * attached, but for those that wait for being taken up, and objects that are no
 * sessions (half-made, damaged, already destroyed) after some seconds, where nobody has
 * them open. Those of another layout version stay. `visit` (may be NULL) is told each
 * one before it goes. */
HF_EXPORT HF_CHECK hf_status hf_session_collect(hf_session_visit visit, void *context,
                                                uint32_t *ret_count, hf_error *reterr);

/* ---- sessions that outlive their owner ---- */

/* What who takes a session up must know: bytes that the owner chose, such as a digest
 * of a secret. Not all zero. */
typedef struct hf_claim {
    unsigned char bytes[32];
} hf_claim;

/* Let the session be taken up under this claim if its owner dies; NULL: no more. The
 * process `reaper_pid`, or 0, sees to it that it is freed some time if nobody comes:
 * while that lives hf_session_collect passes the session by. Owner; HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_session_keep(hf_session *session, const hf_claim *claim,
                                             int64_t reaper_pid, hf_error *reterr);

/* Attach to the session that a dead owner left under this claim, and be its owner; who
 * keeps it from then on is to be said anew. It has what was committed last. Caller
 * closes the result. HF_NOT_FOUND where there is none, or somebody was faster;
 * HF_E_SYSTEM, and as hf_session_open. */
HF_EXPORT HF_CHECK hf_status hf_session_take_up(const hf_claim *claim,
                                                hf_session **ret_session,
                                                hf_error *reterr);

/* Whether the session of this name waits for being taken up: its owner is dead. */
HF_EXPORT int hf_session_is_orphan(const char *name);
/* Destroy it. HF_NOT_FOUND where it is none, or no more; HF_BUSY where a living process
 * is attached; as hf_session_open. */
HF_EXPORT HF_CHECK hf_status hf_session_free_orphan(const char *name, hf_error *reterr);

/* Numbers that the owner leaves to who takes the session up. The store gives them no
 * meaning; at first they are 0. Any thread. */
#define HF_NOTE_COUNT 4
HF_EXPORT void hf_session_note(hf_session *session, uint32_t index, uint64_t value);
HF_EXPORT uint64_t hf_session_noted(const hf_session *session, uint32_t index);

/* ---- snapshots: reading ---- */

/* Lease the current generation, without a lock. Generation 0 is the empty namespace.
 * Caller releases. HF_E_LIMIT (leases of this process), HF_E_CORRUPT, HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_acquire(hf_session *session,
                                                 hf_snapshot **ret_snapshot,
                                                 hf_error *reterr);
HF_EXPORT void hf_snapshot_release(hf_snapshot *snapshot);
HF_EXPORT uint64_t hf_snapshot_generation(const hf_snapshot *snapshot);
HF_EXPORT uint64_t hf_snapshot_entry_count(const hf_snapshot *snapshot);

/* Let the snapshot's generation go whenever somebody finds the arena full, the oldest
 * first: for a history that is kept while there is room. Until hf_snapshot_hold it may
 * only be released, or asked for its generation. */
HF_EXPORT void hf_snapshot_yield(hf_snapshot *snapshot);
/* Keep it again. HF_NOT_FOUND without words where the generation is gone; the snapshot
 * is then good for nothing but to be released. HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_hold(hf_snapshot *snapshot, hf_error *reterr);
/* Bytes of retired extents that yielded snapshots keep, of all processes. Somebody who
 * has yet to follow a newer generation may lease or map some of them for a moment, too.
 */
HF_EXPORT HF_CHECK hf_status hf_session_yielded_bytes(hf_session *session,
                                                      uint64_t *ret_bytes,
                                                      hf_error *reterr);

/* Names a generation to another process of this machine that has the session open.
 * Plain bytes. */
typedef struct hf_generation {
    uint64_t bytes[8];
} hf_generation;

HF_EXPORT void hf_snapshot_export(const hf_snapshot *snapshot,
                                  hf_generation *ret_generation);
/* Lease the generation that another process named, and holds for as long as this call
 * takes. HF_E_CORRUPT where it names none, HF_E_LIMIT, HF_E_NOMEM, HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_import(hf_session *session,
                                                const hf_generation *generation,
                                                hf_snapshot **ret_snapshot,
                                                hf_error *reterr);

/* An entry as read: every pointer is borrowed and valid while the snapshot is held.
 * Key, meta and payloads of up to 64 KiB were checksummed when written and are checked
 * when read; larger payloads and buffers by hf_session_scrub and hf_session_verify. */
typedef struct hf_entry {
    const char *key;
    size_t key_size;
    uint32_t codec;      /* number of the codec that wrote it */
    uint32_t flags;      /* the writer's own */
    uint64_t sequence;   /* order in which keys were first put: dict order */
    uint64_t generation; /* in which this content was committed */
    const void *meta;
    size_t meta_size;
    const void *payload; /* aligned to 64 bytes, to 8 if it is smaller; or NULL */
    size_t payload_size;
    uint32_t buffer_count;
    uint64_t buffer_bytes; /* of all buffers together */
    const void *internal;
} hf_entry;

/* HF_NOT_FOUND without words; HF_E_CORRUPT. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_find(hf_snapshot *snapshot, const char *key,
                                              size_t key_size, hf_entry *ret_entry,
                                              hf_error *reterr);

/* 1 where buffer `index` of `entry` has just these bytes, 0 where it hasn't or there is
 * no such buffer. Large ones are compared by several threads, which end with the call,
 * up to the first difference. */
HF_EXPORT int hf_snapshot_holds(hf_snapshot *snapshot, const hf_entry *entry,
                                uint32_t index, const void *data, size_t size);

/* Visit all entries, in no particular order. `visit` returns 0, or HF_STOP to end. */
typedef int (*hf_entry_visit)(void *context, const hf_entry *entry);
HF_EXPORT HF_CHECK hf_status hf_snapshot_each(hf_snapshot *snapshot,
                                              hf_entry_visit visit, void *context,
                                              hf_error *reterr);

/* The same in the order in which the keys were first put. HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_each_in_order(hf_snapshot *snapshot,
                                                       hf_entry_visit visit,
                                                       void *context, hf_error *reterr);

/* Visit what differs between two generations of one session: `before` is NULL for an
 * added key, `after` for a removed one. Costs what differs, not what is there. `before`
 * may be NULL: everything is added. */
typedef int (*hf_diff_visit)(void *context, const hf_entry *before,
                             const hf_entry *after);
HF_EXPORT HF_CHECK hf_status hf_snapshot_diff(hf_snapshot *before, hf_snapshot *after,
                                              hf_diff_visit visit, void *context,
                                              hf_error *reterr);

/* ---- values whose encoding or decoding may end the process ---- */

/* Encoding and decoding may run code that nobody here wrote, and that may exit, crash
 * or hang. A process says before each such value what it is at, in shared memory, so
 * that whoever survives it knows. An entry that ended a process can be put in
 * quarantine: it stays in the store, and its readers ask before they decode. */

enum { HF_TURN_ENCODE = 1, HF_TURN_DECODE = 2 };

#define HF_TURN_LABEL_SIZE 112 /* with the terminating NUL */

typedef struct hf_turn {
    uint32_t kind;                  /* HF_TURN_*; 0: at nothing */
    uint64_t key_hash;              /* of the key that is decoded */
    uint64_t generation;            /* of its entry */
    uint32_t mib;                   /* of its payload */
    int64_t since_ns;               /* monotonic clock */
    char label[HF_TURN_LABEL_SIZE]; /* for people: the variables, as the process said */
} hf_turn;

/* Say that this process encodes something now (`entry` NULL), or decodes `entry`. Turns
 * nest: `ret_before` is for the end. The thread that binds and commits. */
HF_EXPORT void hf_session_turn_begin(hf_session *session, const hf_entry *entry,
                                     const char *label, size_t label_size,
                                     hf_turn *ret_before);
HF_EXPORT void hf_session_turn_end(hf_session *session, const hf_turn *before);
/* The clock of this process's own turn begins anew. */
HF_EXPORT void hf_session_turn_renew(hf_session *session);
/* 1 and what a process of this pid namespace is at, or was when it died; 0 where that
 * is nothing. `pid` 0: this process. */
HF_EXPORT int hf_session_turn_of(hf_session *session, int64_t pid, hf_turn *ret_turn);
/* A dead process was at something: that is known now. */
HF_EXPORT void hf_session_turn_forget(hf_session *session, int64_t pid);

/* How it ended: one of these, and the wait status where the process died. */
enum { HF_CAUSE_DIED = 1u << 16, HF_CAUSE_HUNG = 1u << 17 };

/* What `turn` decodes is not to be decoded any more. HF_NOT_FOUND where it decodes
 * nothing; HF_E_LIMIT. */
HF_EXPORT HF_CHECK hf_status hf_session_quarantine(hf_session *session,
                                                   const hf_turn *turn, uint32_t cause,
                                                   hf_error *reterr);
/* The cause, or 0: `entry` may be decoded. */
HF_EXPORT uint32_t hf_session_quarantined(hf_session *session, const hf_entry *entry);
/* Let it be decoded again. */
HF_EXPORT void hf_session_readmit(hf_session *session, const hf_entry *entry);

/* ---- regions: memory of the arena in this process ---- */

/* Reserve at least `size` bytes of the arena for this process: really allocated, mapped
 * shared and writable, aligned to a page, contents unspecified (recycled) unless
 * `zeroed`. `ret_zeroed` (may be NULL) tells whether the pages are known to be zero.
 * The result has one reference. HF_E_NOSPACE, HF_E_NOMEM (addresses, too), HF_E_SYSTEM,
 * HF_E_LIMIT. */
HF_EXPORT HF_CHECK hf_status hf_region_reserve(hf_session *session, size_t size,
                                               int zeroed, hf_region **ret_region,
                                               int *ret_zeroed, hf_error *reterr);

/* Map buffer `index` of `entry` MAP_PRIVATE, its extents side by side, readable and
 * writable. The region pins its extents by itself: the snapshot may be released.
 * Mapping the same buffer twice gives two regions. */
HF_EXPORT HF_CHECK hf_status hf_region_map(hf_snapshot *snapshot, const hf_entry *entry,
                                           uint32_t index, hf_region **ret_region,
                                           hf_error *reterr);

/* The region that contains `address`, acquired, or NULL. Any thread; O(log regions). */
HF_EXPORT hf_region *hf_region_find(hf_session *session, const void *address);

HF_EXPORT hf_region *hf_region_acquire(hf_region *region);
/* The last release unmaps; uncommitted extents are recycled. NULL is fine. */
HF_EXPORT void hf_region_release(hf_region *region);

HF_EXPORT void *hf_region_address(const hf_region *region);
/* Bytes that the user asked for, or the buffer's size; the mapping is whole pages. */
HF_EXPORT size_t hf_region_size(const hf_region *region);
/* 1 while own and not published: only then may its owner resize or recycle it. */
HF_EXPORT int hf_region_is_own(const hf_region *region);
/* 1 where all of its memory is committed data, mapped privately: only then do
 * hf_region_changed_pages tell what the store doesn't have. */
HF_EXPORT int hf_region_is_committed(const hf_region *region);
/* Blocks that regions were reserved in, and that no region of this process had before:
 * the sizes of the first HF_TAKEN_MAX of a MiB or more since the last call, and how
 * many. Any thread. */
#define HF_TAKEN_MAX 64
HF_EXPORT size_t hf_session_taken(hf_session *session, size_t ret_sizes[HF_TAKEN_MAX]);
/* Have blocks of these sizes ready, with memory and page tables, for regions that are
 * reserved later. Only from room that nobody keeps anything in, and while there is any:
 * `ret_bytes` tells how much it is. Any thread. HF_E_SYSTEM, HF_E_LIMIT, HF_E_NOMEM,
 * HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_session_stock(hf_session *session, const size_t *sizes,
                                              size_t count, uint64_t *ret_bytes,
                                              hf_error *reterr);
/* See to it that free space of the arena has memory for blocks of these sizes, all at
 * once: for a process that waits. hf_session_provide begins, hf_session_provide_some
 * allocates up to `bytes` of what is missing and tells by `ret_more` whether there may
 * be more to do, and hf_session_provide_end lets everybody have what is there. No more
 * than a 32nd of the memory that this process may have and a 16th of what is free of
 * it, and only from room that nobody keeps anything in. One thread at a time.
 * HF_E_SYSTEM, HF_E_NOMEM, HF_E_GONE. */
HF_EXPORT void hf_session_provide(hf_session *session, const size_t *sizes,
                                  size_t count);
HF_EXPORT HF_CHECK hf_status hf_session_provide_some(hf_session *session, size_t bytes,
                                                     int *ret_more, hf_error *reterr);
HF_EXPORT void hf_session_provide_end(hf_session *session);
/* Pages that were written since the region was mapped or last committed. For an own
 * region: all of its pages. */
HF_EXPORT HF_CHECK hf_status hf_region_changed_pages(hf_region *region,
                                                     uint64_t *ret_pages,
                                                     hf_error *reterr);
/* Fill the page tables of a committed region without copying (MADV_POPULATE_READ), or
 * with private copies of all pages in bulk where `write` is set. Best effort. */
HF_EXPORT void hf_region_populate(hf_region *region, int write);

/* Replace a private mapping of committed data by a copy in an extent of this process's
 * own, mapped shared and writable at the same addresses: in-place writes then cost no
 * copy faults, and the next commit publishes it by reference. What was written already
 * is kept. Costs a bulk copy. An own region that isn't published stays as it is. The
 * caller guarantees that no other thread can touch the region, and calls it from the
 * thread that commits. HF_BUSY while a commit of this process is in the making or waits
 * to be published. On failure the region is as it was. HF_E_NOSPACE, HF_E_SYSTEM,
 * HF_E_LIMIT, HF_E_NOMEM, HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_region_unseal(hf_region *region, hf_error *reterr);

/* Undo hf_region_unseal where nothing was written since: the region is a mapping of
 * what was committed again, and no change for a commit. HF_BUSY without words where
 * there is a difference (told soon, as a rule), or nothing to undo. HF_E_SYSTEM. */
HF_EXPORT HF_CHECK hf_status hf_region_reseal(hf_region *region, hf_error *reterr);

/* From here on compare the pages of committed regions with what is committed whenever a
 * commit looks for the changed ones, instead of trusting what the system tells of them;
 * or no longer. It reads all of each region. Returns how many changed pages the system
 * had not told since the last call: any but 0 is a defect. The caller's thread alone.
 */
HF_EXPORT uint64_t hf_session_verify_pages(hf_session *session, int on);

/* Turn what this process published private, at the same addresses: own regions that a
 * commit took become committed ones; changed pages that a commit wrote are mapped from
 * their new extents. Call it before user code runs again in a process that lives on.
 * `threads_stopped`: no other thread of this process can write to any region now; where
 * 0, pages are not replaced by copies (a later commit writes them again), and only
 * same-page remappings are done, which lose no write. */
HF_EXPORT HF_CHECK hf_status hf_session_seal(hf_session *session, int threads_stopped,
                                             hf_error *reterr);

/* ---- a fork that goes on in this process's place ---- */

/* A fork of this process that keeps what the process has now: its memory of the session
 * (nothing that this process does later shows in it), its leases and its regions, in a
 * slot of its own. If this process dies, the fork can go on as its successor, and owns
 * what the process had reserved by then. Any other child of fork() has private memory
 * too, but no access to the session.
 *
 *     hf_session_fork_begin(session, &error);
 *     pid = fork();
 *     pid == 0 ? hf_session_fork_child(session, &error)
 *              : hf_session_fork_parent(session, pid);
 *
 * The three calls and the fork are one thread's. `begin` turns this process's own
 * regions private, so that a first write to each of their pages costs a copy from there
 * on. HF_BUSY while a commit of this process is in the making or waits to be published;
 * HF_E_LIMIT, HF_E_SYSTEM, HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_session_fork_begin(hf_session *session,
                                                   hf_error *reterr);
/* `pid`: what fork() returned, negative where it failed. */
HF_EXPORT void hf_session_fork_parent(hf_session *session, int64_t pid);
/* HF_E_SYSTEM: its memory is not its own, so the child can't go on. */
HF_EXPORT HF_CHECK hf_status hf_session_fork_child(hf_session *session,
                                                   hf_error *reterr);
/* In the child, once its parent is dead: HF_OK where the child is its successor, and
 * has what the parent had reserved; HF_E_GONE where somebody else has taken the slot
 * from it, because the parent died before it had named its child. */
HF_EXPORT HF_CHECK hf_status hf_session_fork_succeed(hf_session *session,
                                                     hf_error *reterr);

/* ---- commits: writing ---- */

/* One buffer of a value. With `region`, the whole region is the buffer: an own one is
 * published by reference, a committed one by reference for its unchanged pages and by
 * copy for the changed ones. Without, `size` bytes at `data` are copied. Neither is
 * kept after hf_commit_put returns, but a region's memory must not be written until the
 * commit is published or aborted. */
typedef struct hf_buffer {
    const void *data;
    size_t size;
    hf_region *region;
} hf_buffer;

/* 128 bits that tell whether data is what it was. Of this process and its forks only:
 * another machine has another digest of the same data. Not for enemies. */
typedef struct hf_digest {
    uint64_t words[2];
} hf_digest;

/* Let `digest`, {{0, 0}} at first, speak of this data as well. Large data is read by
 * several threads, which end with the call. Any thread. */
HF_EXPORT void hf_digest_add(hf_digest *digest, const void *data, size_t size);

typedef struct hf_value {
    const char *key;
    size_t key_size; /* 1 .. HF_KEY_SIZE_MAX */
    uint32_t codec;
    uint32_t flags;
    const void *meta;
    size_t meta_size;
    const void *payload;
    size_t payload_size;
    const hf_buffer *buffers;
    uint32_t buffer_count;
    hf_digest *ret_digests; /* of each buffer that isn't empty and has no region, as it
                             * was when it was copied: which costs less than to read
                             * it once more. As many as buffers; or NULL */
} hf_value;

typedef struct hf_commit_stats {
    uint64_t bytes_copied;    /* payloads, copied buffers and changed pages */
    uint64_t bytes_shared;    /* buffers published by reference */
    uint64_t bytes_directory; /* nodes and entries written */
    uint64_t pages_changed;   /* pages of committed regions found changed */
    uint32_t entries_put;
    uint32_t entries_removed;
} hf_commit_stats;

/* Names a prepared commit to the process that publishes it. Plain bytes. */
typedef struct hf_prepared {
    uint64_t base_generation;
    uint64_t commit_extent; /* offset in the arena */
    uint32_t slot;          /* process slot of the preparer */
    uint32_t checksum;
} hf_prepared;

/* Start from the current generation. One commit at a time in a process. */
HF_EXPORT HF_CHECK hf_status hf_commit_begin(hf_session *session,
                                             hf_commit **ret_commit, hf_error *reterr);
/* Add or replace one key. HF_E_NOSPACE leaves the commit usable for abort only. */
HF_EXPORT HF_CHECK hf_status hf_commit_put(hf_commit *commit, const hf_value *value,
                                           hf_error *reterr);
/* Remove a key; HF_NOT_FOUND where it isn't there. */
HF_EXPORT HF_CHECK hf_status hf_commit_remove(hf_commit *commit, const char *key,
                                              size_t key_size, hf_error *reterr);
/* Let the commit be the return to `snapshot`, which stays leased until it is published:
 * all keys and their content as they were then. Costs what differs, and copies nothing.
 * The commit must be empty, and takes nothing else. HF_E_INVALID, HF_E_CORRUPT,
 * HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_commit_restore(hf_commit *commit, hf_snapshot *snapshot,
                                               hf_error *reterr);
HF_EXPORT void hf_commit_get_stats(const hf_commit *commit, hf_commit_stats *ret_stats);

/* Write everything, publish nothing. The commit is consumed on success; the changes
 * become visible when any process publishes the token, and are dropped when this
 * process detaches or dies before that, or begins another commit. */
HF_EXPORT HF_CHECK hf_status hf_commit_prepare_consume(hf_commit *commit,
                                                       hf_prepared *ret_prepared,
                                                       hf_error *reterr);
/* Publish a prepared commit by one atomic root. HF_CONFLICT where another commit came
 * between; HF_E_CORRUPT where the token lies. */
HF_EXPORT HF_CHECK hf_status hf_session_publish(hf_session *session,
                                                const hf_prepared *prepared,
                                                uint64_t *ret_generation,
                                                hf_error *reterr);
/* Prepare and publish in one. */
HF_EXPORT HF_CHECK hf_status hf_commit_publish_consume(hf_commit *commit,
                                                       uint64_t *ret_generation,
                                                       hf_error *reterr);
/* Drop everything. NULL is fine. */
HF_EXPORT void hf_commit_abort(hf_commit *commit);

#ifdef __cplusplus
}
#endif
#endif
