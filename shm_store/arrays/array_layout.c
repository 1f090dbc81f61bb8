/* array_layout.c - the meta of an entry that has an array.
 *
 * The codecs of Python write it (serializers/python/buffer.c and
 * bindings/store/names_format.c), and hf_array_put writes the same. docs/formats.md has
 * its keys. It is one msgpack map. Unknown keys are passed over, so that later versions
 * may add some; a key that comes twice is a lie.
 *
 * Everything is checked here that can be checked without the memory: 64 dimensions, no
 * negative size, and no sum or product beyond 63 bits. What is left for the reader is
 * one comparison with the size of the memory.
 */
#include "array_layout.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 31 };

/* ---- the type of the elements ---------------------------------------------------- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE '<'
#else
#define NATIVE '>'
#endif

static int
is_unit(const char *text, size_t size) {
    static const char *const known[] = {"Y",  "M",  "W",  "D",  "h",  "m", "s",
                                        "ms", "us", "ns", "ps", "fs", "as"};
    size_t digits = 0;
    while (digits < size && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    if (digits && text[0] == '0')
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == size - digits &&
            memcmp(known[i], text + digits, size - digits) == 0)
            return 1;
    return 0;
}

int
hfi_array_type_is_valid(const hf_array *array) {
    uint32_t size = array->itemsize;
    size_t unit = strnlen(array->unit, sizeof array->unit);
    int has_size = 0, has_order = size > 1;
    switch (array->kind) {
    case 'b':
        has_size = size == 1;
        break;
    case 'i':
    case 'u':
        has_size = size == 1 || size == 2 || size == 4 || size == 8;
        break;
    case 'f':
        has_size = size == 2 || size == 4 || size == 8 || size == 12 || size == 16;
        break;
    case 'c':
        has_size = size == 8 || size == 16 || size == 24 || size == 32;
        break;
    case 'M':
    case 'm':
        has_size = size == 8 && unit < sizeof array->unit &&
                   (!unit || is_unit(array->unit, unit));
        unit = 0;
        break;
    case 'U':
        has_size = size % 4 == 0;
        has_order = 1;
        break;
    case 'S':
    case 'V':
        has_size = 1;
        has_order = 0;
        break;
    default:
        break;
    }
    return has_size && !unit && size <= INT32_MAX &&
           (has_order ? array->byte_order == '<' || array->byte_order == '>'
                      : array->byte_order == '|');
}

/* The number at the start of a text. Returns how many digits it has, 0 if it is none. */
static size_t
take_number(const char *text, size_t size, uint32_t *ret_number) {
    size_t digits = 0;
    uint64_t number = 0;
    while (digits < size && digits < 10 && text[digits] >= '0' && text[digits] <= '9')
        number = number * 10 + (uint64_t)(text[digits++] - '0');
    *ret_number = (uint32_t)number;
    return number <= INT32_MAX ? digits : 0;
}

int
hfi_array_type_read(const char *text, size_t size, hf_array *ret_array) {
    hf_array *type = ret_array;
    memset(type->unit, 0, sizeof type->unit);
    if (size == 1 && (text[0] == 'q' || text[0] == 'Q')) {
        type->kind = text[0] == 'q' ? 'i' : 'u';
        type->byte_order = NATIVE;
        type->itemsize = sizeof(long long);
        return 0;
    }
    size_t digits = size > 2 ? take_number(text + 2, size - 2, &type->itemsize) : 0;
    if (!digits)
        return -1;
    type->byte_order = text[0];
    type->kind = text[1];
    if (type->kind == 'U') {
        if (type->itemsize > INT32_MAX / 4)
            return -1;
        type->itemsize *= 4;
    }
    const char *rest = text + 2 + digits;
    size_t left = size - 2 - digits;
    if (left) {
        if (left < 3 || rest[0] != '[' || rest[left - 1] != ']' ||
            (type->kind != 'M' && type->kind != 'm') || !is_unit(rest + 1, left - 2))
            return -1;
        if (left - 2 >= sizeof type->unit)
            return 1;
        memcpy(type->unit, rest + 1, left - 2);
    }
    return hfi_array_type_is_valid(type) ? 0 : -1;
}

static size_t
type_write(const hf_array *array, char *ret_text, size_t size) {
    uint32_t count = array->kind == 'U' ? array->itemsize / 4 : array->itemsize;
    int length = snprintf(ret_text, size, "%c%c%u%s%.8s%s", array->byte_order,
                          array->kind, (unsigned)count, array->unit[0] ? "[" : "",
                          array->unit, array->unit[0] ? "]" : "");
    return (size_t)length;
}

