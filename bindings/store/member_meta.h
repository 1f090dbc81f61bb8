/* member_meta.h - what the entry of a name in a group says of its value.
 *
 * With the interpreter attached. Nothing here runs code of the user's, but an owner's
 * own `__buffer__`; allocations may start the collector.
 */
#ifndef HFI_MEMBER_META_H
#define HFI_MEMBER_META_H

#include "array_place.h"

/* "The value of this name is in that group", and where, if it is an array. New
 * reference to bytes; NULL with an exception. */
PyObject *hfi_member_meta(hfi_places *places, PyObject *value, PyObject *group);

/* Make such bytes the encoding in the sink, which is emptied first. -1 with an
 * exception. */
int hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *meta);

#endif
