/* arrow_join.c - several arrays of one type, joined into one.
 *
 * A column of Arrow or Polars may be in chunks, each of which has buffers of its own. For
 * programs that want a column in one piece, the elements are copied behind each other:
 * numbers as they are, bits shifted into place, and offsets moved by what is before them.
 * Children are joined in the same way. The bytes behind views aren't copied: the joined
 * array has the buffers of all chunks, and each view names its buffer among them.
 *
 * Dictionaries are kept if each is the beginning of the longest one, as it is if a
 * dictionary has grown. Otherwise the codes would have to be made anew.
 *
 * An array isn't joined from its first element on, but from its offset on, and a child
 * where its parent looks at it. So the work is on slices.
 */
#include "arrow_join.h"

#include <stdlib.h>
#include <string.h>

#include "arrow_format.h"
#include "arrow_values.h"

/* Elements of an array, counted from the beginning of its buffers. */
typedef struct slice {
    const struct ArrowArray *array;
    uint64_t first, count;
} slice;

typedef struct joining {
    hfi_arrow_memory *memory;
    uint64_t bits_max;
    const char *why;
} joining;

static hf_status
decline_joining(joining *to, const char *why) {
    to->why = why;
    return HF_DECLINED;
}

/* ---- bits ------------------------------------------------------------------------ */

void
hfi_arrow_copy_bits(unsigned char *to, uint64_t to_at, const unsigned char *from,
                    uint64_t from_at, uint64_t count) {
    for (; count && to_at % 8; to_at++, from_at++, count--)
        to[to_at / 8] |=
            (unsigned char)(hfi_arrow_is_there(from, from_at) << to_at % 8);
    uint64_t whole = count / 8;
    unsigned shift = from_at % 8;
    to += to_at / 8;
    if (!from)
        memset(to, 0xff, whole);
    else if (shift == 0)
        memcpy(to, from + from_at / 8, whole);
    else
        for (uint64_t i = 0; i < whole; i++) {
            const unsigned char *at = from + from_at / 8 + i;
            to[i] = (unsigned char)(at[0] >> shift | at[1] << (8 - shift));
        }
    from_at += 8 * whole;
    for (uint64_t i = 0; i < count % 8; i++)
        to[whole] |= (unsigned char)(hfi_arrow_is_there(from, from_at + i) << i);
}

/* The bits of buffer `index` of all slices. NULL: no memory. */
static unsigned char *
join_bits(joining *to, const slice *slices, size_t count, uint64_t total, int index) {
    unsigned char *bits = hfi_arrow_memory_add(to->memory, total / 8 + 1);
    uint64_t at = 0;
    for (size_t i = 0; bits && i < count; at += slices[i].count, i++)
        if (slices[i].count)
            hfi_arrow_copy_bits(bits, at, slices[i].array->buffers[index],
                                slices[i].first, slices[i].count);
    return bits;
}

static hf_status
join_validity(joining *to, const slice *slices, size_t count,
              struct ArrowArray *ret_array) {
    int has_bits = 0;
    for (size_t i = 0; i < count; i++)
        has_bits |= slices[i].count && slices[i].array->buffers[0];
    if (!has_bits)
        return HF_OK;
    uint64_t total = (uint64_t)ret_array->length;
    if (total > to->bits_max)
        return decline_joining(to, "a chunk is longer than its memory");
    ret_array->null_count = -1;
    ret_array->buffers[0] = join_bits(to, slices, count, total, 0);
    return ret_array->buffers[0] ? HF_OK : HF_E_NOMEM;
}

/* ---- elements -------------------------------------------------------------------- */

static hf_status
join_fixed(joining *to, const slice *slices, size_t count, uint32_t width,
           struct ArrowArray *ret_array) {
    uint64_t size;
    if (__builtin_mul_overflow((uint64_t)ret_array->length, width, &size))
        return HF_E_NOMEM;
    char *at = hfi_arrow_memory_add(to->memory, size);
    if (!at)
        return HF_E_NOMEM;
    ret_array->buffers[1] = at;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = slices[i].count * width;
        if (bytes)
            memcpy(at,
                   (const char *)slices[i].array->buffers[1] + slices[i].first * width,
                   bytes);
        at += bytes;
    }
    return HF_OK;
}

