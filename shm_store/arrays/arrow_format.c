/* arrow_format.c - Arrow's types by the format strings of its C data interface.
 *
 * The writer of a table's meta asks how many bytes of a column's buffers are used, and
 * the reader asks how many there must be. Both ask here. A type that isn't known here
 * isn't exported.
 */
#include "arrow_format.h"

#include <string.h>

/* Formats without parameters. */
static const struct {
    const char *text;
    hfi_arrow_format format;
} plain[] = {
    {"n", {HFI_ARROW_NULL, 0, 0, 0, 0}},
    {"b", {HFI_ARROW_BITS, 0, 2, 0, 0}},
    {"c", {HFI_ARROW_FIXED, 1, 2, 1, 0}},
    {"C", {HFI_ARROW_FIXED, 1, 2, 1, 0}},
    {"s", {HFI_ARROW_FIXED, 2, 2, 1, 0}},
    {"S", {HFI_ARROW_FIXED, 2, 2, 1, 0}},
    {"i", {HFI_ARROW_FIXED, 4, 2, 1, 0}},
    {"I", {HFI_ARROW_FIXED, 4, 2, 1, 0}},
    {"l", {HFI_ARROW_FIXED, 8, 2, 1, 0}},
    {"L", {HFI_ARROW_FIXED, 8, 2, 1, 0}},
    {"e", {HFI_ARROW_FIXED, 2, 2, 0, 0}},
    {"f", {HFI_ARROW_FIXED, 4, 2, 0, 0}},
    {"g", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"u", {HFI_ARROW_TEXT, 4, 3, 0, 0}},
    {"z", {HFI_ARROW_TEXT, 4, 3, 0, 0}},
    {"U", {HFI_ARROW_TEXT, 8, 3, 0, 0}},
    {"Z", {HFI_ARROW_TEXT, 8, 3, 0, 0}},
    {"vu", {HFI_ARROW_VIEWS, 16, 2, 0, 0}},
    {"vz", {HFI_ARROW_VIEWS, 16, 2, 0, 0}},
    {"tdD", {HFI_ARROW_FIXED, 4, 2, 0, 0}},
    {"tdm", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"tts", {HFI_ARROW_FIXED, 4, 2, 0, 0}},
    {"ttm", {HFI_ARROW_FIXED, 4, 2, 0, 0}},
    {"ttu", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"ttn", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"tDs", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"tDm", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"tDu", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"tDn", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"tiM", {HFI_ARROW_FIXED, 4, 2, 0, 0}},
    {"tiD", {HFI_ARROW_FIXED, 8, 2, 0, 0}},
    {"tin", {HFI_ARROW_FIXED, 16, 2, 0, 0}},
    {"+s", {HFI_ARROW_STRUCT, 0, 1, 0, UINT64_MAX}},
    {"+l", {HFI_ARROW_LIST, 4, 2, 0, 1}},
    {"+L", {HFI_ARROW_LIST, 8, 2, 0, 1}},
    {"+m", {HFI_ARROW_LIST, 4, 2, 0, 1}},
};

/* A number of at most nine digits that ends at `end`, or at the text's end. -1: none. */
static int64_t
take_digits(const char **at, const char *last) {
    int64_t result = 0;
    const char *text = *at;
    while (text < last && *text >= '0' && *text <= '9' && text - *at < 9)
        result = result * 10 + (*text++ - '0');
    if (text == *at)
        return -1;
    *at = text;
    return result;
}

/* `d:precision,scale` and perhaps `,bits`; the scale may be negative. */
static int
read_decimal(const char *at, const char *last, hfi_arrow_format *ret_format) {
    int64_t bits = 128;
    if (take_digits(&at, last) < 0 || at == last || *at++ != ',')
        return -1;
    if (at < last && *at == '-')
        at++;
    if (take_digits(&at, last) < 0)
        return -1;
    if (at < last && (*at++ != ',' || (bits = take_digits(&at, last)) < 0))
        return -1;
    if (at != last || (bits != 32 && bits != 64 && bits != 128 && bits != 256))
        return -1;
    *ret_format = (hfi_arrow_format){HFI_ARROW_FIXED, (uint32_t)bits / 8, 2, 0, 0};
    return 0;
}

