/* imported.h - Holdfast's own Python modules, which have been imported before. */
#ifndef HFI_IMPORTED_H
#define HFI_IMPORTED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The module of this name, new reference; NULL with an exception. Python's own import
 * is asked only where it isn't there yet: even of what is there it asks the builtins,
 * the specification and the locks, 10 us where nothing of that is in a cache. */
static inline PyObject *
hfi_imported(const char *name) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
    return module ? Py_NewRef(module) : PyImport_ImportModule(name);
}

#endif