static void
put_offset(char *offsets, uint32_t width, uint64_t index, uint64_t offset) {
    uint32_t narrow = (uint32_t)offset;
    if (width == 4)
        memcpy(offsets + 4 * index, &narrow, 4);
    else
        memcpy(offsets + 8 * index, &offset, 8);
}

/* Where the elements of a slice begin and end in what its offsets refer to. */
static void
find_span(const slice *of, uint32_t width, uint64_t *ret_first, uint64_t *ret_size) {
    const void *offsets = of->array->buffers[1];
    *ret_first = *ret_size = 0;
    if (of->count == 0)
        return;
    *ret_first = (uint64_t)hfi_arrow_offset(offsets, width, of->first);
    *ret_size =
        (uint64_t)hfi_arrow_offset(offsets, width, of->first + of->count) - *ret_first;
}

/* The offsets of all slices, and what they span together. */
static hf_status
join_offsets(joining *to, const slice *slices, size_t count, uint32_t width,
             struct ArrowArray *ret_array, uint64_t *ret_span) {
    uint64_t total = (uint64_t)ret_array->length, size, span = 0, at = 0;
    char *offsets = __builtin_mul_overflow(total + 1, width, &size)
                        ? NULL
                        : hfi_arrow_memory_add(to->memory, size);
    if (!offsets)
        return HF_E_NOMEM;
    ret_array->buffers[1] = offsets;
    for (size_t i = 0; i < count; i++) {
        uint64_t first, own;
        find_span(&slices[i], width, &first, &own);
        if (own > (width == 4 ? INT32_MAX : INT64_MAX) - span)
            return decline_joining(to, "its chunks are too large for its offsets");
        for (uint64_t k = 0; k < slices[i].count; k++)
            put_offset(offsets, width, at++,
                       span - first +
                           (uint64_t)hfi_arrow_offset(slices[i].array->buffers[1],
                                                      width, slices[i].first + k));
        span += own;
    }
    put_offset(offsets, width, at, span);
    *ret_span = span;
    return HF_OK;
}

static hf_status
join_texts(joining *to, const slice *slices, size_t count, uint32_t width,
           struct ArrowArray *ret_array) {
    uint64_t span = 0;
    hf_status status = join_offsets(to, slices, count, width, ret_array, &span);
    char *at = status == HF_OK ? hfi_arrow_memory_add(to->memory, span) : NULL;
    if (!at)
        return status == HF_OK ? HF_E_NOMEM : status;
    ret_array->buffers[2] = at;
    for (size_t i = 0; i < count; i++) {
        uint64_t first, size;
        find_span(&slices[i], width, &first, &size);
        if (size)
            memcpy(at, (const char *)slices[i].array->buffers[2] + first, size);
        at += size;
    }
    return HF_OK;
}

/* How many buffers an array of views has behind its views, without their sizes. */
static uint64_t
count_variadic(const struct ArrowArray *array) {
    return (uint64_t)array->n_buffers - 3;
}

/* Views of missing elements are zero: they may refer to anything. */
static hf_status
join_views(joining *to, const slice *slices, size_t count,
           struct ArrowArray *ret_array) {
    uint64_t more = count_variadic(ret_array), size, before = 0;
    int32_t view[4];
    char *at = __builtin_mul_overflow((uint64_t)ret_array->length, sizeof view, &size)
                   ? NULL
                   : hfi_arrow_memory_add(to->memory, size);
    int64_t *sizes = hfi_arrow_memory_add(to->memory, (more + 1) * sizeof *sizes);
    if (!at || !sizes)
        return HF_E_NOMEM;
    ret_array->buffers[1] = at;
    ret_array->buffers[2 + more] = sizes;
    for (size_t i = 0; i < count; i++) {
        const struct ArrowArray *from = slices[i].array;
        uint64_t own = count_variadic(from);
        memcpy(ret_array->buffers + 2 + before, from->buffers + 2,
               own * sizeof *from->buffers);
        memcpy(sizes + before, from->buffers[2 + own], own * sizeof *sizes);
        for (uint64_t k = 0; k < slices[i].count; k++, at += sizeof view) {
            uint64_t index = slices[i].first + k;
            if (!hfi_arrow_is_there(from->buffers[0], index))
                continue;
            memcpy(view, (const char *)from->buffers[1] + index * sizeof view,
                   sizeof view);
            if (view[0] > 12)
                view[2] += (int32_t)before;
            memcpy(at, view, sizeof view);
        }
        before += own;
    }
    return HF_OK;
}

