/* multicell.h - the program made of the cells that were marked in multi-cell mode.
 *
 * The caller owns the struct, and calls hfi_multicell_fini. Threads: one at a time.
 */
#ifndef HFI_MULTICELL_H
#define HFI_MULTICELL_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/textbuf.h"

typedef struct hfi_multicell {
    hfi_textbuf cells; /* the marked cells as elements of a Python list */
    size_t count;      /* of marked cells */
    bool awaits;       /* one of them may use await at its top level */
} hfi_multicell;

#define HFI_MULTICELL_INIT                                                             \
    { {0}, 0, false }

void hfi_multicell_fini(hfi_multicell *multicell);
/* Mark a cell; its position is the value of `count` before the call. Check `cells` for
 * failure afterwards. */
void hfi_multicell_add(hfi_multicell *multicell, hfi_part cell);
/* Add the program that runs the marked cells in IPython's shell. */
void hfi_multicell_generate(const hfi_multicell *multicell, hfi_textbuf *program);

#endif
