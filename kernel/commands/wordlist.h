/* wordlist.h - a NULL-terminated list of strings.
 *
 * A failed allocation is remembered in `failed` instead of returned; after it additions
 * do nothing.
 */
#ifndef HFI_WORDLIST_H
#define HFI_WORDLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/textbuf.h"

typedef struct hfi_wordlist {
    char **words; /* words[count] is NULL; NULL before the first addition */
    size_t count;
    size_t capacity;
    bool failed; /* an addition was lost for want of memory */
} hfi_wordlist;

#define HFI_WORDLIST_INIT                                                              \
    { 0, 0, 0, false }

void hfi_wordlist_fini(hfi_wordlist *list);
void hfi_wordlist_add(hfi_wordlist *list, hfi_part word);
/* Hand over the array (never NULL, unless memory failed); free it with
 * hfi_wordlist_free. */
char **hfi_wordlist_take(hfi_wordlist *list);
void hfi_wordlist_free(char **words);
void hfi_wordlist_copy(hfi_wordlist *list, const hfi_wordlist *from);

/* Add the words of `source`, cut as a shell does: blanks and line ends, quotes,
 * backslashes, comments; nothing is expanded. False: a quote is not closed. */
bool hfi_wordlist_split(hfi_wordlist *list, hfi_part source);

enum { HFI_WORDLIST_COMPLAINTS = 8 };

/* Read lines NAME=value, add name and value of each. Blank lines and comments are
 * skipped; of any other line `err` gets a line that quotes it, after `subject`; past
 * HFI_WORDLIST_COMPLAINTS of them only their number. */
void hfi_wordlist_read_environment(hfi_wordlist *list, hfi_part source,
                                   const char *subject, hfi_textbuf *err);
/* Letters, digits and underscores, not beginning with a digit. */
bool hfi_wordlist_is_name(hfi_part part);

#endif
