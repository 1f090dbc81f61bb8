/* names_bind.h - the methods of Names that bring the store into a namespace.
 *
 * The second stage of the way in, after names_decode.h. With the interpreter attached;
 * they run any code of Python. NULL with an exception: RuntimeError where a save or a
 * bind is going on, what the store reports, or what no value is at fault for. A value
 * that can't be decoded is no failure; the report has it as absent.
 */
#ifndef HFI_NAMES_BIND_H
#define HFI_NAMES_BIND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Names.bind(namespace, *, names=None), a new reference to its report. */
PyObject *hfi_names_bind(PyObject *self, PyObject *args, PyObject *kwargs);
/* Names.adopt(namespace). */
PyObject *hfi_names_adopt(PyObject *self, PyObject *namespace);

#endif
