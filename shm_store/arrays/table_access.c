/* table_access.c - tables by a public header: hf_table_each, hf_array_of_column.
 *
 * A table is in a pickle. Its entry, or that of the name if it is in a group, says of
 * each column where its memory is. A column is then an array like others.
 */
#include "table_access.h"

#include <string.h>

#include "array_access.h"
#include "base/argument.h"
#include "base/struct_size.h"

hf_status
hfi_table_find(hf_snapshot *snapshot, const char *key, size_t key_size,
               hf_entry *ret_entry, hfi_table_layout *ret_layout, hf_error *reterr) {
    hfi_array_layout meta;
    *ret_layout = (hfi_table_layout){.rows = 0};
    hf_status status = hf_snapshot_find(snapshot, key, key_size, ret_entry, reterr);
    if (status != HF_OK)
        return status;
    int is_member = ret_entry->codec == HFI_CODEC_MEMBER;
    if (!is_member && ret_entry->codec != HFI_CODEC_PICKLE)
        return hf_error_set(reterr, HF_DECLINED, "it is no table but of codec %u",
                            ret_entry->codec);
    status =
        hfi_array_layout_read(ret_entry->meta, ret_entry->meta_size, &meta, reterr);
    if (status != HF_OK)
        return status;
    if (meta.table.kind != HFI_ITEM_BIN)
        return hf_error_set(reterr, HF_DECLINED,
                            "it is no table that is described, but a %.*s",
                            (int)(meta.type.kind == HFI_ITEM_STR && meta.type.size < 200
                                      ? meta.type.size
                                      : 0),
                            (const char *)meta.type.data);
    status = hfi_table_layout_init(ret_layout, &meta.table, reterr);
    if (status == HF_OK && is_member)
        status = hfi_array_group(snapshot, &meta.group, ret_entry, reterr);
    return status;
}

hf_status
hf_table_each(hf_snapshot *snapshot, const char *key, size_t key_size,
              hf_column_visit visit, void *context, hf_error *reterr) {
    HFI_NEED(reterr, snapshot, key, visit);
    hf_entry entry = {.struct_size = sizeof entry};
    hfi_table_layout layout;
    hf_status status = hfi_table_find(snapshot, key, key_size, &entry, &layout, reterr);
    for (uint32_t i = 0; status == HF_OK && i < layout.column_count; i++) {
        const hfi_table_column *column = &layout.columns[i];
        if (visit(context, column->name, column->size,
                  &layout.parts[column->part].head) == HF_STOP)
            break;
    }
    hfi_table_layout_fini(&layout);
    return status;
}

static const hfi_table_column *
find_column(const hfi_table_layout *layout, const char *name, size_t size) {
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (layout->columns[i].size == size &&
            (!size || memcmp(layout->columns[i].name, name, size) == 0))
            return &layout->columns[i];
    return NULL;
}

int
hfi_table_column_place(const hfi_table_part *part, uint32_t index,
                       hfi_memory_place *ret_place) {
    int64_t at;
    if (__builtin_mul_overflow(part->step, (int64_t)index, &at) ||
        __builtin_add_overflow((int64_t)part->place.offset, at, &at) || at < 0)
        return -1;
    *ret_place = part->place;
    ret_place->offset = (uint64_t)at;
    return 0;
}

static hf_status
open_column(hf_snapshot *snapshot, const hf_entry *entry, const hfi_table_part *part,
            uint32_t index, hf_array *ret_array, hf_error *reterr) {
    hfi_memory_place place;
    hf_array array = part->head;
    if (hfi_table_column_place(part, index, &place) < 0)
        return hf_error_set(reterr, HF_E_CORRUPT, "a column is nowhere");
    return hfi_array_open(snapshot, entry, &array, place,
                          part->has_valid ? &part->valid : NULL, ret_array, reterr);
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
    const hfi_table_part *part = found ? &layout.parts[found->part] : NULL;
    if (status == HF_OK && !found)
        status = hf_error_set(reterr, HF_NOT_FOUND, "the table has no such column");
    else if (status == HF_OK && !part->is_mapped)
        status = hf_error_set(reterr, HF_DECLINED, "a column of %.*s can't be mapped",
                              (int)(part->type.size < 200 ? part->type.size : 200),
                              (const char *)part->type.data);
    else if (status == HF_OK)
        status = open_column(snapshot, &entry, part, found->index, ret_array, reterr);
    hfi_table_layout_fini(&layout);
    return status;
}
