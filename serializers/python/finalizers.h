/* finalizers.h - code that runs when an object dies (its `__del__`, and callbacks of
 * weak references to it), and how to keep it from running.
 *
 * An object of the notebook that crosses to another process has a copy there, but
 * counts as one object: its `__del__` runs once, where the object dies. Every copy that
 * ends for another reason is disarmed first. Every function here needs the GIL.
 */
#ifndef HFI_FINALIZERS_H
#define HFI_FINALIZERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The instances behind `value` whose class has a `__del__` written in Python that hasn't
 * run yet, and the weak references with a callback: a new list, each once. Functions,
 * classes and modules aren't entered, and at most 2**20 objects are looked at. No Python
 * code runs. NULL with MemoryError. */
PyObject *hfi_finalizers_find(PyObject *value);

/* Disarm the object: its `__del__` won't run any more, as if it had run, and a weak
 * reference has no callback any more. Python code runs only if it runs when the
 * callback is freed. Objects that the cyclic collector doesn't know are ignored. */
void hfi_finalizers_disarm(PyObject *object);

#endif
