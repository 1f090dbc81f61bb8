/* memory_type.h - Memory: the whole memory that an array looks at, as a Python buffer.
 *
 * With the interpreter attached.
 */
#ifndef HFI_MEMORY_TYPE_H
#define HFI_MEMORY_TYPE_H

#include "module_state.h"

/* A new Memory of `size` bytes at `address`, which `owner` keeps there; it holds a
 * reference to `owner`. NULL with MemoryError. */
PyObject *hfi_memory_new(hfi_state *state, PyObject *owner, void *address,
                         Py_ssize_t size);

extern PyType_Spec hfi_memory_spec;

#endif
