/* arena_allocator.h - blocks of memory that lie in the arena of a session.
 *
 * For the allocators of other libraries, which are called on every thread: no function
 * needs the interpreter, unless its comment says so. Private to bindings/store.
 */
#ifndef HFI_ARENA_ALLOCATOR_H
#define HFI_ARENA_ALLOCATOR_H

#include "attachment.h"

enum { HFI_ARENA_THRESHOLD = 65536 }; /* bytes, by default */

/* Check the arguments of a function that enables an allocator. Returns the attachment
 * of `session`, borrowed; or NULL with an exception if `session` is closed or no
 * session, or `threshold` isn't positive. Needs the interpreter. */
hfi_attachment *hfi_arena_attachment(PyObject *module, PyObject *session,
                                     Py_ssize_t threshold);
/* From now on blocks of `threshold` bytes or more belong to this session. -1: no
 * memory. */
int hfi_arena_begin(hfi_attachment *attachment, size_t threshold);
/* From now on there are no new blocks; existing ones stay until they are freed. */
void hfi_arena_end(void);

/* A block, zeroed if the caller wants that. NULL if it is too small for the arena, if
 * the arena is full, or if there is none. Then the caller uses another allocator. */
void *hfi_arena_allocate(size_t size, int zeroed);
/* The size of a block; 0 if `block` is none of ours. */
size_t hfi_arena_size(const void *block);
/* 1 if `block` was ours and is freed; 0 if it belongs to another allocator. */
int hfi_arena_free(void *block);

#endif
