/* arena_allocator.h - blocks of memory that lie in the arena of a session.
 *
 * For the allocators of other libraries, which come and go on every thread: nothing
 * here needs the interpreter but where it says so. Private to bindings/src.
 */
#ifndef HFI_ARENA_ALLOCATOR_H
#define HFI_ARENA_ALLOCATOR_H

#include "attachment.h"

enum { HFI_ARENA_THRESHOLD = 65536 }; /* bytes, where nothing else is said */

/* What a function that enables an allocator is given, checked: the attachment of
 * `session`, borrowed, or NULL with an exception where it is closed or no session, or
 * `threshold` isn't positive. Needs the interpreter. */
hfi_attachment *hfi_arena_attachment(PyObject *module, PyObject *session,
                                     Py_ssize_t threshold);
/* From now on blocks of `threshold` bytes or more are of this
 * session. -1: no memory. */
int hfi_arena_begin(hfi_attachment *attachment, size_t threshold);
/* From now on there are no new blocks; those that are there stay
 * until they are freed. */
void hfi_arena_end(void);

/* A block, zeroed where asked for. NULL where it is too small for the arena, the arena
 * is full or there is none: take it from elsewhere. */
void *hfi_arena_allocate(size_t size, int zeroed);
/* How much a block may hold, 0 where `block` is none of ours. */
size_t hfi_arena_size(const void *block);
/* 1 where `block` was ours and is freed; 0 where it is somebody else's. */
int hfi_arena_free(void *block);

#endif
