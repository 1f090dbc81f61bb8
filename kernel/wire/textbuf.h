/* textbuf.h - borrowed bytes, and text that grows.
 *
 * Threads: a buffer belongs to one thread at a time.
 */
#ifndef HFI_TEXTBUF_H
#define HFI_TEXTBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ---- borrowed bytes ---- */

/* A piece of somebody else's bytes. */
typedef struct hfi_part {
    const char *data;
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

static inline bool
hfi_part_is(hfi_part part, const char *text) {
    return hfi_part_equal(part, hfi_part_text(text));
}

/* Without the blanks (space, tab, CR, form feed) at both ends. */
hfi_part hfi_part_trim(hfi_part part);
bool hfi_part_begins(hfi_part part, const char *prefix);
/* Cut the next line off the front, without its LF or CR LF. False when nothing is
 * left. */
bool hfi_part_next_line(hfi_part *rest, hfi_part *ret_line);
/* The text up to the first blank; `rest` becomes what follows it, trimmed. */
hfi_part hfi_part_next_token(hfi_part *rest);

/* ---- textbuf.c: growing text, JSON strings, and UTF-8 that is never cut ---- */

/* Zeroed, it is empty. After a failed allocation `failed` stays set, and appending does
 * nothing. So a writer checks once, at the end. */
typedef struct hfi_textbuf {
    char *data;  /* NUL-terminated once something was added; NULL before */
    size_t size; /* bytes, without the NUL */
    size_t capacity;
    int failed;
} hfi_textbuf;

void hfi_textbuf_fini(hfi_textbuf *writer);
void hfi_textbuf_clear(hfi_textbuf *writer); /* keeps the memory */
/* Give the string to the caller, who frees it, and start again empty; NULL: nothing was
 * added. */
char *hfi_textbuf_take(hfi_textbuf *writer);
/* Cut back to `size` bytes, and forget a failure since then. */
void hfi_textbuf_truncate(hfi_textbuf *writer, size_t size);
void hfi_textbuf_append(hfi_textbuf *writer, const void *data, size_t size);
void hfi_textbuf_add(hfi_textbuf *writer, const char *text);
void hfi_textbuf_add_part(hfi_textbuf *writer, hfi_part part);
/* For a message: one line, no control characters, at most this many bytes and then
 * "...". */
enum { HFI_EXCERPT_SIZE = 60 };
void hfi_textbuf_add_excerpt(hfi_textbuf *text, hfi_part part);
/* Make room for at least `least` more bytes, which the caller writes at data + size
 * itself. Returns how many bytes there is room for; 0 without memory. */
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

/* How many bytes of `data` can be shown now: fewer than `size` (by at most 3) if it
 * ends within a character. */
size_t hfi_utf8_whole(const char *data, size_t size);
/* Length of the well-formed character (RFC 3629) at the beginning; 0: there is none. */
size_t hfi_utf8_length(const char *data, size_t size);
/* Whether all of it is well-formed. */
int hfi_utf8_is_valid(const char *data, size_t size);

#endif
