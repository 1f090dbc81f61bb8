/* sampler.h - the monitor: samples at an interval, and at begin and end of cells.
 *
 * It has a thread that takes a sample at each interval, and writes rows and cells to
 * the monitor's shared memory.
 *
 * Threads: any may call these functions; the sampler's lock protects its state.
 */
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

/* Sample from now on; if it samples already, with another interval. With `weigh` PSS
 * and USS as well: see series.h. HF_E_INVALID for an interval out of range,
 * HF_E_SYSTEM. */
HF_CHECK hf_status hfi_sampler_start(hfi_sampler *sampler, int64_t interval_ns,
                                     int weigh, hf_error *reterr);
void hfi_sampler_stop(hfi_sampler *sampler);

/* Count this process and those that it starts; count it no longer; note that it has
 * ended, with this use: see usage.h. */
void hfi_sampler_add(hfi_sampler *sampler, pid_t pid);
void hfi_sampler_remove(hfi_sampler *sampler, pid_t pid);
void hfi_sampler_note_end(hfi_sampler *sampler, pid_t pid, double cpu_seconds,
                          const char *io);
void hfi_sampler_note_orphan(hfi_sampler *sampler, pid_t pid, double cpu_seconds,
                             const char *io);

/* A process's own report of a moment. It is exact to the microsecond, and comes before
 * others can look at the process. All 0 if there is no report. */
typedef struct hfi_word {
    int64_t time_ns;     /* on the monotonic clock */
    int64_t cpu_ns;      /* processor time that it had used by then; 0: not known */
    int64_t children_ns; /* and the children that it had waited for */
    int64_t io[6];       /* as /proc/PID/io has them; 0: not known */
    int64_t memory;      /* resident bytes; 0: not known; likewise the next */
    int64_t peak;        /* the most of that since the last recorded cell began */
    int64_t unused;      /* resident bytes more, which it keeps only for later */
    int64_t childless;   /* 1: no child of it runs */
} hfi_word;

/* A cell begins in the process `pid`, at the time of its report, or now. A cell that
 * hasn't ended by now ends. */
void hfi_sampler_begin_cell(hfi_sampler *sampler, hf_monitor_cell_kind kind,
                            int64_t number, pid_t pid, const hfi_word *begin,
                            const char *source, size_t size);
/* The reports give the exact begin of the cell's code, and perhaps its end. The outcome
 * comes by hfi_sampler_end_cell, which also ends the cell if no report did. Nothing
 * happens if no cell runs. */
void hfi_sampler_settle_cell(hfi_sampler *sampler, const hfi_word *begin,
                             const hfi_word *end);
void hfi_sampler_end_cell(hfi_sampler *sampler, hf_monitor_outcome outcome);

#endif
