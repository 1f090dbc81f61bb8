/* text.c - a string that grows, and pieces of strings.
 *
 * What the commands generate (programs, shell scripts, messages) is built from many
 * small additions. Checking each would bury the text that is built, so the buffer
 * remembers a failed allocation and its user asks once. After a failure `data` holds
 * what was added before it; nothing is lost silently as long as hfi_text_failed() is
 * asked before the string is used.
 *
 * Quoting is done here and nowhere else, because it is where a hostile cell would break
 * out: every byte of a literal or word passes through these functions. Literals keep
 * valid UTF-8 as it is, so that a generated script can be read; anything else becomes
 * U+FFFD, since a Python source that is not UTF-8 is not compiled at all.
 * surrogateescape was rejected: such strings fail when they are printed.
 */
#include "commands/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXCERPT_SIZE = 60 };

void
hfi_text_fini(hfi_text *text) {
    free(text->data);
    *text = (hfi_text)HFI_TEXT_INIT;
}

bool
hfi_text_failed(const hfi_text *text) {
    return text->failed;
}

char *
hfi_text_take(hfi_text *text) {
    char *data = text->data;

    *text = (hfi_text)HFI_TEXT_INIT;
    return data;
}

void
hfi_text_truncate(hfi_text *text, size_t length) {
    if (length < text->length) {
        text->length = length;
        text->data[length] = '\0';
    }
    text->failed = false;
}

/* Room for `more` bytes and a NUL. */
static bool
reserve(hfi_text *text, size_t more) {
    size_t needed;
    char *data;

    if (text->failed)
        return false;
    if (more >= (size_t)-1 / 4 - text->length) {
        text->failed = true;
        return false;
    }
    needed = text->length + more + 1;
    if (needed <= text->capacity)
        return true;
    needed += needed / 2 + 64;
    data = realloc(text->data, needed);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = needed;
    return true;
}

void
hfi_text_add_span(hfi_text *text, hfi_span span) {
    if (!reserve(text, span.length))
        return;
    if (span.length)
        memcpy(text->data + text->length, span.start, span.length);
    text->length += span.length;
    text->data[text->length] = '\0';
}

void
hfi_text_add(hfi_text *text, const char *string) {
    hfi_text_add_span(text, hfi_span_of(string));
}

