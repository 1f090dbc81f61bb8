/* jsontext.c - a scanner that accepts only JSON that a worker's decoder reads without
 * an error.
 *
 * The four JSON parts of a message are passed to a worker unchanged. If Python's
 * decoder refused one, it would raise in the process that holds the notebook. The
 * grammar is RFC 8259's, with the three words that Python's encoder writes and jansson
 * refuses (NaN, Infinity, -Infinity). A parser of values would also refuse integers of
 * 65 bits. Depth and digits have the decoder's limits. The scanner keeps one byte for
 * each level, so no input makes it recurse.
 *
 * An object must fill its part: nothing may stand before or after it, not even blanks,
 * and no part may be empty. This makes the borders of a message's parts unambiguous.
 * The signature covers the four parts one after the other, without their borders. But
 * an object ends where its first brace is closed, so no object is the beginning of
 * another one, and a text can be cut into four objects in one way only.
 */
#include "wire/message.h"

#include "wire/textbuf.h"

typedef struct scanner {
    const char *at, *end;
    const char *problem; /* the first one; NULL: none yet */
    size_t depth;
    char open[HFI_JSON_DEPTH_MAX]; /* '{' or '[' of each level */
} scanner;

static int
fail_scan(scanner *scan, const char *problem) {
    scan->problem = problem;
    return 0;
}

/* The next character. 0 at the end: no JSON text has this byte. */
static char
peek_char(const scanner *scan) {
    return scan->at < scan->end ? *scan->at : '\0';
}

static void
skip_blanks(scanner *scan) {
    while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) != NULL &&
           *scan->at != '\0')
        scan->at++;
}

static int
is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static size_t
skip_digits(scanner *scan) {
    const char *begin = scan->at;
    while (is_digit(peek_char(scan)))
        scan->at++;
    return (size_t)(scan->at - begin);
}

static int
take_escape(scanner *scan) {
    static const char hex[] = "0123456789abcdefABCDEF";
    char kind = peek_char(scan);
    if (kind == '\0')
        return 0;
    scan->at++;
    if (kind != 'u')
        return strchr("\"\\/bfnrt", kind) != NULL;
    for (int i = 0; i < 4; i++, scan->at++)
        if (peek_char(scan) == '\0' || strchr(hex, peek_char(scan)) == NULL)
            return 0;
    return 1;
}

/* From after the first quote to after the last. */
static int
take_string(scanner *scan) {
    while (scan->at < scan->end) {
        unsigned char byte = (unsigned char)*scan->at++;
        if (byte == '"')
            return 1;
        if (byte < 0x20)
            return fail_scan(scan, "has a control character in a string");
        if (byte == '\\' && !take_escape(scan))
            return fail_scan(scan, "has an escape that is none");
    }
    return fail_scan(scan, "ends within a string");
}

static int
take_word(scanner *scan, const char *word) {
    size_t size = strlen(word);
    if ((size_t)(scan->end - scan->at) < size || memcmp(scan->at, word, size) != 0)
        return 0;
    scan->at += size;
    return 1;
}

static int
take_json_number(scanner *scan) {
    int negative = take_word(scan, "-");
    if (negative && take_word(scan, "Infinity"))
        return 1;
    const char *first = scan->at;
    size_t digits = skip_digits(scan);
    if (digits == 0 || (digits > 1 && *first == '0'))
        return fail_scan(scan, "has a value that is none");
    int whole = 1;
    if (take_word(scan, ".")) {
        whole = 0;
        if (skip_digits(scan) == 0)
            return fail_scan(scan, "has a number that ends too early");
    }
    if (take_word(scan, "e") || take_word(scan, "E")) {
        whole = 0;
        (void)(take_word(scan, "+") || take_word(scan, "-"));
        if (skip_digits(scan) == 0)
            return fail_scan(scan, "has a number that ends too early");
    }
    return whole && digits > HFI_JSON_DIGITS_MAX
               ? fail_scan(scan, "has an integer of too many digits")
               : 1;
}

static int
take_atom(scanner *scan) {
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity"};
    if (take_word(scan, "\""))
        return take_string(scan);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (take_word(scan, words[i]))
            return 1;
    return take_json_number(scan);
}

/* A member's name and its colon. */
static int
take_name(scanner *scan) {
    skip_blanks(scan);
    if (!take_word(scan, "\""))
        return fail_scan(scan, "has a member without a name");
    if (!take_string(scan))
        return 0;
    skip_blanks(scan);
    return take_word(scan, ":") ? 1 : fail_scan(scan, "has a name without a value");
}

/* After a value: take the brackets that end here, and the comma before the next
 * value. */
static int
take_ends(scanner *scan) {
    while (scan->depth > 0) {
        char open = scan->open[scan->depth - 1];
        skip_blanks(scan);
        if (take_word(scan, ","))
            return open == '[' || take_name(scan);
        if (!take_word(scan, open == '{' ? "}" : "]"))
            return fail_scan(scan,
                             "has a value that isn't followed by another or the end");
        scan->depth--;
    }
    return 1;
}

/* After a bracket: go to its first value, or past it if it is empty. */
static int
open_container(scanner *scan, char open) {
    if (scan->depth == HFI_JSON_DEPTH_MAX)
        return fail_scan(scan, "is nested too deeply");
    scan->open[scan->depth++] = open;
    skip_blanks(scan);
    if (take_word(scan, open == '{' ? "}" : "]")) {
        scan->depth--;
        return take_ends(scan);
    }
    return open == '[' || take_name(scan);
}

const char *
hfi_json_object_problem(hfi_part text) {
    scanner scan = {.at = text.data, .end = (const char *)text.data + text.size};
    if (text.size == 0 || !take_word(&scan, "{"))
        return "is not an object";
    if (!hfi_utf8_is_valid(text.data, text.size))
        return "is not UTF-8";
    int good = open_container(&scan, '{');
    while (good && scan.depth > 0) {
        skip_blanks(&scan);
        if (take_word(&scan, "{"))
            good = open_container(&scan, '{');
        else if (take_word(&scan, "["))
            good = open_container(&scan, '[');
        else
            good = take_atom(&scan) && take_ends(&scan);
    }
    if (good && scan.at != scan.end)
        return "has something behind its end";
    return scan.problem;
}
