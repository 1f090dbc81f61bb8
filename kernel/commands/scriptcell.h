/* scriptcell.h - one cell of a notebook as part of a script. */
#ifndef HFI_SCRIPTCELL_H
#define HFI_SCRIPTCELL_H

#include <stdbool.h>

#include "commands/text.h"
#include "commands/writefile.h"

/* Record a cell; `err` gets what the user should know about it. True: there was code.
 * Ask hfi_writefile_failed afterwards. */
bool hfi_scriptcell_add(hfi_writefile *writefile, hfi_span cell, bool instrumented,
                        hfi_text *err);

#endif
