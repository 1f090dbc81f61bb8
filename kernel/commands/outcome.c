/* outcome.c - the lines for the user in a command's outcome.
 *
 * They go to the cell's stderr, one for each mistake, and begin with the command's
 * name. Nothing here fails: if memory runs out, the text says so when it is used
 * (textbuf.h). One thread at a time, as in command.c.
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
    hfi_textbuf_add_excerpt(&outcome->err, outcome->head.argument);
    hfi_textbuf_add(&outcome->err, "\n");
}
