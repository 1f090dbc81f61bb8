/* pyline.h - the physical lines of a cell, and which of them begin a statement.
 *
 * A scanner by lines. It knows that text in a string isn't a magic, and that `%b` on the
 * second line of a bracket is a modulo. It is used to remove magics from a cell and to
 * indent it. Threads: any; there is no state but the scanner's.
 */
#ifndef HFI_PYLINE_H
#define HFI_PYLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/textbuf.h"

/* How a comment begins (cellhead.h). */
#define HFI_PYTHON_COMMENT "#"

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
