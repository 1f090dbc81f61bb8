/* region_names.h - code objects and C functions to regions. Needs the interpreter. */
#ifndef HOLDFAST_RECORDER_REGION_NAMES_H
#define HOLDFAST_RECORDER_REGION_NAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "definitions.h"

/* The id of a code object that is not to be recorded. */
#define HFI_REGION_NONE UINT32_MAX

/* The file names of the next recordings: code below a directory (a prefix of
 * co_filename) is left out; a file is shown under another name. -1 with a Python error.
 */
int hfi_region_names_exclude(const char *prefix);
int hfi_region_names_show_file(PyObject *file, PyObject *shown);

/* Define the region of the code that `frame` runs. The Python error indicator is left
 * as it was. HFI_REGION_NONE where the code is left out, or without memory. */
uint32_t hfi_region_of_frame(hfi_definitions *definitions, PyFrameObject *frame,
                             PyCodeObject *code);
uint32_t hfi_region_of_c_function(hfi_definitions *definitions, PyObject *function);

#endif
