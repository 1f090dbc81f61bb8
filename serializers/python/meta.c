/* meta.c - the msgpack map in an entry's meta.
 *
 * Every Python codec of ours writes one map with string keys, so that programs in any
 * language can list a session without decoding it: "type" (the value's type), "bytes"
 * (its size where that is known), and what the codec itself needs. describe.c prints
 * from the same keys. Unknown keys are ignored, so that later versions may add some.
 *
 * msgpack-c writes and reads it. Its unpacker allocates for as many items as a head
 * announces: four billion in five bytes. So our own reader, which allocates nothing,
 * checks a meta first.
 */
#include "meta.h"

#include "base/unpacker.h"

#include <string.h>

enum { DEPTH_MAX = 31 }; /* msgpack-c's embedded stack holds 32 */

/* A map in which an item is missing would be read with wrong keys. So after a failure
 * nothing more is written. */
static int
append_bytes(void *context, const char *data, size_t size) {
    hfi_meta_writer *writer = context;
    writer->failed =
        writer->failed || msgpack_sbuffer_write(&writer->buffer, data, size) != 0;
    return writer->failed ? -1 : 0;
}

void
hfi_meta_writer_init(hfi_meta_writer *writer, size_t pairs) {
    msgpack_sbuffer_init(&writer->buffer);
    msgpack_packer_init(&writer->packer, writer, append_bytes);
    writer->failed = 0;
    msgpack_pack_map(&writer->packer, pairs);
}

hf_status
hfi_meta_writer_finish(hfi_meta_writer *writer, hf_sink *sink, hf_error *reterr) {
    hf_status status =
        writer->failed
            ? hf_error_set(reterr, HF_E_NOMEM, "no memory for an entry's meta")
            : sink->set_meta(sink, writer->buffer.data, writer->buffer.size, reterr);
    msgpack_sbuffer_destroy(&writer->buffer);
    return status;
}

void
hfi_meta_put_key(hfi_meta_writer *writer, const char *key) {
    size_t size = strlen(key);
    msgpack_pack_str(&writer->packer, size);
    msgpack_pack_str_body(&writer->packer, key, size);
}

void
hfi_meta_put_text(hfi_meta_writer *writer, const char *key, const char *text,
                  size_t size) {
    hfi_meta_put_key(writer, key);
    msgpack_pack_str(&writer->packer, size);
    msgpack_pack_str_body(&writer->packer, text, size);
}

void
hfi_meta_put_bytes(hfi_meta_writer *writer, const char *key, const void *data,
                   size_t size) {
    hfi_meta_put_key(writer, key);
    msgpack_pack_bin(&writer->packer, size);
    msgpack_pack_bin_body(&writer->packer, data, size);
}

void
hfi_meta_put_number(hfi_meta_writer *writer, const char *key, uint64_t number) {
    hfi_meta_put_key(writer, key);
    msgpack_pack_uint64(&writer->packer, number);
}

hf_status
hfi_meta_init(hfi_meta *ret_meta, const void *data, size_t size, hf_error *reterr) {
    hfi_unpacker unpacker;
    size_t offset = 0;
    ret_meta->map = NULL;
    hfi_unpacker_init(&unpacker, data, size);
    if (hfi_unpacker_skip(&unpacker, DEPTH_MAX) != HF_OK)
        return hf_error_set(reterr, HF_E_CORRUPT, "the entry's meta is no map");
    msgpack_unpacked_init(&ret_meta->unpacked);
    switch (msgpack_unpack_next(&ret_meta->unpacked, data, size, &offset)) {
    case MSGPACK_UNPACK_SUCCESS:
        if (ret_meta->unpacked.data.type == MSGPACK_OBJECT_MAP) {
            ret_meta->map = &ret_meta->unpacked.data.via.map;
            return HF_OK;
        }
        break;
    case MSGPACK_UNPACK_NOMEM_ERROR:
        msgpack_unpacked_destroy(&ret_meta->unpacked);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for an entry's meta");
    default:
        break;
    }
    msgpack_unpacked_destroy(&ret_meta->unpacked);
    return hf_error_set(reterr, HF_E_CORRUPT, "the entry's meta is no map");
}

void
hfi_meta_fini(hfi_meta *meta) {
    msgpack_unpacked_destroy(&meta->unpacked);
}

const msgpack_object *
hfi_meta_find(const hfi_meta *meta, const char *key) {
    size_t size = strlen(key);
    for (uint32_t i = 0; i < meta->map->size; i++) {
        const msgpack_object *name = &meta->map->ptr[i].key;
        if (name->type == MSGPACK_OBJECT_STR && name->via.str.size == size &&
            memcmp(name->via.str.ptr, key, size) == 0)
            return &meta->map->ptr[i].val;
    }
    return NULL;
}

const char *
hfi_meta_text(const hfi_meta *meta, const char *key, size_t *ret_size) {
    const msgpack_object *value = hfi_meta_find(meta, key);
    if (!value || value->type != MSGPACK_OBJECT_STR)
        return NULL;
    *ret_size = value->via.str.size;
    return value->via.str.ptr;
}

const void *
hfi_meta_bytes(const hfi_meta *meta, const char *key, size_t *ret_size) {
    const msgpack_object *value = hfi_meta_find(meta, key);
    if (!value || value->type != MSGPACK_OBJECT_BIN)
        return NULL;
    *ret_size = value->via.bin.size;
    return value->via.bin.ptr;
}

hf_status
hfi_meta_number(const hfi_meta *meta, const char *key, uint64_t *ret_number,
                hf_error *reterr) {
    const msgpack_object *value = hfi_meta_find(meta, key);
    if (!value || value->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return hf_error_set(reterr, HF_E_CORRUPT, "meta lacks the number '%s'", key);
    *ret_number = value->via.u64;
    return HF_OK;
}

hf_status
hfi_meta_numbers(const hfi_meta *meta, const char *key, int64_t *ret_numbers,
                 size_t count_max, size_t *ret_count, hf_error *reterr) {
    const msgpack_object *value = hfi_meta_find(meta, key);
    if (!value || value->type != MSGPACK_OBJECT_ARRAY ||
        value->via.array.size > count_max)
        return hf_error_set(reterr, HF_E_CORRUPT, "meta lacks the list '%s'", key);
    for (uint32_t i = 0; i < value->via.array.size; i++) {
        const msgpack_object *item = &value->via.array.ptr[i];
        int positive = item->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
        if ((!positive && item->type != MSGPACK_OBJECT_NEGATIVE_INTEGER) ||
            (positive && item->via.u64 > INT64_MAX))
            return hf_error_set(reterr, HF_E_CORRUPT,
                                "'%s' in meta is no list of numbers", key);
        ret_numbers[i] = item->via.i64;
    }
    *ret_count = value->via.array.size;
    return HF_OK;
}
