/* pyline.c - a scanner for the line structure of Python.
 *
 * It knows what decides where a statement can begin, and nothing else: strings (with
 * prefixes, triple quotes and nested f-string fields), brackets, comments and
 * backslashes. It never fails. For text that isn't Python the answer doesn't matter,
 * since such a cell doesn't run anyway.
 *
 * The state between two lines is a stack with one byte for each thing that is open:
 *   '('  any bracket
 *   '{'  the expression of an f-string field
 *   ':'  the format specification behind it, literal text up to '}'
 *   others: a string, as STRING plus the flags below
 * An unclosed one-line string ends with its line, as it does for Python's tokenizer, so
 * that one stray apostrophe doesn't turn the rest of the cell into a string. Past
 * HFI_PYLINE_DEPTH nothing is pushed; no compilable program gets there.
 *
 * A magic takes its whole line, quotes and all, and goes on after a backslash. Python
 * has no '?' outside strings and comments, and no `= %` or `= !`, so those mark
 * IPython's other forms. Calling Python's own tokenizer was rejected: the frontend has
 * no Python.
 */
#include "commands/pyline.h"

#include <string.h>

enum {
    STRING = 0x40,
    STRING_DOUBLE = 0x01, /* " rather than ' */
    STRING_TRIPLE = 0x02,
    STRING_FIELDS = 0x04, /* f-string: { opens an expression */
};
#define BRACKET '('
#define FIELD   '{'
#define SPEC    ':'

void
hfi_pyline_begin(hfi_pyline_scanner *scanner, hfi_part source) {
    scanner->rest = source;
    scanner->depth = 0;
    scanner->joined = false;
    scanner->magic = false;
}

static void
push_state(hfi_pyline_scanner *scanner, int what) {
    if (scanner->depth < HFI_PYLINE_DEPTH)
        scanner->stack[scanner->depth++] = (char)what;
}

static int
top_state(const hfi_pyline_scanner *scanner) {
    return scanner->depth ? scanner->stack[scanner->depth - 1] : 0;
}

static bool
is_string(int what) {
    return what >= STRING && what <= (STRING | 7);
}

/* Whether the prefix that ends before `at` has an f (or a t, for the template strings
 * of 3.14). */
static bool
has_fields(hfi_part line, size_t at) {
    for (size_t n = 0; n < 2 && at > 0; n++) {
        char c = line.data[--at];

        if (c == 'f' || c == 'F' || c == 't' || c == 'T')
            return true;
        if (c != 'r' && c != 'R')
            return false;
    }
    return false;
}

static bool
is_triple(hfi_part line, size_t at) {
    return at + 2 < line.size && line.data[at + 1] == line.data[at] &&
           line.data[at + 2] == line.data[at];
}

/* Each scan function looks at line[at], and returns the position to go on from. */

static size_t
scan_string(hfi_pyline_scanner *scanner, hfi_part line, size_t at) {
    int what = top_state(scanner);
    char quote = what & STRING_DOUBLE ? '"' : '\'';
    char c = line.data[at];

    if (c == '\\') {
        scanner->joined = at + 1 == line.size;
        return at + 2;
    }
    if (c == '{' && what & STRING_FIELDS) {
        if (at + 1 < line.size && line.data[at + 1] == '{')
            return at + 2;
        push_state(scanner, FIELD);
        return at + 1;
    }
    if (c != quote || (what & STRING_TRIPLE && !is_triple(line, at)))
        return at + 1;
    scanner->depth--;
    return at + (what & STRING_TRIPLE ? 3 : 1);
}

static size_t
scan_quote(hfi_pyline_scanner *scanner, hfi_part line, size_t at) {
    int what = STRING;
    bool triple = is_triple(line, at);

    what |= line.data[at] == '"' ? STRING_DOUBLE : 0;
    what |= triple ? STRING_TRIPLE : 0;
    what |= has_fields(line, at) ? STRING_FIELDS : 0;
    push_state(scanner, what);
    return at + (triple ? 3 : 1);
}

