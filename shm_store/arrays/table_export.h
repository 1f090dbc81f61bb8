/* table_export.h - a column of a table by the Arrow C data interface.
 *
 * Threads: as the snapshot that is passed.
 */
#ifndef HFI_TABLE_EXPORT_H
#define HFI_TABLE_EXPORT_H

#include "table_layout.h"

/* Export one column, as hf_table_export does, in one piece. `entry` has the memory. The
 * caller releases `ret_array`, whose private_data is an hfi_arrow_memory. HF_DECLINED,
 * HF_E_CORRUPT, HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_table_export_column(hf_snapshot *snapshot, const hf_entry *entry,
                                           const hfi_table_layout *layout,
                                           const hfi_table_column *column,
                                           struct ArrowArray *ret_array,
                                           hf_error *reterr);

#endif
