/* region_names.h - code objects and C functions to regions. Needs the interpreter.
 *
 * It finds the name, file and line under which the trace shows a function, and decides
 * which functions are left out.
 *
 * Threads: the interpreter's lock protects everything here.
 */
#ifndef HOLDFAST_RECORDER_REGION_NAMES_H
#define HOLDFAST_RECORDER_REGION_NAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include "recorder/definitions.h"

/* Likewise, with all that it calls. */
#define HFI_REGION_HIDDEN (UINT32_MAX - 1)

static inline bool
hfi_region_is_recorded(uint32_t region) {
    return region < HFI_REGION_HIDDEN;
}

/* How the trace shows a file. Code whose co_filename begins with `prefix` is left out,
 * and with `callees` the functions that it calls as well; the longest prefix decides. A
 * file of a cell is shown under another name, and its code is never hidden. Both hold
 * for code that a recording hasn't met yet. -1 with a Python error. */
int hfi_region_names_exclude(const char *prefix, bool callees);
int hfi_region_names_show_file(PyObject *file, PyObject *shown);
/* The name that a file is shown under: borrowed; `file` itself if it has no other. */
PyObject *hfi_region_names_shown(PyObject *file);

/* Whether the code is a cell's, to be shown wherever it is called from. */
bool hfi_code_is_cell(PyCodeObject *code);
/* Whether it is a cell's own, or a statement's of it: what it calls is shown below the
 * cell's region. */
bool hfi_code_is_statement(PyCodeObject *code);
/* Define the region of the cell that is shown as `shown`. HFI_REGION_NONE also without
 * memory. */
uint32_t hfi_region_of_cell(hfi_definitions *definitions, PyObject *shown);
/* Define the region of code that runs with `globals`. The Python error indicator is
 * left as it was. HFI_REGION_NONE also without memory. */
uint32_t hfi_region_of_code(hfi_definitions *definitions, PyCodeObject *code,
                            PyObject *globals);
uint32_t hfi_region_of_c_function(hfi_definitions *definitions, PyObject *function);

#endif
