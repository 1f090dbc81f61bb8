/* table_export.c - tables by the Arrow C data interface: hf_table_export.
 *
 * The meta says of a column that it is NumPy's memory (a part, table_layout.c), or it has
 * a node, which says what Arrow wants to know (table_node.h), or one for each of its
 * chunks.
 *
 * Columns are mapped, and all of those in one buffer by one mapping. Copied are small
 * ones, that lie in the payload; NumPy's bools, which have a byte each; columns whose
 * elements don't lie side by side or aligned; bits of validity, if missing elements are
 * said in another way; and columns in several chunks, which are joined.
 */
#include "table_export.h"

#include <stdlib.h>
#include <string.h>

#include "arrow_join.h"
#include "arrow_values.h"
#include "base/argument.h"
#include "table_access.h"
#include "table_node.h"

typedef struct export {
    hf_snapshot *snapshot;
    const hf_entry *entry;
    const hfi_table_layout *layout;
    hfi_arrow_memory *memory;
    const char *column; /* that is exported; for messages */
    size_t column_size;
    hf_error *reterr;
}
export;

/* ---- failures ------------------------------------------------------------------- */

static hf_status
decline_column(export *to, const char *why, size_t size) {
    return hf_error_set(to->reterr, HF_DECLINED, "column %.*s can't be exported: %.*s",
                        (int)(to->column_size < 100 ? to->column_size : 100),
                        to->column, (int)(size < 200 ? size : 200), why);
}

static hf_status
no_memory(export *to) {
    return hf_error_set(to->reterr, HF_E_NOMEM, "no memory for a table");
}

static hf_status
report_corrupt(export *to, const char *why) {
    return hf_error_set(to->reterr, HF_E_CORRUPT, "column %.*s is wrong: %s",
                        (int)(to->column_size < 100 ? to->column_size : 100),
                        to->column, why);
}

/* ---- memory --------------------------------------------------------------------- */

/* `size` bytes of the entry: a part of a mapping, or a copy if they are in the payload
 * or not aligned to `align`. */
static hf_status
find_bytes(export *to, hfi_memory_place place, uint64_t size, uint32_t align,
           const void **ret_bytes) {
    const char *data = to->entry->payload;
    uint64_t room = to->entry->payload_size;
    int is_mapped = place.buffer != HFI_ARRAY_NO_BUFFER;
    if (is_mapped) {
        if (place.buffer >= to->entry->buffer_count)
            return report_corrupt(to, "it has no such buffer");
        uint32_t index = (uint32_t)place.buffer;
        hf_region **region = hfi_arrow_memory_region(to->memory, index);
        hf_status status =
            *region ? HF_OK
                    : hf_region_map(to->snapshot, to->entry, index, region, to->reterr);
        if (status != HF_OK)
            return status;
        data = hf_region_address(*region);
        room = hf_region_size(*region);
    }
    if (place.offset > room || size > room - place.offset)
        return report_corrupt(to, "it reaches out of its memory");
    if (size)
        data += place.offset;
    if (size && is_mapped && (uintptr_t)data % align == 0) {
        *ret_bytes = data;
        return HF_OK;
    }
    void *copy = hfi_arrow_memory_add(to->memory, size);
    if (!copy)
        return no_memory(to);
    if (size)
        memcpy(copy, data, size);
    *ret_bytes = copy;
    return HF_OK;
}

/* Bits that say that all of `count` elements are there. NULL: no memory. */
static unsigned char *
add_valid_bits(export *to, uint64_t count) {
    unsigned char *bits = hfi_arrow_memory_add(to->memory, count / 8 + 1);
    if (bits)
        memset(bits, 0xff, count / 8 + 1);
    return bits;
}

/* The bits of an array's missing elements, if it has some that are said in another way:
 * by `elements` of `width` bytes. */
static hf_status
add_missing(export *to, hfi_arrow_missing kind, const void *elements, uint32_t width,
            uint64_t count, struct ArrowArray *array) {
    array->null_count = hfi_arrow_missing_bits(kind, elements, width, count, NULL);
    if (array->null_count == 0)
        return HF_OK;
    unsigned char *bits = add_valid_bits(to, count);
    if (!bits)
        return no_memory(to);
    (void)hfi_arrow_missing_bits(kind, elements, width, count, bits);
    array->buffers[0] = bits;
    return HF_OK;
}

