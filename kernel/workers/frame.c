/* frame.c - frames and their bytes, a msgpack map: both made from the table.
 *
 * workers/protocol.h has the fields of each frame: their names, their types, and the
 * places of their members. One loop over the fields writes any frame, and one reads
 * any. Rejected: a C function for each frame. It would be the same loop sixty times.
 *
 * A worker runs user code, and user code can write to any descriptor of its process. So
 * bytes from a worker are hostile. Before msgpack-c gets them, they are checked in one
 * pass: every length and count fits into the bytes that are there, the nesting is
 * bounded, and exactly one value fills the frame. Without this check an array header of
 * five bytes would make the unpacker reserve gigabytes. The check keeps no stack but
 * HFI_FRAME_DEPTH_MAX counters.
 *
 * Strings of a frame that was read point into its bytes: nothing is copied until
 * somebody keeps it. There is no input or output here, so that a fuzzer can run it. A
 * frame belongs to one thread at a time.
 */
#include "workers/frame.h"

#include <limits.h>
#include <stddef.h>

/* ---- the table ------------------------------------------------------------------- */

#define MAP(name, fields, text) static const hfi_shape *shape_map_##name(void);
HFI_PROTOCOL_MAPS(MAP, HFI_NOTHING, HFI_NOTHING)
#undef MAP

#define TYPE(name, c_type, kind, many, map, words)                                     \
    static const hfi_type type_##name = {words, kind, many, map};
HFI_PROTOCOL_TYPES(TYPE)
#undef TYPE

#define MAP(name, fields, text)                                                        \
    __attribute__((unused)) static const hfi_type type_##name = {                      \
        #name, HFI_MAP, HFI_ONE, shape_map_##name};
HFI_PROTOCOL_MAPS(MAP, HFI_NOTHING, HFI_NOTHING)
#undef MAP

/* `self` is the struct that has the members. A shape is a function, because only a
 * block can give each struct this same name. */
#define FIELD(name, member, type, is_always)                                           \
    {#name, sizeof #name - 1, &type, offsetof(self, member), is_always},
#define HAS(name, type) FIELD(name, name, type_##type, true)
#define MAY(name, type) FIELD(name, name, type_##type, false)
#define SHAPE(name, ...)                                                               \
    static const hfi_shape *shape_##name(void) {                                       \
        typedef hfi_##name self;                                                       \
        static const hfi_field fields[] = {__VA_ARGS__{0}};                            \
        static const hfi_shape shape = {sizeof(self), fields};                         \
        return &shape;                                                                 \
    }

