/* table_view.h - a table of the store by Arrow's interfaces, without its library.
 *
 * With the interpreter attached.
 */
#ifndef HFI_TABLE_VIEW_H
#define HFI_TABLE_VIEW_H

#include "attachment.h"

/* Names.table(name). */
PyObject *hfi_names_table(PyObject *self, PyObject *name);

extern PyType_Spec hfi_table_object_spec;

#endif