static hf_status
add_bits_of_bytes(export *to, const unsigned char *bytes, uint64_t count,
                  int64_t stride, struct ArrowArray *array) {
    unsigned char *bits = hfi_arrow_memory_add(to->memory, count / 8 + 1);
    if (!bits)
        return no_memory(to);
    hfi_arrow_pack_bits(bytes, count, stride, bits);
    array->buffers[1] = bits;
    return HF_OK;
}

/* ---- columns of NumPy ----------------------------------------------------------- */

/* A column's elements side by side, and those as Arrow wants them. */
static hf_status
take_elements(export *to, const hf_array *head, hfi_memory_place place,
              struct ArrowArray *array) {
    uint64_t before, size, count = (uint64_t)head->shape[0];
    uint32_t width = head->itemsize;
    const void *bytes = NULL;
    if (hfi_array_span(head, &before, &size) < 0 || before > place.offset)
        return report_corrupt(to, "it reaches out of its memory");
    place.offset -= before;
    if (count > 1 && head->strides[0] > -(int64_t)width &&
        head->strides[0] < (int64_t)width)
        return decline_column(to, "its elements overlap", 20);
    int is_dense = count <= 1 || head->strides[0] == (int64_t)width;
    hf_status status = find_bytes(to, place, size, is_dense ? width : 1, &bytes);
    if (status != HF_OK)
        return status;
    const char *first = (const char *)bytes + before;
    if (head->kind == 'b')
        return add_bits_of_bytes(to, (const unsigned char *)first, count,
                                 head->strides[0], array);
    if (!is_dense) {
        char *copy = hfi_arrow_memory_add(to->memory, count * width);
        if (!copy)
            return no_memory(to);
        for (uint64_t i = 0; i < count; i++)
            memcpy(copy + i * width, first + (int64_t)i * head->strides[0], width);
        bytes = copy;
    }
    array->buffers[1] = bytes;
    return head->kind == 'M' || head->kind == 'm'
               ? add_missing(to, HFI_MISSING_LOWEST, bytes, width, count, array)
               : HF_OK;
}

static hf_status
take_part(export *to, const hfi_table_column *column, const hfi_table_part *part,
          struct ArrowSchema *schema, struct ArrowArray *array) {
    char format[HFI_ARROW_NUMBER_SIZE];
    if (!part->is_mapped || hfi_arrow_format_of(&part->head, format) < 0)
        return decline_column(to, (const char *)part->type.data, part->type.size);
    if (hfi_arrow_schema_init(schema, format, strlen(format), column->name,
                              column->size, 0, 0) < 0 ||
        hfi_arrow_array_init(array, to->memory, 2, 0, 0) < 0)
        return no_memory(to);
    array->length = to->layout->rows;
    hf_status status = take_elements(to, &part->head, part->place, array);
    if (status != HF_OK || !part->has_valid)
        return status;
    uint64_t rows = (uint64_t)to->layout->rows;
    array->null_count = -1;
    return find_bytes(to, part->valid, rows / 8 + (rows % 8 != 0), 1,
                      &array->buffers[0]);
}

/* ---- nodes ----------------------------------------------------------------------- */

/* The buffers of a node. Without elements they may be empty, and then they are given out
 * as zeros. `sizes` has room for all of them. */
