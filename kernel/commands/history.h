/* history.h - `%holdfast undo` and its like: the part of a line that the frontend does.
 *
 * Threads: any; there is no state.
 */
#ifndef HFI_HISTORY_H
#define HFI_HISTORY_H

#include "wire/textbuf.h"
#include "commands/directive.h"

/* The kind that the first word after `%holdfast` names; HFI_HISTORY_LIMIT for "history",
 * and HFI_HISTORY_SHOW for any other word. */
hfi_history_kind hfi_history_kind_of(hfi_part word);

/* Parse the words after `%holdfast`. A mistake gives HFI_HISTORY_NONE: a magic of the
 * worker, which gets the same words, reports the mistake, or common.c does. */
hfi_history hfi_history_parse(hfi_part words);

#endif
