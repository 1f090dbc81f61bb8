/* finalizers.h - objects whose class has a `__del__`, and how it is kept from running.
 *
 * An object of the notebook that crosses to another process has a copy there, and it is
 * still one object: its `__del__` is to run once, where the object dies. Every copy
 * that ends for another reason is disarmed first. Every function here needs the GIL.
 */
#ifndef HFI_FINALIZERS_H
#define HFI_FINALIZERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The instances behind `value` whose class has a `__del__` written in Python
 * that hasn't run yet: a new list, each once. Functions, classes and modules
 * aren't entered, and at most 2**20 objects are looked at. No Python code runs.
 * NULL with MemoryError. */
PyObject *hfi_finalizers_find(PyObject *value);

/* The object's `__del__` won't run any more, as if it had run. No Python code runs.
 * Does nothing to what the cyclic collector doesn't know. */
void hfi_finalizers_disarm(PyObject *object);

#endif
