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
 * (allocators run everywhere). Signals: nothing here is async-signal-safe. Fork: a
 * child attaches anew (hf_session_open_fd). With its copies of its parent's handles it
 * gets HF_E_GONE. Its copies of the parent's regions are private to it. It may release
 * and close the handles, which changes nothing for the parent. Processes are identified
 * by pid, start time, boot id and pid namespace.
 *
 * Statuses: each function names its own. A function marked *Locks* takes the session's
 * writer lock and may wait for other processes' commits and allocations. If the last
 * holder died, it recovers the session first, and may return HF_E_CORRUPT, HF_E_NOMEM,
 * HF_E_LIMIT, HF_E_NOSPACE or HF_E_SYSTEM from that; the session is then as it was. A
 * holder in another pid namespace can't be seen: after 30 s HF_E_ACCESS says so.
 */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "status.h"
#include "version.h"

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
#define HF_META_SIZE_MAX      (16u << 20)
#define HF_BUFFER_EXTENTS_MAX 256 /* extents of one buffer; compacted beyond */

/* ---- sessions ---- */

enum {
    HF_SESSION_MEMFD = 1u << 0, /* no name in /dev/shm: attach by descriptor only */
    /* Only the owner publishes, keeps and destroys the session, and nobody while it has
     * none. Others read, and prepare commits, whose tokens they hand to the owner. */
    HF_SESSION_OWNER_PUBLISHES = 1u << 1,
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
 * if POSIX shared memory can't hold the control area. The caller closes the result.
 * HF_E_SYSTEM, HF_E_NOSPACE, HF_E_NOMEM, HF_E_INVALID. */
HF_EXPORT HF_CHECK hf_status hf_session_create(const hf_session_options *options,
                                               hf_session **ret_session,
                                               hf_error *reterr);

/* Attach by name. The caller closes the result. HF_NOT_FOUND (with a message),
 * HF_E_ACCESS (not this user's), HF_E_VERSION, HF_E_CORRUPT, HF_E_GONE, HF_E_LIMIT (no
 * free process slot), HF_E_NOMEM, HF_E_SYSTEM. */
HF_EXPORT HF_CHECK hf_status hf_session_open(const char *name, hf_session **ret_session,
                                             hf_error *reterr);

/* The same, to read only. What would change the session is HF_E_ACCESS, and the message
 * says what to do: hf_region_reserve, hf_region_unshare, hf_commit_begin, and of
 * hf_session_: publish, destroy, keep, reap, give_back, scrub, quarantine; a note and
 * hf_session_readmit are ignored. Writing to a mapped region changes this process's
 * memory, as ever. The process has a slot, leases and pins, which keep what it reads. It
 * doesn't keep a session whose owner is dead: that is freed as if nobody had it open,
 * HF_E_GONE from then on, and what is mapped stays. Statuses as hf_session_open. */
HF_EXPORT HF_CHECK hf_status hf_session_open_readonly(const char *name,
                                                      hf_session **ret_session,
                                                      hf_error *reterr);

/* Attach by a descriptor of the object, which is duplicated. Statuses as
 * hf_session_open, but never HF_NOT_FOUND. */
HF_EXPORT HF_CHECK hf_status hf_session_open_fd(int fd, hf_session **ret_session,
                                                hf_error *reterr);

/* The same for reading only, as hf_session_open_readonly. */
HF_EXPORT HF_CHECK hf_status hf_session_open_fd_readonly(int fd,
                                                         hf_session **ret_session,
                                                         hf_error *reterr);

/* Detach: releases this process's slot, leases, pins and uncommitted extents. Regions,
 * snapshots and commits of the session must have been released. NULL is fine. */
HF_EXPORT void hf_session_close(hf_session *session);

/* Remove the object's name and mark it gone, so that attached processes see HF_E_GONE
 * and nobody attaches anew; the memory is freed when the last one detaches. For the
 * owner, or its reaper. HF_E_SYSTEM: the name can't be removed; the session is marked
 * all the same. HF_E_ACCESS: see HF_SESSION_OWNER_PUBLISHES. */
HF_EXPORT HF_CHECK hf_status hf_session_destroy(hf_session *session, hf_error *reterr);

/* Borrowed. The descriptor is close-on-exec; it may be passed to a child. If code of
 * this process has closed it, the object is opened again, and that is another number;
 * -1 if it can't be opened. The name is "" for a memfd. */
HF_EXPORT int hf_session_fd(hf_session *session);
HF_EXPORT const char *hf_session_name(const hf_session *session);

typedef struct hf_session_info {
    size_t struct_size; /* sizeof(hf_session_info) */
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
    int is_orphan;   /* its owner is dead; its reaper waits for a new owner */
    int owner_publishes; /* HF_SESSION_OWNER_PUBLISHES */
} hf_session_info;

/* Fill in what the session is now. HF_E_INVALID: ret_info->struct_size is wrong;
 * HF_E_GONE. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_describe(hf_session *session,
                                                 hf_session_info *ret_info,
                                                 hf_error *reterr);

/* Current generation: one atomic load. */
HF_EXPORT uint64_t hf_session_generation(const hf_session *session);

/* Sleep until the current generation isn't `generation` any more (which it may not be at
 * once), for `timeout_ms` at most; negative: without limit. The commit wakes it; nothing
 * is looked at in between, no lock is taken and nothing is written to the session. If
 * generations follow each other quickly, one may be passed over: ask
 * hf_session_generation, or acquire a snapshot. HF_BUSY (without a message): it is still
 * that one, after the time or after a signal handler has run in this thread; HF_E_GONE:
 * the session was destroyed; HF_E_SYSTEM (not Linux). Any thread, beside one that uses
 * the handle otherwise; who closes the handle waits for the call's end. */
HF_EXPORT HF_CHECK hf_status hf_session_wait(hf_session *session, uint64_t generation,
                                             int64_t timeout_ms, hf_error *reterr);

/* Free what dead processes left: their lock, leases, pins and uncommitted extents.
 * With `trim` also give free space back to the file system, and this process's cache of
 * blocks. `ret_processes` (may be NULL): how many dead processes there were. HF_E_GONE.
 * Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_reap(hf_session *session, int trim,
                                             uint32_t *ret_processes, hf_error *reterr);

/* Give back up to `budget_bytes` of what processes of the session have freed, keep for
 * their next allocations, and haven't used again for `unused_ms`; 100 ms a GiB. A
 * process that wants such a block again meanwhile gets a new one. If no process has taken
 * memory for as long, free memory above the bound of an idle session goes, too.
 * `ret_bytes` (may be NULL): how many were given back. `ret_waits` (may be NULL): 1 if others are kept, so
 * that another call later may find some. HF_E_GONE, HF_E_LIMIT, HF_E_CORRUPT. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_give_back(hf_session *session,
                                                  uint32_t unused_ms,
                                                  uint64_t budget_bytes,
                                                  uint64_t *ret_bytes, int *ret_waits,
                                                  hf_error *reterr);

/* Whether another program has made the object smaller than what lies in it: then a touch
 * of what is missing is a SIGBUS, and nothing that was there comes back. Locks. */
HF_EXPORT int hf_session_is_cut(hf_session *session);

/* Check every checksum of the current generation: the directory, and those payloads and
 * buffers that hf_session_scrub has read. HF_E_CORRUPT: the message names the first bad
 * entry. HF_E_LIMIT, HF_E_NOMEM, HF_E_GONE. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_verify(hf_session *session, hf_error *reterr);

/* Checksum up to `budget_bytes` of payloads and buffers that have no checksum yet, for
 * hf_session_verify to compare with (some 80 ms per GiB). For a process that is idle,
 * while every process that published has privatized or left. A call goes on where the
 * last one of this handle ended. `ret_bytes` (may be NULL): how many were read; 0 when
 * all is done. HF_E_GONE, HF_E_LIMIT, HF_E_CORRUPT, HF_E_NOMEM. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_scrub(hf_session *session,
                                              uint64_t budget_bytes,
                                              uint64_t *ret_bytes, hf_error *reterr);

/* Visit this user's sessions by name. `visit` returns 0, or HF_STOP to end the walk.
 * Objects that are not ours are skipped; `state` marks broken ones. HF_E_SYSTEM: shared
 * memory can't be listed. */
typedef int (*hf_session_visit)(void *context, const hf_session_info *info);
HF_EXPORT HF_CHECK hf_status hf_session_list(hf_session_visit visit, void *context,
                                             hf_error *reterr);

/* Destroy this user's sessions whose owner is dead and to which no live process is
 * attached but to read only, and not those that wait to be taken up. Also remove objects that are no
 * sessions (half-made, damaged, already destroyed) after some seconds, if no process
 * has them open. Those of another layout version stay. `visit` (may be NULL) is called
 * for each that was removed; `ret_count` (may be NULL) is their number. HF_E_SYSTEM. */
HF_EXPORT HF_CHECK hf_status hf_session_collect(hf_session_visit visit, void *context,
                                                uint32_t *ret_count, hf_error *reterr);

/* ---- sessions that outlive their owner ---- */

/* A process that takes a session up must know its claim: bytes that the owner chose,
 * such as a digest of a secret. Not all zero. */
typedef struct hf_claim {
    unsigned char bytes[32];
} hf_claim;

/* Allow the session to be taken up under this claim if its owner dies; NULL: no longer.
 * The process `reaper_pid` (0: none) frees it in the end if nobody takes it up: while
 * that process lives, hf_session_collect passes the session by. For the owner.
 * HF_E_GONE; HF_E_ACCESS: see HF_SESSION_OWNER_PUBLISHES. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_keep(hf_session *session, const hf_claim *claim,
                                             int64_t reaper_pid, hf_error *reterr);

/* Attach to the session that a dead owner left under this claim, and become its owner.
 * The new owner calls hf_session_keep anew. It has what was committed last. The caller
 * closes the result. HF_NOT_FOUND: there is none, or another process was faster;
 * HF_E_SYSTEM, and as hf_session_open. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_take_up(const hf_claim *claim,
                                                hf_session **ret_session,
                                                hf_error *reterr);

/* Whether the session of this name waits for being taken up: its owner is dead. */
HF_EXPORT int hf_session_is_orphan(const char *name);
/* Destroy it. HF_NOT_FOUND: it doesn't wait, or no longer; HF_BUSY: a living process is
 * attached, not only to read; HF_E_SYSTEM, and as hf_session_open. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_free_orphan(const char *name, hf_error *reterr);

/* Numbers that the owner leaves to the next owner. The store gives them no meaning; at
 * first they are 0. An index out of range is ignored, and reads as 0; so is a note of
 * another process where only the owner publishes. Any thread. */
#define HF_NOTE_COUNT 4
/* What a notebook's kernel notes. */
enum {
    HF_NOTE_CELL,        /* number of the last cell */
    HF_NOTE_UNCOMMITTED, /* cells since the current generation, which may have changed
                          * variables */
    HF_NOTE_RUNNING,     /* number of the cell that runs; 0: none */
};
HF_EXPORT void hf_session_note(hf_session *session, uint32_t index, uint64_t value);
HF_EXPORT uint64_t hf_session_noted(const hf_session *session, uint32_t index);

/* ---- snapshots: reading ---- */

/* Lease the current generation, without a lock. Generation 0 is the empty namespace.
 * The caller releases it. HF_E_LIMIT (leases of this process), HF_E_CORRUPT,
 * HF_E_NOMEM, HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_acquire(hf_session *session,
                                                 hf_snapshot **ret_snapshot,
                                                 hf_error *reterr);
HF_EXPORT void hf_snapshot_release(hf_snapshot *snapshot);
HF_EXPORT uint64_t hf_snapshot_generation(const hf_snapshot *snapshot);
HF_EXPORT uint64_t hf_snapshot_entry_count(const hf_snapshot *snapshot);

/* Allow any process that finds the arena full to take the snapshot's generation away,
 * the oldest first: for a history that is kept while there is room. Until
 * hf_snapshot_hold the snapshot may only be released, or asked for its generation. */
HF_EXPORT void hf_snapshot_yield(hf_snapshot *snapshot);
/* Keep it again. HF_NOT_FOUND (without a message): the generation is gone, and the
 * snapshot can only be released. HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_hold(hf_snapshot *snapshot, hf_error *reterr);
/* Bytes of retired extents that yielded snapshots of all processes keep. A process that
 * still reads an older generation may lease or map some of them as well. HF_E_GONE.
 * Locks. */
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
/* Lease the generation that another process named and holds for as long as this call
 * takes. The caller releases it. HF_E_CORRUPT: the bytes name none; HF_E_LIMIT,
 * HF_E_NOMEM, HF_E_GONE. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_import(hf_session *session,
                                                const hf_generation *generation,
                                                hf_snapshot **ret_snapshot,
                                                hf_error *reterr);

/* An entry as read: every pointer is borrowed and valid while the snapshot is held. The
 * caller may copy the struct, but not make or change one: `internal` is the store's.
 * Key, meta and payloads of up to 64 KiB were checksummed when written and are checked
 * when read; larger payloads and buffers by hf_session_scrub and hf_session_verify. */
typedef struct hf_entry {
    size_t struct_size; /* sizeof(hf_entry) */
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

/* Look up one key. HF_NOT_FOUND (without a message); HF_E_CORRUPT; HF_E_INVALID:
 * ret_entry->struct_size is wrong. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_find(hf_snapshot *snapshot, const char *key,
                                              size_t key_size, hf_entry *ret_entry,
                                              hf_error *reterr);

/* 1 if buffer `index` of `entry` has just these bytes; 0 if it hasn't, or if there is
 * no such buffer. Large ones are compared by several threads, which end with the call,
 * up to the first difference. */
HF_EXPORT int hf_snapshot_holds(hf_snapshot *snapshot, const hf_entry *entry,
                                uint32_t index, const void *data, size_t size);

/* Visit all entries, in no particular order. `visit` returns 0, or HF_STOP to end.
 * HF_E_CORRUPT. */
typedef int (*hf_entry_visit)(void *context, const hf_entry *entry);
HF_EXPORT HF_CHECK hf_status hf_snapshot_each(hf_snapshot *snapshot,
                                              hf_entry_visit visit, void *context,
                                              hf_error *reterr);

/* The same in the order in which the keys were first put. HF_E_CORRUPT, HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_snapshot_each_in_order(hf_snapshot *snapshot,
                                                       hf_entry_visit visit,
                                                       void *context, hf_error *reterr);

/* Visit what differs between two generations of one session: `before` is NULL for an
 * added key, `after` for a removed one. Costs what differs, not what is there. The
 * snapshot `before` may be NULL: everything is added. HF_E_CORRUPT. */
typedef int (*hf_diff_visit)(void *context, const hf_entry *before,
                             const hf_entry *after);
HF_EXPORT HF_CHECK hf_status hf_snapshot_diff(hf_snapshot *before, hf_snapshot *after,
                                              hf_diff_visit visit, void *context,
                                              hf_error *reterr);

/* ---- values whose encoding or decoding may end the process ---- */

/* Encoding and decoding may run code of others, which may exit, crash or hang. Before
 * each such value a process writes into shared memory which value it is (its *turn*),
 * so that another process can read it afterwards. An entry that ended a process can be
 * put in quarantine: it stays in the store, and its readers ask before they decode
 * it. */

enum { HF_TURN_ENCODE = 1, HF_TURN_DECODE = 2 };

#define HF_TURN_LABEL_SIZE 112 /* with the terminating NUL */

typedef struct hf_turn {
    size_t struct_size;             /* sizeof(hf_turn) */
    uint32_t kind;                  /* HF_TURN_*; 0: none */
    uint64_t key_hash;              /* of the key that is decoded */
    uint64_t generation;            /* of its entry */
    uint32_t mib;                   /* of its payload */
    int64_t since_ns;               /* monotonic clock */
    char label[HF_TURN_LABEL_SIZE]; /* for people: the variables' names */
} hf_turn;

/* Begin a turn: this process encodes something now (`entry` NULL), or decodes `entry`.
 * Turns nest: pass `ret_before` to hf_session_turn_end. With a wrong struct_size neither
 * begins nor ends one. For the thread that binds and commits. */
HF_EXPORT void hf_session_turn_begin(hf_session *session, const hf_entry *entry,
                                     const char *label, size_t label_size,
                                     hf_turn *ret_before);
HF_EXPORT void hf_session_turn_end(hf_session *session, const hf_turn *before);
/* Start the clock of this process's own turn anew. */
HF_EXPORT void hf_session_turn_renew(hf_session *session);
/* 1 and the turn of a process of this pid namespace, or the one in which it died; 0 if
 * it has none, or struct_size is wrong. `pid` 0: this process. Any thread. */
HF_EXPORT int hf_session_turn_of(hf_session *session, int64_t pid, hf_turn *ret_turn);
/* Clear the turn of a dead process. */
HF_EXPORT void hf_session_turn_forget(hf_session *session, int64_t pid);

/* How a turn ended: one of these, and the wait status if the process died. */
enum { HF_CAUSE_DIED = 1u << 16, HF_CAUSE_HUNG = 1u << 17 };

/* Put the entry that `turn` decodes in quarantine. HF_NOT_FOUND: it decodes none;
 * HF_E_LIMIT: too many are in quarantine; HF_E_INVALID: struct_size is wrong. Any
 * thread. */
HF_EXPORT HF_CHECK hf_status hf_session_quarantine(hf_session *session,
                                                   const hf_turn *turn, uint32_t cause,
                                                   hf_error *reterr);
/* The cause; 0: `entry` may be decoded. Any thread. */
HF_EXPORT uint32_t hf_session_quarantined(hf_session *session, const hf_entry *entry);
/* Take the entry out of quarantine. Any thread. */
HF_EXPORT void hf_session_readmit(hf_session *session, const hf_entry *entry);

/* ---- regions: memory of the arena in this process ---- */

/* Reserve at least `size` bytes of the arena for this process: really allocated, mapped
 * shared and writable, aligned to a page, contents unspecified (recycled) unless
 * `zeroed`. `ret_zeroed` (may be NULL): whether the pages are known to be zero. The
 * result has one reference. HF_E_NOSPACE, HF_E_NOMEM (addresses, too), HF_E_SYSTEM,
 * HF_E_LIMIT, HF_E_GONE. Locks, unless the process's cache has such a block. */
HF_EXPORT HF_CHECK hf_status hf_region_reserve(hf_session *session, size_t size,
                                               int zeroed, hf_region **ret_region,
                                               int *ret_zeroed, hf_error *reterr);

/* Map buffer `index` of `entry` MAP_PRIVATE, its extents side by side, readable and
 * writable. The region pins its extents by itself: the snapshot may be released.
 * Mapping the same buffer twice gives two regions. The result has one reference.
 * HF_E_INVALID: no such buffer; HF_E_NOMEM, HF_E_SYSTEM. */
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
/* 1 if all of its memory is committed data, mapped privately: only then does
 * hf_region_changed_pages count what the store doesn't have. */
HF_EXPORT int hf_region_is_committed(const hf_region *region);
/* Pages that were written since the region was mapped or last committed. For an own
 * region: all of its pages. HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_region_changed_pages(hf_region *region,
                                                     uint64_t *ret_pages,
                                                     hf_error *reterr);
/* Fill the page tables of a committed region without copying (MADV_POPULATE_READ), or
 * with private copies of all pages in bulk if `write` is set. Best effort. */
HF_EXPORT void hf_region_populate(hf_region *region, int write);

/* Replace a private mapping of committed data by a copy in an extent of this process's
 * own, mapped shared and writable at the same addresses: in-place writes then cost no
 * copy faults, and the next commit publishes it by reference. Earlier writes are kept.
 * Costs a bulk copy. An own region that isn't published stays as it is. The caller
 * guarantees that no other thread can touch the region, and calls it from the thread
 * that commits. HF_BUSY while a commit of this process is in the making or waits to be
 * published. On failure the region is as it was. HF_E_NOSPACE, HF_E_SYSTEM, HF_E_LIMIT,
 * HF_E_NOMEM, HF_E_GONE. Locks. */
HF_EXPORT HF_CHECK hf_status hf_region_unshare(hf_region *region, hf_error *reterr);

/* Undo hf_region_unshare if nothing was written since: the region is a mapping of what
 * was committed again, and no change for a commit. HF_BUSY (without a message):
 * something was written, which is found quickly as a rule, or there is nothing to undo.
 * HF_E_SYSTEM. Locks. */
HF_EXPORT HF_CHECK hf_status hf_region_reshare(hf_region *region, hf_error *reterr);

/* With `on`, a commit that looks for changed pages from here on compares the pages of
 * committed regions with what is committed, instead of trusting what the system
 * reports. It reads all of each region. Returns how many changed pages the system
 * didn't report since the last call: any number but 0 is a defect. For the thread that
 * commits. */
HF_EXPORT uint64_t hf_session_verify_pages(hf_session *session, int on);

/* Turn what this process published private, at the same addresses: own regions that a
 * commit took become committed ones; changed pages that a commit wrote are mapped from
 * their new extents. Call it before user code runs again in a process that lives on.
 * `threads_stopped`: no other thread of this process can write to any region now; if it
 * is 0, pages are not replaced by copies (a later commit writes them again), and only
 * same-page remappings are done, which lose no write. HF_E_SYSTEM: a mapping failed;
 * the other regions are privatized, no byte differs, and the next call tries again. */
HF_EXPORT HF_CHECK hf_status hf_session_privatize(hf_session *session,
                                                  int threads_stopped,
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
 * HF_E_LIMIT, HF_E_SYSTEM, HF_E_GONE. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_fork_begin(hf_session *session,
                                                   hf_error *reterr);
/* `pid`: what fork() returned, negative if it failed. */
HF_EXPORT void hf_session_fork_parent(hf_session *session, int64_t pid);
/* In the child, at once. HF_E_SYSTEM: its memory is not its own; HF_E_GONE: the parent
 * died, and what it left was cleared first. Then the child can't go on. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_fork_child(hf_session *session,
                                                   hf_error *reterr);
/* In the child, once its parent is dead. HF_OK: the child is its successor, and has
 * what the parent had reserved, and owns the session if the parent did. HF_E_GONE:
 * another process has its slot. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_fork_succeed(hf_session *session,
                                                     hf_error *reterr);

/* ---- commits: writing ---- */

/* One buffer of a value; in an array all have one struct_size. With `region`, the whole
 * region is the buffer: an own one is published by reference, a committed one by
 * reference for its unchanged pages and by copy for the changed ones. Without, `size`
 * bytes at `data` are copied. Neither is kept after hf_commit_put returns, but a
 * region's memory must not be written until the commit is published or aborted. */
typedef struct hf_buffer {
    size_t struct_size; /* sizeof(hf_buffer) */
    const void *data;
    size_t size;
    hf_region *region;
} hf_buffer;

/* 128 bits by which changed data is recognized. For this process and its forks only:
 * another machine has another digest of the same data. Not collision-resistant. */
typedef struct hf_digest {
    uint64_t words[2];
} hf_digest;

/* Add data to a digest, which is {{0, 0}} at first. Large data is read by several
 * threads, which end with the call. Any thread. */
HF_EXPORT void hf_digest_add(hf_digest *digest, const void *data, size_t size);

typedef struct hf_value {
    size_t struct_size; /* sizeof(hf_value) */
    const char *key;
    size_t key_size; /* 1 .. HF_KEY_SIZE_MAX */
    uint32_t codec;
    uint32_t flags;
    const void *meta;
    size_t meta_size; /* at most HF_META_SIZE_MAX */
    const void *payload;
    size_t payload_size;
    const hf_buffer *buffers;
    uint32_t buffer_count;
    hf_digest *ret_digests; /* of each buffer that isn't empty and has no region, as it
                             * was when it was copied: which costs less than to read
                             * it once more. As many as buffers; or NULL */
} hf_value;

typedef struct hf_commit_stats {
    size_t struct_size;       /* sizeof(hf_commit_stats) */
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

/* Start from the current generation. Drops an earlier prepared commit of this process
 * that was not published. One commit at a time in a process: HF_BUSY otherwise.
 * HF_E_NOMEM, and as hf_snapshot_acquire. */
HF_EXPORT HF_CHECK hf_status hf_commit_begin(hf_session *session,
                                             hf_commit **ret_commit, hf_error *reterr);
/* Add or replace one key. HF_E_INVALID: the value is out of range, a struct_size is
 * wrong, or the commit has failed before. HF_E_NOSPACE, HF_E_NOMEM, HF_E_LIMIT,
 * HF_E_SYSTEM, HF_E_CORRUPT (of the base): the commit has failed and can only be
 * aborted. Locks, for what needs an extent of its own. */
HF_EXPORT HF_CHECK hf_status hf_commit_put(hf_commit *commit, const hf_value *value,
                                           hf_error *reterr);
/* Remove a key. HF_NOT_FOUND: it isn't there. HF_E_CORRUPT, HF_E_NOMEM: the commit has
 * failed and can only be aborted. */
HF_EXPORT HF_CHECK hf_status hf_commit_remove(hf_commit *commit, const char *key,
                                              size_t key_size, hf_error *reterr);
/* Make the commit a return to `snapshot`: all keys and their content as they were then.
 * The caller keeps the snapshot until the commit is published. Its cost grows with the
 * differences; it copies nothing. The commit must be empty, and takes nothing else.
 * HF_E_INVALID: it isn't empty, or has failed; HF_E_CORRUPT, HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_commit_restore(hf_commit *commit, hf_snapshot *snapshot,
                                               hf_error *reterr);
/* The figures of the commit so far. HF_E_INVALID: ret_stats->struct_size is wrong. */
HF_EXPORT HF_CHECK hf_status hf_commit_get_stats(const hf_commit *commit,
                                                 hf_commit_stats *ret_stats,
                                                 hf_error *reterr);

/* Write everything, publish nothing. The changes become visible when any process
 * publishes the token. They are dropped if this process detaches, dies or begins
 * another commit before that. The commit is consumed, on failure too: it is aborted
 * then. HF_E_INVALID: the commit had failed before. Otherwise the statuses of
 * hf_commit_put. Locks. */
HF_EXPORT HF_CHECK hf_status hf_commit_prepare_consume(hf_commit *commit,
                                                       hf_prepared *ret_prepared,
                                                       hf_error *reterr);
/* Publish a prepared commit by one atomic root. `ret_generation` may be NULL.
 * HF_CONFLICT: another commit was published since this one began; HF_E_CORRUPT: the
 * token names no prepared commit; HF_E_ACCESS: see HF_SESSION_OWNER_PUBLISHES;
 * HF_E_GONE. Locks. */
HF_EXPORT HF_CHECK hf_status hf_session_publish(hf_session *session,
                                                const hf_prepared *prepared,
                                                uint64_t *ret_generation,
                                                hf_error *reterr);
/* Prepare and publish in one. The commit is consumed, on failure too: nothing of it is
 * published then. The statuses of both. Locks. */
HF_EXPORT HF_CHECK hf_status hf_commit_publish_consume(hf_commit *commit,
                                                       uint64_t *ret_generation,
                                                       hf_error *reterr);
/* Drop everything. NULL is fine. */
HF_EXPORT void hf_commit_abort(hf_commit *commit);

#ifdef __cplusplus
}
#endif
#endif