#define MAP(name, fields, text)                                                        \
    SHAPE(map_##name, fields)                                                          \
    const hfi_row hfi_row_map_##name = {"", "", #name, text, 0, shape_map_##name};
HFI_PROTOCOL_MAPS(MAP, HAS, MAY)
#undef MAP

#define FRAME(way, peer, op, extra, fds, fields, text)                                 \
    SHAPE(way##_##peer##_##op, FIELD(raw, head.raw, type_ints, false) fields)          \
    const hfi_row hfi_row_##way##_##peer##_##op = {                                    \
        #way, #peer, #op, text, fds, shape_##way##_##peer##_##op};
HFI_FRAMES(FRAME, HAS, MAY)
#undef FRAME

#define FRAME(way, peer, op, extra, fds, fields, text) &hfi_row_##way##_##peer##_##op,
const hfi_row *const hfi_rows[] = {HFI_FRAMES(FRAME, HFI_NOTHING, HFI_NOTHING) NULL};
#undef FRAME

/* All lists have the same layout, and so have all pointers to maps. */
typedef struct list {
    const void *items;
    size_t count;
} list;

static list
list_of(const void *member) {
    list values;
    memcpy(&values, member, sizeof values);
    return values;
}

static const void *
map_of(const void *member) {
    const void *map;
    memcpy(&map, member, sizeof map);
    return map;
}

/* The size of one value in a list. */
static size_t
value_size(const hfi_type *type) {
    static const size_t sizes[] = {[HFI_INT] = sizeof(int64_t),
                                   [HFI_REAL] = sizeof(double),
                                   [HFI_BOOL] = sizeof(bool),
                                   [HFI_STR] = sizeof(hfi_part),
                                   [HFI_BIN] = sizeof(hfi_part)};
    return type->kind == HFI_MAP ? type->map()->size : sizes[type->kind];
}

size_t
hfi_frame_fd_count(const hfi_frame *frame) {
    const hfi_field *field = frame->row->shape()->fields;
    if (frame->row->fds != HFI_FDS_IF_FOUND)
        return (size_t)frame->row->fds;
    while (strcmp(field->name, "found") != 0)
        field++;
    return *(const bool *)((const char *)frame + field->offset);
}

/* ---- writing ------------------------------------------------------------------ */

/* Each returns 0, or another number if memory is lacking or a text is too long. */
static int pack_shape(msgpack_packer *packer, const hfi_shape *shape, const void *self,
                      const char *op);

static int
pack_part(msgpack_packer *packer, hfi_part part, hfi_kind kind) {
    const char *data = part.size > 0 ? part.data : "";
    if (part.size > UINT_MAX)
        return -1;
    return kind == HFI_BIN ? msgpack_pack_bin_with_body(packer, data, part.size)
                           : msgpack_pack_str_with_body(packer, data, part.size);
}

static int
pack_value(msgpack_packer *packer, const hfi_type *type, const void *value) {
    switch (type->kind) {
    case HFI_INT:
        return msgpack_pack_int64(packer, *(const int64_t *)value);
    case HFI_REAL:
        return msgpack_pack_double(packer, *(const double *)value);
    case HFI_BOOL:
        return *(const bool *)value ? msgpack_pack_true(packer)
                                    : msgpack_pack_false(packer);
    case HFI_MAP: /* its first member is `source` */
        return map_of(value) != NULL
                   ? msgpack_pack_object(packer, *(const msgpack_object *)map_of(value))
                   : pack_shape(packer, type->map(), value, NULL);
    default:
        return pack_part(packer, *(const hfi_part *)value, type->kind);
    }
}

static int
pack_list(msgpack_packer *packer, const hfi_type *type, list values) {
    const char *at = values.items;
    if (at == NULL && values.count > 0)
        return -1; /* making it failed for want of memory */
    int failed = type->many == HFI_LIST ? msgpack_pack_array(packer, values.count)
                                        : msgpack_pack_map(packer, values.count);
    for (size_t i = 0; i < values.count && !failed; i++) {
        if (type->many == HFI_KEYED) {
            failed = pack_part(packer, *(const hfi_part *)(const void *)at, HFI_STR);
            at += sizeof(hfi_part);
        }
        failed = failed || pack_value(packer, type, at);
        at += value_size(type);
    }
    return failed;
}

static int
pack_member(msgpack_packer *packer, const hfi_type *type, const void *member) {
    return type->many != HFI_ONE   ? pack_list(packer, type, list_of(member))
           : type->kind == HFI_MAP ? pack_value(packer, type, map_of(member))
                                   : pack_value(packer, type, member);
}

static bool
is_written(const hfi_field *field, const char *members) {
    static const char zero[sizeof(list) + sizeof(hfi_part)];
    const hfi_type *type = field->type;
    if (field->is_always)
        return true;
    size_t size = type->many != HFI_ONE   ? sizeof(list)
                  : type->kind == HFI_MAP ? sizeof(void *)
                                          : value_size(type);
    return memcmp(members + field->offset, zero, size) != 0;
}

static int
pack_shape(msgpack_packer *packer, const hfi_shape *shape, const void *self,
           const char *op) {
    const char *members = self;
    uint64_t written = 0;
    size_t count = op != NULL;
    for (const hfi_field *at = shape->fields; at->name != NULL; at++)
        if (is_written(at, members)) {
            written |= UINT64_C(1) << (at - shape->fields);
            count++;
        }
    int failed = msgpack_pack_map(packer, count);
    if (op != NULL)
        failed = failed || pack_part(packer, hfi_part_text("op"), HFI_STR) ||
                 pack_part(packer, hfi_part_text(op), HFI_STR);
    for (const hfi_field *at = shape->fields; at->name != NULL && !failed; at++)
        if (written >> (at - shape->fields) & 1)
            failed = pack_part(packer, hfi_part_of(at->name, at->name_size), HFI_STR) ||
                     pack_member(packer, at->type, members + at->offset);
    return failed;
}

hf_status
hfi_frame_pack(const hfi_frame *frame, msgpack_packer_write write, void *to,
               hf_error *reterr) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, to, write);
    return write(to, "\0\0\0\0", HFI_FRAME_HEAD) ||
                   pack_shape(&packer, frame->row->shape(), frame, frame->row->op)
               ? hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame")
               : HF_OK;
}

