/* handles.h - open files, sockets and pipes on their way. */
#ifndef HFI_HANDLES_H
#define HFI_HANDLES_H

#include "session/session.h"

extern const hfi_owner hfi_handles_owner;
void hfi_handles_want(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map);
void hfi_handles_take(hf_kernel *kernel, hfi_worker *worker, const msgpack_object *map);
/* The cell's state was published: the main worker gets what the cell made. */
void hfi_handles_adopt(hf_kernel *kernel);
/* The cell is gone: close what it made. */
void hfi_handles_drop(hf_kernel *kernel);
/* The main worker is gone, and answers no more. */
void hfi_handles_lose_main(hf_kernel *kernel);

#endif