/* ---- dictionaries ---------------------------------------------------------------- */

/* Whether the first elements of two dictionaries are the same, as far as both go. */
static int
dictionaries_agree(const hfi_arrow_format *format, const struct ArrowArray *one,
                   const struct ArrowArray *other) {
    const struct ArrowArray *both[2] = {one, other};
    const char *bytes[2];
    uint64_t first[2], size[2];
    uint64_t count =
        (uint64_t)(one->length < other->length ? one->length : other->length);
    int is_text = format->kind == HFI_ARROW_TEXT;
    if (count == 0)
        return 1;
    if (one->buffers[0] || other->buffers[0] || one->dictionary || other->dictionary ||
        (!is_text && format->kind != HFI_ARROW_FIXED))
        return 0;
    for (int i = 0; i < 2; i++) {
        slice of = {both[i], (uint64_t)both[i]->offset, count};
        first[i] = of.first * format->width;
        size[i] = count * format->width;
        if (is_text)
            find_span(&of, format->width, &first[i], &size[i]);
        bytes[i] = (const char *)both[i]->buffers[is_text ? 2 : 1] + first[i];
    }
    for (uint64_t i = 0; is_text && i < count; i++)
        if (hfi_arrow_offset(one->buffers[1], format->width,
                             (uint64_t)one->offset + i) -
                (int64_t)first[0] !=
            hfi_arrow_offset(other->buffers[1], format->width,
                             (uint64_t)other->offset + i) -
                (int64_t)first[1])
            return 0;
    return size[0] == size[1] && (size[0] == 0 || !memcmp(bytes[0], bytes[1], size[0]));
}

static int
is_same_array(const struct ArrowArray *one, const struct ArrowArray *other) {
    int same = one->length == other->length && one->offset == other->offset &&
               one->n_buffers == other->n_buffers && one->n_children == 0 &&
               other->n_children == 0 && !one->dictionary && !other->dictionary;
    for (int64_t i = 0; same && i < one->n_buffers; i++)
        same = one->buffers[i] == other->buffers[i];
    return same;
}

/* The longest one, if all the others are its beginnings. */
static hf_status
join_dictionaries(joining *to, const struct ArrowSchema *schema, const slice *slices,
                  size_t count, struct ArrowArray *ret_array) {
    hfi_arrow_format format;
    const struct ArrowArray *longest = NULL;
    if (hfi_arrow_format_read(schema->format, strlen(schema->format), &format) < 0)
        return decline_joining(to, "its dictionary is of an unknown type");
    for (size_t i = 0; i < count; i++) {
        const struct ArrowArray *other = slices[i].array->dictionary;
        if (slices[i].count == 0)
            continue;
        if (longest && !is_same_array(longest, other) &&
            !dictionaries_agree(&format, longest, other))
            return decline_joining(
                to, "its chunks have different dictionaries: unify them first");
        if (!longest || other->length > longest->length)
            longest = other;
    }
    if (!longest)
        longest = slices[0].array->dictionary;
    return hfi_arrow_array_copy(longest, ret_array) < 0 ? HF_E_NOMEM : HF_OK;
}

/* ---- the whole ------------------------------------------------------------------- */

static hf_status join_slices(joining *to, const struct ArrowSchema *schema,
                             const slice *slices, size_t count,
                             struct ArrowArray *ret_array);

/* The elements of a child that the elements of a slice have. */
static slice
slice_of_child(const slice *of, const hfi_arrow_format *format, int64_t child) {
    slice result = {of->array->children[child], of->first, of->count};
    if (format->kind == HFI_ARROW_LIST)
        find_span(of, format->width, &result.first, &result.count);
    else if (format->kind == HFI_ARROW_FIXED_LIST)
        result.first *= format->width, result.count *= format->width;
    result.first += (uint64_t)result.array->offset;
    return result;
}

