/* layout.h - the layout of the monitor's shared memory: one writer, many readers.
 *
 *   page 0     facts about the machine, state, heads of the levels and of the cell log
 *   series     per level: times, widths, and for each column its values, lows and highs
 *   cell log   records, and the text of their sources
 *
 * All places are offsets from the beginning. A reader maps it read-only and checks
 * everything that it reads: see view.c. Fields marked "seqlock" are written between two
 * increments of the counter named there, which is odd meanwhile.
 *
 * Threads: one writer, in one thread at a time; any number of readers in other
 * processes.
 */
#ifndef HFI_MONITOR_LAYOUT_H
#define HFI_MONITOR_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include "holdfast/monitor.h"

#define HFI_MONITOR_MAGIC    0x31726f74696e6f6dULL /* "monitor1" */
#define HFI_MONITOR_VERSION  3
#define HFI_MONITOR_CELLS    4096
#define HFI_MONITOR_TEXT     (4u << 20)
#define HFI_MONITOR_TEXT_MAX (64u << 10) /* of one cell's source */

typedef struct hfi_layout_column {
    char name[HF_MONITOR_NAME_SIZE];
    uint32_t kind; /* hf_monitor_kind */
    uint32_t reserved;
    uint64_t value_at; /* double[capacity] */
    uint64_t low_at;   /* 0: neither low nor high is kept */
    uint64_t high_at;
} hfi_layout_column;

typedef struct hfi_layout_level {
    _Atomic uint64_t moves; /* seqlock of all rows: odd while they are compacted */
    _Atomic uint64_t
        count;        /* rows that are there; rows are only added, but for moves */
    uint32_t cores;   /* columns of cores among them */
    uint32_t columns; /* that are shown */
    uint64_t capacity;
    uint64_t columns_at; /* hfi_layout_column[columns] */
    uint64_t time_at;    /* int64_t[capacity], monotonic ns at the row's end */
    uint64_t width_at;   /* int64_t[capacity], ns that the row stands for */
} hfi_layout_level;

typedef struct hfi_layout_cell {
    _Atomic uint64_t sequence; /* seqlock of the record */
    hf_monitor_cell cell;
    uint64_t text; /* where its source begins, counted over all texts ever */
} hfi_layout_cell;

typedef struct hfi_layout {
    uint64_t magic; /* written last, cleared when the writer ends */
    uint32_t version;
    uint32_t levels;
    uint64_t size;
    _Atomic uint64_t sequence; /* seqlock of state and facts */
    hf_monitor_state state;
    hf_monitor_facts facts;
    hfi_layout_level level[HF_MONITOR_LEVELS];
    _Atomic uint64_t cells; /* ever logged: the newest is in slot (cells - 1) % CELLS */
    _Atomic uint64_t text;  /* bytes of source ever written */
    uint64_t cells_at;
    uint64_t text_at;
} hfi_layout;

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters are shared between processes");

#endif