static hf_status
take_buffers(export *to, const hfi_table_node *from, const hfi_arrow_format *format,
             struct ArrowArray *array, uint64_t *sizes) {
    uint64_t count = (uint64_t)array->length + (uint64_t)array->offset;
    uint32_t width = format->width;
    uint32_t align = !width || width % 2 ? 1 : width % 8 == 0 ? 8 : width % 4 ? 2 : 4;
    hfi_unpacker places = from->places;
    for (size_t i = 0; i < from->place_count; i++) {
        hfi_memory_place place;
        uint64_t needed = 0;
        if (hfi_table_node_place(&places, &place, &sizes[i]) < 0 ||
            (i < 2 && hfi_arrow_buffer_size(format, (uint32_t)i, count, &needed) < 0))
            return report_corrupt(to, "a buffer's place");
        if (i == 0 && from->missing == HFI_MISSING_BYTES)
            needed = count;
        if (i == 1 && from->missing == HFI_MISSING_BYTES &&
            format->kind == HFI_ARROW_BITS)
            needed = count;
        if (i == 0 && sizes[i] == 0)
            continue;
        if (count == 0 && sizes[i] == 0)
            needed = 0;
        if (sizes[i] < needed)
            return report_corrupt(to, "a buffer is too small");
        hf_status status =
            find_bytes(to, place, sizes[i], i == 1 ? align : 1, &array->buffers[i]);
        if (status != HF_OK)
            return status;
    }
    if (format->kind == HFI_ARROW_VIEWS) {
        size_t more = from->place_count - 2;
        int64_t *own = hfi_arrow_memory_add(to->memory, (more + 1) * sizeof *own);
        if (!own)
            return no_memory(to);
        memcpy(own, sizes + 2, more * sizeof *own);
        array->buffers[from->place_count] = own;
    }
    return HF_OK;
}

/* Missing elements that are said in another way, and bools of a byte each. */
static hf_status
take_missing(export *to, const hfi_table_node *from, const hfi_arrow_format *format,
             struct ArrowArray *array) {
    uint64_t count = (uint64_t)from->length;
    const unsigned char *mask = array->buffers[0];
    array->null_count = mask || from->missing ? -1 : 0;
    if (format->kind == HFI_ARROW_NULL)
        array->null_count = from->length;
    if (from->missing == HFI_MISSING_BITS)
        return HF_OK;
    array->buffers[0] = NULL;
    if (from->missing != HFI_MISSING_BYTES)
        return add_missing(to, (hfi_arrow_missing)from->missing, array->buffers[1],
                           format->width, count, array);
    array->null_count = 0;
    hf_status status = HF_OK;
    if (mask)
        status = add_missing(to, HFI_MISSING_BYTES, mask, 1, count, array);
    if (status == HF_OK && format->kind == HFI_ARROW_BITS)
        status = add_bits_of_bytes(to, array->buffers[1], count, 1, array);
    return status;
}

/* Whether the numbers of a node go together. */
static int
node_is_valid(const hfi_table_node *from, const hfi_arrow_format *format) {
    size_t least = format->buffers;
    int is_views = format->kind == HFI_ARROW_VIEWS;
    if (from->place_count < least || (!is_views && from->place_count > least) ||
        (format->child_count != UINT64_MAX && from->child_count != format->child_count))
        return 0;
    if (from->has_dictionary && !format->is_index)
        return 0;
    switch (from->missing) {
    case HFI_MISSING_BITS:
        return 1;
    case HFI_MISSING_LOWEST:
        return format->kind == HFI_ARROW_FIXED && format->width == 8 && !from->offset;
    case HFI_MISSING_NEGATIVE:
        return format->is_index && !from->offset;
    case HFI_MISSING_BYTES:
        return (format->kind == HFI_ARROW_FIXED || format->kind == HFI_ARROW_BITS) &&
               !from->offset;
    default:
        return 0;
    }
}

static hf_status take_node(export *to, hfi_unpacker *at, const hfi_table_column *column,
                           unsigned depth, struct ArrowSchema *schema,
                           struct ArrowArray *array);

static hf_status
fill_node(export *to, const hfi_table_node *from, const hfi_arrow_format *format,
          unsigned depth, struct ArrowSchema *schema, struct ArrowArray *array,
          uint64_t *sizes) {
    hfi_unpacker inside = from->children;
    array->length = from->length;
    array->offset = from->length ? from->offset : 0;
    schema->flags = from->flags;
    hf_status status = take_buffers(to, from, format, array, sizes);
    if (status == HF_OK && format->buffers)
        status = take_missing(to, from, format, array);
    else
        array->null_count = from->length;
    for (size_t i = 0; status == HF_OK && i < from->child_count; i++)
        status = take_node(to, &inside, NULL, depth + 1, schema->children[i],
                           array->children[i]);
    inside = from->dictionary;
    if (status == HF_OK && from->has_dictionary)
        status = take_node(to, &inside, NULL, depth + 1, schema->dictionary,
                           array->dictionary);
    const char *letter = schema->format;
    if (status == HF_OK &&
        !hfi_arrow_values_are_valid(format, array, sizes, letter[0] >= 'a'))
        status = report_corrupt(to, "its elements refer to what isn't there");
    return status;
}

