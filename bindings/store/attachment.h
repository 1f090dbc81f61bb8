/* attachment.h - one attachment to a session, and the memory reached through it.
 *
 * With the interpreter attached, unless a function says something else.
 */
#ifndef HFI_ATTACHMENT_H
#define HFI_ATTACHMENT_H

#include <stdatomic.h>
#include <holdfast/store.h>

#include "module_state.h"

/* ---- session_type.c: the attachment ----
 *
 * The Session object, its regions, its Names and the blocks of the allocators each hold
 * a use of the attachment; the last release detaches. Uses are counted by atomics,
 * since allocators run on every thread.
 */

typedef struct hfi_attachment {
    hf_session *session;
    atomic_size_t uses;
    size_t waits; /* threads in a wait. With the interpreter attached */
} hfi_attachment;

/* Any thread, with or without the interpreter. Acquire returns its argument. */
hfi_attachment *hfi_attachment_acquire(hfi_attachment *attachment);
void hfi_attachment_release(hfi_attachment *attachment); /* NULL is fine */

/* The attachment of a Session, borrowed: acquire it before anything that may close the
 * session. NULL with a TypeError if `object` is no Session, or a ValueError if it
 * is closed. With the interpreter attached. */
hfi_attachment *hfi_session_attachment(hfi_state *state, PyObject *object);
/* The same, for a function of the module. */
hfi_attachment *hfi_attachment_of(PyObject *module, PyObject *session);

extern PyType_Spec hfi_session_spec;

/* ---- region_type.c: Region, mapped memory of the store as a Python buffer ---- */

/* A new object that exports the region's memory, holds a use of the attachment, and
 * releases both when it is freed. Consumes the reference to `region`, on failure too.
 * NULL with MemoryError. */
PyObject *hfi_region_new_consume(hfi_state *state, hfi_attachment *attachment,
                                 hf_region *region);
/* The region of a Region, borrowed; `object` must be one. */
hf_region *hfi_region_of(PyObject *object);

extern PyType_Spec hfi_region_spec;

/* ---- memory_type.c: Memory, all memory that an array looks at, as a buffer ---- */

/* A new Memory of `size` bytes at `address`, which `owner` keeps there; it holds a
 * reference to `owner`. NULL with MemoryError. */
PyObject *hfi_memory_new(hfi_state *state, PyObject *owner, void *address,
                         Py_ssize_t size);

extern PyType_Spec hfi_memory_spec;

#endif
