/* cellhead.h - a cell as text: the command at its head, and its lines of Python.
 *
 * Nothing here runs or knows Python; it reads lines only. Threads: any; there is no
 * state.
 */
#ifndef HFI_CELLHEAD_H
#define HFI_CELLHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/textbuf.h"

/* ---- cellhead.c: the command at the head of a cell, if there is one ---- */

/* A cell cut at its first line that is neither blank nor a comment. */
typedef struct hfi_cellhead {
    hfi_part before; /* the lines above that line */
    hfi_part name;   /* its first word, such as "%%execute_with_scorep"; may be empty */
    hfi_part argument; /* the rest of it, trimmed */
    hfi_part body;     /* the lines below it */
} hfi_cellhead;

/* Cut the cell. Every part points into `cell`. If there is no such line, all parts but
 * `before` are empty. */
void hfi_cellhead_parse(hfi_part cell, hfi_cellhead *ret_head);

/* Is there a line that is neither blank nor a comment? */
bool hfi_cellhead_has_code(hfi_part cell);

/* The cell may have magics that run their body, such as %%time, above
 * %%execute_with_scorep or %%isolated. Then add the cell to the text with that command
 * at its top and every other line at its old number, and return true. Otherwise leave
 * the text as it is. */
bool hfi_cellhead_lift(hfi_part cell, hfi_textbuf *text);

/* Add as many lines as `lines` has to the text, without code: as comments, or empty if
 * `empty` is set (IPython wants a cell magic first). */
void hfi_cellhead_blank(hfi_textbuf *text, hfi_part lines, bool empty);

/* ---- pyline.c ----
 *
 * The physical lines of a cell, and which of them begin a statement.
 */

/* A scanner by lines. It knows that text in a string isn't a magic, and that `%b` on
 * the second line of a bracket is a modulo. It is used to remove magics from a cell and
 * to indent it. */

typedef enum hfi_pyline_kind {
    HFI_PYLINE_BLANK,   /* blank, at a place where a statement could begin */
    HFI_PYLINE_COMMENT, /* a comment only, at a place where a statement could begin */
    HFI_PYLINE_CODE,    /* begins a statement */
    HFI_PYLINE_MAGIC,   /* IPython's: %x, !x, ?x, x?, y = %x, y = !x */
    /* inside a string or bracket, or after a backslash: must not be changed */
    HFI_PYLINE_INSIDE,
} hfi_pyline_kind;

typedef struct hfi_pyline {
    hfi_pyline_kind kind;
    hfi_part text; /* without LF or CR LF */
    size_t indent; /* bytes of leading space and tab */
    bool carried;  /* MAGIC: goes on from the line before, which ended in a backslash */
} hfi_pyline;

enum { HFI_PYLINE_DEPTH = 256 }; /* CPython stops at 200 brackets */

/* Opaque. It allocates nothing, so it needs no release. */
typedef struct hfi_pyline_scanner {
    hfi_part rest;
    char stack[HFI_PYLINE_DEPTH]; /* see pyline.c */
    size_t depth;
    bool joined; /* the line before ended in a backslash */
    bool magic;  /* and it was a magic */
} hfi_pyline_scanner;

void hfi_pyline_begin(hfi_pyline_scanner *scanner, hfi_part source);
/* The next line; false at the end. The line points into the source. */
bool hfi_pyline_next(hfi_pyline_scanner *scanner, hfi_pyline *ret_line);

#endif
