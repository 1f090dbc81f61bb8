/* generations.h - the generations that are kept: undo and its like. */
#ifndef HFI_GENERATIONS_H
#define HFI_GENERATIONS_H

#include "session/session.h"

extern const hfi_owner hfi_generations_owner;
/* `limit_bytes`: of what old generations alone may keep; 0: a share of the capacity. */
void hfi_generations_init(hf_kernel *kernel, uint64_t limit_bytes);
/* The running cell's changes belong to the next step. */
void hfi_generations_note(hf_kernel *kernel);
/* What ran since the newest step changed nothing, or is lost. */
void hfi_generations_forget(hf_kernel *kernel);
/* The current generation was published: perhaps a step. `origin`: see hfi_step. */
void hfi_generations_published(hf_kernel *kernel, int64_t origin);
/* The commit was made, and the main worker has settled: do the frontend's part of the
 * command, and hand the cell to the main worker. */
void hfi_generations_begin(hf_kernel *kernel);
/* The main worker's reply, which may have a commit; 0: that failed, and the cell with
 * it. */
int hfi_generations_replied(hf_kernel *kernel, const msgpack_object *reply);
/* The cell is over. */
hfi_listener hfi_generations_hear;

#endif
