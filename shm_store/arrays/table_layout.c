/* table_layout.c - what the meta of an entry says of a table.
 *
 * bindings/store/table_meta.c writes it: a list of the number of rows, the names of the
 * columns, the parts, and perhaps columns in Arrow's form (table_node.h). A part is a list
 * that begins with the places of its columns in the table. docs/formats.md says what
 * follows.
 *
 * Checked is all that needs no memory: each column has a part or a node, not two of one
 * kind, and a name of its own, in UTF-8. Offsets are compared with the memory when a
 * column is mapped.
 */
#include "table_layout.h"

#include <stdlib.h>
#include <string.h>

#include "arrow_format.h"
#include "table_node.h"

/* ---- names ------------------------------------------------------------------------ */

/* The size of the character at `text`, 0 if it is none. */
static size_t
character_width(const unsigned char *text, size_t size) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t width = text[0] < 0x80   ? 1
                   : text[0] < 0xc2 ? 0
                   : text[0] < 0xe0 ? 2
                   : text[0] < 0xf0 ? 3
                   : text[0] < 0xf5 ? 4
                                    : 0;
    uint32_t point = width > 1 ? text[0] & (0x7fu >> width) : text[0];
    if (!width || width > size)
        return 0;
    for (size_t i = 1; i < width; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (text[i] & 0x3fu);
    }
    return point >= least[width] && point <= 0x10ffff &&
                   !(point >= 0xd800 && point <= 0xdfff)
               ? width
               : 0;
}

int
hfi_is_utf8(const void *bytes, size_t size) {
    const unsigned char *text = bytes;
    for (size_t at = 0, width; at < size; at += width)
        if ((width = character_width(text + at, size - at)) == 0)
            return 0;
    return 1;
}

static int
by_name(const void *one, const void *other) {
    const hfi_table_column *left = *(hfi_table_column *const *)one,
                           *right = *(hfi_table_column *const *)other;
    if (left->size != right->size)
        return left->size < right->size ? -1 : 1;
    return left->size ? memcmp(left->name, right->name, left->size) : 0;
}

/* HF_E_CORRUPT: two columns have one name. */
static hf_status
check_names(const hfi_table_layout *layout, hf_error *reterr) {
    size_t count = layout->column_count;
    hfi_table_column **sorted = malloc((count + 1) * sizeof(hfi_table_column *));
    hf_status status = HF_OK;
    if (!sorted)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a table");
    for (size_t i = 0; i < count; i++)
        sorted[i] = &layout->columns[i];
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 1; i < count && status == HF_OK; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            status = hf_error_set(reterr, HF_E_CORRUPT, "a table has a column twice");
    free(sorted);
    return status;
}

/* ---- parts ------------------------------------------------------------------------- */

/* Numbers that may be below 0. */
static int
take_signed(hfi_unpacker *at, int64_t *ret_number) {
    hfi_item item;
    if (hfi_unpacker_next(at, &item) != HF_OK || item.kind != HFI_ITEM_INT)
        return -1;
    *ret_number = item.as.i;
    return 0;
}

/* The rest of a part behind its columns, of a list of `items`. `ret_step`: the bytes from
 * a column to the next one. */
static int
read_part(hfi_unpacker *at, uint32_t items, int64_t rows, hfi_table_part *ret_part,
          int64_t *ret_step) {
    hfi_table_part *part = ret_part;
    hf_array *head = &part->head;
    *head = (hf_array){.struct_size = sizeof *head,
                       .kind = 'O',
                       .byte_order = '|',
                       .dimensions = 1,
                       .shape = {rows}};
    part->is_mapped = items > 2;
    part->has_valid = items == 8;
    if (hfi_unpacker_next(at, &part->type) != HF_OK || part->type.kind != HFI_ITEM_STR)
        return -1;
    if (!part->is_mapped)
        return 0;
    uint64_t before, bytes;
    return hfi_table_take_place(at, &part->place) < 0 ||
                   take_signed(at, &head->strides[0]) < 0 ||
                   take_signed(at, ret_step) < 0 ||
                   (part->has_valid && hfi_table_take_place(at, &part->valid) < 0) ||
                   hfi_array_type_read((const char *)part->type.data, part->type.size,
                                       head) != 0 ||
                   hfi_array_span(head, &before, &bytes) < 0
               ? -1
               : 0;
}

static int
take_part(hfi_unpacker *at, hfi_table_layout *layout) {
    hfi_table_part part;
    size_t items = 0, count = 0;
    int64_t step;
    if (hfi_table_take_list(at, &items) < 0 || (items != 2 && items != 6 && items != 8))
        return -1;
    hfi_unpacker columns = *at;
    if (hfi_table_take_list(&columns, &count) < 0 || (items == 8 && count != 1) ||
        hfi_unpacker_skip(at, 1) != HF_OK)
        return -1;
    const unsigned char *rest = at->at;
    for (size_t i = 0; i < count; i++) {
        int64_t number;
        if (hfi_table_take_integer(&columns, (int64_t)layout->column_count - 1,
                                   &number) < 0 ||
            layout->columns[number].part)
            return -1;
        layout->columns[number].part = rest;
        layout->columns[number].part_items = (uint32_t)items;
        layout->columns[number].index = (uint32_t)i;
    }
    return read_part(at, (uint32_t)items, layout->rows, &part, &step);
}

/* ---- nodes ------------------------------------------------------------------------- */

/* The list of the places of columns, and of what says them in Arrow's form. The place
 * behind the last one is that of the index. */
