/* sampler.h - the monitor: samples at an interval, and at begin and end of cells. */
#ifndef HFI_SAMPLER_H
#define HFI_SAMPLER_H

#include <sys/types.h>

#include "holdfast/monitor.h"

#define HFI_SAMPLER_INTERVAL_MIN_NS 1000000LL
#define HFI_SAMPLER_INTERVAL_MAX_NS 3600000000000LL

/* Any thread may call. */
typedef struct hfi_sampler hfi_sampler;

/* It has no thread, and takes no samples, before it is started. HF_E_NOMEM,
 * HF_E_SYSTEM. */
HF_CHECK hf_status hfi_sampler_create(hfi_sampler **ret_sampler, hf_error *reterr);
void hfi_sampler_close(hfi_sampler *sampler);
/* Of its shared memory: the sampler's. */
int hfi_sampler_fd(const hfi_sampler *sampler);

/* Sample from now on; where it does already, with another interval. With `weigh` PSS
 * and USS as well: see series.h. HF_E_INVALID for an interval out of range,
 * HF_E_SYSTEM. */
HF_CHECK hf_status hfi_sampler_start(hfi_sampler *sampler, int64_t interval_ns,
                                     int weigh, hf_error *reterr);
void hfi_sampler_stop(hfi_sampler *sampler);

/* Count this process, and what it starts; no longer; it ended
 * with this: see usage.h. */
void hfi_sampler_add(hfi_sampler *sampler, pid_t pid);
void hfi_sampler_remove(hfi_sampler *sampler, pid_t pid);
void hfi_sampler_bury(hfi_sampler *sampler, pid_t pid, double cpu_seconds,
                      const char *io);

/* What a process says of a moment: it knows it to the nanosecond, and before others can
 * look at it. All 0 where it has said nothing. */
typedef struct hfi_word {
    int64_t time_ns;     /* on the monotonic clock */
    int64_t cpu_ns;      /* processor time that it had used by then */
    int64_t children_ns; /* and the children that it had waited for */
    int64_t io[6];       /* as /proc/PID/io has them; 0: not known */
} hfi_word;

/* A cell begins in the process `pid`, where that says, or now. One that hasn't ended by
 * now ends. */
void hfi_sampler_begin_cell(hfi_sampler *sampler, hf_monitor_cell_kind kind,
                            int64_t number, pid_t pid, const hfi_word *begin,
                            const char *source, size_t size);
/* When its code began is known better now, and it has ended, as far as the words say
 * that; its outcome comes by hfi_sampler_end_cell, which also ends it if no word
 * did. Nothing happens if no cell runs. */
void hfi_sampler_settle_cell(hfi_sampler *sampler, const hfi_word *begin,
                             const hfi_word *end);
void hfi_sampler_end_cell(hfi_sampler *sampler, hf_monitor_outcome outcome);

#endif