static size_t
scan_spec(hfi_pyline_scanner *scanner, char c, size_t at) {
    if (c == '{')
        push_state(scanner, FIELD);
    else if (c == '}')
        scanner->depth--;
    return at + 1;
}

/* Is this the = of `name = %magic` or `name = !command`? */
static bool
is_assigned_magic(hfi_part line, size_t at) {
    for (at++; at < line.size; at++) {
        char c = line.data[at];

        if (c == '%' || c == '!')
            return true;
        if (c != ' ' && c != '\t')
            return false;
    }
    return false;
}

static size_t
scan_code(hfi_pyline_scanner *scanner, hfi_part line, size_t at, char *last,
          bool *assigned) {
    char c = line.data[at];
    int what = top_state(scanner);

    if (c == '#')
        return line.size;
    if (c != ' ' && c != '\t')
        *last = c;
    if (c == '"' || c == '\'')
        return scan_quote(scanner, line, at);
    if (c == '(' || c == '[' || c == '{')
        push_state(scanner, BRACKET);
    else if ((c == ')' || c == ']' || c == '}') && (what == BRACKET || what == FIELD))
        scanner->depth--;
    else if (c == ':' && what == FIELD)
        scanner->stack[scanner->depth - 1] = SPEC;
    else if (c == '\\')
        scanner->joined = at + 1 == line.size;
    else if (c == '=' && !scanner->depth)
        *assigned = *assigned || is_assigned_magic(line, at);
    return at + 1;
}

/* End the one-line strings that the line neither closed nor continued with a
 * backslash. */
static void
end_line(hfi_pyline_scanner *scanner) {
    size_t depth = scanner->depth;

    if (scanner->joined)
        return;
    if (depth > 1 && scanner->stack[depth - 1] == SPEC)
        depth--;
    if (depth && is_string(scanner->stack[depth - 1]) &&
        !(scanner->stack[depth - 1] & STRING_TRIPLE))
        scanner->depth = depth - 1;
}

/* Scan one line of Python. Returns true if it is a magic after all. */
static bool
scan_line(hfi_pyline_scanner *scanner, hfi_part line) {
    size_t depth = scanner->depth;
    bool assigned = false;
    char last = 0;

    scanner->joined = false;
    for (size_t at = 0; at < line.size && !assigned;) {
        int what = top_state(scanner);

        if (is_string(what))
            at = scan_string(scanner, line, at);
        else if (what == SPEC)
            at = scan_spec(scanner, line.data[at], at);
        else
            at = scan_code(scanner, line, at, &last, &assigned);
    }
    if (assigned)
        scanner->joined = line.data[line.size - 1] == '\\';
    else
        end_line(scanner);
    return assigned || (last == '?' && !depth && !scanner->depth);
}

bool
hfi_pyline_next(hfi_pyline_scanner *scanner, hfi_pyline *ret_line) {
    hfi_pyline line = {HFI_PYLINE_INSIDE, {0, 0}, 0, false};
    bool fresh = !scanner->depth && !scanner->joined;
    hfi_part inner;

    if (!hfi_part_next_line(&scanner->rest, &line.text))
        return false;
    inner = hfi_part_trim(line.text);
    line.indent = (size_t)(inner.data - line.text.data);
    if (scanner->magic) {
        line.kind = HFI_PYLINE_MAGIC;
        line.carried = true;
    } else if (fresh && !inner.size) {
        line.kind = HFI_PYLINE_BLANK;
    } else if (fresh && inner.data[0] == '#') {
        line.kind = HFI_PYLINE_COMMENT;
    } else if (fresh && memchr("%!?", inner.data[0], 3)) {
        line.kind = HFI_PYLINE_MAGIC;
    } else {
        bool magic = scan_line(scanner, line.text);

        if (fresh)
            line.kind = magic ? HFI_PYLINE_MAGIC : HFI_PYLINE_CODE;
    }
    if (line.kind == HFI_PYLINE_MAGIC)
        scanner->joined = inner.size && inner.data[inner.size - 1] == '\\';
    scanner->magic = line.kind == HFI_PYLINE_MAGIC && scanner->joined;
    *ret_line = line;
    return true;
}
