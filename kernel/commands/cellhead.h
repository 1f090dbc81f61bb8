/* cellhead.h - the command at the head of a cell.
 *
 * `comment` is how the language begins a comment that ends with its line, such as "#";
 * NULL: it has none. Nothing else is known of the language: only lines are read.
 * Threads: any; there is no state.
 */
#ifndef HFI_CELLHEAD_H
#define HFI_CELLHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/textbuf.h"

/* A cell cut at its first line that is neither blank nor a comment. */
typedef struct hfi_cellhead {
    hfi_part before; /* the lines above that line */
    hfi_part name;   /* its first word, such as "%%execute_with_scorep"; may be empty */
    hfi_part argument; /* the rest of it, trimmed */
    hfi_part body;     /* the lines below it */
} hfi_cellhead;

/* Cut the cell. Every part points into `cell`. If there is no such line, all parts but
 * `before` are empty. */
void hfi_cellhead_parse(hfi_part cell, const char *comment, hfi_cellhead *ret_head);

/* Is there a line that is neither blank nor a comment? */
bool hfi_cellhead_has_code(hfi_part cell, const char *comment);

/* The cell may have commands of the worker that run the lines below them (`runners`),
 * above one of those that are `lifted`. Then add the cell to the text with the latter at
 * its top and every other line at its old number, and return true. Otherwise leave the
 * text as it is. Both lists end with NULL. */
bool hfi_cellhead_lift(hfi_part cell, const char *comment, const char *const *runners,
                       const char *const *lifted, hfi_textbuf *text);

/* Add the cell's lines from `body` on, which is a part of it, with as many lines above
 * them as the cell has: as comments, or empty if there are none or another %% command
 * follows, which has to come first. */
void hfi_cellhead_cut(hfi_part cell, hfi_part body, const char *comment,
                      hfi_textbuf *code);

#endif
