/* pyline.h - the physical lines of a cell, and which of them begin a statement.
 *
 * Text that looks like a magic inside a string is a string; `%b` on the second line of
 * a bracket is a modulo. Whoever drops magics or indents a cell needs to know.
 */
#ifndef HFI_PYLINE_H
#define HFI_PYLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "commands/text.h"

typedef enum hfi_pyline_kind {
    HFI_PYLINE_BLANK,   /* nothing but blanks, where a statement could begin */
    HFI_PYLINE_COMMENT, /* only a comment, where a statement could begin */
    HFI_PYLINE_CODE,    /* begins a statement */
    HFI_PYLINE_MAGIC,   /* IPython's: %x, !x, ?x, x?, y = %x, y = !x */
    HFI_PYLINE_INSIDE,  /* goes on with a string, a bracket or a backslash: not to be
                           touched */
} hfi_pyline_kind;

typedef struct hfi_pyline {
    hfi_pyline_kind kind;
    hfi_span text; /* without LF or CR LF */
    size_t indent; /* bytes of leading space and tab */
    bool carried;  /* MAGIC: the line before ended in a backslash */
} hfi_pyline;

enum { HFI_PYLINE_DEPTH = 256 }; /* CPython stops at 200 brackets */

/* Treat as opaque. No allocation: needs no release. */
typedef struct hfi_pyline_scanner {
    hfi_span rest;
    char stack[HFI_PYLINE_DEPTH]; /* see pyline.c */
    size_t depth;
    bool joined; /* a backslash ended the line before */
    bool magic;  /* ... and it was a magic */
} hfi_pyline_scanner;

void hfi_pyline_begin(hfi_pyline_scanner *scanner, hfi_span source);
/* The next line; false at the end. The line points into the source. */
bool hfi_pyline_next(hfi_pyline_scanner *scanner, hfi_pyline *ret_line);

#endif
