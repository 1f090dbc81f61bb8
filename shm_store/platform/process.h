/* process.h - which process a number stands for, and whether it still lives.
 *
 * A pid alone may name a newer process, so its start time, pid namespace and boot are
 * compared as well. Threads: any; there is no state.
 */
#ifndef HFI_PROCESS_H
#define HFI_PROCESS_H

#include <stdint.h>

typedef struct hfi_process {
    uint64_t owner;      /* pid | low half of the pid namespace's inode << 32 */
    uint64_t start_time; /* ticks since boot; 0: not known */
    uint64_t boot;       /* hash of the boot id; 0: not known */
} hfi_process;

/* This process. Read anew on each call: a fork changes it. */
hfi_process hfi_process_self(void);
/* The same of a living process at which this one may look. */
hfi_process hfi_process_of(uint64_t pid);
/* Whether both are the same process. A value that is unknown in one of them isn't
 * compared. */
int hfi_process_is_same(const hfi_process *one, const hfi_process *other);
/* 1 alive, 0 dead, -1 not known (another pid namespace). A zombie is dead: its memory
 * is gone. */
int hfi_process_alive(const hfi_process *process);
/* The same, when an end that has begun is over, a second later at most. A process that
 * saw a lock of the process given back asks here. */
int hfi_process_await_end(const hfi_process *process);
int64_t hfi_process_unix_ns(void);

#endif
