/* names_code.h - the functions and classes of the notebook behind its names.
 *
 * With the interpreter attached; a walk may run any code of Python (graph.h). Needs
 * nothing of Names.
 *
 * Threads: the interpreter's lock protects everything here.
 */
#ifndef HFI_NAMES_CODE_H
#define HFI_NAMES_CODE_H

#include "graph.h"

/* The key of a class of the notebook, a new reference; NULL with an exception. */
PyObject *hfi_code_class_key(PyObject *cls);

/* Put into the dict `code` the functions and classes behind each key: one list for all
 * keys that share objects, since the walk meets a function to which two names lead from
 * one of them only. Put into the list `held` (or NULL) the keys of groups with code, if
 * other code holds a part of them. `keys` is a list with the key of each root. -1 with
 * an exception. */
int hfi_code_list(hfi_graph *graph, PyObject *keys, PyObject *code, PyObject *held);

/* Put into the dict `numbers`, for each key, a list of the numbers in its value that
 * may be addresses. `keys` as above. -1 with an exception. */
int hfi_code_list_numbers(const hfi_graph *graph, PyObject *keys, PyObject *numbers);

/* The same for these values and classes (lists), by a walk of their own: a new dict.
 * `keys` names the values. NULL with an exception. */
PyObject *hfi_code_behind(PyObject *keys, PyObject *values, PyObject *classes,
                          PyObject *namespace);

#endif
