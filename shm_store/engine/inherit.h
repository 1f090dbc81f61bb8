/* inherit.h - sessions that a fork must mark in the child, and the fork that is an
 * heir.
 *
 * A mutex of inherit.c's own guards the list of sessions; a fork takes it first, then
 * each session's mutex and writer_mutex.
 *
 * Invariant: in a forked child every session is `inherited`, or this process is its
 * heir and has a slot, pins and leases of its own.
 */
#ifndef HFI_INHERIT_H
#define HFI_INHERIT_H

#include "engine/handle.h"

typedef struct hfi_heir {
    hf_session *next; /* in the list of all sessions */
    uint32_t slot;    /* the slot of the fork that is being made, or HFI_NONE */
    pthread_t thread; /* that makes it */
    uint64_t parent;  /* the slot's owner until the fork is that */
    int failed;       /* an errno: its memory couldn't be made private */
} hfi_heir;

void hfi_inherit_watch(hf_session *session);
void hfi_inherit_forget(hf_session *session);

#endif
