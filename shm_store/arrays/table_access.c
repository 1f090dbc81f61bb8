/* table_access.c - finding a table in an entry, and its columns: hf_table_each.
 *
 * A table is in a pickle. Its entry, or that of the name if it is in a group, says of
 * each column where its memory is.
 */
#include "table_access.h"

#include "array_access.h"
#include "base/argument.h"

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
        hf_array head;
        status = hfi_table_head_of(&layout, column, &head, reterr);
        if (status == HF_OK &&
            visit(context, column->name, column->size, &head) == HF_STOP)
            break;
    }
    hfi_table_layout_fini(&layout);
    return status;
}
