/* table_layout.h - what the meta of an entry says of a table.
 *
 * It is untrusted. Threads: any; nothing here is shared.
 */
#ifndef HFI_TABLE_LAYOUT_H
#define HFI_TABLE_LAYOUT_H

#include "array_layout.h"

/* Columns that lie in one block, or one column, or columns that can't be mapped. */
typedef struct hfi_table_part {
    hfi_item type; /* NumPy's type string, or for people what the columns are */
    int is_mapped;
    hf_array head;          /* of the first column, without memory */
    hfi_memory_place place; /* of the first column's first element */
    hfi_memory_place valid;
    int has_valid;
    int64_t step; /* bytes from a column to the next one */
} hfi_table_part;

typedef struct hfi_table_column {
    const char *name; /* borrowed from the meta */
    size_t size;
    uint32_t part;
    uint32_t index; /* in the part */
} hfi_table_column;

typedef struct hfi_table_layout {
    hfi_table_column *columns;
    uint32_t column_count;
    hfi_table_part *parts;
    uint32_t part_count;
    int64_t rows;
    hfi_unpacker arrow; /* the list of columns in Arrow's form; empty without */
} hfi_table_layout;

/* Read and check all of it but `arrow`. The caller finishes it, on failure too. HF_E_CORRUPT,
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_table_layout_init(hfi_table_layout *ret_layout,
                                         const hfi_item *table, hf_error *reterr);
void hfi_table_layout_fini(hfi_table_layout *layout);

/* Read a place: a buffer's number, or nil for the payload; and an offset. -1: it is none. */
int hfi_table_take_place(hfi_unpacker *at, hfi_memory_place *ret_place);

/* Whether the bytes are UTF-8. */
int hfi_is_utf8(const void *bytes, size_t size);

#endif
