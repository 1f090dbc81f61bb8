/* table_layout.c - what the meta of an entry says of a table.
 *
 * bindings/store/table_meta.c writes it: a list of the number of rows, the names of the
 * columns, the parts, and perhaps columns in Arrow's form (table_export.c). A part is a
 * list that begins with the places of its columns in the table. docs/formats.md says
 * what follows.
 *
 * Checked is all that needs no memory: each column has one part and a name of its own, in
 * UTF-8. Offsets are compared with the memory when a column is mapped.
 */
#include "table_layout.h"

#include <stdlib.h>
#include <string.h>

enum { NO_PART = UINT32_MAX, NEST_MAX = 64 };

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

/* ---- items ------------------------------------------------------------------------- */

static int
take_list(hfi_unpacker *at, size_t *ret_size) {
    hfi_item item;
    if (hfi_unpacker_next(at, &item) != HF_OK || item.kind != HFI_ITEM_ARRAY)
        return -1;
    *ret_size = item.size;
    return 0;
}

static int
take_integer(hfi_unpacker *at, int64_t *ret_number) {
    hfi_item item;
    if (hfi_unpacker_next(at, &item) != HF_OK || item.kind != HFI_ITEM_INT)
        return -1;
    *ret_number = item.as.i;
    return 0;
}

int
hfi_table_take_place(hfi_unpacker *at, hfi_memory_place *ret_place) {
    hfi_item item;
    int64_t offset;
    if (hfi_unpacker_next(at, &item) != HF_OK || take_integer(at, &offset) < 0 ||
        offset < 0 ||
        (item.kind != HFI_ITEM_NIL && (item.kind != HFI_ITEM_INT || item.as.i < 0)))
        return -1;
    ret_place->buffer =
        item.kind == HFI_ITEM_NIL ? HFI_ARRAY_NO_BUFFER : (uint64_t)item.as.i;
    ret_place->offset = (uint64_t)offset;
    return 0;
}

static int
take_columns(hfi_unpacker *at, hfi_table_layout *layout, uint32_t part, int is_one) {
    size_t count = 0;
    if (take_list(at, &count) < 0 || (is_one && count != 1))
        return -1;
    for (size_t i = 0; i < count; i++) {
        int64_t number;
        if (take_integer(at, &number) < 0 || number < 0 ||
            number >= layout->column_count || layout->columns[number].part != NO_PART)
            return -1;
        layout->columns[number].part = part;
        layout->columns[number].index = (uint32_t)i;
    }
    return 0;
}

static int
take_part(hfi_unpacker *at, hfi_table_layout *layout, uint32_t number) {
    hfi_table_part *part = &layout->parts[number];
    hf_array *head = &part->head;
    size_t size = 0;
    if (take_list(at, &size) < 0 || (size != 2 && size != 6 && size != 8) ||
        take_columns(at, layout, number, size == 8) < 0 ||
        hfi_unpacker_next(at, &part->type) != HF_OK || part->type.kind != HFI_ITEM_STR)
        return -1;
    *head = (hf_array){.struct_size = sizeof *head,
                       .kind = 'O',
                       .byte_order = '|',
                       .dimensions = 1,
                       .shape = {layout->rows}};
    if (size == 2)
        return 0;
    part->is_mapped = 1;
    part->has_valid = size == 8;
    uint64_t before, bytes;
    return hfi_table_take_place(at, &part->place) < 0 ||
                   take_integer(at, &head->strides[0]) < 0 ||
                   take_integer(at, &part->step) < 0 ||
                   (part->has_valid && hfi_table_take_place(at, &part->valid) < 0) ||
                   hfi_array_type_read((const char *)part->type.data, part->type.size,
                                       head) != 0 ||
                   hfi_array_span(head, &before, &bytes) < 0
               ? -1
               : 0;
}

/* ---- the whole ---------------------------------------------------------------------- */

static int
take_names(hfi_unpacker *at, hfi_table_layout *layout, size_t count) {
    hfi_item item;
    for (size_t i = 0; i < count; i++) {
        if (hfi_unpacker_next(at, &item) != HF_OK || item.kind != HFI_ITEM_STR ||
            !hfi_is_utf8(item.data, item.size))
            return -1;
        layout->columns[i] = (hfi_table_column){
            .name = (const char *)item.data, .size = item.size, .part = NO_PART};
    }
    return 0;
}

static hf_status
read_table(hfi_table_layout *layout, hfi_unpacker *at, hf_error *reterr) {
    size_t size = 0, count = 0;
    if (take_list(at, &size) < 0 || (size != 3 && size != 4) ||
        take_integer(at, &layout->rows) < 0 || layout->rows < 0 ||
        take_list(at, &count) < 0)
        return HF_E_CORRUPT;
    layout->columns = calloc(count + 1, sizeof *layout->columns);
    if (!layout->columns)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a table");
    layout->column_count = (uint32_t)count; /* as many bytes there were, at least */
    if (take_names(at, layout, count) < 0 || take_list(at, &count) < 0)
        return HF_E_CORRUPT;
    layout->parts = calloc(count + 1, sizeof *layout->parts);
    if (!layout->parts)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a table");
    layout->part_count = (uint32_t)count;
    for (uint32_t i = 0; i < layout->part_count; i++)
        if (take_part(at, layout, i) < 0)
            return HF_E_CORRUPT;
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (layout->columns[i].part == NO_PART)
            return HF_E_CORRUPT;
    layout->arrow = *at;
    if (size == 4 && hfi_unpacker_skip(at, NEST_MAX) != HF_OK)
        return HF_E_CORRUPT;
    layout->arrow.end = at->at;
    return at->at == at->end ? check_names(layout, reterr) : HF_E_CORRUPT;
}

hf_status
hfi_table_layout_init(hfi_table_layout *ret_layout, const hfi_item *table,
                      hf_error *reterr) {
    hfi_unpacker at;
    *ret_layout = (hfi_table_layout){.rows = 0};
    hfi_unpacker_init(&at, table->data, table->size);
    hf_status status = read_table(ret_layout, &at, reterr);
    if (status == HF_E_CORRUPT)
        return hf_error_set(reterr, status, "a table's meta is wrong");
    return status;
}

void
hfi_table_layout_fini(hfi_table_layout *layout) {
    free(layout->columns);
    free(layout->parts);
}
