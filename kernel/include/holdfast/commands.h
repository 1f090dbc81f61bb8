/* holdfast/commands.h - the commands of notebooks that need no language.
 *
 * A program passes the table to hf_kernel_create (hf_kernel_options.commands):
 *
 *   %%isolated [--run=MODE]   the lines below run in a clean process; MODE is auto,
 *                             in-process, forked or isolated
 *   %holdfast undo [--to N]   the variables as before the last cell that changed any, or
 *                             as after In[N]
 *   %holdfast history [LIMIT] the steps that are kept, or the most bytes for them
 *   %holdfast checkout N      the variables of step N
 *   %holdfast diff [N [M]]    the variables that differ between two steps
 *   %holdfast save FILE       all variables into a file
 *   %holdfast load FILE       the variables of a file; only of one that is trusted
 *   %holdfast publish         save now, and show how other programs open the variables
 *   %holdfast rerun           the cells run again whose changes a crash has lost
 *   %holdfast protect [WORD]  how cells are protected from a crash, or from here on:
 *                             always, budget or never
 *   %holdfast                 these lines
 *
 * A command is the first line of its cell that is neither blank nor a comment
 * (hf_kernel_options.comment). A line of %holdfast is its cell's only one. A wrong one is
 * an error of its cell, UsageError, and nothing runs. Everything else is the worker's,
 * also commands of other names.
 *
 * What a worker has to do:
 * - for %%isolated, nothing beyond the control protocol: the reply to `commit` says where
 *   the cell runs, and a cell worker runs it
 * - for %holdfast, its fork server says `history` in its `ready`. Then the main worker
 *   answers `commit` by what it has saved, binds what `checkout` names, and answers a
 *   request with a `history` map: it prints the map's `text`, which the frontend has
 *   written, on the cell's standard output. For `save` it first writes the file
 *   (hf_save_write), and for `load` it reads the file (hf_save_read) and puts the values
 *   into a commit, whose token is `prepared` of its reply.
 *
 * `rerun` and `protect` need nothing of it. If the fork server doesn't say `history`, each
 * other line of %holdfast is an error of its cell, NotSupported, and nothing is changed. A worker that says so and saves nothing has
 * no steps: undo and checkout are then a HistoryError, "no step is kept".
 */
#ifndef HOLDFAST_COMMANDS_H
#define HOLDFAST_COMMANDS_H

#include "holdfast/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Static. Any thread. */
HF_EXPORT const hf_kernel_commands *hf_kernel_commands_common(void);

#ifdef __cplusplus
}
#endif
#endif
