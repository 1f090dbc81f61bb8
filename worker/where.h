/* where.h - where a recorded or isolated cell is to run, and the commits of the main
 * worker.
 *
 * Threads: the library's one. Statuses of hfi_self_send.
 */
#ifndef HFI_WHERE_H
#define HFI_WHERE_H

#include "self.h"

/* Prepare a commit, if one is wanted, and answer the frame: with the commit, and with the
 * way if a cell waits for it. */
HF_CHECK hf_status hfi_where_commit(hf_worker *worker, const hfi_to_main_commit *frame,
                                    hf_error *reterr);

#endif