int
hfi_arrow_format_read(const char *text, size_t size, hfi_arrow_format *ret_format) {
    const char *last = text + size;
    if (memchr(text, 0, size))
        return -1;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strlen(plain[i].text) == size && memcmp(plain[i].text, text, size) == 0) {
            *ret_format = plain[i].format;
            return 0;
        }
    if (size > 2 && memcmp(text, "d:", 2) == 0)
        return read_decimal(text + 2, last, ret_format);
    if (size >= 4 && memcmp(text, "ts", 2) == 0 && memchr("smun", text[2], 4) &&
        text[3] == ':') {
        *ret_format = (hfi_arrow_format){HFI_ARROW_FIXED, 8, 2, 0, 0};
        return 0;
    }
    int is_list = size > 3 && memcmp(text, "+w:", 3) == 0;
    if (!is_list && (size <= 2 || memcmp(text, "w:", 2) != 0))
        return -1;
    const char *at = text + 2 + is_list;
    int64_t width = take_digits(&at, last);
    if (width < 0 || at != last)
        return -1;
    *ret_format =
        (hfi_arrow_format){is_list ? HFI_ARROW_FIXED_LIST : HFI_ARROW_FIXED,
                           (uint32_t)width, is_list ? 1 : 2, 0, (uint64_t)is_list};
    return 0;
}

/* ---- types of NumPy --------------------------------------------------------------- */

static const char number_letters[] = "cCsSiIlLefgb", number_kinds[] = "iuiuiuiufffb";
static const unsigned char number_sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 1};
static const char units[] = "smun"; /* seconds, and parts of them */

static char
native_order(void) {
    const uint16_t probe = 1;
    return *(const unsigned char *)&probe ? '<' : '>';
}

int
hfi_arrow_format_head(const char *text, size_t size, hf_array *ret_head) {
    hf_array *head = ret_head;
    const char *letter = size == 1 ? strchr(number_letters, text[0]) : NULL;
    int is_duration = size == 3 && memcmp(text, "tD", 2) == 0;
    int is_time = size == 4 && memcmp(text, "ts", 2) == 0 && text[3] == ':';
    head->kind = 'O';
    head->byte_order = '|';
    head->itemsize = 0;
    memset(head->unit, 0, sizeof head->unit);
    if (letter && *letter) {
        head->kind = number_kinds[letter - number_letters];
        head->itemsize = number_sizes[letter - number_letters];
    } else if ((is_duration || is_time) && text[2] && strchr(units, text[2])) {
        head->kind = is_time ? 'M' : 'm';
        head->itemsize = 8;
        head->unit[0] = text[2];
        if (text[2] != 's')
            head->unit[1] = 's';
    } else {
        return -1;
    }
    if (head->itemsize > 1)
        head->byte_order = native_order();
    head->strides[0] = head->itemsize;
    return 0;
}

int
hfi_arrow_format_of(const hf_array *head, char ret_text[HFI_ARROW_NUMBER_SIZE]) {
    if (head->byte_order != '|' && head->byte_order != native_order())
        return -1;
    if (head->kind == 'M' || head->kind == 'm') {
        const char *unit = head->unit;
        if (!unit[0] || !strchr(units, unit[0]) ||
            strcmp(unit + 1, unit[0] == 's' ? "" : "s") != 0)
            return -1;
        int is_time = head->kind == 'M';
        const char text[] = {'t', is_time ? 's' : 'D', unit[0], is_time ? ':' : '\0',
                             '\0'};
        memcpy(ret_text, text, sizeof text);
        return 0;
    }
    for (size_t i = 0; i < sizeof number_sizes; i++)
        if (number_kinds[i] == head->kind && number_sizes[i] == head->itemsize) {
            ret_text[0] = number_letters[i];
            ret_text[1] = '\0';
            return 0;
        }
    return -1;
}

/* ---- buffers ---------------------------------------------------------------------- */

int
hfi_arrow_buffer_size(const hfi_arrow_format *format, uint32_t index, uint64_t count,
                      uint64_t *ret_size) {
    uint64_t width = format->width;
    if (index == 0 || format->kind == HFI_ARROW_BITS) {
        *ret_size = count / 8 + (count % 8 != 0);
        return 0;
    }
    if (format->kind == HFI_ARROW_TEXT || format->kind == HFI_ARROW_LIST)
        count++;
    if (__builtin_mul_overflow(count, width, ret_size) || *ret_size > INT64_MAX)
        return -1;
    return 0;
}

int64_t
hfi_arrow_offset(const void *offsets, uint32_t width, uint64_t index) {
    int32_t narrow;
    int64_t wide;
    if (width == 4) {
        memcpy(&narrow, (const char *)offsets + index * 4, 4);
        return narrow;
    }
    memcpy(&wide, (const char *)offsets + index * 8, 8);
    return wide;
}
