/* gpus.c - the use of the GPUs, asked for in a thread of its own.
 *
 * A driver may be slow: its library takes seconds to load if the GPU sleeps, and a
 * question may take for ever if the GPU has a fault. Neither the frontend nor the
 * samples wait for that. A thread asks, no more often than the driver measures, and
 * using at most a twentieth of a core. The sampler takes its last reading.
 *
 * The lock covers the last reading, and is never held while the driver is asked. A
 * program that ends waits a second for the thread. If the thread is still in the
 * driver, it frees everything itself if it ever returns.
 */
#include "monitor/gpus.h"

#include <stdlib.h>
#include <string.h>

#include "monitor/thread.h"

#define BETWEEN_NS  50000000LL /* two questions */
#define SHARE       19 /* so many times its cost must pass between two questions */
#define PATIENCE_NS 1000000000LL

struct hfi_gpus {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* wanted, quit or done did */
    pthread_t thread;
    int wanted, quit, done;
    int left; /* the owner has closed it: the thread frees it */
    hfi_gpus_reading last;
};

static void
destroy_gpus(hfi_gpus *gpus) {
    pthread_cond_destroy(&gpus->changed);
    pthread_mutex_destroy(&gpus->lock);
    free(gpus);
}

static hfi_nvml *
look_for(hfi_gpus *gpus) {
    char trouble[sizeof gpus->last.trouble] = "";
    hf_monitor_gpu gpu[HF_MONITOR_GPUS_MAX];
    hfi_nvml *nvml = hfi_nvml_open(trouble, sizeof trouble);
    size_t count = hfi_nvml_count(nvml);
    for (size_t i = 0; i < count; i++)
        hfi_nvml_describe(nvml, i, &gpu[i]);
    pthread_mutex_lock(&gpus->lock);
    gpus->last.count = count;
    memcpy(gpus->last.gpu, gpu, count * sizeof *gpu);
    memcpy(gpus->last.trouble, trouble, sizeof trouble);
    gpus->last.turn++;
    pthread_mutex_unlock(&gpus->lock);
    return nvml;
}

/* When to ask again. */
static int64_t
ask_gpus(hfi_gpus *gpus, const hfi_nvml *nvml) {
    hfi_gpu_use use[HF_MONITOR_GPUS_MAX];
    size_t count = hfi_nvml_count(nvml);
    int64_t began = hfi_thread_now();
    for (size_t i = 0; i < count; i++)
        hfi_nvml_read(nvml, i, &use[i]);
    int64_t took = hfi_thread_now() - began;
    pthread_mutex_lock(&gpus->lock);
    memcpy(gpus->last.use, use, count * sizeof *use);
    gpus->last.used = 1;
    gpus->last.turn++;
    pthread_mutex_unlock(&gpus->lock);
    return began + took + (SHARE * took > BETWEEN_NS ? SHARE * took : BETWEEN_NS);
}

static void *
run_gpus(void *context) {
    hfi_gpus *gpus = context;
    int64_t due_ns = 0;
    hfi_thread_name("monitor-gpus");
    hfi_nvml *nvml = look_for(gpus);
    pthread_mutex_lock(&gpus->lock);
    while (!gpus->quit) {
        if (nvml == NULL || !gpus->wanted) {
            pthread_cond_wait(&gpus->changed, &gpus->lock);
        } else if (hfi_thread_now() < due_ns) {
            hfi_thread_wait_until(&gpus->changed, &gpus->lock, due_ns);
        } else {
            pthread_mutex_unlock(&gpus->lock);
            due_ns = ask_gpus(gpus, nvml);
            pthread_mutex_lock(&gpus->lock);
        }
    }
    pthread_mutex_unlock(&gpus->lock);
    hfi_nvml_close(nvml);
    pthread_mutex_lock(&gpus->lock);
    gpus->done = 1;
    int left = gpus->left;
    pthread_cond_signal(&gpus->changed);
    pthread_mutex_unlock(&gpus->lock);
    if (left)
        destroy_gpus(gpus);
    return NULL;
}

hfi_gpus *
hfi_gpus_create(void) {
    hfi_gpus *gpus = calloc(1, sizeof *gpus);
    if (gpus == NULL)
        return NULL;
    pthread_mutex_init(&gpus->lock, NULL);
    hfi_thread_init_condition(&gpus->changed);
    if (hfi_thread_start(&gpus->thread, run_gpus, gpus) == 0)
        return gpus;
    destroy_gpus(gpus);
    return NULL;
}

void
hfi_gpus_close(hfi_gpus *gpus) {
    if (gpus == NULL)
        return;
    pthread_t thread = gpus->thread;
    int64_t due_ns = hfi_thread_now() + PATIENCE_NS;
    pthread_mutex_lock(&gpus->lock);
    gpus->quit = 1;
    pthread_cond_signal(&gpus->changed);
    while (!gpus->done && hfi_thread_now() < due_ns)
        hfi_thread_wait_until(&gpus->changed, &gpus->lock, due_ns);
    int done = gpus->done;
    gpus->left = !done;
    pthread_mutex_unlock(&gpus->lock);
    if (done) {
        pthread_join(thread, NULL);
        destroy_gpus(gpus);
    } else {
        pthread_detach(thread);
    }
}

void
hfi_gpus_want(hfi_gpus *gpus, int wanted) {
    if (gpus == NULL)
        return;
    pthread_mutex_lock(&gpus->lock);
    gpus->wanted = wanted;
    pthread_cond_signal(&gpus->changed);
    pthread_mutex_unlock(&gpus->lock);
}

int
hfi_gpus_read(hfi_gpus *gpus, hfi_gpus_reading *ret_reading) {
    if (gpus == NULL)
        return 0;
    pthread_mutex_lock(&gpus->lock);
    int newer = gpus->last.turn > ret_reading->turn;
    if (newer)
        *ret_reading = gpus->last;
    pthread_mutex_unlock(&gpus->lock);
    return newer;
}
