/* holdfast/monitor.h - reading what the monitor has sampled.
 *
 * The monitor samples the processes of a notebook from outside and writes to shared
 * memory. A process that has the descriptor reads it, without asking the writer and
 * without holding it up. Times are CLOCK_MONOTONIC in nanoseconds.
 *
 * A *level* says whose use is counted: the notebook's workers and what they started,
 * all of the user's processes, the machine, the Slurm job. A level is a table: a row
 * for each sample, with the time of its end and the time that it stands for (its
 * width). When there are too many rows, neighbours are joined: widths and amounts are
 * added, gauges averaged by width, lows and highs kept.
 *
 * Structs: what status.h says of struct_size. The structs in arrays (readings, GPUs)
 * have none, and don't grow. Threads: any number may read with one view.
 */
#ifndef HOLDFAST_MONITOR_H
#define HOLDFAST_MONITOR_H

#include <stddef.h>
#include <stdint.h>

#include "holdfast/error.h"
#include "holdfast/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HF_MONITOR_LEVELS    4
#define HF_MONITOR_NAME_SIZE 24
#define HF_MONITOR_GPUS_MAX  16
#define HF_MONITOR_PIDS_MAX  8

typedef enum hf_monitor_level {
    HF_MONITOR_PROCESS, /* the workers that run the notebook's cells, and descendants */
    HF_MONITOR_USER,    /* all processes of this user */
    HF_MONITOR_SYSTEM,  /* the machine, or the container */
    HF_MONITOR_SLURM,   /* the Slurm job */
} hf_monitor_level;

typedef enum hf_monitor_kind {
    HF_MONITOR_GAUGE,  /* its mean over the row's width; lows and highs are gauges */
    HF_MONITOR_AMOUNT, /* how much came in the row's width; lows and highs per second */
} hf_monitor_kind;

typedef enum hf_monitor_outcome {
    HF_MONITOR_RUNNING,
    HF_MONITOR_OK,
    HF_MONITOR_ERROR,
    HF_MONITOR_INTERRUPTED,
    HF_MONITOR_DIED, /* the process that ran it did */
} hf_monitor_outcome;

typedef enum hf_monitor_cell_kind {
    HF_MONITOR_PLAIN,
    HF_MONITOR_INSTRUMENTED,
    HF_MONITOR_ISOLATED, /* in a process of its own, unrecorded */
    HF_MONITOR_MULTI,    /* several marked cells, recorded as one */
} hf_monitor_cell_kind;

/* Use since the monitor began, up to a moment. Only differences between readings have a
 * meaning, except for the memory. */
typedef struct hf_monitor_reading {
    int64_t time_ns;
    double cpu_seconds;
    double memory_bytes;         /* now */
    double pss_bytes, uss_bytes; /* now; NaN: the processes weren't weighed */
    double io_read_count, io_write_count;
    double io_read_bytes, io_write_bytes; /* by system calls, cached or not */
    double disk_read_bytes, disk_write_bytes;
    int32_t valid;
    int32_t reserved;
} hf_monitor_reading;

typedef struct hf_monitor_cell {
    size_t struct_size; /* sizeof(hf_monitor_cell) */
    int64_t index;      /* counted from 0 over all cells of the session */
    int64_t number;     /* execution count */
    int64_t begin_ns;   /* of its code */
    int64_t end_ns;     /* 0: it runs */
    int64_t unix_ns;    /* wall clock at begin_ns */
    double peak_bytes;  /* most resident memory of its worker; 0: not known */
    uint32_t kind;      /* hf_monitor_cell_kind */
    uint32_t outcome;   /* hf_monitor_outcome */
    uint32_t pid_count;
    int32_t pids[HF_MONITOR_PIDS_MAX]; /* the worker, then its descendants */
    uint32_t source_size;              /* bytes; cut at 64 KiB */
    uint32_t source_cut;
    hf_monitor_reading begin[HF_MONITOR_LEVELS];
    hf_monitor_reading end[HF_MONITOR_LEVELS];
    double begin_bytes, end_bytes; /* resident memory of its worker; 0: not known */
} hf_monitor_cell;

