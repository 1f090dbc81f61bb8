/* table_node.c - a column in Arrow's form, as the meta of an entry says it: its node.
 *
 * Read here is what a node says, whatever it may be. table_export.c compares it with the
 * memory.
 */
#include "table_node.h"

int
hfi_table_take_list(hfi_unpacker *at, size_t *ret_size) {
    hfi_item item;
    if (hfi_unpacker_next(at, &item) != HF_OK || item.kind != HFI_ITEM_ARRAY)
        return -1;
    *ret_size = item.size;
    return 0;
}

int
hfi_table_take_integer(hfi_unpacker *at, int64_t most, int64_t *ret_number) {
    hfi_item item;
    if (hfi_unpacker_next(at, &item) != HF_OK || item.kind != HFI_ITEM_INT ||
        item.as.i < 0 || item.as.i > most)
        return -1;
    *ret_number = item.as.i;
    return 0;
}

int
hfi_table_take_place(hfi_unpacker *at, hfi_memory_place *ret_place) {
    hfi_item item;
    int64_t offset;
    if (hfi_unpacker_next(at, &item) != HF_OK ||
        hfi_table_take_integer(at, INT64_MAX, &offset) < 0 ||
        (item.kind != HFI_ITEM_NIL && (item.kind != HFI_ITEM_INT || item.as.i < 0)))
        return -1;
    ret_place->buffer =
        item.kind == HFI_ITEM_NIL ? HFI_ARRAY_NO_BUFFER : (uint64_t)item.as.i;
    ret_place->offset = (uint64_t)offset;
    return 0;
}

/* Read a list's head, and pass over all of it. */
static int
pass_list(hfi_unpacker *at, hfi_unpacker *ret_inside, size_t *ret_count) {
    *ret_inside = *at;
    return hfi_table_take_list(ret_inside, ret_count) < 0 ||
                   hfi_unpacker_skip(at, HFI_TABLE_DEPTH_MAX) != HF_OK
               ? -1
               : 0;
}

int
hfi_table_node_read(hfi_unpacker *at, hfi_table_node *ret_node) {
    hfi_table_node *to = ret_node;
    size_t items = 0, numbers = 0;
    if (hfi_table_take_list(at, &items) < 0 || items != HFI_TABLE_NODE_ITEMS ||
        hfi_unpacker_next(at, &to->format) != HF_OK ||
        to->format.kind != HFI_ITEM_STR || hfi_unpacker_next(at, &to->name) != HF_OK ||
        (to->name.kind != HFI_ITEM_STR && to->name.kind != HFI_ITEM_NIL) ||
        hfi_table_take_integer(at, 7, &to->flags) < 0 ||
        hfi_table_take_integer(at, INT64_MAX / 2, &to->length) < 0 ||
        hfi_table_take_integer(at, INT64_MAX / 2, &to->offset) < 0 ||
        hfi_table_take_integer(at, INT64_MAX, &to->missing) < 0 ||
        pass_list(at, &to->places, &numbers) < 0 || numbers % 3 ||
        pass_list(at, &to->children, &to->child_count) < 0)
        return -1;
    to->place_count = numbers / 3;
    to->dictionary = *at;
    if (hfi_unpacker_skip(at, HFI_TABLE_DEPTH_MAX) != HF_OK)
        return -1;
    to->has_dictionary = *to->dictionary.at != 0xc0; /* nil */
    if (to->name.kind == HFI_ITEM_NIL)
        to->name.size = 0;
    return 0;
}

int
hfi_table_node_place(hfi_unpacker *at, hfi_memory_place *ret_place,
                     uint64_t *ret_size) {
    int64_t size;
    if (hfi_table_take_place(at, ret_place) < 0 ||
        hfi_table_take_integer(at, INT64_MAX, &size) < 0)
        return -1;
    *ret_size = (uint64_t)size;
    return 0;
}

int64_t
hfi_table_node_chunks(hfi_unpacker *at, hfi_item *ret_text) {
    hfi_unpacker inside = *at;
    hfi_item first;
    size_t count = 0;
    if (hfi_unpacker_next(&inside, ret_text) != HF_OK)
        return -1;
    if (ret_text->kind == HFI_ITEM_STR) {
        *at = inside;
        return 0;
    }
    count = ret_text->size;
    hfi_unpacker list = inside;
    if (ret_text->kind != HFI_ITEM_ARRAY || count == 0 ||
        hfi_unpacker_next(&inside, &first) != HF_OK)
        return -1;
    if (first.kind != HFI_ITEM_ARRAY) /* the node of a column in one piece */
        return 1;
    /* Each node takes more bytes than it has items. */
    if (count > (size_t)(list.end - list.at) / HFI_TABLE_NODE_ITEMS)
        return -1;
    *at = list;
    return (int64_t)count;
}
