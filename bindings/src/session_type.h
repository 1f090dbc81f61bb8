/* session_type.h - one attachment of this process to a session, shared by everything
 * that uses it.
 *
 * The Session object, its regions, its Names and the blocks of the allocators each hold
 * a use of the attachment; the last release detaches. Uses are counted by atomics,
 * since allocators run on every thread.
 */
#ifndef HFI_SESSION_TYPE_H
#define HFI_SESSION_TYPE_H

#include <stdatomic.h>

#include <holdfast/store.h>

#include "module_state.h"

typedef struct hfi_attachment {
    hf_session *session;
    atomic_size_t uses;
} hfi_attachment;

/* Any thread, with or without the interpreter. Acquire returns its argument. */
hfi_attachment *hfi_attachment_acquire(hfi_attachment *attachment);
void hfi_attachment_release(hfi_attachment *attachment); /* NULL is fine */

/* The attachment of a Session, borrowed: acquire it before anything that may close the
 * session. NULL with a TypeError where `object` is no Session, or a ValueError where it
 * is closed. With the interpreter attached. */
hfi_attachment *hfi_session_attachment(hfi_state *state, PyObject *object);
/* The same, for a function of the module. */
hfi_attachment *hfi_attachment_of(PyObject *module, PyObject *session);

extern PyType_Spec hfi_session_spec;

#endif