/* `column`: has the name; NULL if the node has it. */
static hf_status
take_node(export *to, hfi_unpacker *at, const hfi_table_column *column, unsigned depth,
          struct ArrowSchema *schema, struct ArrowArray *array) {
    hfi_table_node from;
    hfi_arrow_format format;
    if (depth >= HFI_TABLE_DEPTH_MAX || hfi_table_node_read(at, &from) < 0)
        return report_corrupt(to, "a node");
    const char *name = column ? column->name : (const char *)from.name.data;
    size_t name_size = column ? column->size : from.name.size;
    const char *text = (const char *)from.format.data;
    if (!hfi_is_utf8(name, name_size) || (name_size && memchr(name, 0, name_size)))
        return report_corrupt(to, "a name inside of it");
    if (hfi_arrow_format_read(text, from.format.size, &format) < 0)
        return decline_column(to, text, from.format.size);
    if (!node_is_valid(&from, &format))
        return report_corrupt(to, "a node's numbers");
    size_t buffers = from.place_count + (format.kind == HFI_ARROW_VIEWS);
    uint64_t *sizes = calloc(buffers + 1, sizeof *sizes);
    hf_status status =
        sizes &&
                hfi_arrow_schema_init(schema, text, from.format.size, name, name_size,
                                      from.child_count, from.has_dictionary) == 0 &&
                hfi_arrow_array_init(array, to->memory, buffers, from.child_count,
                                     from.has_dictionary) == 0
            ? fill_node(to, &from, &format, depth, schema, array, sizes)
            : no_memory(to);
    free(sizes);
    return status;
}

/* ---- chunks ---------------------------------------------------------------------- */

/* The nodes of a column's chunks, which are joined. All have the first one's type. */
static hf_status
take_chunks(export *to, hfi_unpacker *at, const hfi_table_column *column, size_t count,
            struct ArrowSchema *schema, struct ArrowArray *array) {
    struct ArrowArray *chunks = calloc(count, sizeof *chunks);
    uint64_t bits_max = 8 * (to->entry->payload_size + to->entry->buffer_bytes);
    hf_status status = chunks ? HF_OK : no_memory(to);
    const char *why = "";
    for (size_t i = 0; status == HF_OK && i < count; i++) {
        struct ArrowSchema own = {.release = NULL};
        status = take_node(to, at, column, 0, i ? &own : schema, &chunks[i]);
        if (status == HF_OK && i && !hfi_arrow_schema_is_same(schema, &own))
            status = report_corrupt(to, "its chunks have different types");
        hfi_arrow_schema_release(&own);
    }
    if (status == HF_OK) {
        status =
            hfi_arrow_join(to->memory, schema, chunks, count, bits_max, array, &why);
        if (status == HF_DECLINED)
            status = decline_column(to, why, strlen(why));
        else if (status == HF_E_NOMEM)
            status = no_memory(to);
    }
    for (size_t i = 0; chunks && i < count; i++)
        hfi_arrow_array_release(&chunks[i]);
    free(chunks);
    return status;
}

/* What stands for a column in Arrow's form. */
static hf_status
take_form(export *to, const hfi_table_column *column, struct ArrowSchema *schema,
          struct ArrowArray *array) {
    hfi_unpacker at = {column->node, to->layout->end};
    const hfi_table_column *named = column->name ? column : NULL;
    hfi_item text;
    int64_t chunks = hfi_table_node_chunks(&at, &text);
    if (chunks < 0)
        return report_corrupt(to, "a node");
    if (chunks == 0)
        return decline_column(to, (const char *)text.data, text.size);
    return chunks == 1 ? take_node(to, &at, named, 0, schema, array)
                       : take_chunks(to, &at, named, (size_t)chunks, schema, array);
}