hf_status
hfi_frame_put_size(char *head, size_t size, hf_error *reterr) {
    if (size - HFI_FRAME_HEAD > HFI_FRAME_SIZE_MAX)
        return hf_error_set(reterr, HF_E_LIMIT, "a frame of %zu bytes is too large",
                            size - HFI_FRAME_HEAD);
    for (size_t i = 0; i < HFI_FRAME_HEAD; i++)
        head[i] = (char)((size - HFI_FRAME_HEAD) >> (24 - 8 * i));
    return HF_OK;
}

hf_status
hfi_frame_write(const hfi_frame *frame, msgpack_sbuffer *ret_buffer, hf_error *reterr) {
    msgpack_sbuffer_init(ret_buffer);
    hf_status status = hfi_frame_pack(frame, msgpack_sbuffer_write, ret_buffer, reterr);
    if (status == HF_OK)
        status = hfi_frame_put_size(ret_buffer->data, ret_buffer->size, reterr);
    if (status == HF_OK)
        return HF_OK;
    msgpack_sbuffer_destroy(ret_buffer);
    msgpack_sbuffer_init(ret_buffer);
    return status;
}

/* ---- checking ----------------------------------------------------------------- */

typedef struct cursor {
    const unsigned char *next;
    size_t left;
} cursor;

static int
skip_bytes(cursor *at, size_t size) {
    if (size > at->left)
        return 0;
    at->next += size;
    at->left -= size;
    return 1;
}

/* A big-endian number of `width` bytes. */
static int
take_msgpack_number(cursor *at, size_t width, size_t *ret_number) {
    const unsigned char *p = at->next;
    size_t number = 0;
    if (!skip_bytes(at, width))
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
    return take_msgpack_number(at, width, &size) && skip_bytes(at, size) &&
           skip_bytes(at, extra);
}

static int
skip_container(cursor *at, size_t width, size_t each, size_t *ret_members) {
    if (!take_msgpack_number(at, width, ret_members) || *ret_members > at->left)
        return 0;
    *ret_members *= each;
    return 1;
}

/* Skip one value's head and bytes; `ret_members` is the number of values that it
 * contains. */
