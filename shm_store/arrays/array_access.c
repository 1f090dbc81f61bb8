/* array_access.c - arrays by a public header: hf_array_of, hf_array_release, hf_array_put.
 *
 * An array is in an entry of its own, or it shares memory with other variables. Then
 * its entry names the group that has the memory, and says where in it the array is. In
 * both cases one buffer of the store is mapped, or a part of the payload is copied.
 *
 * A reader's array holds its region, which pins the extents. So it outlives the
 * snapshot, and the next commits of others.
 */
#include "holdfast/array.h"

#include <stdlib.h>
#include <string.h>

#include "array_access.h"
#include "arrow_nodes.h"
#include "base/argument.h"
#include "base/struct_size.h"

/* hf_array.internal; each may be NULL */
typedef struct memory {
    hf_region *region;
    hf_region *valid;
    void *copy;
    void *valid_copy;
    struct ArrowArray arrow; /* a column's, that has all of it */
} memory;

/* ---- reading --------------------------------------------------------------------- */

static hf_status
decline_value(const hf_entry *entry, const hfi_array_layout *layout, const char *why,
              hf_error *reterr) {
    const hfi_item *type = &layout->type;
    int size = (int)(type->size < 200 ? type->size : 200);
    if (layout->table.kind == HFI_ITEM_BIN)
        return hf_error_set(reterr, HF_DECLINED, "it is a table: read its columns");
    if (type->kind != HFI_ITEM_STR)
        return hf_error_set(reterr, HF_DECLINED, "it is no array but %s of codec %u%s",
                            entry->codec == HFI_CODEC_PLAIN ? "plain data" : "a value",
                            entry->codec, why);
    return hf_error_set(reterr, HF_DECLINED, "it is no array but a %.*s%s", size,
                        (const char *)type->data, why);
}

static void
memory_free(memory *own) {
    if (!own)
        return;
    hf_region_release(own->region);
    hf_region_release(own->valid);
    free(own->copy);
    free(own->valid_copy);
    hfi_arrow_array_release(&own->arrow);
    free(own);
}

/* `size` bytes of an entry that begin `before` bytes before `offset`. They are mapped,
 * or a copy of a part of the payload. `ret_data` is what lies at `offset`. */
static hf_status
find_memory(hf_snapshot *snapshot, const hf_entry *entry, hfi_memory_place place,
            uint64_t before, uint64_t size, hf_region **ret_region, void **ret_copy,
            char **ret_data, hf_error *reterr) {
    char *data = (char *)(uintptr_t)entry->payload;
    uint64_t room = entry->payload_size;
    if (place.buffer != HFI_ARRAY_NO_BUFFER) {
        if (place.buffer >= entry->buffer_count)
            return hf_error_set(reterr, HF_E_CORRUPT, "an array without its buffer");
        hf_status status =
            hf_region_map(snapshot, entry, (uint32_t)place.buffer, ret_region, reterr);
        if (status != HF_OK)
            return status;
        data = hf_region_address(*ret_region);
        room = hf_region_size(*ret_region);
    }
    if (place.offset > room || before > place.offset ||
        size - before > room - place.offset)
        return hf_error_set(reterr, HF_E_CORRUPT,
                            "an array reaches out of its memory of %llu bytes",
                            (unsigned long long)room);
    *ret_data = room ? data + place.offset : NULL;
    if (*ret_region)
        return HF_OK;
    char *copy = malloc((size_t)size + 1);
    if (!copy)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for an array");
    if (size)
        memcpy(copy, *ret_data - before, (size_t)size);
    *ret_copy = copy;
    *ret_data = copy + before;
    return HF_OK;
}

hf_status
hfi_array_open(hf_snapshot *snapshot, const hf_entry *entry, hf_array *array,
               hfi_memory_place place, const hfi_memory_place *valid,
               hf_array *ret_array, hf_error *reterr) {
    uint64_t before = 0, size = 0,
             bits = array->shape[0] > 0 ? (uint64_t)array->shape[0] : 0;
    char *data = NULL, *first_bits = NULL;
    memory *own = calloc(1, sizeof *own);
    if (!own)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for an array");
    hf_status status = HF_OK;
    if (hfi_array_span(array, &before, &size) < 0)
        status = hf_error_set(reterr, HF_E_CORRUPT, "an array larger than memory");
    if (status == HF_OK)
        status = find_memory(snapshot, entry, place, before, size, &own->region,
                             &own->copy, &data, reterr);
    if (status == HF_OK && valid)
        status = find_memory(snapshot, entry, *valid, 0, bits / 8 + (bits % 8 != 0),
                             &own->valid, &own->valid_copy, &first_bits, reterr);
    if (status != HF_OK) {
        memory_free(own);
        return status;
    }
    array->data = data;
    array->valid = (unsigned char *)first_bits;
    array->region = own->region;
    array->internal = own;
    hfi_struct_write(ret_array, array, sizeof *array);
    return HF_OK;
}

hf_status
hfi_array_give_consume(hf_array *array, struct ArrowArray *arrow, hf_array *ret_array,
                       hf_error *reterr) {
    memory *own = calloc(1, sizeof *own);
    if (!own) {
        arrow->release(arrow);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for an array");
    }
    own->arrow = *arrow;
    array->internal = own;
    hfi_struct_write(ret_array, array, sizeof *array);
    return HF_OK;
}

