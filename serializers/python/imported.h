/* imported.h - Holdfast's own Python modules, which have been imported before.
 *
 * C code asks for them each time that it needs one, and finds them in sys.modules. With
 * the interpreter attached.
 */
#ifndef HFI_IMPORTED_H
#define HFI_IMPORTED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The module of this name, new reference; NULL with an exception. Python's own import
 * is called only if the module isn't there yet: even for a module that is there it
 * reads the builtins, the specification and the locks, 10 us if none of that is in a
 * cache. */
static inline PyObject *
hfi_imported(const char *name) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
    return module ? Py_NewRef(module) : PyImport_ImportModule(name);
}

#endif