static int
skip_head(cursor *at, size_t *ret_members) {
    size_t tag = 0;
    *ret_members = 0;
    if (!take_msgpack_number(at, 1, &tag) || tag == 0xc1)
        return 0;
    if (tag < 0x80 || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3)
        return 1;
    if (tag < 0xa0) {
        *ret_members = (tag & 15) * (tag < 0x90 ? 2 : 1);
        return *ret_members <= at->left;
    }
    if (tag < 0xc0)
        return skip_bytes(at, tag & 31);
    if (tag <= 0xc6)
        return skip_sized(at, (size_t)1 << (tag - 0xc4), 0);
    if (tag <= 0xc9)
        return skip_sized(at, (size_t)1 << (tag - 0xc7), 1);
    if (tag <= 0xcb)
        return skip_bytes(at, tag == 0xca ? 4 : 8);
    if (tag <= 0xd3)
        return skip_bytes(at, (size_t)1 << ((tag - 0xcc) & 3));
    if (tag <= 0xd8)
        return skip_bytes(at, 1 + ((size_t)1 << (tag - 0xd4)));
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
hfi_received_parse(hfi_received *received, const void *data, size_t size,
                   hf_error *reterr) {
    size_t offset = 0;
    hfi_received_fini(received);
    if (!hfi_frame_is_valid(data, size))
        return hf_error_set(reterr, HF_E_PROTOCOL, "a frame is not one msgpack value");
    msgpack_unpacked_init(&received->unpacked);
    msgpack_unpack_return result =
        msgpack_unpack_next(&received->unpacked, data, size, &offset);
    if (result == MSGPACK_UNPACK_NOMEM_ERROR)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    if (result != MSGPACK_UNPACK_SUCCESS ||
        received->unpacked.data.type != MSGPACK_OBJECT_MAP) {
        msgpack_unpacked_destroy(&received->unpacked);
        return hf_error_set(reterr, HF_E_PROTOCOL, "a frame is not a map");
    }
    received->object = &received->unpacked.data;
    return HF_OK;
}

void
hfi_received_fini(hfi_received *received) {
    if (received->object != NULL)
        msgpack_unpacked_destroy(&received->unpacked);
    received->object = NULL;
}

static bool
is_key(const msgpack_object *key, const char *name, size_t size) {
    return key->type == MSGPACK_OBJECT_STR && key->via.str.size == size &&
           memcmp(key->via.str.ptr, name, size) == 0;
}

const msgpack_object *
hfi_map_get(const msgpack_object *map, const char *key) {
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (is_key(&map->via.map.ptr[i].key, key, strlen(key)))
            return &map->via.map.ptr[i].val;
    return NULL;
}

hfi_part
hfi_received_op(const hfi_received *received) {
    const msgpack_object *op = hfi_map_get(received->object, "op");
    return op != NULL && op->type == MSGPACK_OBJECT_STR
               ? hfi_part_of(op->via.str.ptr, op->via.str.size)
               : hfi_part_text("");
}

static hf_status read_shape(const hfi_shape *shape, const msgpack_object *map,
                            msgpack_zone *zone, void *ret_self, hf_error *reterr);

static hf_status
check_type(bool fits, const char *words, hf_error *reterr) {
    return fits ? HF_OK
                : hf_error_set(reterr, HF_E_PROTOCOL, "its type isn't %s", words);
}

static bool
is_int(const msgpack_object *value) {
    return value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER ||
           (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
            value->via.u64 <= INT64_MAX);
}

/* Read one value into its place: a member, or an item of a list. */
static hf_status
read_value(const hfi_type *type, const msgpack_object *value, msgpack_zone *zone,
           void *ret_value, hf_error *reterr) {
    bool fits = false;
    switch (type->kind) {
    case HFI_INT:
        fits = is_int(value);
        *(int64_t *)ret_value = value->via.i64;
        break;
    case HFI_REAL:
        fits = is_int(value) || value->type == MSGPACK_OBJECT_FLOAT32 ||
               value->type == MSGPACK_OBJECT_FLOAT64;
        *(double *)ret_value = is_int(value) ? (double)value->via.i64 : value->via.f64;
        break;
    case HFI_BOOL:
        fits = value->type == MSGPACK_OBJECT_BOOLEAN;
        *(bool *)ret_value = fits && value->via.boolean;
        break;
    case HFI_STR:
        fits = value->type == MSGPACK_OBJECT_STR;
        *(hfi_part *)ret_value = hfi_part_of(value->via.str.ptr, value->via.str.size);
        break;
    case HFI_BIN:
        fits = value->type == MSGPACK_OBJECT_BIN;
        *(hfi_part *)ret_value = hfi_part_of(value->via.bin.ptr, value->via.bin.size);
        break;
    case HFI_MAP:
        memcpy(ret_value, &value, sizeof value); /* its `source` */
        return read_shape(type->map(), value, zone, ret_value, reterr);
    }
    return check_type(fits, type->words, reterr);
}

/* Zeroed memory. For no items it is one byte, since NULL means that the field is
 * missing. */
static void *
allocate_items(msgpack_zone *zone, size_t count, size_t size) {
    void *memory = NULL;
    if (zone != NULL && count < SIZE_MAX / 2 / size)
        memory = msgpack_zone_malloc(zone, count > 0 ? count * size : 1);
    if (memory != NULL)
        memset(memory, 0, count > 0 ? count * size : 1);
    return memory;
}

static hf_status
read_list(const hfi_type *type, const msgpack_object *value, msgpack_zone *zone,
          void *ret_list, hf_error *reterr) {
    static const hfi_type key_type = {"a map with texts as keys", HFI_STR, HFI_ONE,
                                      NULL};
    bool is_keyed = type->many == HFI_KEYED;
    size_t key_size = is_keyed ? sizeof(hfi_part) : 0;
    size_t size = key_size + value_size(type);
    hf_status status = check_type(
        value->type == (is_keyed ? MSGPACK_OBJECT_MAP : MSGPACK_OBJECT_ARRAY),
        type->words, reterr);
    if (status != HF_OK)
        return status;
    size_t count = is_keyed ? value->via.map.size : value->via.array.size;
    char *item = allocate_items(zone, count, size);
    if (item == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    memcpy(ret_list, &(list){item, count}, sizeof(list));
    for (size_t i = 0; i < count && status == HF_OK; i++, item += size) {
        const msgpack_object *at =
            is_keyed ? &value->via.map.ptr[i].val : &value->via.array.ptr[i];
        if (is_keyed)
            status =
                read_value(&key_type, &value->via.map.ptr[i].key, zone, item, reterr);
        if (status == HF_OK)
            status = read_value(type, at, zone, item + key_size, reterr);
    }
    return status;
}

static hf_status
read_member(const hfi_type *type, const msgpack_object *value, msgpack_zone *zone,
            void *ret_member, hf_error *reterr) {
    if (type->many != HFI_ONE)
        return read_list(type, value, zone, ret_member, reterr);
    if (type->kind != HFI_MAP)
        return read_value(type, value, zone, ret_member, reterr);
    void *map = allocate_items(zone, 1, type->map()->size);
    if (map == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a frame");
    memcpy(ret_member, &map, sizeof map);
    return read_value(type, value, zone, map, reterr);
}

/* The field with this key: as a rule the one after the last that was found. */
static const hfi_field *
find_field(const hfi_shape *shape, const hfi_field *likely, const msgpack_object *key) {
    if (likely->name != NULL && is_key(key, likely->name, likely->name_size))
        return likely;
    for (const hfi_field *at = shape->fields; at->name != NULL; at++)
        if (is_key(key, at->name, at->name_size))
            return at;
    return NULL;
}

static hf_status
read_shape(const hfi_shape *shape, const msgpack_object *map, msgpack_zone *zone,
           void *ret_self, hf_error *reterr) {
    const hfi_field *likely = shape->fields;
    uint64_t found = 0;
    hf_status status = check_type(map->type == MSGPACK_OBJECT_MAP, "a map", reterr);
    for (uint32_t i = 0; status == HF_OK && i < map->via.map.size; i++) {
        const hfi_field *field = find_field(shape, likely, &map->via.map.ptr[i].key);
        if (field == NULL)
            continue;
        found |= UINT64_C(1) << (field - shape->fields);
        status = read_member(field->type, &map->via.map.ptr[i].val, zone,
                             (char *)ret_self + field->offset, reterr);
        if (status != HF_OK)
            hf_error_prefix(reterr, "%s", field->name);
        likely = field + 1;
    }
    for (const hfi_field *at = shape->fields; status == HF_OK && at->name != NULL; at++)
        if (at->is_always && (found >> (at - shape->fields) & 1) == 0)
            status = hf_error_set(reterr, HF_E_PROTOCOL, "%s is missing", at->name);
    return status;
}

hf_status
hfi_frame_read(const hfi_received *received, const hfi_row *row, hfi_frame *ret_frame,
               hf_error *reterr) {
    memset(ret_frame, 0, row->shape()->size);
    ret_frame->row = row;
    hf_status status = read_shape(row->shape(), received->object,
                                  received->unpacked.zone, ret_frame, reterr);
    if (status != HF_OK)
        hf_error_prefix(reterr, "%s", row->op);
    return status;
}
