/* arena_allocator.c - malloc and free over the regions of a session.
 *
 * Each block is an own region of the store: a save publishes it by reference, and no
 * byte of it is ever copied. Small blocks, and blocks that have no room in the arena,
 * are left to the caller's other allocator: running out of /dev/shm must not fail a
 * computation that would have fitted into memory.
 *
 * A block's owner follows from its address and not from a size, since libraries may
 * report another size when they free (NumPy does after a resize). Regions start on a
 * page, so nearly all blocks of other allocators are recognized without asking the
 * store: malloc's large ones start 16 bytes after a page.
 *
 * Libraries keep blocks longer than the session that made them. So each arena that was
 * begun is kept in a list until its last block is freed, and each block holds a use of
 * the attachment. A worker has one arena. There are more only if a process has several
 * sessions one after the other.
 *
 * In a child of fork() the store gives no blocks and takes none back (its inherit.c).
 * The mutex is held during the fork.
 *
 * The state belongs to the process, as the heap does, and not to a module: libraries
 * keep pointers to these functions as long as the process lives. The mutex guards the
 * list and the counts. While it is held, the store is called only to look up an
 * address.
 */
#include "arena_allocator.h"

#include <pthread.h>
#include <stdlib.h>

enum { PAGE_MIN = 4096 }; /* a region's alignment, at least */

typedef struct arena {
    struct arena *next;
    hfi_attachment
        *attachment; /* one use while it is the current arena or has blocks */
    size_t blocks;
} arena;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static arena *arenas;  /* those with blocks, and the current one */
static arena *current; /* takes new blocks; or NULL */
static atomic_size_t current_from = SIZE_MAX; /* bytes; its threshold */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Unlink the arena if it isn't needed any more. Mutex held. The caller releases the
 * result. */
static hfi_attachment *
drop_if_idle(arena *one) {
    if (one == current || one->blocks)
        return NULL;
    arena **link = &arenas;
    while (*link != one)
        link = &(*link)->next;
    *link = one->next;
    hfi_attachment *attachment = one->attachment;
    free(one);
    return attachment;
}

static void
lock_arenas(void) {
    pthread_mutex_lock(&mutex);
}

static void
unlock_arenas(void) {
    pthread_mutex_unlock(&mutex);
}

static void
hold_around_forks(void) {
    (void)pthread_atfork(lock_arenas, unlock_arenas, unlock_arenas);
}

hfi_attachment *
hfi_arena_attachment(PyObject *module, PyObject *session, Py_ssize_t threshold) {
    hfi_attachment *attachment = hfi_attachment_of(module, session);
    if (attachment && threshold < 1) {
        PyErr_SetString(PyExc_ValueError,
                        "the threshold is a positive number of bytes");
        return NULL;
    }
    return attachment;
}

int
hfi_arena_begin(hfi_attachment *attachment, size_t threshold) {
    pthread_once(&once, hold_around_forks);
    hfi_arena_end();
    pthread_mutex_lock(&mutex);
    arena *one = arenas;
    while (one && one->attachment != attachment)
        one = one->next;
    if (!one && (one = calloc(1, sizeof *one))) {
        *one = (arena){arenas, hfi_attachment_acquire(attachment), 0};
        arenas = one;
    }
    current = one;
    current_from = threshold;
    pthread_mutex_unlock(&mutex);
    return one ? 0 : -1;
}

void
hfi_arena_end(void) {
    pthread_mutex_lock(&mutex);
    arena *before = current;
    current = NULL;
    current_from = SIZE_MAX;
    hfi_attachment *idle = before ? drop_if_idle(before) : NULL;
    pthread_mutex_unlock(&mutex);
    hfi_attachment_release(idle);
}

/* Count a block that was made or freed. */
static void
count_block(arena *one, int blocks) {
    pthread_mutex_lock(&mutex);
    one->blocks += (size_t)blocks;
    hfi_attachment *idle = drop_if_idle(one);
    pthread_mutex_unlock(&mutex);
    hfi_attachment_release(idle);
}

void *
hfi_arena_allocate(size_t size, int zeroed) {
    if (size < current_from)
        return NULL;
    pthread_mutex_lock(&mutex);
    arena *one = current;
    if (one)
        one->blocks++; /* so that it stays */
    pthread_mutex_unlock(&mutex);
    hf_region *region = NULL;
    if (one && hf_region_reserve(one->attachment->session, size, zeroed, &region, NULL,
                                 NULL) == HF_OK)
        return hf_region_address(region);
    if (one)
        count_block(one, -1);
    return NULL;
}

/* The region that starts at `block`, acquired, and its arena; or NULL. */
static hf_region *
find_region(const void *block, arena **ret_arena) {
    if (!block || (uintptr_t)block % PAGE_MIN != 0)
        return NULL;
    hf_region *region = NULL;
    pthread_mutex_lock(&mutex);
    for (arena *one = arenas; one && !region; one = one->next) {
        region = one->blocks ? hf_region_find(one->attachment->session, block) : NULL;
        if (region && hf_region_address(region) != block) {
            hf_region_release(region);
            region = NULL;
        }
        *ret_arena = one;
    }
    pthread_mutex_unlock(&mutex);
    return region;
}

size_t
hfi_arena_size(const void *block) {
    arena *one;
    hf_region *region = find_region(block, &one);
    size_t size = region ? hf_region_size(region) : 0;
    hf_region_release(region);
    return size;
}

int
hfi_arena_free(void *block) {
    arena *one;
    hf_region *region = find_region(block, &one);
    if (!region)
        return 0;
    hf_region_release(region); /* what find acquired */
    hf_region_release(region); /* the reference that hfi_arena_allocate kept */
    count_block(one, -1);
    return 1;
}
