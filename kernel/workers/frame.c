/* frame.c - msgpack maps, written and read.
 *
 * A worker runs user code, and user code can write to any descriptor of its process. So
 * what comes from a worker is hostile: before msgpack-c sees the bytes they are walked
 * once, which checks that every length and count fits into what is there, that the
 * nesting is bounded and that exactly one value fills the frame. Without that walk a
 * five-byte array header would make the unpacker reserve gigabytes. The walk keeps no
 * stack of its own beyond HFI_FRAME_DEPTH_MAX counters.
 *
 * Strings of a map that was read point into the frame's bytes: nothing is copied until
 * somebody keeps it. No input or output here, so that a fuzzer can run it. One thread
 * a frame.
 */
#include "workers/frame.h"

#include <limits.h>

/* ---- writing ------------------------------------------------------------------ */

static void
check(hfi_frame *frame, int result) {
    if (result != 0)
        frame->failed = 1;
}

static void
put_key(hfi_frame *frame, const char *key) {
    hfi_frame_put_text(frame, hfi_part_text(key));
}

void
hfi_frame_init(hfi_frame *frame, const char *op, uint32_t pairs) {
    msgpack_sbuffer_init(&frame->buffer);
    msgpack_packer_init(&frame->packer, &frame->buffer, msgpack_sbuffer_write);
    frame->failed = 0;
    check(frame, msgpack_sbuffer_write(&frame->buffer, "\0\0\0\0", 4));
    check(frame, msgpack_pack_map(&frame->packer, pairs + 1u));
    hfi_frame_add_text(frame, "op", hfi_part_text(op));
}

void
hfi_frame_fini(hfi_frame *frame) {
    msgpack_sbuffer_destroy(&frame->buffer);
}

void
hfi_frame_put_text(hfi_frame *frame, hfi_part text) {
    if (text.size > UINT_MAX)
        frame->failed = 1;
    else
        check(frame, msgpack_pack_str_with_body(&frame->packer,
                                                text.size ? text.data : "", text.size));
}

void
hfi_frame_put_bytes(hfi_frame *frame, hfi_part bytes) {
    if (bytes.size > UINT_MAX)
        frame->failed = 1;
    else
        check(frame, msgpack_pack_bin_with_body(
                         &frame->packer, bytes.size ? bytes.data : "", bytes.size));
}

void
hfi_frame_add_text(hfi_frame *frame, const char *key, hfi_part text) {
    put_key(frame, key);
    hfi_frame_put_text(frame, text);
}

void
hfi_frame_add_bytes(hfi_frame *frame, const char *key, hfi_part bytes) {
    put_key(frame, key);
    hfi_frame_put_bytes(frame, bytes);
}

void
hfi_frame_add_integer(hfi_frame *frame, const char *key, int64_t value) {
    put_key(frame, key);
    check(frame, msgpack_pack_int64(&frame->packer, value));
}

void
hfi_frame_add_flag(hfi_frame *frame, const char *key, int value) {
    put_key(frame, key);
    check(frame, value ? msgpack_pack_true(&frame->packer)
                       : msgpack_pack_false(&frame->packer));
}

void
hfi_frame_add_array(hfi_frame *frame, const char *key, size_t count) {
    put_key(frame, key);
    check(frame, msgpack_pack_array(&frame->packer, count));
}

void
hfi_frame_add_map(hfi_frame *frame, const char *key, size_t count) {
    put_key(frame, key);
    check(frame, msgpack_pack_map(&frame->packer, count));
}

void
hfi_frame_put_object(hfi_frame *frame, const char *key, const msgpack_object *value) {
    put_key(frame, key);
    check(frame, msgpack_pack_object(&frame->packer, *value));
}

hf_status
hfi_frame_finish(hfi_frame *frame, hf_error *reterr) {
    size_t size = frame->buffer.size;
    if (frame->failed)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    if (size - 4 > HFI_FRAME_SIZE_MAX)
        return hf_error_set(reterr, HF_E_LIMIT, "a frame of %zu bytes is too large",
                            size);
    for (size_t i = 0; i < 4; i++)
        frame->buffer.data[i] = (char)((size - 4) >> (24 - 8 * i));
    return HF_OK;
}

/* ---- checking ----------------------------------------------------------------- */

typedef struct cursor {
    const unsigned char *next;
    size_t left;
} cursor;

static int
skip(cursor *at, size_t size) {
    if (size > at->left)
        return 0;
    at->next += size;
    at->left -= size;
    return 1;
}

/* A big-endian number of `width` bytes. */
static int
take_number(cursor *at, size_t width, size_t *ret_number) {
    const unsigned char *p = at->next;
    size_t number = 0;
    if (!skip(at, width))
        return 0;
    for (size_t i = 0; i < width; i++)
        number = number << 8 | p[i];
    *ret_number = number;
    return 1;
}

/* Bytes with a length of `width` bytes and `extra` more (an extension's type). */
static int
skip_sized(cursor *at, size_t width, size_t extra) {
    size_t size = 0;
    return take_number(at, width, &size) && skip(at, size) && skip(at, extra);
}

