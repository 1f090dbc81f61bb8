/* nvml.c - NVIDIA GPUs, read by the library of their driver.
 *
 * libnvidia-ml is loaded when sampling first starts. If it doesn't exist, the monitor
 * works without it: nothing of it is needed to build or to run. Its functions are
 * declared here as in its reference manual (NVML API, "Device Queries"). Names with a
 * version are promised to stay. HOLDFAST_NVML names another library file.
 *
 * The driver measures by itself, at most about ten times a second, and returns its last
 * figure. A question takes from ten microseconds to a millisecond. So the GPUs are
 * asked rarely (gpus.c). Processes have their numbers in the machine's own namespace.
 * Inside of a container none is ours, and only the use of the whole GPU is known.
 *
 * One thread at a time.
 */
#include "monitor/gpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_rates {
    unsigned gpu, memory;
} nvml_rates;

typedef struct nvml_process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} nvml_process;

typedef void *nvml_device;

struct hfi_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *ret_count);
    int (*handle)(unsigned index, nvml_device *ret_device);
    int (*name)(nvml_device device, char *ret_name, unsigned size);
    int (*memory)(nvml_device device, nvml_memory *ret_memory);
    int (*rates)(nvml_device device, nvml_rates *ret_rates);
    int (*processes)(nvml_device device, unsigned *count, nvml_process *ret_processes);
    nvml_device device[HF_MONITOR_GPUS_MAX];
    size_t devices;
};

/* Store a function's address in a pointer: POSIX allows the conversion, and ISO C
 * doesn't know it. 0 if there is no such function. */
static int
find_function(hfi_nvml *nvml, const char *name, void *ret_function) {
    void *found = dlsym(nvml->library, name);
    memcpy(ret_function, &found, sizeof found);
    return found != NULL;
}

static int
find_all(hfi_nvml *nvml) {
    (void)(find_function(nvml, "nvmlDeviceGetComputeRunningProcesses_v3",
                         &nvml->processes) ||
           find_function(nvml, "nvmlDeviceGetComputeRunningProcesses_v2",
                         &nvml->processes));
    return find_function(nvml, "nvmlInit_v2", &nvml->init) &&
           find_function(nvml, "nvmlShutdown", &nvml->shutdown) &&
           find_function(nvml, "nvmlDeviceGetCount_v2", &nvml->count) &&
           find_function(nvml, "nvmlDeviceGetHandleByIndex_v2", &nvml->handle) &&
           find_function(nvml, "nvmlDeviceGetName", &nvml->name) &&
           find_function(nvml, "nvmlDeviceGetMemoryInfo", &nvml->memory) &&
           find_function(nvml, "nvmlDeviceGetUtilizationRates", &nvml->rates);
}

hfi_nvml *
hfi_nvml_open(char *ret_trouble, size_t size) {
    const char *chosen = getenv("HOLDFAST_NVML");
    const char *path = chosen != NULL && *chosen != '\0' ? chosen : "libnvidia-ml.so.1";
    unsigned count = 0;
    hfi_nvml *nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL)
        return NULL;
    nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL) {
        snprintf(ret_trouble, size, "no NVIDIA driver's library");
    } else if (!find_all(nvml) || nvml->init() != 0) {
        snprintf(ret_trouble, size, "the NVIDIA driver doesn't answer");
        nvml->shutdown = NULL;
    } else if (nvml->count(&count) != 0 || count == 0) {
        snprintf(ret_trouble, size, "the NVIDIA driver knows no GPU");
    }
    for (unsigned i = 0; i < count && nvml->devices < HF_MONITOR_GPUS_MAX; i++)
        if (nvml->handle(i, &nvml->device[nvml->devices]) == 0)
            nvml->devices++;
    if (nvml->devices > 0)
        return nvml;
    hfi_nvml_close(nvml);
    return NULL;
}

void
hfi_nvml_close(hfi_nvml *nvml) {
    if (nvml == NULL)
        return;
    if (nvml->shutdown != NULL)
        nvml->shutdown();
    if (nvml->library != NULL)
        dlclose(nvml->library);
    free(nvml);
}

size_t
hfi_nvml_count(const hfi_nvml *nvml) {
    return nvml != NULL ? nvml->devices : 0;
}

void
hfi_nvml_describe(const hfi_nvml *nvml, size_t index, hf_monitor_gpu *ret_gpu) {
    nvml_memory memory = {0, 0, 0};
    memset(ret_gpu, 0, sizeof *ret_gpu);
    if (nvml->name(nvml->device[index], ret_gpu->name, sizeof ret_gpu->name) != 0)
        snprintf(ret_gpu->name, sizeof ret_gpu->name, "GPU %zu", index);
    ret_gpu->name[sizeof ret_gpu->name - 1] = '\0';
    if (nvml->memory(nvml->device[index], &memory) == 0)
        ret_gpu->memory_bytes = (double)memory.total;
}

void
hfi_nvml_read(const hfi_nvml *nvml, size_t index, hfi_gpu_use *ret_use) {
    nvml_device device = nvml->device[index];
    nvml_memory memory = {0, 0, 0};
    nvml_rates rates = {0, 0};
    nvml_process processes[64];
    unsigned count = sizeof processes / sizeof *processes;
    memset(ret_use, 0, sizeof *ret_use);
    if (nvml->rates(device, &rates) == 0) {
        ret_use->util = rates.gpu;
        ret_use->band = rates.memory;
    }
    if (nvml->memory(device, &memory) == 0)
        ret_use->memory_bytes = (double)memory.used;
    if (nvml->processes == NULL || nvml->processes(device, &count, processes) != 0)
        return;
    for (unsigned i = 0; i < count && i < sizeof processes / sizeof *processes; i++) {
        /* All bits are set if the driver doesn't know the amount. */
        int known = processes[i].used != ~0ULL;
        ret_use->process[i].pid = (pid_t)processes[i].pid;
        ret_use->process[i].memory_bytes = known ? (double)processes[i].used : 0;
        ret_use->process_count = i + 1;
    }
}