static int
take_nodes(hfi_unpacker *at, hfi_table_layout *layout) {
    hfi_item item;
    int64_t column;
    if (hfi_unpacker_next(at, &item) != HF_OK)
        return -1;
    layout->has_no_nodes = item.kind == HFI_ITEM_NIL;
    if (layout->has_no_nodes)
        return 0;
    if (item.kind != HFI_ITEM_ARRAY || item.size % 2)
        return -1;
    for (size_t i = 0; i < item.size / 2; i++) {
        if (hfi_table_take_integer(at, layout->column_count, &column) < 0 ||
            layout->columns[column].node)
            return -1;
        layout->columns[column].node = at->at;
        if (hfi_unpacker_skip(at, HFI_TABLE_DEPTH_MAX) != HF_OK)
            return -1;
    }
    layout->has_index = layout->columns[layout->column_count].node != NULL;
    return 0;
}

/* ---- the whole ---------------------------------------------------------------------- */

static int
take_names(hfi_unpacker *at, hfi_table_layout *layout, size_t count) {
    hfi_item item;
    for (size_t i = 0; i < count; i++) {
        if (hfi_unpacker_next(at, &item) != HF_OK || item.kind != HFI_ITEM_STR ||
            item.size > UINT32_MAX || !hfi_is_utf8(item.data, item.size))
            return -1;
        layout->columns[i].name = (const char *)item.data;
        layout->columns[i].size = (uint32_t)item.size;
    }
    return 0;
}

static int
columns_are_said(const hfi_table_layout *layout) {
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (!layout->columns[i].part && !layout->columns[i].node &&
            !layout->has_no_nodes)
            return 0;
    return 1;
}

static hf_status
read_table(hfi_table_layout *layout, hfi_unpacker *at, hf_error *reterr) {
    size_t size = 0, count = 0;
    if (hfi_table_take_list(at, &size) < 0 || (size != 3 && size != 4) ||
        hfi_table_take_integer(at, INT64_MAX, &layout->rows) < 0 ||
        hfi_table_take_list(at, &count) < 0 || count >= UINT32_MAX ||
        count > (size_t)(at->end - at->at) / 2) /* names differ: one may be empty */
        return HF_E_CORRUPT;
    layout->columns = calloc(count + 1, sizeof *layout->columns);
    if (!layout->columns)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a table");
    layout->column_count = (uint32_t)count;
    if (take_names(at, layout, count) < 0 || hfi_table_take_list(at, &count) < 0)
        return HF_E_CORRUPT;
    for (size_t i = 0; i < count; i++)
        if (take_part(at, layout) < 0)
            return HF_E_CORRUPT;
    if ((size == 4 && take_nodes(at, layout) < 0) || !columns_are_said(layout) ||
        at->at != at->end)
        return HF_E_CORRUPT;
    return check_names(layout, reterr);
}

static hf_status
report_table(hf_error *reterr, const char *what) {
    return hf_error_set(reterr, HF_E_CORRUPT, "a table's meta is wrong%s", what);
}

hf_status
hfi_table_layout_init(hfi_table_layout *ret_layout, const hfi_item *table,
                      hf_error *reterr) {
    hfi_unpacker at;
    *ret_layout = (hfi_table_layout){.end = table->data + table->size};
    hfi_unpacker_init(&at, table->data, table->size);
    hf_status status = read_table(ret_layout, &at, reterr);
    return status == HF_E_CORRUPT ? report_table(reterr, "") : status;
}

void
hfi_table_layout_fini(hfi_table_layout *layout) {
    free(layout->columns);
}

/* ---- one column --------------------------------------------------------------------- */

hf_status
hfi_table_part_of(const hfi_table_layout *layout, const hfi_table_column *column,
                  hfi_table_part *ret_part, hf_error *reterr) {
    hfi_unpacker at = {column->part, layout->end};
    int64_t step = 0, more;
    if (!column->part)
        return HF_NOT_FOUND;
    if (read_part(&at, column->part_items, layout->rows, ret_part, &step) < 0)
        return report_table(reterr, "");
    if (!ret_part->is_mapped)
        return HF_OK;
    if (__builtin_mul_overflow(step, (int64_t)column->index, &more) ||
        __builtin_add_overflow((int64_t)ret_part->place.offset, more, &more) ||
        more < 0)
        return report_table(reterr, ": a column is nowhere");
    ret_part->place.offset = (uint64_t)more;
    return HF_OK;
}

hf_status
hfi_table_head_of(const hfi_table_layout *layout, const hfi_table_column *column,
                  hf_array *ret_head, hf_error *reterr) {
    hfi_table_part part;
    hf_status status = hfi_table_part_of(layout, column, &part, reterr);
    if (status < 0)
        return status;
    if (status == HF_OK) {
        *ret_head = part.head;
        if (part.is_mapped)
            return HF_OK;
    }
    *ret_head = (hf_array){.struct_size = sizeof *ret_head,
                           .kind = 'O',
                           .byte_order = '|',
                           .dimensions = 1,
                           .shape = {layout->rows}};
    hfi_unpacker at = {column->node, layout->end};
    hfi_table_node node;
    hfi_item text;
    int64_t chunks = column->node ? hfi_table_node_chunks(&at, &text) : 0;
    if (chunks < 0 || (chunks > 0 && hfi_table_node_read(&at, &node) < 0))
        return report_table(reterr, ": a node");
    if (chunks > 0 && !node.has_dictionary)
        (void)hfi_arrow_format_head((const char *)node.format.data, node.format.size,
                                    ret_head); /* or it stays an 'O' */
    return HF_OK;
}
