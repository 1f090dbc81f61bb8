/* pretended_nvml.c - a library with the names of NVIDIA's and figures that it makes up,
 * for machines without a GPU: it shows that its answers reach the samples, and nothing
 * about a real driver.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT  __attribute__((visibility("default")))
#define DEVICES 2

typedef struct device_memory {
    unsigned long long total, free, used;
} device_memory;

typedef struct device_rates {
    unsigned gpu, memory;
} device_rates;

typedef struct device_process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} device_process;

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORT int nvmlDeviceGetName(void *device, char *name, unsigned size);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, device_memory *ret_memory);
EXPORT int nvmlDeviceGetUtilizationRates(void *device, device_rates *ret_rates);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                                   device_process *processes);

static unsigned
index_of(const void *device) {
    return (unsigned)(uintptr_t)device - 1;
}

/* A driver may take long: where the test names a FIFO, until somebody opens that. */
int
nvmlInit_v2(void) {
    const char *gate = getenv("PRETENDED_NVML_GATE");
    int fd = gate != NULL ? open(gate, O_RDONLY) : -1;
    if (fd >= 0)
        close(fd);
    return 0;
}

int
nvmlShutdown(void) {
    return 0;
}

int
nvmlDeviceGetCount_v2(unsigned *count) {
    *count = DEVICES;
    return 0;
}

int
nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)((uintptr_t)index + 1);
    return index < DEVICES ? 0 : 2;
}

int
nvmlDeviceGetName(void *device, char *name, unsigned size) {
    snprintf(name, size, "Pretended GPU %u", index_of(device));
    return 0;
}

int
nvmlDeviceGetMemoryInfo(void *device, device_memory *ret_memory) {
    (void)device;
    *ret_memory = (device_memory){8000000000ULL, 6000000000ULL, 2000000000ULL};
    return 0;
}

int
nvmlDeviceGetUtilizationRates(void *device, device_rates *ret_rates) {
    *ret_rates = (device_rates){50 + index_of(device), 20 + index_of(device)};
    return 0;
}

int
nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                        device_process *processes) {
    (void)device;
    if (*count < 2)
        return 7; /* the buffer is too small */
    processes[0] = (device_process){(unsigned)getpid(), 1000000000ULL, 0, 0};
    processes[1] = (device_process){1, ~0ULL, 0, 0};
    *count = 2;
    return 0;
}
