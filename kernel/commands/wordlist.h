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
/* Give the array to the caller, who frees it with hfi_wordlist_free. It is NULL only
 * without memory. */
char **hfi_wordlist_take(hfi_wordlist *list);
void hfi_wordlist_free(char **words);
void hfi_wordlist_copy(hfi_wordlist *list, const hfi_wordlist *from);

/* Add the words of `source`, split as a shell does: by blanks and line ends, with
 * quotes, backslashes and comments; nothing is expanded. Returns false if a quote isn't
 * closed. */
bool hfi_wordlist_split(hfi_wordlist *list, hfi_part source);

enum { HFI_WORDLIST_COMPLAINTS = 8 };

/* Read lines NAME=value, and add the name and the value of each. Blank lines and
 * comments are skipped. For any other line `err` gets `subject` and a quotation of the
 * line. After HFI_WORDLIST_COMPLAINTS of them only their number is reported. */
void hfi_wordlist_read_environment(hfi_wordlist *list, hfi_part source,
                                   const char *subject, hfi_textbuf *err);
/* Whether it has only letters, digits and underscores, and doesn't begin with a
 * digit. */
bool hfi_wordlist_is_name(hfi_part part);

#endif
