/* nvml.h - NVIDIA GPUs, by the library that comes with their driver. */
#ifndef HFI_NVML_H
#define HFI_NVML_H

#include <sys/types.h>

#include "holdfast/monitor.h"

typedef struct hfi_nvml hfi_nvml;

/* What a GPU does now. */
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

/* NULL where there is no library, no driver or no GPU: `ret_trouble` says which. It
 * may take long. */
hfi_nvml *hfi_nvml_open(char *ret_trouble, size_t size);
void hfi_nvml_close(hfi_nvml *nvml);
size_t hfi_nvml_count(const hfi_nvml *nvml);
void hfi_nvml_describe(const hfi_nvml *nvml, size_t index, hf_monitor_gpu *ret_gpu);
void hfi_nvml_read(const hfi_nvml *nvml, size_t index, hfi_gpu_use *ret_use);

#endif
