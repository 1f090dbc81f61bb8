/* array_view.h - an array of the store as a Python buffer, without NumPy.
 *
 * With the interpreter attached.
 */
#ifndef HFI_ARRAY_VIEW_H
#define HFI_ARRAY_VIEW_H

#include <holdfast/array.h>

#include "attachment.h"

/* Names.view(name). */
PyObject *hfi_names_view(PyObject *self, PyObject *name);

/* A memoryview of a column's numbers, which lie in the memory of `owner`. Takes `owner`,
 * on failure too. NULL with an exception. */
PyObject *hfi_array_view_new_consume(hfi_state *state, const hf_array *array,
                                     struct ArrowArray *owner);

extern PyType_Spec hfi_array_object_spec;

#endif
