/* history.h - `%holdfast undo` and its like: what is the frontend's of a line magic. */
#ifndef HFI_HISTORY_H
#define HFI_HISTORY_H

#include "wire/textbuf.h"
#include "commands/directive.h"

/* What the words behind `%holdfast` ask for. A mistake is HFI_HISTORY_NONE: the magic
 * itself, which sees the same words, reports it. */
hfi_history hfi_history_parse(hfi_part words);

#endif
