/* member_meta.h - what the entry of a name in a group says of its value.
 *
 * With the interpreter attached. Nothing here runs code of the user's, but an owner's
 * own `__buffer__`; allocations may start the collector.
 */
#ifndef HFI_MEMBER_META_H
#define HFI_MEMBER_META_H

#include "entry.h"
#include "pointer_map.h"

/* Where the memory of a group's arrays is in its entry. All borrowed. */
typedef struct hfi_places {
    const hfi_entry_sink *sink; /* has the group's buffers */
    const char *payload;        /* as it is in the store */
    size_t payload_size;
    size_t at;             /* of the last memory that was found */
    size_t searched;       /* bytes */
    hfi_pointer_map known; /* memory -> its place in the payload, plus one */
} hfi_places;

void hfi_places_init(hfi_places *ret_places, const hfi_entry_sink *sink,
                     const void *payload, size_t payload_size);
void hfi_places_fini(hfi_places *places);

/* "The value of this name is in that group", and where, if it is an array. New
 * reference to bytes; NULL with an exception. */
PyObject *hfi_member_meta(hfi_places *places, PyObject *value, PyObject *group);

/* Make such bytes the encoding in the sink, which is emptied first. -1 with an
 * exception. */
int hfi_member_encode(hfi_state *state, hfi_entry_sink *sink, PyObject *meta);

#endif
