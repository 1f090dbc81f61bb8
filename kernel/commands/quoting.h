/* quoting.h - text of the user, quoted for generated files. */
#ifndef HFI_QUOTING_H
#define HFI_QUOTING_H

#include "wire/textbuf.h"

/* A Python string literal in `quote` (' or "). Bytes that are
 * not UTF-8 become U+FFFD. */
void hfi_quote_literal(hfi_textbuf *text, hfi_part part, char quote);
/* The same with the quote that Python's repr() would choose. */
void hfi_quote_repr(hfi_textbuf *text, hfi_part part);
/* One word for a POSIX shell, quoted if necessary. */
void hfi_quote_word(hfi_textbuf *text, hfi_part part);

#endif
