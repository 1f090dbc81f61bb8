/* module_state.h - the state of one instance of the extension holdfast._store, and
 * exceptions for failed calls of the store.
 *
 * The lowest layer: every file of the extension that raises needs it, and it needs
 * none of them. All functions are called with the interpreter attached.
 */
#ifndef HFI_MODULE_STATE_H
#define HFI_MODULE_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <holdfast/error.h>

#include "codecs/registry.h"

/* The module owns one reference to each object. There are no static objects, so
 * subinterpreters stay apart. */
typedef struct hfi_state {
    PyTypeObject *session_type;
    PyTypeObject *region_type;
    PyTypeObject *memory_type;
    PyTypeObject *array_type;
    PyTypeObject *table_type;
    PyTypeObject *names_type;
    PyTypeObject *channel_type;
    PyObject *error; /* Error, the base of the following */
    PyObject *not_found_error;
    PyObject *conflict_error;
    PyObject *no_space_error;
    PyObject *corrupt_error;
    PyObject *gone_error;
    PyObject *access_error;
    PyObject *channel_closed; /* not an Error: nothing is wrong with the store */
    hfi_registry *registry;   /* the codecs, in the order in which they are asked */
    PyObject *plugins;        /* list: the capsules of other modules' codecs */
} hfi_state;

/* The extension's definition, without its slots. store_module.c, which is above all
 * other files of the module, adds them before it gives the definition to CPython. */
extern struct PyModuleDef hfi_store_definition;

/* The state of the module that made a type, or made one that it is derived from;
 * borrowed. */
hfi_state *hfi_state_of(PyTypeObject *type);

/* Make the classes of errors and add them to the module. -1 with an exception. */
int hfi_state_add_errors(PyObject *module, hfi_state *state);
/* Raise what `status` and `error` (or NULL) say; an exception that is already set
 * stays. HF_E_NOMEM is a MemoryError, HF_E_SYSTEM an OSError with its errno, all others
 * an Error whose `status` is the identifier in status.h. Returns NULL always, so that
 * `return hfi_raise(...)` reads well. */
void *hfi_raise(hfi_state *state, hf_status status, const hf_error *error);

/* As HF_ERROR_INIT, but the 512 bytes of the message aren't cleared: for code that runs
 * once for each name. */
static inline void
hfi_error_init(hf_error *ret_error) {
    ret_error->status = HF_OK;
    ret_error->sys_errno = 0;
    ret_error->function = NULL;
    ret_error->message[0] = '\0';
}

/* A type's slot that is a function: CPython keeps it as a void *, which POSIX allows
 * and ISO C doesn't know. */
#define HFI_SLOT(number, function)                                                     \
    { (number), __extension__(void *)(function) }
/* A method whose C function has other arguments than PyCFunction. */
#define HFI_METHOD(function) (PyCFunction)(void (*)(void))(function)

#endif
