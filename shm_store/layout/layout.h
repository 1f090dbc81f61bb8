/* layout.h - every byte of a session's shared-memory object.
 *
 *   0            superblock          one page; magic, lock, roots, counters
 *   4 KiB        process slots       256 of them, each with its leases
 *   84 KiB       turns               one a slot: the value that the process is at
 *   124 KiB      quarantine          values that ended their readers
 *   128 KiB      extent table        grown in chunks; the rest is a hole of the file
 *   128 MiB      arena               extents: payloads, buffers, nodes and entries
 *
 * Offsets count from the start of the object. Fields are fixed-width and in the
 * machine's byte order (an object never leaves its machine). Words that several
 * processes touch without the writer lock are _Atomic; all others are under it.
 */
#ifndef HFI_LAYOUT_H
#define HFI_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HFI_MAGIC          0x3174736166646c68ull /* "hldfast1" */
#define HFI_LAYOUT_VERSION 8u

#define HFI_SLOT_COUNT   256u
#define HFI_LEASE_COUNT  32u
#define HFI_SLOTS_OFFSET 4096u
#define HFI_TABLE_OFFSET (128u << 10)
#define HFI_ARENA_OFFSET (128ull << 20)
#define HFI_EXTENT_MAX   (1u << 20)
#define HFI_EXTENT_CHUNK 1024u /* records added at a time */
#define HFI_BIN_COUNT    64u
#define HFI_NONE         UINT32_MAX /* no record; no slot */
#define HFI_CLAIM_SIZE   32u
#define HFI_NOTE_COUNT   4u

/* The states of an extent. An unused record describes no part of the arena. */
enum hfi_extent_state {
    HFI_UNUSED = 0,
    HFI_FREE = 1,
    HFI_RESERVED = 2,  /* one process writes it; nobody else knows it */
    HFI_PREPARED = 3,  /* part of a commit that waits to be published */
    HFI_COMMITTED = 4, /* reachable from the current root */
    HFI_RETIRED = 5,   /* no longer; somebody may still lease or pin it */
    HFI_STATE_COUNT = 6,
};

enum {
    HFI_EXTENT_HOLE = 1u << 0,   /* pages may be missing: allocate before use */
    HFI_EXTENT_ZERO = 1u << 1,   /* pages are known to be zero */
    HFI_EXTENT_REGION = 1u << 2, /* born as a region: a dropped commit gives it back */
    HFI_EXTENT_LOG = 1u << 3,    /* packed small things: worth compacting */
    HFI_EXTENT_SUMMED = 1u << 4, /* committed, and `crc` is its checksum */
    HFI_EXTENT_SPARE = 1u << 5,  /* reserved for nobody's data: prefill.c */
    HFI_EXTENT_FLAGS = (1u << 6) - 1,
};

/* Under the writer lock, but for `pins` and the reading of `state`. While the state
 * is neither UNUSED nor FREE, `offset` never changes and `size` only shrinks: recovery
 * builds everything else anew from that. */
typedef struct hfi_extent {
    uint64_t offset;
    uint64_t size;       /* bytes, whole pages */
    uint64_t birth;      /* generation that committed it; 0: none */
    uint64_t death;      /* first generation without it; 0: alive */
    uint64_t live_bytes; /* of the objects of the current tree in it */
    _Atomic uint64_t pins[HFI_SLOT_COUNT / 64]; /* slots that map it */
    _Atomic uint32_t state;                     /* state | owner's slot << 8 */
    uint32_t live;                              /* objects of the current tree in it */
    uint32_t flags;                             /* HFI_EXTENT_* */
    uint32_t before, after;                     /* neighbours by address */
    uint32_t previous, next; /* in the list of its state (bin, retired, unused) */
    uint32_t crc;            /* CRC-32C of all its bytes, where it is SUMMED */
    _Atomic uint32_t idle;   /* of a block in its process's cache: unused.c */
    uint32_t emptied_mib;    /* of such a block: given back so far */
} hfi_extent;
_Static_assert(sizeof(hfi_extent) == 112, "layout");

/* In a lease: whoever finds the arena full may take it away, the oldest first. */
#define HFI_LEASE_YIELDED (1ull << 63)

/* One attached process. `owner` is claimed by a compare-and-swap from 0. */
typedef struct hfi_slot {
    _Atomic uint64_t owner;      /* pid | low half of the pid namespace << 32 */
    _Atomic uint64_t start_time; /* field 22 of /proc/PID/stat; 0: not written yet */
    uint64_t boot;               /* hash of the boot id */
    int64_t attached_unix_ns;
    _Atomic uint64_t readonly; /* 1: it doesn't keep a session whose owner is dead */
    uint64_t reserved[3];
    /* generation + 1, with HFI_LEASE_YIELDED or without; 0: none */
    _Atomic uint64_t leases[HFI_LEASE_COUNT];
} hfi_slot;
_Static_assert(sizeof(hfi_slot) == 320, "layout");
_Static_assert(HFI_SLOTS_OFFSET + HFI_SLOT_COUNT * sizeof(hfi_slot) <= HFI_TABLE_OFFSET,
               "the slots fit before the extent table");
