/* array_layout.h - the meta of an entry that has an array: what its bytes say.
 *
 * Meta is untrusted. Threads: any; nothing here is shared.
 */
#ifndef HFI_ARRAY_LAYOUT_H
#define HFI_ARRAY_LAYOUT_H

#include "base/unpacker.h"
#include "holdfast/array.h"

/* Numbers of codecs, as in holdfast/codec.h. */
enum {
    HFI_CODEC_BUFFER = 16,
    HFI_CODEC_PLAIN = 17,
    HFI_CODEC_PICKLE = 18,
    HFI_CODEC_MEMBER = 20
};

/* Smaller memory lies in the payload. */
#define HFI_ARRAY_INLINE_SIZE 16384

/* Bytes of an entry: from `offset` on in a buffer, or in the payload. */
#define HFI_ARRAY_NO_BUFFER UINT64_MAX
typedef struct hfi_memory_place {
    uint64_t offset;
    uint64_t buffer;
} hfi_memory_place;

/* What the meta says of a value. Texts are borrowed from the meta, and have no data if
 * it lacks them. */
typedef struct hfi_array_layout {
    hf_array array; /* without its memory; valid if `is_array` */
    hfi_memory_place place;
    hfi_item type;
    hfi_item group; /* key of the entry that has the memory */
    hfi_item table; /* msgpack bytes: table_layout.h */
    int is_array;
} hfi_array_layout;

/* HF_E_CORRUPT: it is no map, or a description of an array that is wrong. HF_DECLINED:
 * an array of elements that hf_array can't describe. */
HF_CHECK hf_status hfi_array_layout_read(const void *meta, size_t size,
                                         hfi_array_layout *ret_layout,
                                         hf_error *reterr);

/* The map for an array in an entry of its own, at most HFI_ARRAY_META_MAX bytes. Returns
 * its size. */
#define HFI_ARRAY_META_MAX 2048
size_t hfi_array_layout_write(const hf_array *array, uint64_t offset,
                              unsigned char *ret_meta);

/* Read NumPy's type string, or the letter 'q' or 'Q'. 0; -1: it is none; 1: its unit is
 * too long. */
int hfi_array_type_read(const char *text, size_t size, hf_array *ret_array);
/* Whether kind, byte order, unit and itemsize go together. */
int hfi_array_type_is_valid(const hf_array *array);

/* The bytes from the lowest element to the end of the highest, and how many of them are
 * before the first element. -1: they are more than memory can have, or the shape is
 * wrong. */
int hfi_array_span(const hf_array *array, uint64_t *ret_before, uint64_t *ret_size);

#endif
