/* celllog.h - the bounded log of cells in the monitor's shared memory. */
#ifndef HFI_CELLLOG_H
#define HFI_CELLLOG_H

#include "monitor/series.h"

/* Log a cell that begins: `cell` has all but index and source, which are set here. The
 * index stays good for hfi_celllog_end. */
int64_t hfi_celllog_begin(hfi_series *series, hf_monitor_cell *cell, const char *source,
                          size_t size);
/* Write the cell anew, now that it has ended. */
void hfi_celllog_end(hfi_series *series, const hf_monitor_cell *cell);

#endif
