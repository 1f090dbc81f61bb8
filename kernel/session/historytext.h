/* historytext.h - what a line of %holdfast shows, in words for any language.
 *
 * Everything is read from the map that the worker gets. Nothing here fails: the text says
 * when memory ran out. Threads: any; there is no state.
 */
#ifndef HFI_HISTORYTEXT_H
#define HFI_HISTORYTEXT_H

#include "holdfast/store.h"
#include "workers/frame.h"

/* The text of a diff. The snapshots are those of the map's steps, and held. */
void hfi_historytext_write_diff(const hfi_map_history *history,
                                hf_snapshot *const *snapshots, hfi_textbuf *text);

/* The text of every kind but diff. `command` is how the user calls it, and `lacks` has the
 * reason for each name that the last commit doesn't have. */
void hfi_historytext_write(const hfi_map_history *history, const char *command,
                           hf_session *session, hfi_texts lacks, hfi_textbuf *text);

#endif
