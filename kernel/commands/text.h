/* text.h - strings and lists of words that grow.
 *
 * A failed allocation is remembered instead of returned, so that a page of additions
 * needs one check, hfi_text_failed(), at its end; after it additions do nothing.
 *
 * Threads: a string or list belongs to one thread at a time.
 */
#ifndef HFI_TEXT_H
#define HFI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* ---- text.c: a string, with the quotings that generated files need ---- */

typedef struct hfi_text {
    char *data;    /* NUL-terminated once something was added; NULL before */
    size_t length; /* bytes, without the NUL */
    size_t capacity;
    bool failed; /* an addition was lost for want of memory */
} hfi_text;

#define HFI_TEXT_INIT                                                                  \
    { 0, 0, 0, false }

/* A piece of somebody else's string. */
typedef struct hfi_span {
    const char *start;
    size_t length;
} hfi_span;

void hfi_text_fini(hfi_text *text);
bool hfi_text_failed(const hfi_text *text);
/* Hand over the string (NULL when nothing was added) and start afresh. The caller
 * frees. */
char *hfi_text_take(hfi_text *text);
/* Forget what was added since the length was `length`. */
void hfi_text_truncate(hfi_text *text, size_t length);

void hfi_text_add(hfi_text *text, const char *string);
void hfi_text_add_span(hfi_text *text, hfi_span span);
void hfi_text_add_format(hfi_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A Python string literal in `quote` (' or "). Bytes that are not UTF-8 become
 * U+FFFD. */
void hfi_text_add_literal(hfi_text *text, hfi_span span, char quote);
/* The same with the quote that Python's repr() would take. */
void hfi_text_add_repr(hfi_text *text, hfi_span span);
/* One word of a POSIX shell, quoted if it has to be. */
void hfi_text_add_word(hfi_text *text, hfi_span span);
/* For a message: one line, no control characters, at most 60 bytes and then "...". */
void hfi_text_add_excerpt(hfi_text *text, hfi_span span);

hfi_span hfi_span_of(const char *string);
/* Without blanks (space, tab, CR, form feed) at either end. */
hfi_span hfi_span_trim(hfi_span span);
bool hfi_span_equal(hfi_span span, const char *string);
bool hfi_span_begins(hfi_span span, const char *prefix);
/* Cut the next line off the front, without its LF or CR LF. False when nothing is
 * left. */
bool hfi_span_next_line(hfi_span *rest, hfi_span *ret_line);
/* Up to the first blank; `rest` is left behind it, trimmed. */
hfi_span hfi_span_next_token(hfi_span *rest);

/* ---- wordlist.c: a NULL-terminated list of strings ---- */

typedef struct hfi_wordlist {
    char **words; /* words[count] is NULL; NULL before the first addition */
    size_t count;
    size_t capacity;
    bool failed; /* an addition was lost for want of memory */
} hfi_wordlist;

#define HFI_WORDLIST_INIT                                                              \
    { 0, 0, 0, false }

void hfi_wordlist_fini(hfi_wordlist *list);
void hfi_wordlist_add(hfi_wordlist *list, hfi_span word);
/* Hand over the array (never NULL, unless memory failed); free it with
 * hfi_wordlist_free. */
char **hfi_wordlist_take(hfi_wordlist *list);
void hfi_wordlist_free(char **words);
void hfi_wordlist_copy(hfi_wordlist *list, const hfi_wordlist *from);

/* Add the words of `source`, cut as a shell does: blanks and line ends, quotes,
 * backslashes, comments; nothing is expanded. False: a quote is not closed. */
bool hfi_wordlist_split(hfi_wordlist *list, hfi_span source);

enum { HFI_WORDLIST_COMPLAINTS = 8 };

/* Read lines NAME=value, add name and value of each. Blank lines and comments are
 * skipped; of any other line `err` gets a line that quotes it, after `subject`; past
 * HFI_WORDLIST_COMPLAINTS of them only their number. */
void hfi_wordlist_read_environment(hfi_wordlist *list, hfi_span source,
                                   const char *subject, hfi_text *err);
/* Letters, digits and underscores, not beginning with a digit. */
bool hfi_wordlist_is_name(hfi_span span);

#endif