_Static_assert(HFI_TABLE_OFFSET + HFI_EXTENT_MAX * sizeof(hfi_extent) <=
                   HFI_ARENA_OFFSET,
               "the extent table fits before the arena");

/* The value that the process of the same slot is encoding or decoding now, by code that
 * isn't ours and may end the process. Written by that process alone; read by others
 * while it hangs, or when it is dead. */
#define HFI_TURNS_OFFSET (HFI_SLOTS_OFFSET + HFI_SLOT_COUNT * sizeof(hfi_slot))
#define HFI_TURN_LABEL   112u
typedef struct hfi_turn {
    _Atomic uint64_t
        owner; /* as in the slot; a later process leaves it until its turn */
    _Atomic int64_t since_ns; /* monotonic clock; 0: none. Written last */
    _Atomic uint32_t kind;    /* HF_TURN_* */
    uint32_t mib;             /* of the payload that is decoded */
    uint64_t key_hash;
    uint64_t generation; /* in which the entry was committed; 0: it is being encoded */
    char label[HFI_TURN_LABEL]; /* for people, with a NUL */
} hfi_turn;
_Static_assert(sizeof(hfi_turn) == 152, "layout");

/* An entry that isn't to be decoded any more. Put anew it is of another generation, and
 * another entry. A record is free while its hash is 0, and valid once it has a
 * generation. */
#define HFI_QUARANTINE_OFFSET (124u << 10)
#define HFI_QUARANTINE_MAX    127u
typedef struct hfi_quarantined {
    _Atomic uint64_t key_hash;
    _Atomic uint64_t generation;
    uint64_t cause; /* HF_CAUSE_* and a wait status */
    uint64_t reserved;
} hfi_quarantined;
typedef struct hfi_quarantine_area {
    _Atomic uint32_t count; /* records from the first that were ever used */
    uint32_t reserved[7];
    hfi_quarantined records[HFI_QUARANTINE_MAX];
} hfi_quarantine_area;
_Static_assert(sizeof(hfi_quarantine_area) == 4096, "layout");
_Static_assert(HFI_TURNS_OFFSET + HFI_SLOT_COUNT * sizeof(hfi_turn) <=
                   HFI_QUARANTINE_OFFSET,
               "the turns fit before the quarantine");
_Static_assert(HFI_QUARANTINE_OFFSET + sizeof(hfi_quarantine_area) <= HFI_TABLE_OFFSET,
               "the quarantine fits before the extent table");

enum hfi_kind { HFI_KIND_NONE = 0, HFI_KIND_NODE = 1, HFI_KIND_ENTRY = 2 };

/* A checked reference to a node or an entry. */
typedef struct hfi_ref {
    uint64_t offset;
    uint32_t length;
    uint32_t crc; /* of the bytes there */
    uint32_t extent;
    uint32_t kind;
} hfi_ref;
_Static_assert(sizeof(hfi_ref) == 24, "layout");

/* A node of the namespace: 32-way by five bits of the key's hash at `shift`, children
 * packed in the order of the bitmap. From shift 65 on (equal hashes), a plain list. */
typedef struct hfi_node {
    uint32_t magic;
    uint32_t shift;
    uint32_t bitmap;
    uint32_t count;
    hfi_ref children[];
} hfi_node;
#define HFI_NODE_MAGIC 0x65646f6eu
#define HFI_LIST_SHIFT 65u

/* Whole pages of one extent, mapped as a part of a buffer. */
typedef struct hfi_piece {
    uint64_t offset;
    uint64_t length;
    uint32_t extent;
    uint32_t reserved;
} hfi_piece;
_Static_assert(sizeof(hfi_piece) == 24, "layout");

typedef struct hfi_buffer_head {
    uint64_t size; /* bytes; the pieces hold it rounded up to pages */
    uint32_t first_piece;
    uint32_t piece_count;
} hfi_buffer_head;
_Static_assert(sizeof(hfi_buffer_head) == 16, "layout");

/* An entry: this head, buffer heads, pieces, key and NUL, meta, and a payload of up to
 * HFI_INLINE_MAX bytes, aligned to 64 if it is as large, else to 8. A larger payload is
 * one more piece behind the others, whose length is its own. Most entries are small, so
 * nothing is here that follows from the rest. */
