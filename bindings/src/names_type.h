/* names_type.h - the Python type Names. Its data is in names.h. */
#ifndef HFI_NAMES_TYPE_H
#define HFI_NAMES_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyType_Spec hfi_names_spec;

#endif
