/* cellhead.h - the command at the head of a cell, if there is one. */
#ifndef HFI_CELLHEAD_H
#define HFI_CELLHEAD_H

#include <stdbool.h>

#include "commands/text.h"

/* A cell cut at its first line that is neither blank nor a comment. */
typedef struct hfi_cellhead {
    hfi_span before; /* the lines above that line */
    hfi_span name;   /* its first word, such as "%%execute_with_scorep"; may be empty */
    hfi_span argument; /* the rest of it, trimmed */
    hfi_span body;     /* the lines below it */
} hfi_cellhead;

/* Every span points into `cell`. Without such a line all but `before` are empty. */
void hfi_cellhead_parse(hfi_span cell, hfi_cellhead *ret_head);

/* Is there a line that is neither blank nor a comment? */
bool hfi_cellhead_has_code(hfi_span cell);

/* Where magics that run their body, %%time for one, stand above %%execute_with_scorep
 * or %%isolated: add the cell to the text with that command at its top, every line
 * below it with its old number, and return true. Otherwise the text stays as it is. */
bool hfi_cellhead_lift(hfi_span cell, hfi_text *text);

/* Add `lines` to the text such that as many lines come out, none of them code: as
 * comments, or empty when `empty` is set (IPython wants a cell magic first). */
void hfi_cellhead_blank(hfi_text *text, hfi_span lines, bool empty);

#endif
