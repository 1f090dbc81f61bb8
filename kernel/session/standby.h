/* standby.h - workers that wait for a cell, and the modules that they have. */
#ifndef HFI_STANDBY_H
#define HFI_STANDBY_H

#include "session/session.h"

extern const hfi_owner hfi_standby_owner;
/* Fork what is missing, unless a cell is handed over now. */
void hfi_standby_replenish(hf_kernel *kernel);
/* A main worker is ready: the first are forked, at once or a little later. */
void hfi_standby_begin(hf_kernel *kernel, long long now_ns);
void hfi_standby_tick(hf_kernel *kernel, long long now_ns);
/* A process for a cell: one that lives and is ready, else the oldest that lives, or
 * with `fresh` a new one. NULL where none can be started. */
hfi_worker *hfi_standby_take(hf_kernel *kernel, int fresh);
/* 0: it is none of them. */
int hfi_standby_remove(hf_kernel *kernel, const hfi_worker *worker);
/* The fork server has imported more than they have. */
void hfi_standby_replace(hf_kernel *kernel);
/* All processes are gone. */
void hfi_standby_forget(hf_kernel *kernel);
/* A new fork server has imported nothing yet; where cells run. */
hfi_listener hfi_standby_hear;
/* One never got ready; or one did. */
void hfi_standby_note_failure(hf_kernel *kernel, int failed);
/* NULL: there is none. */
hfi_worker *hfi_standby_oldest(const hf_kernel *kernel);
/* Give all back until there is something to do again. */
void hfi_standby_rest(hf_kernel *kernel);
void hfi_standby_wake(hf_kernel *kernel);
/* The notebook imports these modules, and the fork server is to have them, at once or
 * when nobody uses the notebook. */
void hfi_standby_import(hf_kernel *kernel, hfi_worker *worker,
                        const msgpack_object *map);
/* Whether there are some that it has not been asked for; ask it. */
int hfi_standby_awaits_import(const hf_kernel *kernel);
void hfi_standby_import_awaited(hf_kernel *kernel);
/* The fork server has these modules from the start. */
void hfi_standby_know(hf_kernel *kernel, const msgpack_object *modules);

#endif
