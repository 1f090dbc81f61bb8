/* series.h - the use of each level, as rows in shared memory.
 *
 * series.c writes rows and the log of cells; levels.c reads all levels and adds their
 * rows. Rows that grow too many are joined, so the memory is bounded.
 *
 * Threads: one at a time.
 */
#ifndef HFI_SERIES_H
#define HFI_SERIES_H

#include "monitor/usage.h"
#include "monitor/layout.h"

/* ---- series.c: the monitor's shared memory as its writer has it ---- */

typedef struct hfi_series {
    int fd;
    hfi_layout *base; /* NULL: closed */
} hfi_series;

/* The columns of a level beside those that every level has. */
typedef struct hfi_series_shape {
    uint32_t cores; /* a column for each; 0: none */
} hfi_series_shape;

/* Columns that every level has, in this order; then one for each core, then three for
 * each GPU: util, band, mem. */
enum {
    HFI_COLUMN_CPU,
    HFI_COLUMN_MEMORY,
    HFI_COLUMN_READ_COUNT,
    HFI_COLUMN_WRITE_COUNT,
    HFI_COLUMN_READ,
    HFI_COLUMN_WRITE,
    HFI_COLUMN_DISK_READ,
    HFI_COLUMN_DISK_WRITE,
    HFI_COLUMN_PSS,
    HFI_COLUMN_USS,
    HFI_COLUMN_CORE
};

/* A new, empty one. HF_E_SYSTEM. */
HF_CHECK hf_status hfi_series_create(const hfi_series_shape shapes[HF_MONITOR_LEVELS],
                                     hfi_series *ret_series, hf_error *reterr);
void hfi_series_close(hfi_series *series);

/* Change state and facts between these two. */
void hfi_series_begin(hfi_series *series);
void hfi_series_end(hfi_series *series);

/* Add a row of as many values as the level has columns: gauges, and amounts. Lows and
 * highs are those values (per second); if the row is narrower than `narrow_ns`, amounts
 * and the processors' use have none. */
void hfi_series_add(hfi_series *series, hf_monitor_level level, int64_t time_ns,
                    int64_t width_ns, const double *values, int64_t narrow_ns);
/* From now on rows have columns for so many GPUs; in those before they are NaN. */
void hfi_series_show_gpus(hfi_series *series, uint32_t count);

/* Log a cell that begins: `cell` has all but index and source, which are set here. The
 * index stays good for hfi_celllog_end. */
int64_t hfi_celllog_begin(hfi_series *series, hf_monitor_cell *cell, const char *source,
                          size_t size);
/* Write the cell anew, now that it has ended. */
void hfi_celllog_end(hfi_series *series, const hf_monitor_cell *cell);

/* ---- levels.c: the use of each level, read and written as rows ---- */

typedef struct hfi_levels hfi_levels;

/* With the series that it writes to, which is the caller's to close, afterwards.
 * HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_levels_create(hfi_series *ret_series, hfi_levels **ret_levels,
                                     hf_error *reterr);
void hfi_levels_close(hfi_levels *levels);

/* The processes of the process level. */
hfi_family *hfi_levels_family(hfi_levels *levels);
/* From now on readings become rows; if `interval_ns` is 0, no longer. With `weigh` the
 * notebook's processes are weighed (PSS and USS), once a second if their memory doesn't
 * change. */
void hfi_levels_start(hfi_levels *levels, int64_t interval_ns, int weigh);
/* Read all levels that are due. `ret_readings` may be NULL; the reading of a level that
 * isn't due stays as it is. `at_cell`: this sample isn't one of the interval's. */
void hfi_levels_sample(hfi_levels *levels, int at_cell,
                       hf_monitor_reading ret_readings[HF_MONITOR_LEVELS]);

#endif
