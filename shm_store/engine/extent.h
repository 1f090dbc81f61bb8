/* extent.h - the table of extents: the state of each piece of the arena, and its owner.
 *
 *   UNUSED ─make─► FREE ─reserve─► RESERVED ─prepare─► PREPARED ─publish─► COMMITTED
 *     ▲              ▲                 │                   │                   │
 *     └──────join────┴────give up──────┴───────────────────┘               publish
 *                    └────────────────reclaim─────────────────RETIRED◄─────────┘
 *
 * All of it wants the writer lock held (slot.h: hfi_lock), but for the inline functions
 * at the top, which any thread may call: states are atomic, and the others may be out
 * of date as soon as they return.
 *
 * Invariant: the records that are not UNUSED tile the arena without gaps, in a list by
 * address. Of a record that is neither UNUSED nor FREE, `offset`, `size` and `state`
 * are true at every moment; everything else follows from those (recovery.c).
 */
#ifndef HFI_EXTENT_H
#define HFI_EXTENT_H

#include "engine/handle.h"

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

/* 1 if the extent is this process's and in `state`. */
static inline int
hfi_extent_is_mine(const hf_session *session, uint32_t index,
                   enum hfi_extent_state state) {
    return index < hfi_extent_count(session) &&
           hfi_extent_word(&session->extents[index]) ==
               hfi_state_word(state, session->slot);
}

/* ---- idle extents (unused.c) ---- */

enum {
    HFI_IDLE_NOT = 0,
    HFI_IDLE_EMPTIED = 1, /* its memory is being given back, or has been */
    /* else the time, in ms of hfi_idle_now, when its process put it into its cache */
};
/* The monotonic clock, the same in all processes; tests set their own. */
extern uint32_t (*hfi_idle_now)(void);
/* The process that reserved the extent has no use for it now. No lock. */
void hfi_extent_let_idle(hfi_extent *extent);
/* The process needs it again: 0 if the memory is gone. No lock. */
int hfi_extent_claim(hfi_extent *extent);
/* Bytes of it that were given back. No lock. */
uint64_t hfi_extent_emptied(const hfi_extent *extent);

/* ---- a state and its end ---- */

/* Move an extent to another state, keeping counters and lists. */
void hfi_extent_set(hf_session *session, uint32_t index, enum hfi_extent_state state,
                    uint32_t slot);
void hfi_extent_free(hf_session *session, uint32_t index);
/* This process, or a dead one, doesn't need an extent any more that it reserved or
 * prepared. If the slot of a fork pins it (inherit.h), it belongs to that slot now;
 * else it is free. */
void hfi_extent_give_up(hf_session *session, uint32_t index);
/* 1 while some slot maps it. No lock. */
int hfi_extent_is_pinned(const hfi_extent *extent);
/* Free the retired extents that nobody leases or pins. */
void hfi_extent_reclaim(hf_session *session);

/* ---- the table, for reservation.c, prefill.c and recovery.c ---- */

/* One more chunk of records. HF_E_LIMIT, HF_E_NOSPACE, HF_E_SYSTEM. */
hf_status hfi_extent_add_records(hf_session *session, hf_error *reterr) HF_CHECK;
/* The record of a number, or NULL if there is none (of HFI_NONE too). */
hfi_extent *hfi_extent_at(hf_session *session, uint32_t index);
/* The list of free extents for those of `size` bytes. */
unsigned hfi_extent_bin(const hf_session *session, uint64_t size);
/* Count an extent into the sums of `state` (sign 1) or out of them (-1). */
void hfi_extent_count_bytes(hf_session *session, const hfi_extent *extent,
                            enum hfi_extent_state state, int sign);
/* Take the extent out of the list and sums of its state, and put it into those of
 * another one. Size and flags may change between the two calls. */
void hfi_extent_leave(hf_session *session, uint32_t index);
void hfi_extent_enter(hf_session *session, uint32_t index, enum hfi_extent_state state,
                      uint32_t slot);
/* A FREE extent made from an unused record, put behind `before` by address. Statuses as
 * of hfi_extent_add_records. */
hf_status hfi_extent_make(hf_session *session, uint64_t offset, uint64_t size,
                          uint32_t flags, uint32_t before, uint32_t *ret_index,
                          hf_error *reterr) HF_CHECK;
/* Make the record unused and close the gap in the list by address. */
void hfi_extent_forget(hf_session *session, uint32_t index);
/* Join a free extent with the free one after it, if both have memory or neither; 0 if
 * they can't be joined. */
int hfi_extent_join(hf_session *session, uint32_t index);

#endif
