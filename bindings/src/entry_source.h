/* entry_source.h - an entry of the store, to be decoded. */
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

/* -1 with MemoryError. The snapshot and the entry are borrowed. */
int hfi_entry_source_init(hfi_entry_source *source, hfi_state *state,
                          hfi_attachment *attachment, hf_snapshot *snapshot,
                          const hf_entry *entry);
void hfi_entry_source_fini(hfi_entry_source *source);

#endif
