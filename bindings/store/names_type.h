/* names_type.h - the Python type Names, and its methods that have files of their own.
 *
 * With the interpreter attached. Each method returns a new reference, or NULL with an
 * exception; its documentation stands in the table in names_type.c. The type's data is
 * in names.h.
 */
#ifndef HFI_NAMES_TYPE_H
#define HFI_NAMES_TYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyType_Spec hfi_names_spec;

/* These three run any code of Python. RuntimeError if one of them is going on, and the
 * store's errors. A value that no codec encodes or that can't be decoded is no failure:
 * the report says so. */

/* Out: names_stages.h. ConflictError if another generation was published. After a
 * failure nothing is prepared. */
PyObject *hfi_names_save(PyObject *self, PyObject *args, PyObject *kwargs);
/* In: names_decode.h. After a failure what was decoded is bound. */
PyObject *hfi_names_bind(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *hfi_names_adopt(PyObject *self, PyObject *args);

/* The class of this identifier, for the bind that is going on. */
PyObject *hfi_names_load_class(PyObject *self, PyObject *identifier);
PyObject *hfi_names_listing(PyObject *self, PyObject *ignored);
PyObject *hfi_names_keys(PyObject *self, PyObject *ignored);

#endif
