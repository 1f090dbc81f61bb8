/* outcome.c - lines for the user in what a command decides.
 *
 * They go to stderr of the cell, one a mistake, and begin with the command's name. If
 * memory runs out, the text says so when it is used (textbuf.h); nothing here fails.
 * One thread at a time, as in command.c.
 */
#include "commands/outcome.h"

#include "commands/quoting.h"

void
hfi_outcome_complain(hfi_outcome *outcome, const char *name, const char *sentence) {
    hfi_textbuf_add(&outcome->err, name);
    hfi_textbuf_add(&outcome->err, sentence);
    hfi_textbuf_add(&outcome->err, "\n");
}

void
hfi_outcome_ignore(hfi_outcome *outcome, const char *words) {
    hfi_textbuf_add_part(&outcome->err, outcome->head.name);
    hfi_textbuf_add(&outcome->err, words);
    hfi_quote_excerpt(&outcome->err, outcome->head.argument);
    hfi_textbuf_add(&outcome->err, "\n");
}
