/* writefile.h - marked cells as a Python script, and a shell script that runs it.
 *
 * Cells are collected in memory; hfi_writefile_save writes both files. The caller owns
 * the struct, and calls hfi_writefile_fini.
 *
 * Threads: one at a time.
 */
#ifndef HFI_WRITEFILE_H
#define HFI_WRITEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <holdfast/error.h>
#include <holdfast/status.h>

#include "commands/wordlist.h"

typedef struct hfi_writefile {
    char *base;         /* absolute path of both files without their endings */
    hfi_textbuf future; /* from __future__ lines of all cells: they must come first */
    hfi_textbuf script; /* the cells */
    hfi_textbuf environment; /* export lines of the shell script */
    size_t count;            /* of cells that gave code */
} hfi_writefile;

#define HFI_WRITEFILE_INIT                                                             \
    { 0, {0}, {0}, {0}, 0 }

/* How much was recorded, to come back to. */
typedef struct hfi_writefile_mark {
    size_t future, script, environment, count;
} hfi_writefile_mark;

void hfi_writefile_fini(hfi_writefile *writefile);
/* Additions failed for want of memory. */
bool hfi_writefile_failed(const hfi_writefile *writefile);
hfi_writefile_mark hfi_writefile_get_mark(const hfi_writefile *writefile);
void hfi_writefile_rewind(hfi_writefile *writefile, hfi_writefile_mark mark);

/* The path without ending for a name as the user gave it: relative to `cwd`, a final
 * .py dropped. HF_E_INVALID: the name is empty or ends in a slash, its directory is
 * missing, is not one or can't be written, or one of the files can't be replaced;
 * HF_E_NOMEM. The caller frees. */
HF_CHECK hf_status hfi_writefile_resolve(hfi_part name, const char *cwd,
                                         char **ret_base, hf_error *reterr);

/* Export a variable in the shell script. */
void hfi_writefile_add_environment(hfi_writefile *writefile, hfi_part name,
                                   hfi_part value);

/* Write both files, each whole or not at all. HF_E_SYSTEM, HF_E_NOMEM. */
HF_CHECK hf_status hfi_writefile_save(const hfi_writefile *writefile,
                                      const char *python, const hfi_wordlist *arguments,
                                      hf_error *reterr);

/* ---- scriptcell.c: one cell of a notebook as part of a script ---- */

/* Record a cell; `err` gets the messages for the user. True: there was code. Ask
 * hfi_writefile_failed afterwards. */
bool hfi_scriptcell_add(hfi_writefile *writefile, hfi_part cell, bool instrumented,
                        hfi_textbuf *err);

#endif