/* ---- where the elements are ------------------------------------------------------ */

int
hfi_array_span(const hf_array *array, uint64_t *ret_before, uint64_t *ret_size) {
    uint64_t before = 0, after = array->itemsize, elements = 1;
    int is_empty = 0;
    if (array->dimensions > HF_ARRAY_DIMENSIONS_MAX)
        return -1;
    for (uint32_t i = 0; i < array->dimensions; i++) {
        int64_t count = array->shape[i], stride = array->strides[i];
        if (count < 0)
            return -1;
        if (count == 0) {
            is_empty = 1;
            continue;
        }
        uint64_t step = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride, reach;
        uint64_t *side = stride < 0 ? &before : &after;
        if (__builtin_mul_overflow(elements, (uint64_t)count, &elements) ||
            __builtin_mul_overflow((uint64_t)count - 1, step, &reach) ||
            __builtin_add_overflow(*side, reach, side))
            return -1;
    }
    uint64_t size;
    if (__builtin_mul_overflow(elements, (uint64_t)array->itemsize, &elements) ||
        __builtin_add_overflow(before, after, &size) || elements > INT64_MAX ||
        size > INT64_MAX)
        return -1;
    *ret_before = is_empty ? 0 : before;
    *ret_size = is_empty ? 0 : size;
    return 0;
}

/* ---- reading --------------------------------------------------------------------- */

static const char *const keys[] = {"type",    "group",  "dtype",  "simple", "descr",
                                   "strides", "offset", "buffer", "shape",  "table"};
enum { TYPE, GROUP, DTYPE, SIMPLE, DESCR, STRIDES, OFFSET, BUFFER, SHAPE, TABLE, KEYS };

typedef struct reader {
    hfi_item items[KEYS];
    hfi_unpacker inside[KEYS]; /* after the item's head */
    unsigned seen;             /* a bit for each of keys[] */
} reader;

static int
key_index(const hfi_item *key) {
    for (int i = 0; i < KEYS; i++)
        if (key->size == strlen(keys[i]) && memcmp(keys[i], key->data, key->size) == 0)
            return i;
    return -1;
}

/* 0, or -1: it is no map of texts, or one key of ours comes twice. */
static int
read_map(reader *at, const void *meta, size_t size) {
    hfi_unpacker unpacker;
    hfi_item map, key;
    hfi_unpacker_init(&unpacker, meta, size);
    if (hfi_unpacker_next(&unpacker, &map) != HF_OK || map.kind != HFI_ITEM_MAP)
        return -1;
    for (size_t i = 0; i < map.size; i++) {
        if (hfi_unpacker_next(&unpacker, &key) != HF_OK || key.kind != HFI_ITEM_STR)
            return -1;
        int which = key_index(&key);
        if (which >= 0) {
            at->inside[which] = unpacker;
            if (at->seen & 1u << which ||
                hfi_unpacker_next(&at->inside[which], &at->items[which]) != HF_OK)
                return -1;
            at->seen |= 1u << which;
        }
        if (hfi_unpacker_skip(&unpacker, DEPTH_MAX) != HF_OK)
            return -1;
    }
    return unpacker.at == unpacker.end ? 0 : -1;
}

static int
has_kind(const reader *at, int which, hfi_item_kind kind) {
    return at->seen & 1u << which && at->items[which].kind == kind;
}

static int
read_numbers(const reader *at, int which, int64_t *ret_numbers, uint32_t *ret_count) {
    hfi_unpacker inside = at->inside[which];
    hfi_item item;
    if (!has_kind(at, which, HFI_ITEM_ARRAY) ||
        at->items[which].size > HF_ARRAY_DIMENSIONS_MAX)
        return -1;
    for (size_t i = 0; i < at->items[which].size; i++) {
        if (hfi_unpacker_next(&inside, &item) != HF_OK || item.kind != HFI_ITEM_INT)
            return -1;
        ret_numbers[i] = item.as.i;
    }
    *ret_count = (uint32_t)at->items[which].size;
    return 0;
}

static int
read_number(const reader *at, int which, uint64_t *ret_number) {
    if (!has_kind(at, which, HFI_ITEM_INT) || at->items[which].as.i < 0)
        return -1;
    *ret_number = at->items[which].as.u;
    return 0;
}