static int
skip_container(cursor *at, size_t width, size_t each, size_t *ret_members) {
    if (!take_number(at, width, ret_members) || *ret_members > at->left)
        return 0;
    *ret_members *= each;
    return 1;
}

/* Skip one value's head and bytes; `ret_members` is how many values it contains. */
static int
skip_head(cursor *at, size_t *ret_members) {
    size_t tag = 0;
    *ret_members = 0;
    if (!take_number(at, 1, &tag) || tag == 0xc1)
        return 0;
    if (tag < 0x80 || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3)
        return 1;
    if (tag < 0xa0) {
        *ret_members = (tag & 15) * (tag < 0x90 ? 2 : 1);
        return *ret_members <= at->left;
    }
    if (tag < 0xc0)
        return skip(at, tag & 31);
    if (tag <= 0xc6)
        return skip_sized(at, (size_t)1 << (tag - 0xc4), 0);
    if (tag <= 0xc9)
        return skip_sized(at, (size_t)1 << (tag - 0xc7), 1);
    if (tag <= 0xcb)
        return skip(at, tag == 0xca ? 4 : 8);
    if (tag <= 0xd3)
        return skip(at, (size_t)1 << ((tag - 0xcc) & 3));
    if (tag <= 0xd8)
        return skip(at, 1 + ((size_t)1 << (tag - 0xd4)));
    if (tag <= 0xdb)
        return skip_sized(at, (size_t)1 << (tag - 0xd9), 0);
    return skip_container(at, tag & 1 ? 4 : 2, tag < 0xde ? 1 : 2, ret_members);
}

int
hfi_frame_is_valid(const void *data, size_t size) {
    cursor at = {data, size};
    size_t left[HFI_FRAME_DEPTH_MAX + 1] = {1};
    size_t depth = 0;
    for (;;) {
        while (left[depth] == 0) {
            if (depth == 0)
                return at.left == 0;
            depth--;
        }
        size_t members = 0;
        left[depth]--;
        if (!skip_head(&at, &members))
            return 0;
        if (members > 0) {
            if (depth == HFI_FRAME_DEPTH_MAX)
                return 0;
            left[++depth] = members;
        }
    }
}

/* ---- reading ------------------------------------------------------------------ */

hf_status
hfi_map_read(hfi_map *map, const void *data, size_t size, hf_error *reterr) {
    size_t offset = 0;
    hfi_map_fini(map);
    if (!hfi_frame_is_valid(data, size))
        return hf_error_set(reterr, HF_E_PROTOCOL, "a frame is not one msgpack value");
    msgpack_unpacked_init(&map->unpacked);
    msgpack_unpack_return result =
        msgpack_unpack_next(&map->unpacked, data, size, &offset);
    if (result == MSGPACK_UNPACK_NOMEM_ERROR)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    if (result != MSGPACK_UNPACK_SUCCESS ||
        map->unpacked.data.type != MSGPACK_OBJECT_MAP) {
        msgpack_unpacked_destroy(&map->unpacked);
        return hf_error_set(reterr, HF_E_PROTOCOL, "a frame is not a map");
    }
    map->object = &map->unpacked.data;
    return HF_OK;
}

void
hfi_map_fini(hfi_map *map) {
    if (map->object != NULL)
        msgpack_unpacked_destroy(&map->unpacked);
    map->object = NULL;
}

hfi_part
hfi_object_part(const msgpack_object *object) {
    if (object != NULL && object->type == MSGPACK_OBJECT_STR)
        return hfi_part_of(object->via.str.ptr, object->via.str.size);
    if (object != NULL && object->type == MSGPACK_OBJECT_BIN)
        return hfi_part_of(object->via.bin.ptr, object->via.bin.size);
    return hfi_part_of("", 0);
}

const msgpack_object *
hfi_map_get(const msgpack_object *map, const char *key) {
    if (map == NULL || map->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        if (hfi_part_equal(hfi_object_part(&pair->key), hfi_part_text(key)))
            return &pair->val;
    }
    return NULL;
}

hfi_part
hfi_map_part(const msgpack_object *map, const char *key) {
    return hfi_object_part(hfi_map_get(map, key));
}

int64_t
hfi_map_integer(const msgpack_object *map, const char *key, int64_t fallback) {
    const msgpack_object *value = hfi_map_get(map, key);
    if (value == NULL)
        return fallback;
    if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return value->via.i64;
    if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER && value->via.u64 <= INT64_MAX)
        return (int64_t)value->via.u64;
    return fallback;
}

int
hfi_map_flag(const msgpack_object *map, const char *key) {
    const msgpack_object *value = hfi_map_get(map, key);
    return value != NULL && value->type == MSGPACK_OBJECT_BOOLEAN && value->via.boolean;
}

double
hfi_map_real(const msgpack_object *map, const char *key, double fallback) {
    const msgpack_object *value = hfi_map_get(map, key);
    if (value != NULL && (value->type == MSGPACK_OBJECT_FLOAT32 ||
                          value->type == MSGPACK_OBJECT_FLOAT64))
        return value->via.f64;
    return (double)hfi_map_integer(map, key, (int64_t)fallback);
}