/* ---- the whole ------------------------------------------------------------------- */

static hf_status
take_column(export *to, const hfi_table_column *column, struct ArrowSchema *schema,
            struct ArrowArray *array) {
    hfi_table_part part;
    to->column = column->name ? column->name : "(the index)";
    to->column_size = column->name ? column->size : strlen(to->column);
    if (column->size && memchr(column->name, 0, column->size))
        return decline_column(to, "a zero in its name", 18);
    hf_status status = HF_OK;
    if (column->node)
        status = take_form(to, column, schema, array);
    else if ((status = hfi_table_part_of(to->layout, column, &part, to->reterr)) ==
             HF_OK)
        status = take_part(to, column, &part, schema, array);
    else if (status == HF_NOT_FOUND)
        status = decline_column(to, "it isn't described", 18);
    if (status == HF_OK && array->length != to->layout->rows)
        status = report_corrupt(to, "its length isn't that of the table");
    return status;
}

static hf_status
take_columns(export *to, struct ArrowSchema *schema, struct ArrowArray *array) {
    const hfi_table_layout *layout = to->layout;
    size_t all = layout->column_count + (layout->has_index != 0);
    if (layout->has_no_nodes)
        return hf_error_set(to->reterr, HF_DECLINED,
                            "the table's description would be too large");
    hf_status status = HF_OK;
    if (hfi_arrow_schema_init(schema, "+s", 2, "", 0, all, 0) < 0 ||
        hfi_arrow_array_init(array, to->memory, 1, all, 0) < 0)
        status = no_memory(to);
    schema->flags = 0;
    array->length = layout->rows;
    for (size_t i = 0; status == HF_OK && i < all; i++)
        status = take_column(to, &layout->columns[i], schema->children[i],
                             array->children[i]);
    return status;
}

/* Export a column, or all of them if it is NULL. */
static hf_status
export_from(hf_snapshot *snapshot, const hf_entry *entry,
            const hfi_table_layout *layout, const hfi_table_column *column,
            struct ArrowSchema *ret_schema, struct ArrowArray *ret_array,
            hf_error *reterr) {
    struct ArrowSchema schema = {.release = NULL};
    struct ArrowArray array = {.release = NULL};
    export to = {.snapshot = snapshot,
                 .entry = entry,
                 .layout = layout,
                 .column = "",
                 .reterr = reterr};
    to.memory = hfi_arrow_memory_create(entry->buffer_count);
    hf_status status = !to.memory ? no_memory(&to)
                       : column   ? take_column(&to, column, &schema, &array)
                                  : take_columns(&to, &schema, &array);
    hfi_arrow_memory_release(to.memory);
    if (status != HF_OK) {
        hfi_arrow_schema_release(&schema);
        hfi_arrow_array_release(&array);
        return status;
    }
    *ret_schema = schema;
    *ret_array = array;
    return HF_OK;
}

hf_status
hfi_table_export_column(hf_snapshot *snapshot, const hf_entry *entry,
                        const hfi_table_layout *layout, const hfi_table_column *column,
                        struct ArrowArray *ret_array, hf_error *reterr) {
    struct ArrowSchema schema = {.release = NULL};
    hf_status status =
        export_from(snapshot, entry, layout, column, &schema, ret_array, reterr);
    hfi_arrow_schema_release(&schema);
    return status;
}

hf_status
hf_table_export(hf_snapshot *snapshot, const char *key, size_t key_size,
                struct ArrowSchema *ret_schema, struct ArrowArray *ret_array,
                hf_error *reterr) {
    HFI_NEED(reterr, snapshot, key, ret_schema, ret_array);
    hf_entry entry = {.struct_size = sizeof entry};
    hfi_table_layout layout;
    hf_status status = hfi_table_find(snapshot, key, key_size, &entry, &layout, reterr);
    if (status == HF_OK)
        status =
            export_from(snapshot, &entry, &layout, NULL, ret_schema, ret_array, reterr);
    hfi_table_layout_fini(&layout);
    return status;
}
