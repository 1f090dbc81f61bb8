/* recorder_python.h - the state that the files of holdfast._recorder share.
 *
 * The module's functions lie in three files, each with a table of its methods:
 * recorder_module.c has the module and the switches, recorder_session.c opens and
 * closes a recording, recorder_regions.c records the regions and parameters that a
 * program marks itself.
 *
 * Threads: the interpreter's lock protects everything here.
 */
#ifndef HFI_RECORDER_PYTHON_H
#define HFI_RECORDER_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "recorder/recorder.h"

/* The module's state. The interpreter's lock protects it. */
typedef struct recorder_state {
    PyObject *regions;    /* str: int */
    PyObject *parameters; /* (str, kind): int */
    PyObject *directory;  /* absolute; of the latest recording, or NULL */
    PyObject *profile;    /* its first file's path, None, or NULL */
    bool tracing;
} recorder_state;

/* Borrowed; lives as long as the module. */
recorder_state *hfi_recorder_state(PyObject *module);

/* Sets the exception for a status that isn't HF_OK. NULL, always. */
PyObject *hfi_recorder_raise(hf_status status, const hf_error *error);

extern PyMethodDef hfi_recorder_session_methods[];
extern PyMethodDef hfi_recorder_region_methods[];

/* ---- sigterm.c: SIGTERM reaches its handler although the program waits ---- */

/* To be called when Python has set a handler for SIGTERM, which ends the process. From
 * the first signal on it is sent again until then. */
void hfi_sigterm_insist(void);

#endif
