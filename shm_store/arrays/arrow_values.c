/* arrow_values.c - elements in Arrow's form: what they refer to, and which are missing.
 *
 * Consumers believe offsets, codes and views. Those are read from the store, so they are
 * checked before they are given out.
 */
#include "arrow_values.h"

#include <string.h>

/* ---- missing elements ------------------------------------------------------------- */

/* The integer with this index, of 1, 2, 4 or 8 bytes. */
static int64_t
integer_at(const void *elements, uint32_t width, uint64_t index, int is_signed) {
    const char *at = (const char *)elements + index * width;
    uint64_t bits = 0;
    int8_t one;
    int16_t two;
    int32_t four;
    switch (width) {
    case 1:
        memcpy(&one, at, 1);
        bits = is_signed ? (uint64_t)one : (uint8_t)one;
        break;
    case 2:
        memcpy(&two, at, 2);
        bits = is_signed ? (uint64_t)two : (uint16_t)two;
        break;
    case 4:
        memcpy(&four, at, 4);
        bits = is_signed ? (uint64_t)four : (uint32_t)four;
        break;
    default:
        memcpy(&bits, at, 8);
    }
    return (int64_t)bits;
}

int64_t
hfi_arrow_missing_bits(hfi_arrow_missing kind, const void *elements, uint32_t width,
                       uint64_t count, unsigned char *ret_valid) {
    int64_t missing = 0;
    for (uint64_t i = 0; i < count; i++) {
        int64_t value = integer_at(elements, width, i, 1);
        if (kind == HFI_MISSING_LOWEST     ? value != INT64_MIN
            : kind == HFI_MISSING_NEGATIVE ? value >= 0
                                           : value == 0)
            continue;
        missing++;
        if (ret_valid)
            ret_valid[i / 8] &= (unsigned char)~(1u << i % 8);
    }
    return missing;
}

void
hfi_arrow_pack_bits(const unsigned char *bytes, uint64_t count, int64_t stride,
                    unsigned char *ret_bits) {
    for (uint64_t i = 0; i < count; i++, bytes += stride)
        if (*bytes)
            ret_bits[i / 8] |= (unsigned char)(1u << i % 8);
}

/* ---- what elements refer to ------------------------------------------------------- */

/* They never fall, and stay within `limit`. */
static int
offsets_are_valid(const void *offsets, uint32_t width, uint64_t first, uint64_t count,
                  uint64_t limit) {
    int64_t before = 0;
    for (uint64_t i = first; i <= first + count; i++) {
        int64_t offset = hfi_arrow_offset(offsets, width, i);
        if (offset < before || (uint64_t)offset > limit)
            return 0;
        before = offset;
    }
    return 1;
}

/* A view: its size, and if that is above 12, four bytes of it, a buffer and an offset. */
static int
views_are_valid(const struct ArrowArray *array, const uint64_t *sizes) {
    const unsigned char *valid = array->buffers[0];
    int32_t view[4];
    for (uint64_t i = (uint64_t)array->offset, left = (uint64_t)array->length; left;
         i++, left--) {
        if (!hfi_arrow_is_there(valid, i))
            continue;
        memcpy(view, (const char *)array->buffers[1] + i * sizeof view, sizeof view);
        if (view[0] < 0)
            return 0;
        if (view[0] <= 12)
            continue;
        if (view[2] < 0 || view[2] >= array->n_buffers - 3 || view[3] < 0 ||
            (uint64_t)view[3] + (uint64_t)view[0] > sizes[2 + view[2]])
            return 0;
    }
    return 1;
}

static int
codes_are_valid(const struct ArrowArray *array, uint32_t width, int is_signed) {
    const unsigned char *valid = array->buffers[0];
    for (uint64_t i = (uint64_t)array->offset, left = (uint64_t)array->length; left;
         i++, left--) {
        int64_t code = integer_at(array->buffers[1], width, i, is_signed);
        if (hfi_arrow_is_there(valid, i) &&
            (code < 0 || code >= array->dictionary->length))
            return 0;
    }
    return 1;
}

int
hfi_arrow_values_are_valid(const hfi_arrow_format *format,
                           const struct ArrowArray *array, const uint64_t *sizes,
                           int is_signed) {
    uint64_t first = (uint64_t)array->offset, count = (uint64_t)array->length, all;
    if (array->dictionary && !codes_are_valid(array, format->width, is_signed))
        return 0;
    switch (format->kind) {
    case HFI_ARROW_TEXT:
        return count == 0 || offsets_are_valid(array->buffers[1], format->width, first,
                                               count, sizes[2]);
    case HFI_ARROW_LIST:
        return count == 0 ||
               offsets_are_valid(array->buffers[1], format->width, first, count,
                                 (uint64_t)array->children[0]->length);
    case HFI_ARROW_VIEWS:
        return views_are_valid(array, sizes);
    case HFI_ARROW_FIXED_LIST:
        return !__builtin_mul_overflow(first + count, format->width, &all) &&
               all <= (uint64_t)array->children[0]->length;
    case HFI_ARROW_STRUCT:
        for (int64_t i = 0; i < array->n_children; i++)
            if ((uint64_t)array->children[i]->length < first + count)
                return 0;
        return 1;
    default:
        return 1;
    }
}