static hf_status
read_array(const reader *at, hfi_array_layout *layout, hf_error *reterr) {
    hf_array *array = &layout->array;
    uint32_t strides = 0;
    uint64_t before, size;
    const hfi_item *type = &at->items[at->seen & 1u << SIMPLE ? SIMPLE : DTYPE];
    if (type->kind != HFI_ITEM_STR ||
        read_numbers(at, SHAPE, array->shape, &array->dimensions) < 0 ||
        read_numbers(at, STRIDES, array->strides, &strides) < 0 ||
        read_number(at, OFFSET, &layout->place.offset) < 0 ||
        (at->seen & 1u << BUFFER &&
         read_number(at, BUFFER, &layout->place.buffer) < 0) ||
        strides != array->dimensions || hfi_array_span(array, &before, &size) < 0)
        return hf_error_set(reterr, HF_E_CORRUPT, "an array's meta is wrong");
    int read = hfi_array_type_read((const char *)type->data, type->size, array);
    if (read < 0 && !(at->seen & 1u << SIMPLE) && at->seen & 1u << DESCR)
        return hf_error_set(reterr, HF_DECLINED,
                            "an array of structures that an older version saved");
    if (read < 0 || hfi_array_span(array, &before, &size) < 0)
        return hf_error_set(reterr, HF_E_CORRUPT, "an array's meta is wrong");
    if (read > 0)
        return hf_error_set(reterr, HF_DECLINED, "an array of %.*s", (int)type->size,
                            (const char *)type->data);
    return HF_OK;
}

hf_status
hfi_array_layout_read(const void *meta, size_t size, hfi_array_layout *ret_layout,
                      hf_error *reterr) {
    static const hfi_item none = {.kind = HFI_ITEM_NIL};
    reader at = {.seen = 0};
    hfi_array_layout *layout = ret_layout;
    *layout = (hfi_array_layout){
        .place = {0, HFI_ARRAY_NO_BUFFER}, .type = none, .group = none, .table = none};
    layout->array.struct_size = sizeof layout->array;
    if (read_map(&at, meta, size) < 0)
        return hf_error_set(reterr, HF_E_CORRUPT, "an entry's meta is no map");
    if (has_kind(&at, TYPE, HFI_ITEM_STR))
        layout->type = at.items[TYPE];
    if (has_kind(&at, GROUP, HFI_ITEM_STR))
        layout->group = at.items[GROUP];
    if (has_kind(&at, TABLE, HFI_ITEM_BIN))
        layout->table = at.items[TABLE];
    layout->is_array = (at.seen & 1u << DTYPE) != 0;
    return layout->is_array ? read_array(&at, layout, reterr) : HF_OK;
}

/* ---- writing --------------------------------------------------------------------- */

static unsigned char *
write_text(unsigned char *at, const char *text, size_t size) {
    *at++ = 0xd9; /* a text of up to 255 bytes */
    *at++ = (unsigned char)size;
    memcpy(at, text, size);
    return at + size;
}

static unsigned char *
write_number(unsigned char *at, int64_t number) {
    *at++ = number < 0 ? 0xd3 : 0xcf; /* of 8 bytes, big-endian */
    for (int shift = 56; shift >= 0; shift -= 8)
        *at++ = (unsigned char)((uint64_t)number >> shift);
    return at;
}

static unsigned char *
write_key(unsigned char *at, const char *key) {
    return write_text(at, key, strlen(key));
}

static unsigned char *
write_numbers(unsigned char *at, const char *key, const int64_t *numbers,
              uint32_t count) {
    at = write_key(at, key);
    *at++ = 0xdc; /* a list of up to 65535 items */
    *at++ = 0;
    *at++ = (unsigned char)count;
    for (uint32_t i = 0; i < count; i++)
        at = write_number(at, numbers[i]);
    return at;
}

size_t
hfi_array_layout_write(const hf_array *array, uint64_t offset,
                       unsigned char *ret_meta) {
    char type[48];
    unsigned char *at = ret_meta;
    int64_t bytes = array->itemsize;
    for (uint32_t i = 0; i < array->dimensions; i++)
        bytes *= array->shape[i];
    *at++ = 0x87; /* a map of 7 */
    at = write_key(at, "type");
    at = write_key(at, "numpy.ndarray");
    at = write_key(at, "dtype");
    at = write_text(at, type, type_write(array, type, sizeof type));
    at = write_numbers(at, "shape", array->shape, array->dimensions);
    at = write_numbers(at, "strides", array->strides, array->dimensions);
    at = write_number(write_key(at, "offset"), (int64_t)offset);
    at = write_number(write_key(at, "writeable"), 1);
    at = write_number(write_key(at, "bytes"), bytes);
    return (size_t)(at - ret_meta);
}
