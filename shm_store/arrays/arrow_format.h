/* arrow_format.h - Arrow's types by the format strings of its C data interface.
 *
 * Specification: "The Arrow C data interface", "Data type description - format strings".
 * Threads: any; nothing here is shared.
 */
#ifndef HFI_ARROW_FORMAT_H
#define HFI_ARROW_FORMAT_H

#include "holdfast/array.h"

typedef enum hfi_arrow_kind {
    HFI_ARROW_NULL,
    HFI_ARROW_BITS,  /* a bit for each element */
    HFI_ARROW_FIXED, /* `width` bytes for each element */
    HFI_ARROW_TEXT,  /* offsets of `width` bytes, and the text or bytes */
    HFI_ARROW_VIEWS, /* `width` is 16; any number of buffers more, and their sizes */
    HFI_ARROW_STRUCT,
    HFI_ARROW_LIST,      /* offsets of `width` bytes, and a child */
    HFI_ARROW_FIXED_LIST /* `width` elements of the child for each */
} hfi_arrow_kind;

typedef struct hfi_arrow_format {
    hfi_arrow_kind kind;
    uint32_t width;
    uint32_t
        buffers;  /* the one of the missing values is the first; without views' more */
    int is_index; /* an integer, which may stand for an element of a dictionary */
    uint64_t child_count; /* UINT64_MAX: any */
} hfi_arrow_format;

/* -1: unknown, or none that we export (unions, run ends, views of lists). */
int hfi_arrow_format_read(const char *text, size_t size, hfi_arrow_format *ret_format);

/* The type of NumPy's that has the same elements: of numbers, of times and durations
 * without a zone; and bools, which have a byte each there. Kind, byte order, unit, itemsize
 * and stride of the head are set. -1: there is none, and the kind is 'O'. */
int hfi_arrow_format_head(const char *text, size_t size, hf_array *ret_head);
/* The format of such a type. -1: it has none. */
#define HFI_ARROW_NUMBER_SIZE 5
int hfi_arrow_format_of(const hf_array *head, char ret_text[HFI_ARROW_NUMBER_SIZE]);

/* How many bytes buffer `index` (0 or 1) has for `count` elements. -1: too many. */
int hfi_arrow_buffer_size(const hfi_arrow_format *format, uint32_t index,
                          uint64_t count, uint64_t *ret_size);

/* An offset of `width` bytes, the one with this index. */
int64_t hfi_arrow_offset(const void *offsets, uint32_t width, uint64_t index);

#endif
