/* json.h - texts as strings of JSON, for every room that writes JSON by hand.
 *
 * One table of escapes: the quote, the backslash and the control characters have one
 * each. Which other bytes a writer escapes, and what it does with bytes that aren't
 * UTF-8, is the writer's business. No state, no allocation; any thread.
 */
#ifndef HFI_JSON_H
#define HFI_JSON_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define HFI_JSON_ESCAPE_MAX 6 /* bytes: a backslash, u and four digits */

static inline int
hfi_json_must_escape(unsigned char byte) {
    return byte < 0x20 || byte == '"' || byte == '\\';
}

/* Write the escape of one byte below 0x80, without a NUL. Returns its length. */
static inline size_t
hfi_json_escape(unsigned char byte, char ret_text[HFI_JSON_ESCAPE_MAX]) {
    static const char plain[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    static const char digits[] = "0123456789abcdef";
    const char *found = byte ? strchr(plain, byte) : NULL;
    ret_text[0] = '\\';
    if (found) {
        ret_text[1] = letters[found - plain];
        return 2;
    }
    memcpy(ret_text + 1, "u00", 3);
    ret_text[4] = digits[byte >> 4];
    ret_text[5] = digits[byte & 15];
    return 6;
}

/* Write UTF-8 as a JSON string with its quotes. Whether that failed, `ferror` says. */
static inline void
hfi_json_write(FILE *file, const char *text) {
    char escape[HFI_JSON_ESCAPE_MAX];
    fputc('"', file);
    for (; *text; text++)
        if (hfi_json_must_escape((unsigned char)*text))
            fwrite(escape, 1, hfi_json_escape((unsigned char)*text, escape), file);
        else
            fputc(*text, file);
    fputc('"', file);
}

#endif
