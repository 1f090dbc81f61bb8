/* textbuf.h - borrowed bytes, and text that grows.
 *
 * Threads: a buffer belongs to one thread at a time.
 */
#ifndef HFI_TEXTBUF_H
#define HFI_TEXTBUF_H

#include <stddef.h>
#include <string.h>

/* ---- borrowed bytes ---- */

typedef struct hfi_part {
    const void *data;
    size_t size;
} hfi_part;

static inline hfi_part
hfi_part_of(const void *data, size_t size) {
    hfi_part span = {data, size};
    return span;
}

static inline hfi_part
hfi_part_text(const char *text) {
    return hfi_part_of(text, strlen(text));
}

static inline int
hfi_part_equal(hfi_part a, hfi_part b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* ---- textbuf.c: growing text, JSON strings, and UTF-8 that is never cut ---- */

/* Zeroed is empty. Once an allocation failed, `failed` stays set and appends do
 * nothing: a writer checks once, at the end. */
typedef struct hfi_textbuf {
    char *data;
    size_t size;
    size_t capacity;
    int failed;
} hfi_textbuf;

void hfi_textbuf_fini(hfi_textbuf *writer);
void hfi_textbuf_clear(hfi_textbuf *writer); /* keeps the memory */
void hfi_textbuf_append(hfi_textbuf *writer, const void *data, size_t size);
/* Room for at least `least` bytes more, for a caller that writes them at data + size
 * itself: how many there is room for; 0 if there is no memory. */
size_t hfi_textbuf_room(hfi_textbuf *writer, size_t least);
void hfi_textbuf_format(hfi_textbuf *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Append `data` as a JSON string with its quotes. Bytes that are not UTF-8 become
 * U+FFFD. */
void hfi_textbuf_append_json(hfi_textbuf *writer, const char *data, size_t size);
/* NUL-terminated; "" when empty or failed. Borrowed until the next change. */
const char *hfi_textbuf_string(hfi_textbuf *writer);

static inline hfi_part
hfi_textbuf_part(const hfi_textbuf *writer) {
    return hfi_part_of(writer->data, writer->size);
}

/* How many bytes of `data` can be shown now: less than `size` (by at most 3) where it
 * ends within a character. */
size_t hfi_utf8_whole(const char *data, size_t size);
/* Whether all of it is well-formed. */
int hfi_utf8_is_valid(const char *data, size_t size);

#endif