static hf_status
join_children(joining *to, const struct ArrowSchema *schema,
              const hfi_arrow_format *format, const slice *slices, size_t count,
              struct ArrowArray *ret_array) {
    slice *inner = malloc((count + 1) * sizeof *inner);
    hf_status status = inner ? HF_OK : HF_E_NOMEM;
    for (int64_t i = 0; status == HF_OK && i < schema->n_children; i++) {
        for (size_t k = 0; k < count; k++)
            inner[k] = slice_of_child(&slices[k], format, i);
        status =
            join_slices(to, schema->children[i], inner, count, ret_array->children[i]);
    }
    free(inner);
    return status;
}

static hf_status
join_elements(joining *to, const hfi_arrow_format *format, const slice *slices,
              size_t count, struct ArrowArray *ret_array) {
    uint64_t span;
    switch (format->kind) {
    case HFI_ARROW_BITS:
        ret_array->buffers[1] =
            join_bits(to, slices, count, (uint64_t)ret_array->length, 1);
        return ret_array->buffers[1] ? HF_OK : HF_E_NOMEM;
    case HFI_ARROW_FIXED:
        return join_fixed(to, slices, count, format->width, ret_array);
    case HFI_ARROW_TEXT:
        return join_texts(to, slices, count, format->width, ret_array);
    case HFI_ARROW_VIEWS:
        return join_views(to, slices, count, ret_array);
    case HFI_ARROW_LIST:
        return join_offsets(to, slices, count, format->width, ret_array, &span);
    default:
        return HF_OK;
    }
}

static hf_status
join_slices(joining *to, const struct ArrowSchema *schema, const slice *slices,
            size_t count, struct ArrowArray *ret_array) {
    hfi_arrow_format format;
    uint64_t total = 0, more = 0;
    if (hfi_arrow_format_read(schema->format, strlen(schema->format), &format) < 0)
        return decline_joining(to, "it is of an unknown type");
    for (size_t i = 0; i < count; i++) {
        if (slices[i].count > INT64_MAX / 2 - total)
            return decline_joining(to, "it is too long");
        total += slices[i].count;
        if (format.kind == HFI_ARROW_VIEWS)
            more += count_variadic(slices[i].array);
    }
    size_t buffers = format.buffers + more + (format.kind == HFI_ARROW_VIEWS);
    if (hfi_arrow_array_init(ret_array, to->memory, buffers, (size_t)schema->n_children,
                             schema->dictionary != NULL) < 0)
        return HF_E_NOMEM;
    ret_array->length = (int64_t)total;
    ret_array->null_count = format.kind == HFI_ARROW_NULL ? (int64_t)total : 0;
    hf_status status = HF_OK;
    if (format.buffers)
        status = join_validity(to, slices, count, ret_array);
    if (status == HF_OK)
        status = join_elements(to, &format, slices, count, ret_array);
    if (status == HF_OK)
        status = join_children(to, schema, &format, slices, count, ret_array);
    if (status == HF_OK && schema->dictionary)
        status = join_dictionaries(to, schema->dictionary, slices, count,
                                   ret_array->dictionary);
    return status;
}

hf_status
hfi_arrow_join(hfi_arrow_memory *memory, const struct ArrowSchema *schema,
               const struct ArrowArray *arrays, size_t count, uint64_t bits_max,
               struct ArrowArray *ret_array, const char **ret_why) {
    joining to = {.memory = memory, .bits_max = bits_max, .why = ""};
    slice *slices = malloc((count + 1) * sizeof *slices);
    hf_status status = slices ? HF_OK : HF_E_NOMEM;
    for (size_t i = 0; slices && i < count; i++)
        slices[i] =
            (slice){&arrays[i], (uint64_t)arrays[i].offset, (uint64_t)arrays[i].length};
    if (status == HF_OK)
        status = join_slices(&to, schema, slices, count, ret_array);
    free(slices);
    *ret_why = to.why;
    return status;
}
