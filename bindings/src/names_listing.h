/* names_listing.h - the method of Names that lists the entries.
 *
 * With the interpreter attached.
 */
#ifndef HFI_NAMES_LISTING_H
#define HFI_NAMES_LISTING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Names.listing(): a list with a dict for each entry of the generation that is held, a
 * new reference; NULL with an exception. */
PyObject *hfi_names_listing(PyObject *self, PyObject *ignored);

#endif
