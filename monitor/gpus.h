/* gpus.h - GPUs: their driver, and their use.
 *
 * A driver may take seconds to answer, so gpus.c asks it in a thread of its own, and
 * others read the last answer.
 *
 * Threads: nvml.c one at a time; gpus.c as its comments say.
 */
#ifndef HFI_GPUS_H
#define HFI_GPUS_H

#include <sys/types.h>

#include "holdfast/monitor.h"

/* ---- nvml.c: NVIDIA GPUs, by the library that comes with their driver ---- */

typedef struct hfi_nvml hfi_nvml;

/* The use of a GPU now. */
typedef struct hfi_gpu_use {
    double util;         /* per cent of the time that a kernel ran */
    double band;         /* per cent of the time that its memory was read or written */
    double memory_bytes; /* in use by anybody */
    size_t process_count;
    struct {
        pid_t pid;
        double memory_bytes;
    } process[64];
} hfi_gpu_use;

/* NULL if there is no library, no driver or no GPU: `ret_trouble` says which. It may
 * take long. */
hfi_nvml *hfi_nvml_open(char *ret_trouble, size_t size);
void hfi_nvml_close(hfi_nvml *nvml);
size_t hfi_nvml_count(const hfi_nvml *nvml);
void hfi_nvml_describe(const hfi_nvml *nvml, size_t index, hf_monitor_gpu *ret_gpu);
void hfi_nvml_read(const hfi_nvml *nvml, size_t index, hfi_gpu_use *ret_use);

/* ---- gpus.c: the use of GPUs, asked in a thread of its own ---- */

/* The last reading. */
typedef struct hfi_gpus_reading {
    uint64_t turn; /* 0: nothing yet; greater with each answer */
    size_t count;
    hf_monitor_gpu gpu[HF_MONITOR_GPUS_MAX];
    hfi_gpu_use use[HF_MONITOR_GPUS_MAX];
    int used;         /* `use` was read, too */
    char trouble[96]; /* why there are none */
} hfi_gpus_reading;

/* One thread at a time. */
typedef struct hfi_gpus hfi_gpus;

/* Look for the driver from now on. NULL if there is no memory, or no thread. */
hfi_gpus *hfi_gpus_create(void);
/* Waits a second at most for a driver that doesn't answer. */
void hfi_gpus_close(hfi_gpus *gpus);
/* Ask for their use from now on, or no longer. */
void hfi_gpus_want(hfi_gpus *gpus, int wanted);
/* 0, and nothing is written, if nothing is newer than `ret_reading`. Always 0 for NULL.
 * */
int hfi_gpus_read(hfi_gpus *gpus, hfi_gpus_reading *ret_reading);

#endif
