/* history.h - `%holdfast undo` and its like: the part of a line magic that the frontend
 * does.
 *
 * Threads: any; there is no state.
 */
#ifndef HFI_HISTORY_H
#define HFI_HISTORY_H

#include "wire/textbuf.h"
#include "commands/directive.h"

/* Parse the words behind `%holdfast`. A mistake is HFI_HISTORY_NONE: the magic itself,
 * which sees the same words, reports it. */
hfi_history hfi_history_parse(hfi_part words);

#endif