typedef struct hf_monitor_state {
    size_t struct_size; /* sizeof(hf_monitor_state) */
    int32_t running;
    uint32_t available; /* levels, a bit for each */
    int64_t interval_ns;
    int64_t begin_ns; /* of the sampling */
    int64_t unix_ns;  /* wall clock then */
    int64_t end_ns;   /* 0: it runs */
    uint64_t samples; /* since begin_ns */
    uint64_t missed;  /* whose time had passed before the one before was done */
    uint64_t cost_ns; /* processor time of all samples */
    uint64_t costed;  /* how many those are, with the cells' begins and ends */
    uint64_t level_cost_ns[HF_MONITOR_LEVELS]; /* of that, each level's */
    uint64_t level_costed[HF_MONITOR_LEVELS];
    int32_t pids[HF_MONITOR_PIDS_MAX]; /* of the process level, the first of them */
    int64_t pid_count;
} hf_monitor_state;

typedef struct hf_monitor_gpu {
    char name[64];
    double memory_bytes;
} hf_monitor_gpu;

typedef struct hf_monitor_facts {
    size_t struct_size;    /* sizeof(hf_monitor_facts) */
    double cores;          /* that may be used: by affinity, and the cgroup's quota */
    int64_t machine_cores; /* online */
    double memory_bytes;   /* of the machine */
    double memory_limit_bytes; /* least of it and the limits that hold here */
    char memory_limit_source[160];
    double slurm_limit_bytes; /* 0: none */
    char slurm_limit_source[160];
    char slurm_job[32];
    int64_t gpu_count;
    hf_monitor_gpu gpu[HF_MONITOR_GPUS_MAX];
    char gpu_trouble[96]; /* why there are none */
} hf_monitor_facts;

typedef struct hf_monitor_view hf_monitor_view;

/* One column of rows that were copied out. */
typedef struct hf_monitor_column {
    char name[HF_MONITOR_NAME_SIZE];
    hf_monitor_kind kind;
    double *values;
    double *lows; /* NULL with highs: neither is kept. NaN: the value itself */
    double *highs;
} hf_monitor_column;

typedef struct hf_monitor_rows {
    size_t struct_size; /* sizeof(hf_monitor_rows) */
    size_t count;
    size_t columns;
    int64_t *times;
    int64_t *widths;
    hf_monitor_column **column; /* pointers, so that a column may grow */
    void *memory;               /* of all of it: hf_monitor_rows_fini frees it */
} hf_monitor_rows;

/* Map the shared memory of the descriptor, which is closed in any case. The caller
 * closes the result. HF_E_INVALID: not a descriptor; HF_E_CORRUPT: not a monitor's;
 * HF_E_VERSION: the monitor has another version; HF_E_SYSTEM, HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_monitor_view_open_consume(int fd,
                                                          hf_monitor_view **ret_view,
                                                          hf_error *reterr);
/* NULL is fine. */
HF_EXPORT void hf_monitor_view_close(hf_monitor_view *view);

/* The state of the monitor, and its facts about the machine. HF_BUSY: the writer ended
 * in the middle of a change; HF_E_INVALID: a struct_size is wrong. */
HF_EXPORT HF_CHECK hf_status hf_monitor_view_state(const hf_monitor_view *view,
                                                   hf_monitor_state *ret_state,
                                                   hf_monitor_facts *ret_facts);
/* The rows that end after `begin_ns` and begin before `end_ns`, copied. The caller
 * frees them by hf_monitor_rows_fini. HF_NOT_FOUND: there is no such level; HF_BUSY as
 * above; HF_E_INVALID: struct_size is wrong; HF_E_CORRUPT, HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_monitor_view_rows(const hf_monitor_view *view,
                                                  hf_monitor_level level,
                                                  int64_t begin_ns, int64_t end_ns,
                                                  hf_monitor_rows *ret_rows,
                                                  hf_error *reterr);
/* Free what the rows hold, which may be nothing ({.struct_size = sizeof rows}). */
HF_EXPORT void hf_monitor_rows_fini(hf_monitor_rows *rows);

/* Cells are kept from `ret_first` to `ret_end` - 1; older ones were dropped. */
HF_EXPORT void hf_monitor_view_cells(const hf_monitor_view *view, int64_t *ret_first,
                                     int64_t *ret_end);
/* One of them. `ret_source` may be NULL. The caller frees it; it is "" if the text was
 * dropped. HF_NOT_FOUND: the cell was dropped; HF_E_INVALID: struct_size is wrong;
 * HF_E_NOMEM. */
HF_EXPORT HF_CHECK hf_status hf_monitor_view_cell(const hf_monitor_view *view,
                                                  int64_t index,
                                                  hf_monitor_cell *ret_cell,
                                                  char **ret_source);

#ifdef __cplusplus
}
#endif
#endif
