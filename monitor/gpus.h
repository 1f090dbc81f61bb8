/* gpus.h - what the GPUs do, asked in a thread of its own. */
#ifndef HFI_GPUS_H
#define HFI_GPUS_H

#include "monitor/nvml.h"

/* The last reading. */
typedef struct hfi_gpus_told {
    uint64_t turn; /* 0: nothing yet; greater with each answer */
    size_t count;
    hf_monitor_gpu gpu[HF_MONITOR_GPUS_MAX];
    hfi_gpu_use use[HF_MONITOR_GPUS_MAX];
    int used;         /* `use` was read, too */
    char trouble[96]; /* why there are none */
} hfi_gpus_told;

/* One thread at a time. */
typedef struct hfi_gpus hfi_gpus;

/* The driver is looked for from now on. NULL where there is no memory, or no thread. */
hfi_gpus *hfi_gpus_create(void);
/* Waits a second at most for a driver that doesn't answer. */
void hfi_gpus_close(hfi_gpus *gpus);
/* Ask what they do from now on, or no longer. */
void hfi_gpus_want(hfi_gpus *gpus, int wanted);
/* 0, and nothing is written, where nothing is newer than
 * `ret_told`. NULL has nothing. */
int hfi_gpus_read(hfi_gpus *gpus, hfi_gpus_told *ret_told);

#endif
