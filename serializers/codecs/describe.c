/* describe.c - one line for people about an encoding, made from its bytes alone.
 *
 * The `holdfast` tool lists the content of a session without starting Python, and the
 * kernel names variables without asking a worker. So the describers of all codecs are
 * here, in plain C, also of those in the extension. They read a head or a small meta
 * map, never the whole payload: listing a session costs the same for any size.
 *
 * Input isn't trusted. If it can't be read, its size is shown: it is never an error.
 * Texts from a payload are cut and their control characters replaced, since they are
 * shown on a terminal.
 *
 * The buffer codec's meta is a msgpack map with string keys; "type", "dtype" and
 * "shape" are used here, unknown keys are passed over.
 */
#include "describe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/unpacker.h"
#include "plain_format.h"

enum {
    TEXT_SHOWN = 32, /* bytes of a str that are shown */
    META_DEPTH = 16,
};

typedef struct line {
    char *text;
    size_t size;
    size_t used;
} line;

static void line_add(line *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
line_add(line *out, const char *format, ...) {
    va_list args;
    int length;

    if (out->used + 1 >= out->size)
        return;
    va_start(args, format);
    length = vsnprintf(out->text + out->used, out->size - out->used, format, args);
    va_end(args);
    if (length > 0)
        out->used += (size_t)length;
    if (out->used >= out->size)
        out->used = out->size - 1;
}

/* Length of the UTF-8 character at `data`, or 0 if it is malformed or C1 control. */
static size_t
character_size(const unsigned char *data, size_t size) {
    static const unsigned least[5] = {0, 0, 0xa0, 0x800, 0x10000};
    size_t length = data[0] < 0xc2   ? 0
                    : data[0] < 0xe0 ? 2
                    : data[0] < 0xf0 ? 3
                    : data[0] < 0xf5 ? 4
                                     : 0;
    unsigned point = data[0] & (0x7fu >> length);

    if (data[0] < 0x80)
        return data[0] >= 0x20 && data[0] != 0x7f;
    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((data[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (data[i] & 0x3f);
    }
    return point < least[length] || point > 0x10ffff || point >> 11 == 0x1b ? 0
                                                                            : length;
}

/* Text for a terminal, in valid UTF-8. Invalid bytes become '?'. A character that
 * doesn't fit is left out whole. */
static void
line_add_text(line *out, const unsigned char *data, size_t size, size_t size_max) {
    size_t at = 0;

    while (at < size && at < size_max) {
        size_t length = character_size(data + at, size - at);
        if (out->used + (length ? length : 1) >= out->size)
            return;
        if (length)
            line_add(out, "%.*s", (int)length, (const char *)data + at);
        else
            line_add(out, "?");
        at += length ? length : 1;
    }
    if (at < size)
        line_add(out, "...");
}

static void
line_add_count(line *out, const char *type, uint64_t count, const char *unit) {
    line_add(out, "%s, %" PRIu64 " %s%s", type, count, unit, count == 1 ? "" : "s");
}

static line
line_begin(char *text, size_t size) {
    line out = {text, size, 0};

    if (size)
        text[0] = '\0';
    return out;
}

void
hfi_describe_raw(const hf_codec *codec, const hf_source *source, char *ret_text,
                 size_t size) {
    line out = line_begin(ret_text, size);

    (void)codec;
    line_add_count(&out, "raw", source->payload_size, "byte");
}

void
hfi_describe_pickle(const hf_codec *codec, const hf_source *source, char *ret_text,
                    size_t size) {
    line out = line_begin(ret_text, size);

    (void)codec;
    line_add_count(&out, "pickle", source->payload_size, "byte");
    if (source->buffer_count)
        line_add_count(&out, "", source->buffer_count, "buffer");
}

void
hfi_describe_text(const hf_codec *codec, const hf_source *source, char *ret_text,
                  size_t size) {
    line out = line_begin(ret_text, size);
    const void *name = source->payload_size ? source->payload : source->meta;
    size_t name_size = source->payload_size ? source->payload_size : source->meta_size;
    hfi_unpacker unpacker;
    hfi_item item;

    line_add(&out, "%s ", codec ? codec->name : "name");
    if (!name_size)
        return;
    /* A name may stand as it is, or as a msgpack str. The latter has a head that no
     * ASCII text has. */
    hfi_unpacker_init(&unpacker, name, name_size);
    if (hfi_unpacker_next(&unpacker, &item) == HF_OK && item.kind == HFI_ITEM_STR &&
        unpacker.at == unpacker.end)
        line_add_text(&out, item.data, item.size, size);
    else
        line_add_text(&out, name, name_size, size);
}

/* An array whose first item is KIND isn't a list. */
static void
describe_array(line *out, hfi_unpacker *unpacker, size_t count) {
    static const char *const names[] = {"list",      "tuple", "set",
                                        "frozenset", "range", "slice"};
    unsigned kind = 0;
    hfi_item item;

    if (count > 0 && hfi_unpacker_next(unpacker, &item) == HF_OK &&
        item.kind == HFI_ITEM_EXT && item.ext_type == HFI_PLAIN_KIND &&
        item.size >= 1) {
        kind = item.data[0] < sizeof names / sizeof *names ? item.data[0] : 0;
        count--;
    }
    if (kind == HFI_PLAIN_RANGE || kind == HFI_PLAIN_SLICE)
        line_add(out, "%s", names[kind]);
    else
        line_add_count(out, names[kind], count, "item");
}

static const char *
singleton_name(unsigned char which) {
    return which == HFI_PLAIN_ELLIPSIS    ? "Ellipsis"
           : which == HFI_PLAIN_NAMESPACE ? "the notebook's variables"
                                          : "NotImplemented";
}

static void
describe_ext(line *out, const hfi_item *item) {
    size_t negative;

    switch (item->ext_type) {
    case HFI_PLAIN_BIGINT:
        negative = item->size > 0 && item->data[0] == '-';
        line_add(out, negative ? "int -0x" : "int 0x");
        line_add_text(out, item->data + negative, item->size - negative, TEXT_SHOWN);
        break;
    case HFI_PLAIN_COMPLEX:
        line_add(out, "complex");
        break;
    case HFI_PLAIN_SURROGATES:
        line_add_count(out, "str", item->size, "byte");
        break;
    case HFI_PLAIN_BYTEARRAY:
        line_add_count(out, "bytearray", item->size, "byte");
        break;
    case HFI_PLAIN_SINGLETON:
        line_add(out, "%s", singleton_name(item->size == 1 ? item->data[0] : 0));
        break;
    case HFI_PLAIN_INTERNED:
        line_add(out, "str '");
        line_add_text(out, item->data, item->size, TEXT_SHOWN);
        line_add(out, "'");
        break;
    case HFI_PLAIN_NAN:
        line_add(out, "float nan");
        break;
    default:
        line_add_count(out, "extension", item->size, "byte");
    }
}

static void
describe_item(line *out, hfi_unpacker *unpacker, const hfi_item *item) {
    switch (item->kind) {
    case HFI_ITEM_NIL:
        line_add(out, "None");
        break;
    case HFI_ITEM_BOOL:
        line_add(out, "bool %s", item->as.i ? "True" : "False");
        break;
    case HFI_ITEM_INT:
        line_add(out, "int %" PRId64, item->as.i);
        break;
    case HFI_ITEM_UINT:
        line_add(out, "int %" PRIu64, item->as.u);
        break;
    case HFI_ITEM_FLOAT:
        line_add(out, "float %.12g", item->as.f);
        break;
    case HFI_ITEM_STR:
        line_add(out, "str '");
        line_add_text(out, item->data, item->size, TEXT_SHOWN);
        line_add(out, "'");
        break;
    case HFI_ITEM_BIN:
        line_add_count(out, "bytes", item->size, "byte");
        break;
    case HFI_ITEM_EXT:
        describe_ext(out, item);
        break;
    case HFI_ITEM_ARRAY:
        describe_array(out, unpacker, item->size);
        break;
    case HFI_ITEM_MAP:
        line_add_count(out, "dict", item->size, "item");
        break;
    }
}

void
hfi_describe_plain(const hf_codec *codec, const hf_source *source, char *ret_text,
                   size_t size) {
    line out = line_begin(ret_text, size);
    hfi_unpacker unpacker;
    hfi_item item;

    (void)codec;
    hfi_unpacker_init(&unpacker, source->payload, source->payload_size);
    if (source->payload_size && hfi_unpacker_next(&unpacker, &item) == HF_OK)
        describe_item(&out, &unpacker, &item);
    else
        line_add_count(&out, "unreadable", source->payload_size, "byte");
}

/* NumPy's type string ("<f8", "|S16") in words; others are shown as they are. */
static void
describe_dtype(line *out, const hfi_item *dtype) {
    static const struct {
        char kind;
        const char *name;
    } kinds[] = {{'f', "float"}, {'i', "int"}, {'u', "uint"}, {'c', "complex"}};
    const char *text = (const char *)dtype->data;
    unsigned bits;

    if (dtype->size == 3 && strncmp(text, "|b1", 3) == 0) {
        line_add(out, " bool");
        return;
    }
    if (dtype->size >= 3 && dtype->size <= 4 && text[2] >= '0' && text[2] <= '9' &&
        (dtype->size == 3 || (text[3] >= '0' && text[3] <= '9'))) {
        bits = (unsigned)(text[2] - '0');
        if (dtype->size == 4)
            bits = 10 * bits + (unsigned)(text[3] - '0');
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (text[1] == kinds[i].kind) {
                line_add(out, " %s%s%u", text[0] == '>' ? ">" : "", kinds[i].name,
                         8 * bits);
                return;
            }
        }
    }
    line_add(out, " ");
    line_add_text(out, dtype->data, dtype->size, TEXT_SHOWN);
}

static void
describe_shape(line *out, hfi_unpacker unpacker, size_t count) {
    hfi_item item;

    line_add(out, " (");
    for (size_t i = 0; i < count; i++) {
        if (hfi_unpacker_next(&unpacker, &item) != HF_OK || item.kind != HFI_ITEM_INT)
            break;
        line_add(out, "%s%" PRId64, i ? ", " : "", item.as.i);
    }
    line_add(out, count == 1 ? ",)" : ")");
}

static int
key_is(const hfi_item *item, const char *name) {
    return item->kind == HFI_ITEM_STR && item->size == strlen(name) &&
           memcmp(item->data, name, item->size) == 0;
}

typedef struct buffer_meta {
    hfi_item type, dtype; /* STR where given */
    hfi_item shape;       /* ARRAY where given */
    hfi_unpacker shape_at;
} buffer_meta;

/* 0, or -1 if the meta isn't a map that can be read. */
static int
buffer_meta_read(const hf_source *source, buffer_meta *ret) {
    hfi_unpacker unpacker;
    hfi_item map, key, value;

    if (!source->meta_size)
        return -1;
    hfi_unpacker_init(&unpacker, source->meta, source->meta_size);
    if (hfi_unpacker_next(&unpacker, &map) != HF_OK || map.kind != HFI_ITEM_MAP)
        return -1;
    for (size_t i = 0; i < map.size; i++) {
        hfi_unpacker inside;
        if (hfi_unpacker_next(&unpacker, &key) != HF_OK)
            return -1;
        inside = unpacker;
        if (hfi_unpacker_next(&inside, &value) != HF_OK ||
            hfi_unpacker_skip(&unpacker, META_DEPTH) != HF_OK)
            return -1;
        if (key_is(&key, "type") && value.kind == HFI_ITEM_STR)
            ret->type = value;
        else if (key_is(&key, "dtype") && value.kind == HFI_ITEM_STR)
            ret->dtype = value;
        else if (key_is(&key, "shape") && value.kind == HFI_ITEM_ARRAY) {
            ret->shape = value;
            ret->shape_at = inside;
        }
    }
    return ret->type.kind == HFI_ITEM_STR ? 0 : -1;
}

void
hfi_describe_buffer(const hf_codec *codec, const hf_source *source, char *ret_text,
                    size_t size) {
    line out = line_begin(ret_text, size);
    buffer_meta meta = {0};

    (void)codec;
    if (buffer_meta_read(source, &meta) < 0) {
        line_add_count(&out, "memory", source->buffer_count, "buffer");
        return;
    }
    line_add_text(&out, meta.type.data, meta.type.size, 2 * TEXT_SHOWN);
    if (meta.dtype.kind == HFI_ITEM_STR)
        describe_dtype(&out, &meta.dtype);
    if (meta.shape.kind == HFI_ITEM_ARRAY)
        describe_shape(&out, meta.shape_at, meta.shape.size);
}

/* A name whose value lies in a group: the meta has the type. */
static void
describe_member(const hf_codec *codec, const hf_source *source, char *ret_text,
                size_t size) {
    line out = line_begin(ret_text, size);
    buffer_meta meta = {0};

    (void)codec;
    if (buffer_meta_read(source, &meta) == 0) {
        line_add_text(&out, meta.type.data, meta.type.size, 2 * TEXT_SHOWN);
        line_add(&out, ", ");
    }
    line_add(&out, "in a group of names that share objects");
}

void
hfi_codec_describe(uint32_t number, const hf_source *source, char *ret_text,
                   size_t size) {
    static const struct {
        uint32_t number;
        hf_codec named; /* for hfi_describe_text, which shows the codec's name */
        hfi_describe *describe;
    } table[] = {
        {HF_CODEC_RAW, {.name = "raw"}, hfi_describe_raw},
        {HF_CODEC_MSGPACK, {.name = "msgpack"}, hfi_describe_plain},
        {HF_CODEC_BUFFER, {.name = "buffer"}, hfi_describe_buffer},
        {HF_CODEC_PLAIN, {.name = "plain"}, hfi_describe_plain},
        {HF_CODEC_PICKLE, {.name = "pickle"}, hfi_describe_pickle},
        {HF_CODEC_MODULE, {.name = "module"}, hfi_describe_text},
        {HF_CODEC_MEMBER, {.name = "member"}, describe_member},
    };
    line out = line_begin(ret_text, size);

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].number == number) {
            table[i].describe(&table[i].named, source, ret_text, size);
            return;
        }
    }
    line_add(&out, "codec %" PRIu32, number);
    line_add_count(&out, "", source->payload_size, "byte");
}
