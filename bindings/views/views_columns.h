/* views_columns.h - the content of an archive, as the dict that the views take.
 *
 * With the interpreter attached, which protects everything here.
 */
#ifndef HOLDFAST_VIEWS_COLUMNS_H
#define HOLDFAST_VIEWS_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include "views/overview.h"

/* Fill `dict` as read() of the module describes it; `origin` is added to all times, at
 * most `paths_max` call paths are taken. False: an exception is set. */
bool hfi_views_fill(PyObject *dict, const hfi_archive *archive,
                    const hfi_overview *overview, int64_t origin, size_t paths_max);

#endif
