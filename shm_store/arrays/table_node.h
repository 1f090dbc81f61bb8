/* table_node.h - a column in Arrow's form, as the meta of an entry says it: its node.
 *
 *   [format, name, flags, length, offset, missing, places, children, dictionary]
 *
 * `name` is nil for a column of the table. `missing` is hfi_arrow_missing. `places` has
 * three numbers for each buffer: the entry's buffer or nil for the payload, the offset,
 * and the bytes, 0 for a buffer that isn't there. The sizes behind the buffers of views
 * are left out. `children` is a list of nodes, `dictionary` nil or a node.
 *
 * Instead of a node there may be a text: why the column has no such form. A column in
 * several chunks has a list of nodes.
 *
 * All of it is untrusted. Threads: any; nothing here is shared.
 */
#ifndef HFI_TABLE_NODE_H
#define HFI_TABLE_NODE_H

#include "array_layout.h"

enum { HFI_TABLE_DEPTH_MAX = 40, HFI_TABLE_NODE_ITEMS = 9 };

typedef struct hfi_table_node {
    hfi_item format, name;
    int64_t flags, length, offset, missing;
    size_t place_count;    /* buffers */
    hfi_unpacker places;   /* behind the head of the list */
    hfi_unpacker children; /* the same */
    size_t child_count;
    hfi_unpacker dictionary;
    int has_dictionary;
} hfi_table_node;

/* Read a node and pass over it. What is in it may be wrong. -1: it is none. */
int hfi_table_node_read(hfi_unpacker *at, hfi_table_node *ret_node);

/* Read the place of a node's next buffer, and its bytes. -1: it is none. */
int hfi_table_node_place(hfi_unpacker *at, hfi_memory_place *ret_place,
                         uint64_t *ret_size);

/* What stands for a column: the number of its chunks, with `at` behind the head of their
 * list; 0: a text, which is passed over; -1: neither. */
int64_t hfi_table_node_chunks(hfi_unpacker *at, hfi_item *ret_text);

/* Read a place: a buffer's number, or nil for the payload; and an offset. -1: none. */
int hfi_table_take_place(hfi_unpacker *at, hfi_memory_place *ret_place);

/* A number from 0 to `most`; the head of a list. -1: it is none. */
int hfi_table_take_integer(hfi_unpacker *at, int64_t most, int64_t *ret_number);
int hfi_table_take_list(hfi_unpacker *at, size_t *ret_size);

#endif
