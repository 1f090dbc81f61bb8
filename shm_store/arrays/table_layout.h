/* table_layout.h - what the meta of an entry says of a table.
 *
 * It is untrusted. Threads: any; nothing here is shared.
 */
#ifndef HFI_TABLE_LAYOUT_H
#define HFI_TABLE_LAYOUT_H

#include "array_layout.h"

/* A table has as many columns as its names and places have bytes. So what is kept of each
 * is small, and the rest is read again when it is asked for. */
typedef struct hfi_table_column {
    const char *name;          /* borrowed from the meta */
    const unsigned char *part; /* its part behind the list of columns; NULL: none */
    const unsigned char
        *node;           /* what says it in Arrow's form (table_node.h), or NULL */
    uint32_t size;       /* of the name */
    uint32_t index;      /* in the part */
    uint32_t part_items; /* of the part's list */
} hfi_table_column;

typedef struct hfi_table_layout {
    hfi_table_column
        *columns; /* behind the last one that of the index, without a name */
    uint32_t column_count;
    int64_t rows;
    const unsigned char *end; /* of the bytes that parts and nodes point to */
    int has_index;
    int has_no_nodes; /* the description would have been too long with them */
} hfi_table_layout;

/* A column by its part: one that lies in a block, or that can't be mapped by itself. */
typedef struct hfi_table_part {
    hfi_item type; /* NumPy's type string, or for people what the column is */
    int is_mapped;
    hf_array head;          /* without memory */
    hfi_memory_place place; /* of the first element */
    hfi_memory_place valid;
    int has_valid;
} hfi_table_part;

/* Read and check all of it but what is in the nodes. The caller finishes it, on failure
 * too. HF_E_CORRUPT, HF_E_NOMEM. */
HF_CHECK hf_status hfi_table_layout_init(hfi_table_layout *ret_layout,
                                         const hfi_item *table, hf_error *reterr);
void hfi_table_layout_fini(hfi_table_layout *layout);

/* Read a column's part. HF_NOT_FOUND: it has none; HF_E_CORRUPT: it is nowhere. */
HF_CHECK hf_status hfi_table_part_of(const hfi_table_layout *layout,
                                     const hfi_table_column *column,
                                     hfi_table_part *ret_part, hf_error *reterr);

/* The head of a column without memory, by its part or its node; kind 'O' if it can't be
 * mapped. HF_E_CORRUPT. */
HF_CHECK hf_status hfi_table_head_of(const hfi_table_layout *layout,
                                     const hfi_table_column *column, hf_array *ret_head,
                                     hf_error *reterr);

/* Whether the bytes are UTF-8. */
int hfi_is_utf8(const void *bytes, size_t size);

#endif