typedef struct hfi_entry_record {
    uint32_t magic;
    uint16_t key_size;
    uint16_t codec;
    uint64_t sequence;
    uint64_t generation;
    uint32_t flags;
    uint32_t meta_size;
    uint32_t buffer_count;
    uint32_t piece_count;
    uint64_t payload_size;
} hfi_entry_record;
_Static_assert(sizeof(hfi_entry_record) == 48, "layout");
#define HFI_RECORD_MAGIC 0x79727465u
#define HFI_INLINE_MAX   (64u << 10)

/* The change that publishing a commit makes to one extent. */
typedef struct hfi_delta {
    uint32_t extent;
    int32_t live;
    int64_t live_bytes;
} hfi_delta;
_Static_assert(sizeof(hfi_delta) == 16, "layout");

/* At the start of a commit's own extent: all that its publisher needs. */
typedef struct hfi_manifest {
    uint32_t magic;
    uint32_t slot;
    uint64_t base_generation;
    uint64_t entry_count;
    uint64_t next_sequence;
    uint64_t piece_total; /* pieces of all entries: mappings that a reader may need */
    hfi_ref root;
    uint32_t extent; /* the one that holds this */
    uint32_t delta_count;
    uint32_t deltas_crc;
    uint32_t crc; /* of the fields before it */
    /* hfi_delta deltas[delta_count] */
} hfi_manifest;
_Static_assert(sizeof(hfi_manifest) == 80, "layout");
#define HFI_MANIFEST_MAGIC 0x74696d63u

typedef struct hfi_root {
    uint64_t generation;
    uint64_t entry_count;
    uint64_t next_sequence;
    uint64_t piece_total;
    hfi_ref tree;
    uint32_t crc; /* of the fields before it */
    uint32_t reserved;
} hfi_root;
_Static_assert(sizeof(hfi_root) == 64, "layout");

enum { HFI_OWNER_PUBLISHES = 1u << 0 /* and nobody else */ };

typedef struct hfi_superblock {
    _Atomic uint64_t magic; /* written last at creation, cleared on destroy */
    uint32_t version;
    uint32_t page_size;
    uint64_t capacity; /* most bytes of arena */
    int64_t created_unix_ns;
    uint64_t owner; /* identity of the owner, as in hfi_slot: owner.c */
    uint64_t owner_start_time;
    uint64_t owner_boot;
    _Atomic uint32_t gone;
    _Atomic uint32_t dirty;      /* a holder of the lock died: recovery is due */
    _Atomic uint64_t lock;       /* 0, or the holder: hfi_lock_word */
    _Atomic uint64_t generation; /* published last: roots[generation % 2] is current */
    hfi_root roots[2];
    _Atomic uint64_t arena_end;      /* offset of the end of the extents */
    _Atomic uint32_t extent_count;   /* records that exist, allocated in the file */
    uint32_t bins[HFI_BIN_COUNT];    /* free extents by size: heads of lists */
    uint32_t unused;                 /* records to use: head of a list */
    uint32_t retired;                /* head of a list */
    uint32_t last;                   /* the extent at the end of the arena */
    uint64_t bytes[HFI_STATE_COUNT]; /* by state, for people and policies */
    uint64_t hole_bytes;             /* of the free ones: not allocated */
    uint64_t log_bytes, log_live;    /* committed log extents: size, and live part */
    char label[256];
    char name[64];
    uint64_t huge_page; /* bytes; 0: the object gets none */
    uint64_t peak;      /* bytes of extents that were in use at once, since a trim */
    /* For a process that takes the session up when its owner is dead: orphan.c. */
    unsigned char claim[HFI_CLAIM_SIZE]; /* 0: nobody may */
    uint64_t reaper;                     /* as in hfi_slot; 0: none */
    uint64_t reaper_start_time;
    uint64_t reaper_boot;
    _Atomic uint64_t notes[HFI_NOTE_COUNT]; /* the owner's own */
    uint64_t flags;                         /* HFI_OWNER_PUBLISHES */
    uint64_t spare_bytes;                   /* of the reserved ones: SPARE */
    uint32_t taken_ms;                      /* when pages were taken last */
    _Atomic uint32_t changes;               /* what a wait sleeps on: wait.c */
} hfi_superblock;
_Static_assert(sizeof(hfi_superblock) <= HFI_SLOTS_OFFSET, "one page");
/* By these a library of any version tells a session of another one from what is to be
 * removed. */
_Static_assert(offsetof(hfi_superblock, version) == 8 &&
                   offsetof(hfi_superblock, gone) == 56,
               "in their places for ever");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "atomics work between processes only where they are lock-free");

#endif
