/* names_save.h - the method of Names that prepares a commit of what differs.
 *
 * The way out, by four stages: names_scan.h, names_group.h, names_encode.h,
 * names_commit.h. With the interpreter attached; it runs any code of Python.
 */
#ifndef HFI_NAMES_SAVE_H
#define HFI_NAMES_SAVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Names.save(...): a new reference to its report, or NULL with an exception:
 * ConflictError where another generation was published, RuntimeError where a save or a
 * bind is going on, what the store reports, or what a codec must not swallow. Nothing
 * is prepared then. */
PyObject *hfi_names_save(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
