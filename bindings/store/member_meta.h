/* member_meta.h - what an entry's meta says of a value's memory.
 *
 * With the interpreter attached. Nothing here runs code of the user's, but an owner's
 * own `__buffer__`; code of a table's or tensor's library runs, and allocations may start
 * the collector.
 */
#ifndef HFI_MEMBER_META_H
#define HFI_MEMBER_META_H

#include "array_place.h"

/* "The value of this name is in that group", and where, if it is an array, a tensor or a
 * table. New reference to bytes; NULL with an exception. */
PyObject *hfi_member_meta(hfi_places *places, PyObject *value, PyObject *group);

/* Make such bytes the encoding in the sink, which is emptied first. -1 with an
 * exception. */
int hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, const void *meta,
                      size_t size);

/* The meta in the sink, whose encoding is the value's pickle, and where the memory of a
 * tensor or a table is. New reference to bytes; to None if that isn't said; NULL with an
 * exception. */
PyObject *hfi_pickle_described(const hfi_entry_sink *sink, PyObject *value);

#endif
