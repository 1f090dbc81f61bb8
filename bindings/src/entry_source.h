/* entry_source.h - an entry of the store, to be decoded.
 *
 * A codec reads from `base`. The source maps buffers when they are asked for and holds
 * a Region for each; attachment, snapshot and entry are borrowed, and must outlive it.
 * With the interpreter attached, which is detached while a buffer is mapped.
 */
#ifndef HFI_ENTRY_SOURCE_H
#define HFI_ENTRY_SOURCE_H

#include "session_type.h"

typedef struct hfi_entry_source {
    hf_source base;
    hfi_state *state;
    hfi_attachment *attachment;
    hf_snapshot *snapshot;
    const hf_entry *entry;
    PyObject **regions; /* a Region for each buffer that was mapped */
    uint64_t bytes_mapped;
} hfi_entry_source;

/* -1 with MemoryError: fini is not needed then. */
int hfi_entry_source_init(hfi_entry_source *source, hfi_state *state,
                          hfi_attachment *attachment, hf_snapshot *snapshot,
                          const hf_entry *entry);
void hfi_entry_source_fini(hfi_entry_source *source);

#endif