hf_status
hfi_array_group(hf_snapshot *snapshot, const hfi_item *group, hf_entry *ret_entry,
                hf_error *reterr) {
    hf_status status = HF_NOT_FOUND;
    if (group->kind == HFI_ITEM_STR)
        status = hf_snapshot_find(snapshot, (const char *)group->data, group->size,
                                  ret_entry, reterr);
    if (status == HF_NOT_FOUND)
        return hf_error_set(reterr, HF_E_CORRUPT, "a name without its group");
    return status;
}

hf_status
hf_array_of(hf_snapshot *snapshot, const char *key, size_t key_size,
            hf_array *ret_array, hf_error *reterr) {
    HFI_NEED(reterr, snapshot, key, ret_array);
    hf_entry entry = {.struct_size = sizeof entry};
    hfi_array_layout layout;
    hf_status status = HFI_STRUCT_CHECK_OUTPUT(ret_array, hf_array, internal, reterr);
    if (status == HF_OK)
        status = hf_snapshot_find(snapshot, key, key_size, &entry, reterr);
    if (status != HF_OK)
        return status;
    int is_member = entry.codec == HFI_CODEC_MEMBER;
    int is_ours =
        is_member || entry.codec == HFI_CODEC_BUFFER || entry.codec == HFI_CODEC_PICKLE;
    status = hfi_array_layout_read(entry.meta, entry.meta_size, &layout,
                                   is_ours ? reterr : NULL);
    if (is_ours && status != HF_OK)
        return status;
    if (!is_ours || !layout.is_array)
        return decline_value(&entry, &layout,
                             is_member ? " (or where it is wasn't written)" : "",
                             reterr);
    if (is_member)
        status = hfi_array_group(snapshot, &layout.group, &entry, reterr);
    else if (entry.codec == HFI_CODEC_BUFFER && entry.buffer_count &&
             layout.place.buffer == HFI_ARRAY_NO_BUFFER)
        layout.place.buffer = 0;
    if (status != HF_OK)
        return status;
    return hfi_array_open(snapshot, &entry, &layout.array, layout.place, NULL,
                          ret_array, reterr);
}

void
hf_array_release(hf_array *array) {
    if (!array || array->struct_size < HFI_STRUCT_LEAST(hf_array, internal))
        return;
    memory_free(array->internal);
    array->data = array->internal = NULL;
    array->valid = NULL;
    array->region = NULL;
}

/* ---- writing --------------------------------------------------------------------- */

/* Where the array's memory begins, and its size: the region, or what the elements
 * span. */
static hf_status
choose_memory(const hf_array *array, hf_buffer *ret_buffer, uint64_t *ret_offset,
              hf_error *reterr) {
    uint64_t before, size;
    if (array->valid || array->internal || !hfi_array_type_is_valid(array) ||
        hfi_array_span(array, &before, &size) < 0)
        return hf_error_set(reterr, HF_E_INVALID,
                            "no array: its kind, byte order, unit, itemsize and shape "
                            "don't go together, or `valid` or `internal` is set");
    if (!array->data && size)
        return hf_error_set(reterr, HF_E_INVALID, "an array without `data`");
    *ret_buffer = (hf_buffer){.struct_size = sizeof *ret_buffer};
    ret_buffer->data = size ? (const char *)array->data - before : NULL;
    ret_buffer->size = (size_t)size;
    *ret_offset = before;
    if (array->region && size) {
        uintptr_t start = (uintptr_t)hf_region_address(array->region);
        uintptr_t low = (uintptr_t)ret_buffer->data;
        size_t room = hf_region_size(array->region);
        if (low < start || low - start > room || size > room - (low - start))
            return hf_error_set(reterr, HF_E_INVALID,
                                "the array reaches out of its region of %zu bytes",
                                room);
        ret_buffer->region = array->region;
        ret_buffer->data = NULL;
        ret_buffer->size = 0;
        *ret_offset += low - start;
    }
    return HF_OK;
}

hf_status
hf_array_put(hf_commit *commit, const char *key, size_t key_size, const hf_array *array,
             hf_error *reterr) {
    HFI_NEED(reterr, commit, key, array);
    hf_array own;
    hf_buffer buffer;
    uint64_t offset = 0;
    unsigned char meta[HFI_ARRAY_META_MAX];
    hf_status status = HFI_STRUCT_READ(&own, array, hf_array, internal, reterr);
    if (status == HF_OK)
        status = choose_memory(&own, &buffer, &offset, reterr);
    if (status != HF_OK)
        return status;
    int is_inline = !buffer.region && buffer.size < HFI_ARRAY_INLINE_SIZE;
    hf_value value = {.struct_size = sizeof value,
                      .key = key,
                      .key_size = key_size,
                      .codec = HFI_CODEC_BUFFER,
                      .meta = meta,
                      .meta_size = hfi_array_layout_write(&own, offset, meta)};
    if (is_inline) {
        value.payload = buffer.data;
        value.payload_size = buffer.size;
    } else {
        value.buffers = &buffer;
        value.buffer_count = 1;
    }
    return hf_commit_put(commit, &value, reterr);
}
