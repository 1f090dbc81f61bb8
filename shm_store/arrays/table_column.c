/* table_column.c - a column of a table as an array: hf_array_of_column.
 *
 * A column that has a part is mapped as other arrays are. One that is said in Arrow's form
 * is exported as for hf_table_export, joined if it is in chunks. Its elements are then
 * those of an array of numbers or times; bools are copied, since a bool of NumPy is a
 * byte, and so are bits of validity that don't begin at a byte.
 */
#include <string.h>

#include "array_access.h"
#include "arrow_join.h"
#include "arrow_values.h"
#include "base/argument.h"
#include "base/struct_size.h"
#include "table_access.h"
#include "table_export.h"
#include "table_node.h"

static const hfi_table_column *
find_column(const hfi_table_layout *layout, const char *name, size_t size) {
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (layout->columns[i].size == size &&
            (!size || memcmp(layout->columns[i].name, name, size) == 0))
            return &layout->columns[i];
    return NULL;
}

/* ---- columns in Arrow's form ------------------------------------------------------ */

/* The bits of an array from its first element on, NULL without. -1: no memory. */
static int
find_valid(const struct ArrowArray *from, const unsigned char **ret_valid) {
    const unsigned char *bits = from->buffers[0];
    uint64_t count = (uint64_t)from->length, first = (uint64_t)from->offset;
    *ret_valid = bits ? bits + first / 8 : NULL;
    if (!bits || first % 8 == 0)
        return 0;
    unsigned char *moved = hfi_arrow_memory_add(from->private_data, count / 8 + 1);
    if (!moved)
        return -1;
    hfi_arrow_copy_bits(moved, 0, bits, first, count);
    *ret_valid = moved;
    return 0;
}

static void *
make_bools(const struct ArrowArray *from) {
    uint64_t count = (uint64_t)from->length, first = (uint64_t)from->offset;
    char *bools = hfi_arrow_memory_add(from->private_data, count);
    for (uint64_t i = 0; bools && i < count; i++)
        bools[i] = (char)hfi_arrow_is_there(from->buffers[1], first + i);
    return bools;
}

/* Give out the elements as an array like `head`, which owns `from` then. */
static hf_status
open_elements_consume(struct ArrowArray *from, hf_array *head, hf_array *ret_array,
                      hf_error *reterr) {
    head->data = head->kind == 'b' ? make_bools(from)
                                   : (char *)(uintptr_t)from->buffers[1] +
                                         (uint64_t)from->offset * head->itemsize;
    if (!head->data || find_valid(from, &head->valid) < 0) {
        from->release(from);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for an array");
    }
    head->region = hfi_arrow_memory_region_at(from->private_data, head->data);
    return hfi_array_give_consume(head, from, ret_array, reterr);
}

/* Why a column without a part can't be mapped. */
static hf_status
decline_node(const hfi_table_layout *layout, const hfi_table_column *column,
             hf_error *reterr) {
    hfi_unpacker at = {column->node, layout->end};
    hfi_table_node node;
    hfi_item text;
    if (!column->node)
        return hf_error_set(reterr, HF_DECLINED,
                            "the table's description would be too large");
    if (hfi_table_node_chunks(&at, &text) > 0 && hfi_table_node_read(&at, &node) == 0)
        return hf_error_set(reterr, HF_DECLINED,
                            "a column of Arrow's type %.*s can't be mapped",
                            (int)(node.format.size < 200 ? node.format.size : 200),
                            (const char *)node.format.data);
    return hf_error_set(reterr, HF_DECLINED, "the column can't be mapped: %.*s",
                        (int)(text.size < 200 ? text.size : 200),
                        (const char *)text.data);
}

/* ---- the column -------------------------------------------------------------------- */

static hf_status
open_column(hf_snapshot *snapshot, const hf_entry *entry,
            const hfi_table_layout *layout, const hfi_table_column *column,
            hf_array *ret_array, hf_error *reterr) {
    hfi_table_part part;
    hf_array head;
    struct ArrowArray array = {.release = NULL};
    hf_status status = hfi_table_part_of(layout, column, &part, reterr);
    int has_part = status == HF_OK;
    if (has_part && part.is_mapped)
        return hfi_array_open(snapshot, entry, &part.head, part.place,
                              part.has_valid ? &part.valid : NULL, ret_array, reterr);
    if (status >= 0)
        status = hfi_table_head_of(layout, column, &head, reterr);
    if (status != HF_OK)
        return status;
    if (head.kind == 'O' && has_part)
        return hf_error_set(reterr, HF_DECLINED, "a column of %.*s can't be mapped",
                            (int)(part.type.size < 200 ? part.type.size : 200),
                            (const char *)part.type.data);
    if (head.kind == 'O')
        return decline_node(layout, column, reterr);
    status = hfi_table_export_column(snapshot, entry, layout, column, &array, reterr);
    return status == HF_OK ? open_elements_consume(&array, &head, ret_array, reterr)
                           : status;
}

hf_status
hf_array_of_column(hf_snapshot *snapshot, const char *key, size_t key_size,
                   const char *column, size_t column_size, hf_array *ret_array,
                   hf_error *reterr) {
    HFI_NEED(reterr, snapshot, key, column, ret_array);
    hf_entry entry = {.struct_size = sizeof entry};
    hfi_table_layout layout;
    hf_status status = HFI_STRUCT_CHECK_OUTPUT(ret_array, hf_array, internal, reterr);
    if (status != HF_OK)
        return status;
    status = hfi_table_find(snapshot, key, key_size, &entry, &layout, reterr);
    const hfi_table_column *found =
        status == HF_OK ? find_column(&layout, column, column_size) : NULL;
    if (status == HF_OK && !found)
        status = hf_error_set(reterr, HF_NOT_FOUND, "the table has no such column");
    else if (status == HF_OK)
        status = open_column(snapshot, &entry, &layout, found, ret_array, reterr);
    hfi_table_layout_fini(&layout);
    return status;
}
