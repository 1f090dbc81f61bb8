/* levels.h - what each level has used, read and written down as rows. */
#ifndef HFI_LEVELS_H
#define HFI_LEVELS_H

#include "monitor/family.h"
#include "monitor/series.h"

/* One thread at a time. */
typedef struct hfi_levels hfi_levels;

/* With the series that it writes to, which is the caller's to close, afterwards.
 * HF_E_NOMEM, HF_E_SYSTEM. */
HF_CHECK hf_status hfi_levels_create(hfi_series *ret_series, hfi_levels **ret_levels,
                                     hf_error *reterr);
void hfi_levels_close(hfi_levels *levels);

/* The processes of the process level. */
hfi_family *hfi_levels_family(hfi_levels *levels);
/* From now on readings become rows; where `interval_ns` is 0 no longer. With `weigh`
 * the notebook's processes are weighed (PSS and USS), once a second at most. */
void hfi_levels_start(hfi_levels *levels, int64_t interval_ns, int weigh);
/* Read all levels whose time it is. `ret_readings` may be NULL; what wasn't read stays
 * as it is there. `at_cell`: this is no sample of the interval's. */
void hfi_levels_sample(hfi_levels *levels, int at_cell,
                       hf_monitor_reading ret_readings[HF_MONITOR_LEVELS]);

#endif
