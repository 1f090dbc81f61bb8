/* plain_sets.h - the order of a set's elements, as places in its table. Every function
 * needs the GIL.
 */
#ifndef HOLDFAST_PLAIN_SETS_H
#define HOLDFAST_PLAIN_SETS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The places of the elements of an exact set or frozenset: a block that the caller
 * frees. NULL with `*ret_size` 0 where inserting the elements in their order gives the
 * same table, where the table is too sparse, or where tables aren't known; NULL with
 * `*ret_size` 1 without memory. No exception is set. */
unsigned char *hfi_set_places(PyObject *set, size_t *ret_size);

/* Give an empty, new set or frozenset the items of a list, at these places. 1: done. 0:
 * the places, which may lie, aren't where the items would be found, or two items are
 * equal; the set is empty then. -1 with an exception. */
int hfi_set_place(PyObject *set, PyObject *items, const unsigned char *places,
                  size_t size);

#endif
