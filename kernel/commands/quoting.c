/* quoting.c - text of the user, quoted.
 *
 * All quoting is done here, because this is where a hostile cell would break out: every
 * byte of a literal or word passes through these functions. Valid UTF-8 stays as it is
 * in literals, so that a generated script can be read. Other bytes become U+FFFD,
 * because Python doesn't compile a source that isn't UTF-8. Rejected: surrogateescape.
 * Such strings fail when they are printed.
 */
#include "commands/quoting.h"

#include <stdbool.h>
#include <string.h>

static void
add_escaped(hfi_textbuf *text, char c, char quote) {
    if (c == quote || c == '\\')
        hfi_textbuf_format(text, "\\%c", c);
    else if (c == '\n')
        hfi_textbuf_add(text, "\\n");
    else if (c == '\t')
        hfi_textbuf_add(text, "\\t");
    else if (c == '\r')
        hfi_textbuf_add(text, "\\r");
    else
        hfi_textbuf_format(text, "\\x%02x", (unsigned)(unsigned char)c);
}

void
hfi_quote_literal(hfi_textbuf *text, hfi_part part, char quote) {
    hfi_textbuf_format(text, "%c", quote);
    while (part.size && !text->failed) {
        size_t plain = 0;

        /* Add the longest run that needs no escape in one piece. */
        while (plain < part.size) {
            hfi_part left = {part.data + plain, part.size - plain};
            unsigned char c = (unsigned char)left.data[0];
            size_t length = hfi_utf8_length(left.data, left.size);

            if (!length || c < 0x20 || c == 0x7f || c == (unsigned char)quote ||
                c == '\\')
                break;
            plain += length;
        }
        hfi_textbuf_add_part(text, (hfi_part){part.data, plain});
        part.data += plain;
        part.size -= plain;
        if (!part.size)
            break;
        if ((unsigned char)part.data[0] >= 0x80)
            hfi_textbuf_add(text, "\xef\xbf\xbd"); /* U+FFFD */
        else
            add_escaped(text, part.data[0], quote);
        part.data++;
        part.size--;
    }
    hfi_textbuf_format(text, "%c", quote);
}

void
hfi_quote_repr(hfi_textbuf *text, hfi_part part) {
    bool single = part.size && memchr(part.data, '\'', part.size);
    bool doubled = part.size && memchr(part.data, '"', part.size);

    hfi_quote_literal(text, part, single && !doubled ? '"' : '\'');
}

void
hfi_quote_word(hfi_textbuf *text, hfi_part part) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_./=:,+-@%";
    bool quoted = !part.size;

    for (size_t i = 0; i < part.size && !quoted; i++)
        quoted = !memchr(safe, part.data[i], sizeof safe - 1);
    if (!quoted) {
        hfi_textbuf_add_part(text, part);
        return;
    }
    hfi_textbuf_add(text, "'");
    while (part.size) {
        const char *mark = memchr(part.data, '\'', part.size);
        size_t run = mark ? (size_t)(mark - part.data) : part.size;

        hfi_textbuf_add_part(text, (hfi_part){part.data, run});
        if (mark)
            hfi_textbuf_add(text, "'\\''");
        run += mark ? 1 : 0;
        part.data += run;
        part.size -= run;
    }
    hfi_textbuf_add(text, "'");
}