void
hfi_text_add_format(hfi_text *text, const char *format, ...) {
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        text->failed = true;
        return;
    }
    if (!reserve(text, (size_t)length))
        return;
    va_start(arguments, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

/* Bytes of the UTF-8 sequence at the front of `span`; 0 when it is not valid (RFC 3629:
 * no overlong forms, no surrogates, nothing past U+10FFFF). */
static size_t
utf8_length(hfi_span span) {
    const unsigned char *bytes = (const unsigned char *)span.start;
    size_t length;
    unsigned char low = 0x80, high = 0xbf;

    if (!span.length)
        return 0;
    if (bytes[0] < 0x80)
        return 1;
    if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
        length = 2;
    else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef)
        length = 3;
    else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
        length = 4;
    else
        return 0;
    if (bytes[0] == 0xe0)
        low = 0xa0;
    else if (bytes[0] == 0xed)
        high = 0x9f;
    else if (bytes[0] == 0xf0)
        low = 0x90;
    else if (bytes[0] == 0xf4)
        high = 0x8f;
    if (span.length < length || bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (bytes[i] < 0x80 || bytes[i] > 0xbf)
            return 0;
    return length;
}

static void
add_escaped(hfi_text *text, char c, char quote) {
    if (c == quote || c == '\\')
        hfi_text_add_format(text, "\\%c", c);
    else if (c == '\n')
        hfi_text_add(text, "\\n");
    else if (c == '\t')
        hfi_text_add(text, "\\t");
    else if (c == '\r')
        hfi_text_add(text, "\\r");
    else
        hfi_text_add_format(text, "\\x%02x", (unsigned)(unsigned char)c);
}

void
hfi_text_add_literal(hfi_text *text, hfi_span span, char quote) {
    hfi_text_add_format(text, "%c", quote);
    while (span.length && !text->failed) {
        size_t plain = 0;

        /* As long a run as needs no escape goes in one piece. */
        while (plain < span.length) {
            hfi_span left = {span.start + plain, span.length - plain};
            unsigned char c = (unsigned char)left.start[0];
            size_t length = utf8_length(left);

            if (!length || c < 0x20 || c == 0x7f || c == (unsigned char)quote ||
                c == '\\')
                break;
            plain += length;
        }
        hfi_text_add_span(text, (hfi_span){span.start, plain});
        span.start += plain;
        span.length -= plain;
        if (!span.length)
            break;
        if ((unsigned char)span.start[0] >= 0x80)
            hfi_text_add(text, "\xef\xbf\xbd"); /* U+FFFD */
        else
            add_escaped(text, span.start[0], quote);
        span.start++;
        span.length--;
    }
    hfi_text_add_format(text, "%c", quote);
}

void
hfi_text_add_repr(hfi_text *text, hfi_span span) {
    bool single = span.length && memchr(span.start, '\'', span.length);
    bool doubled = span.length && memchr(span.start, '"', span.length);

    hfi_text_add_literal(text, span, single && !doubled ? '"' : '\'');
}

void
hfi_text_add_word(hfi_text *text, hfi_span span) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_./=:,+-@%";
    bool quoted = !span.length;

    for (size_t i = 0; i < span.length && !quoted; i++)
        quoted = !memchr(safe, span.start[i], sizeof safe - 1);
    if (!quoted) {
        hfi_text_add_span(text, span);
        return;
    }
    hfi_text_add(text, "'");
    while (span.length) {
        const char *mark = memchr(span.start, '\'', span.length);
        size_t run = mark ? (size_t)(mark - span.start) : span.length;

        hfi_text_add_span(text, (hfi_span){span.start, run});
        if (mark)
            hfi_text_add(text, "'\\''");
        run += mark ? 1 : 0;
        span.start += run;
        span.length -= run;
    }
    hfi_text_add(text, "'");
}

void
hfi_text_add_excerpt(hfi_text *text, hfi_span span) {
    size_t used = 0;

    while (span.length) {
        size_t length = utf8_length(span);
        unsigned char c = (unsigned char)span.start[0];

        if (used + (length ? length : 1) > EXCERPT_SIZE) {
            hfi_text_add(text, "...");
            return;
        }
        if (!length || c < 0x20 || c == 0x7f)
            hfi_text_add(text, "?");
        else
            hfi_text_add_span(text, (hfi_span){span.start, length});
        length = length ? length : 1;
        used += length;
        span.start += length;
        span.length -= length;
    }
}

hfi_span
hfi_span_of(const char *string) {
    return (hfi_span){string, strlen(string)};
}

static bool
is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

hfi_span
hfi_span_trim(hfi_span span) {
    while (span.length && is_blank(span.start[0])) {
        span.start++;
        span.length--;
    }
    while (span.length && is_blank(span.start[span.length - 1]))
        span.length--;
    return span;
}

bool
hfi_span_equal(hfi_span span, const char *string) {
    return span.length == strlen(string) && !memcmp(span.start, string, span.length);
}

bool
hfi_span_begins(hfi_span span, const char *prefix) {
    size_t length = strlen(prefix);

    return span.length >= length && !memcmp(span.start, prefix, length);
}

bool
hfi_span_next_line(hfi_span *rest, hfi_span *ret_line) {
    const char *end;
    hfi_span line = *rest;

    if (!rest->length)
        return false;
    end = memchr(rest->start, '\n', rest->length);
    if (end)
        line.length = (size_t)(end - rest->start);
    rest->start += line.length + (end ? 1 : 0);
    rest->length -= line.length + (end ? 1 : 0);
    if (line.length && line.start[line.length - 1] == '\r')
        line.length--;
    *ret_line = line;
    return true;
}

hfi_span
hfi_span_next_token(hfi_span *rest) {
    hfi_span token = hfi_span_trim(*rest);
    hfi_span behind = token;

    token.length = 0;
    while (token.length < behind.length && !is_blank(behind.start[token.length]))
        token.length++;
    behind.start += token.length;
    behind.length -= token.length;
    *rest = hfi_span_trim(behind);
    return token;
}
