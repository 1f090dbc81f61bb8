/* inherit.c - what a child of fork() may do with the sessions of its parent: nothing.
 *
 * A forked child has copies of the handles, and the same shared mappings. Left alone it
 * would be a second writer with its parent's slot: it would recycle the parent's
 * blocks, clear the parent's pins when it drops a region, and what it writes in place
 * to an array that was born in the arena would change the parent's array. User code
 * forks without a thought (multiprocessing, DataLoader workers), and expects memory
 * that is its own.
 *
 * So the child's handles are marked: they take no lock, lease, block or pin, and
 * release only what is the child's, its mappings. Its parent's own regions are mapped
 * again, privately, over the same pages: what it writes stays its own. What the parent
 * writes to them later may still be seen in pages that the child hasn't written; to
 * hide that too, the parent would have to turn its memory private at each fork, and pay
 * a fault a page for it.
 *
 * The handlers take the mutexes around the fork, so that the child finds treap and
 * counts whole. They are registered once, by the first session, and look at a list of
 * all. A program that is started by vfork or posix_spawn passes by: it has no use of
 * them.
 */
#include "engine/internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static hf_session *sessions; /* under `mutex`; linked by next_open */

static void
before(void) {
    pthread_mutex_lock(&mutex);
    for (hf_session *session = sessions; session; session = session->next_open)
        pthread_mutex_lock(&session->mutex);
}

static void
after_in_parent(void) {
    for (hf_session *session = sessions; session; session = session->next_open)
        pthread_mutex_unlock(&session->mutex);
    pthread_mutex_unlock(&mutex);
}

/* Where a mapping fails, it stays shared: there is nobody to tell. */
static void
make_private(hf_session *session) {
    hf_region *region = hfi_regions_above(session, NULL);
    for (; region; region = hfi_regions_above(session, region->address)) {
        void *there;
        if (region->is_own)
            (void)hfi_object_map(session->fd, region->own_piece.offset, region->mapped,
                                 HFI_MAP_PRIVATE, region->address, &there);
    }
}

static void
after_in_child(void) {
    for (hf_session *session = sessions; session; session = session->next_open) {
        session->inherited = 1;
        make_private(session);
    }
    after_in_parent();
}

static void
watch(void) {
    (void)pthread_atfork(before, after_in_parent, after_in_child);
}

void
hfi_inherit_watch(hf_session *session) {
    pthread_once(&once, watch);
    pthread_mutex_lock(&mutex);
    session->next_open = sessions;
    sessions = session;
    pthread_mutex_unlock(&mutex);
}

void
hfi_inherit_forget(hf_session *session) {
    pthread_mutex_lock(&mutex);
    hf_session **link = &sessions;
    while (*link && *link != session)
        link = &(*link)->next_open;
    if (*link)
        *link = session->next_open;
    pthread_mutex_unlock(&mutex);
}
