/* textbuf.c - text that grows, for everything that the frontend writes.
 *
 * Output of user programs comes as bytes: cut anywhere, in any encoding or in none.
 * Outgoing text must be JSON, whose strings are Unicode. So each byte that isn't part
 * of valid UTF-8 is replaced by U+FFFD, as Python's errors="replace" does. A reader of
 * a pipe asks hfi_utf8_whole() how many bytes it may pass on before the rest has come.
 *
 * Strings are escaped here and not by jansson: most of what the frontend writes is
 * stream text, and a json_t would copy it three times.
 *
 * An allocation that fails is remembered in the buffer, and the sender checks for it: a
 * buffer that failed is never sent in part. One thread.
 */
#include "wire/textbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

#define KEPT_MAX 1048576u

static int
reserve_bytes(hfi_textbuf *writer, size_t more) {
    if (writer->failed)
        return 0;
    if (more <= writer->capacity - writer->size)
        return 1;
    size_t capacity = writer->capacity < 256 ? 256 : writer->capacity;
    while (capacity - writer->size < more) {
        if (capacity > SIZE_MAX / 2) {
            writer->failed = 1;
            return 0;
        }
        capacity *= 2;
    }
    char *data = realloc(writer->data, capacity);
    if (data == NULL) {
        writer->failed = 1;
        return 0;
    }
    writer->data = data;
    writer->capacity = capacity;
    return 1;
}

void
hfi_textbuf_fini(hfi_textbuf *writer) {
    free(writer->data);
    memset(writer, 0, sizeof *writer);
}

void
hfi_textbuf_clear(hfi_textbuf *writer) {
    if (writer->capacity >
        KEPT_MAX) /* don't keep the memory of one long text for ever */
        hfi_textbuf_fini(writer);
    hfi_textbuf_truncate(writer, 0);
}

void
hfi_textbuf_append(hfi_textbuf *writer, const void *data, size_t size) {
    if (size == SIZE_MAX)
        writer->failed = 1;
    if (!reserve_bytes(writer, size + 1))
        return;
    if (size > 0)
        memcpy(writer->data + writer->size, data, size);
    writer->size += size;
    writer->data[writer->size] = '\0';
}

void
hfi_textbuf_add(hfi_textbuf *writer, const char *text) {
    hfi_textbuf_append(writer, text, strlen(text));
}

void
hfi_textbuf_add_part(hfi_textbuf *writer, hfi_part part) {
    hfi_textbuf_append(writer, part.data, part.size);
}

char *
hfi_textbuf_take(hfi_textbuf *writer) {
    char *data = writer->data;
    memset(writer, 0, sizeof *writer);
    return data;
}

void
hfi_textbuf_truncate(hfi_textbuf *writer, size_t size) {
    if (size < writer->size) {
        writer->size = size;
        writer->data[size] = '\0';
    }
    writer->failed = 0;
}

size_t
hfi_textbuf_room(hfi_textbuf *writer, size_t least) {
    return reserve_bytes(writer, least) ? writer->capacity - writer->size : 0;
}

void
hfi_textbuf_format(hfi_textbuf *writer, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    if (size < 0)
        writer->failed = 1;
    else if (reserve_bytes(writer, (size_t)size + 1)) {
        vsnprintf(writer->data + writer->size, (size_t)size + 1, format, again);
        writer->size += (size_t)size;
    }
    va_end(again);
    va_end(arguments);
}

const char *
hfi_textbuf_string(hfi_textbuf *writer) {
    if (!reserve_bytes(writer, 1))
        return "";
    writer->data[writer->size] = '\0';
    return writer->data;
}

/* The length that a first byte announces; 0 if no sequence may begin so. */
static size_t
sequence_length(unsigned char first) {
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    if (first >= 0xf0 && first <= 0xf4)
        return 4;
    return 0;
}

size_t
hfi_utf8_length(const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    size_t length = size > 0 ? sequence_length(p[0]) : 0;
    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

size_t
hfi_utf8_whole(const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char byte = p[size - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        return sequence_length(byte) > back ? size - back : size;
    }
    return size;
}

int
hfi_utf8_is_valid(const char *data, size_t size) {
    size_t length;
    for (size_t i = 0; i < size; i += length)
        if ((length = hfi_utf8_length(data + i, size - i)) == 0)
            return 0;
    return 1;
}

void
hfi_textbuf_append_json(hfi_textbuf *writer, const char *data, size_t size) {
    const unsigned char *p = (const unsigned char *)data;
    char escape[HFI_JSON_ESCAPE_MAX];
    size_t done = 0, i = 0;
    hfi_textbuf_append(writer, "\"", 1);
    while (i < size) {
        size_t length = p[i] < 0x80 ? 1 : hfi_utf8_length(data + i, size - i);
        if (length && p[i] != 0x7f && !hfi_json_must_escape(p[i])) {
            i += length;
            continue;
        }
        hfi_textbuf_append(writer, data + done, i - done);
        if (length == 0)
            hfi_textbuf_append(writer, "\xef\xbf\xbd", 3);
        else
            hfi_textbuf_append(writer, escape, hfi_json_escape(p[i], escape));
        done = ++i;
    }
    hfi_textbuf_append(writer, data + done, size - done);
    hfi_textbuf_append(writer, "\"", 1);
}

/* ---- borrowed bytes ------------------------------------------------------------- */

static bool
is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

hfi_part
hfi_part_trim(hfi_part part) {
    while (part.size && is_blank(part.data[0])) {
        part.data++;
        part.size--;
    }
    while (part.size && is_blank(part.data[part.size - 1]))
        part.size--;
    return part;
}

bool
hfi_part_begins(hfi_part part, const char *prefix) {
    size_t length = strlen(prefix);

    return part.size >= length && !memcmp(part.data, prefix, length);
}

bool
hfi_part_next_line(hfi_part *rest, hfi_part *ret_line) {
    const char *end;
    hfi_part line = *rest;

    if (!rest->size)
        return false;
    end = memchr(rest->data, '\n', rest->size);
    if (end)
        line.size = (size_t)(end - rest->data);
    rest->data += line.size + (end ? 1 : 0);
    rest->size -= line.size + (end ? 1 : 0);
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    *ret_line = line;
    return true;
}

hfi_part
hfi_part_next_token(hfi_part *rest) {
    hfi_part token = hfi_part_trim(*rest);
    hfi_part behind = token;

    token.size = 0;
    while (token.size < behind.size && !is_blank(behind.data[token.size]))
        token.size++;
    behind.data += token.size;
    behind.size -= token.size;
    *rest = hfi_part_trim(behind);
    return token;
}

void
hfi_textbuf_add_excerpt(hfi_textbuf *text, hfi_part part) {
    size_t used = 0;

    while (part.size) {
        size_t length = hfi_utf8_length(part.data, part.size);
        unsigned char c = (unsigned char)part.data[0];

        if (used + (length ? length : 1) > HFI_EXCERPT_SIZE) {
            hfi_textbuf_add(text, "...");
            return;
        }
        if (!length || c < 0x20 || c == 0x7f)
            hfi_textbuf_add(text, "?");
        else
            hfi_textbuf_add_part(text, (hfi_part){part.data, length});
        length = length ? length : 1;
        used += length;
        part.data += length;
        part.size -= length;
    }
}
