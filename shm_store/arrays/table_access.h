/* table_access.h - finding a table in an entry.
 *
 * Threads: as the snapshot that is passed.
 */
#ifndef HFI_TABLE_ACCESS_H
#define HFI_TABLE_ACCESS_H

#include "table_layout.h"

/* Read what the entry of `key` says of its table. `ret_entry` has the memory. The caller
 * finishes the layout, on failure too. HF_NOT_FOUND, HF_DECLINED, HF_E_CORRUPT,
 * HF_E_NOMEM. */
HF_CHECK hf_status hfi_table_find(hf_snapshot *snapshot, const char *key,
                                  size_t key_size, hf_entry *ret_entry,
                                  hfi_table_layout *ret_layout, hf_error *reterr);

#endif
