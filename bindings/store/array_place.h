/* array_place.h - where the memory of arrays is in an encoding.
 *
 * With the interpreter attached. Nothing here runs code of the user's, but an owner's
 * own `__buffer__`; allocations may start the collector.
 */
#ifndef HFI_ARRAY_PLACE_H
#define HFI_ARRAY_PLACE_H

#include "array_meta.h"
#include "entry.h"
#include "pointer_map.h"

/* The bytes of an entry, in which the memory of arrays is searched. All borrowed. */
typedef struct hfi_places {
    const hfi_entry_sink *sink; /* has the entry's buffers */
    const char *payload;        /* as it is in the store */
    size_t payload_size;
    struct hfi_span
        *spans;      /* the buffers by their addresses; made when one is asked for */
    size_t at;       /* of the last memory that was found in the payload */
    size_t searched; /* bytes */
    hfi_pointer_map known; /* memory -> its place in the payload, plus one */
} hfi_places;

void hfi_places_init(hfi_places *ret_places, const hfi_entry_sink *sink,
                     const void *payload, size_t payload_size);
void hfi_places_fini(hfi_places *places);

/* Where bytes are. */
typedef struct hfi_bytes_place {
    uint64_t offset;
    uint32_t buffer;
    int is_buffer; /* 0: in the payload */
} hfi_bytes_place;

/* 1 if bytes that an encoder wrote are in the entry, or the same bytes; 0 if not. */
int hfi_places_find(hfi_places *places, const void *bytes, size_t size,
                    hfi_bytes_place *ret_place);

/* An array, its type, and where its first element is. */
typedef struct hfi_array_place {
    hfi_array_view view;
    hfi_array_type type;
    uint64_t offset;
    uint32_t buffer;
    int is_buffer; /* 0: in the payload */
} hfi_array_place;

/* 1 if the value is an array whose memory is in the entry; 0 if not, also if it can't
 * be looked at. To be finished in both cases. */
int hfi_array_place_init(hfi_array_place *ret_place, hfi_places *places,
                         PyObject *value);
void hfi_array_place_fini(hfi_array_place *place);

#endif
