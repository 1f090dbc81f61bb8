/* resources.c - what the kernel's processes and the machine use, for a client that
 * asks.
 *
 * Answers Jupyter's usage_request on the control channel, as ipykernel does with
 * psutil:
 * - hostname, pid, cpu_count
 * - kernel_cpu: percent of a core since the last answer; 0 in the first
 * - kernel_memory: PSS in bytes
 * - host_cpu_percent: since the last answer; not in the first
 * - host_virtual_memory: bytes, and percent
 *
 * The kernel's processes are the frontend and all that it has started. Figures that the
 * system doesn't report are left out.
 *
 * Rejected: the monitor's samples, which exist only while the user has switched it on;
 * the main worker, which can't answer while a cell runs.
 */
#include "session/beside.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/usage.h"
#include "monitor/machine.h"
#include "monitor/procfile.h"
#include "session/publish.h"
#include "workers/program.h"

typedef struct hfi_usage_asked {
    hfi_family *family; /* NULL before the first answer, like `machine` */
    hfi_machine *machine;
    double family_seconds, machine_seconds; /* processor time at the last answer */
    long long time_ns;
} hfi_usage_asked;

static void
fini_usage(hf_kernel *kernel) {
    hfi_family_close(kernel->usage->family);
    hfi_machine_close(kernel->usage->machine);
}

const hfi_owner hfi_resources_owner = {
    offsetof(hf_kernel, usage), sizeof(struct hfi_usage_asked), NULL, fini_usage};

static int
begin_usage(hfi_usage_asked *usage) {
    hf_error ignored;
    if (usage->family == NULL && (usage->family = hfi_family_create()) != NULL)
        hfi_family_add(usage->family, getpid());
    if (usage->machine == NULL &&
        hfi_machine_create(&usage->machine, &ignored) != HF_OK)
        usage->machine = NULL;
    return usage->family != NULL && usage->machine != NULL;
}

/* With one decimal, like psutil's. */
static json_t *
json_percentage(double value) {
    return json_real((double)(long long)(value * 10 + 0.5) / 10);
}

static void
add_processors(hfi_usage_asked *usage, json_t *content) {
    hf_monitor_reading family, machine;
    uint32_t cores = hfi_machine_cores(usage->machine);
    double *busy = calloc(cores ? cores : 1, sizeof *busy);
    long long now_ns = hfi_clock_ns();
    double percent = usage->time_ns ? 1e11 / (double)(now_ns - usage->time_ns) : 0;
    hfi_family_search(usage->family, 1);
    hfi_family_read(usage->family, &family);
    json_object_set_new(
        content, "kernel_cpu",
        json_percentage(percent * (family.cpu_seconds - usage->family_seconds)));
    usage->family_seconds = family.cpu_seconds;
    if (busy != NULL && cores && hfi_machine_read(usage->machine, &machine, busy)) {
        double host = percent / cores * (machine.cpu_seconds - usage->machine_seconds);
        if (host > 0)
            json_object_set_new(content, "host_cpu_percent",
                                json_percentage(host < 100 ? host : 100));
        usage->machine_seconds = machine.cpu_seconds;
    }
    free(busy);
    usage->time_ns = now_ns;
}

static void
add_memory(const hfi_usage_asked *usage, json_t *content) {
    double pss, uss;
    hfi_family_weigh(usage->family, &pss, &uss);
    if (pss >= 0) /* else the system doesn't report it */
        json_object_set_new(content, "kernel_memory", json_integer((json_int_t)pss));
}

/* The names of psutil's virtual_memory(), from /proc/meminfo. */
static void
add_host_memory(json_t *content) {
    static const char *const rows[][2] = {
        {"total", "MemTotal:"},    {"available", "MemAvailable:"},
        {"free", "MemFree:"},      {"active", "Active:"},
        {"inactive", "Inactive:"}, {"buffers", "Buffers:"},
        {"cached", "Cached:"},     {"shared", "Shmem:"},
        {"slab", "Slab:"},         {"reclaimable", "SReclaimable:"},
    };
    enum { COUNT = sizeof rows / sizeof *rows };
    char text[8192];
    uint64_t kib[COUNT] = {0};
    if (hfi_procfile_read_once("/proc/meminfo", text, sizeof text) <= 0)
        return;
    json_t *memory = json_object();
    for (size_t i = 0; i < COUNT; i++)
        (void)hfi_procfile_find(text, rows[i][1], &kib[i]);
    kib[6] += kib[COUNT - 1];
    for (size_t i = 0; i + 1 < COUNT; i++)
        json_object_set_new(memory, rows[i][0],
                            json_integer((json_int_t)kib[i] * 1024));
    uint64_t used = kib[0] > kib[1] ? kib[0] - kib[1] : 0;
    json_object_set_new(memory, "used", json_integer((json_int_t)used * 1024));
    json_object_set_new(
        memory, "percent",
        json_percentage(kib[0] ? 100.0 * (double)used / (double)kib[0] : 0));
    json_object_set_new(content, "host_virtual_memory", memory);
}

void
hfi_resources_answer(hf_kernel *kernel, const hfi_request *request) {
    hfi_usage_asked *usage = kernel->usage;
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    json_t *content = json_pack("{s:s,s:i}", "hostname", host, "pid", (int)getpid());
    if (begin_usage(usage)) {
        add_processors(usage, content);
        add_memory(usage, content);
    }
    json_object_set_new(content, "cpu_count",
                        json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    add_host_memory(content);
    hfi_reply_json(kernel, request, content);
    json_decref(content);
}
