/* history.h - `%holdfast undo` and its like: the part of a line magic that the frontend
 * does.
 *
 * Threads: any; there is no state.
 */
#ifndef HFI_HISTORY_H
#define HFI_HISTORY_H

#include "wire/textbuf.h"
#include "commands/directive.h"

/* Parse the words after `%holdfast`. A mistake gives HFI_HISTORY_NONE: the magic itself
 * gets the same words, and reports the mistake. */
hfi_history hfi_history_parse(hfi_part words);

#endif
