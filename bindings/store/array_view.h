/* array_view.h - an array of the store as a Python buffer, without NumPy.
 *
 * With the interpreter attached.
 */
#ifndef HFI_ARRAY_VIEW_H
#define HFI_ARRAY_VIEW_H

#include "attachment.h"

/* Names.view(name). */
PyObject *hfi_names_view(PyObject *self, PyObject *name);

extern PyType_Spec hfi_array_object_spec;

#endif
