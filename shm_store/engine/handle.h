/* handle.h - a session as this process holds it: the object's mappings, descriptors and
 * name. The lowest layer of the engine; every other one is given the handle.
 *
 * Ownership: session.c makes and frees the handle, and with it the state of each layer.
 * A layer's state is a struct of its own, which only the layer's header defines. The
 * handle has a pointer to it. So a file's includes show what it may access.
 *
 * Locks, in the order in which they may be taken:
 *   session->mutex         pins, blocks, regions, snapshots; the page map's descriptor
 *   session->writer_mutex  together with the writer lock in shared memory (slot.h:
 *                          hfi_lock): the extent table, the roots, the counters
 * Readers of a snapshot take neither. The handle's own members are written while it is
 * made, and by inherit.c in a forked child; `fd` and `file_size` are atomic.
 *
 * Invariant: no address of the window is used before hfi_window_at has checked it.
 */
#ifndef HFI_HANDLE_H
#define HFI_HANDLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/store.h"
#include "layout/layout.h"

/* The file that a descriptor refers to. */
typedef struct hfi_identity {
    uint64_t device, inode;
} hfi_identity;

struct hf_session {
    _Atomic int fd;      /* ask hfi_session_fd */
    hfi_identity object; /* the object's file */
    uint32_t slot;       /* this process's, or HFI_NONE (attach.h) */
    uint64_t lock_word;  /* what this process writes into the writer lock (slot.h) */
    hfi_superblock *super;
    hfi_slot *slots;
    hfi_extent *extents;
    const unsigned char *window; /* the whole object, read-only */
    size_t window_size;
    _Atomic uint64_t file_size; /* the size as it was last looked up: hfi_window_at */
    size_t page;
    int is_copy;   /* super, slots and extents are copies: hfi_session_peek */
    int readonly;  /* hf_session_open_readonly */
    int inherited; /* the handle of a process that forked this one (inherit.h) */
    char name[HF_SESSION_NAME_SIZE]; /* "": a memfd has none */

    pthread_mutex_t writer_mutex, mutex;
    int pagemap; /* ask hfi_session_pagemap */
    hfi_identity pagemap_file;

    /* Hooks by which lower layers call higher ones; session.c sets them. */
    hf_status (*recover)(hf_session *session, hf_error *reterr); /* lock held */
    void (*make_room)(hf_session *session); /* free memory that is kept only to save
                                             * time */

    /* Each layer's own. */
    struct hfi_pins *pins;
    struct hfi_aside *aside;
    struct hfi_blocks *blocks;
    struct hfi_regions *regions;
    struct hfi_prefill *prefill;
    struct hfi_snapshots *snapshots;
    struct hfi_scrub *scrub;
    struct hfi_prepared_state *prepared;
    struct hfi_committer *committer;
    struct hfi_heir *heir;
};

static inline uint64_t
hfi_round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* HF_E_GONE if the session was destroyed, or is a parent's. Any thread, no lock. */
hf_status hfi_session_check(const hf_session *session, hf_error *reterr) HF_CHECK;
/* HF_E_ACCESS if it was opened by hf_session_open_readonly. Any thread, no lock. */
hf_status hfi_session_check_writable(const hf_session *session,
                                     hf_error *reterr) HF_CHECK;

/* Set and return HF_E_NOSPACE if `err` says that memory is short, else HF_E_SYSTEM. */
hf_status hfi_space_error(hf_error *reterr, int err, const char *what);

/* ---- the window: any thread, no lock ---- */

/* `size` bytes of the object, or NULL if the range lies outside of the arena. Valid as
 * long as the caller keeps the extent from being freed (a lease, a pin). */
const void *hfi_window_at(hf_session *session, uint64_t offset, uint64_t size);
/* Whether the arena holds `data` at `offset`, a place that was checked. Large data is
 * read by several threads, which end with the call. */
int hfi_window_equals(hf_session *session, uint64_t offset, const void *data,
                      size_t size);

/* ---- descriptors (descriptor.c) ---- */

/* 0 or an errno. */
int hfi_identity_of(int fd, hfi_identity *ret_identity);
/* The object's descriptor, checked to be the object's. -1 if it was closed and can't be
 * opened again. Call this for each use. Any thread, no lock. */
int hfi_session_fd(hf_session *session);
/* The object's bytes, with one system call if its descriptor is open; 0 if it can't be
 * looked at. Any thread, no lock. */
uint64_t hfi_session_size(hf_session *session);
/* The same of this process's page map, which is opened at the first use. Takes the
 * mutex. */
int hfi_session_pagemap(hf_session *session);
/* Close them, if they still are ours. */
void hfi_session_fd_close(hf_session *session);
void hfi_session_pagemap_close(hf_session *session);

#endif
