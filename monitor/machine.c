/* machine.c - the use of the whole machine, and its resources.
 *
 * On Linux, processors are read from stat, memory from meminfo (all that isn't
 * available to new programs), input and output from each disk's own stat file. Only
 * disks that are devices count: a partition, a volume over several disks or a file that
 * is mounted as a disk would count the same bytes again. diskstats has all of these in
 * one file, but costs more than all else of this level. For a disk there is no
 * difference between the bytes that were asked for and those that came from storage, so
 * both columns are equal.
 *
 * The kernel counts processor time here in hundredths of a second, at any interval. A
 * second reading in the same hundredth returns the first one: each cell's begin and end
 * reads, and short cells follow each other. With many cores the text is long, so only
 * the cores' lines are read. On systems other than Linux this level isn't reported.
 *
 * One thread at a time.
 */
#include "monitor/machine.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "monitor/procfile.h"

#define LINE_SIZE   160 /* of a core in /proc/stat, or of a disk, at most */
#define CORES_MAX   1024
#define DISKS_MAX   64
#define SECTOR      512
#define SAMPLE_SIZE 8192

struct hfi_machine {
    hfi_procfile stat, meminfo;
    uint32_t cores;
    double memory_bytes;
    double tick_seconds;
    char *text; /* of stat */
    size_t text_size;
    hfi_procfile disks[DISKS_MAX];
    size_t disk_count;
    int64_t kept_ns; /* when this was read; 0: never */
    hf_monitor_reading kept;
    double kept_busy[CORES_MAX];
};

uint32_t
hfi_machine_cores(const hfi_machine *machine) {
    return machine->cores;
}

double
hfi_machine_memory(const hfi_machine *machine) {
    return machine->memory_bytes;
}

void
hfi_machine_close(hfi_machine *machine) {
    if (machine == NULL)
        return;
    hfi_procfile_close(&machine->stat);
    hfi_procfile_close(&machine->meminfo);
    for (size_t i = 0; i < machine->disk_count; i++)
        hfi_procfile_close(&machine->disks[i]);
    free(machine->text);
    free(machine);
}

#ifdef __linux__

static void
open_disks(hfi_machine *machine) {
    const struct dirent *item;
    DIR *directory = opendir("/sys/block");
    while (directory != NULL && machine->disk_count < DISKS_MAX &&
           (item = readdir(directory)) != NULL) {
        char path[320];
        if (item->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/sys/block/%s/device", item->d_name);
        if (access(path, F_OK) != 0)
            continue;
        snprintf(path, sizeof path, "/sys/block/%s/stat", item->d_name);
        if (hfi_procfile_open(&machine->disks[machine->disk_count], path))
            machine->disk_count++;
    }
    if (directory != NULL)
        closedir(directory);
}

hf_status
hfi_machine_create(hfi_machine **ret_machine, hf_error *reterr) {
    char text[SAMPLE_SIZE];
    uint64_t kibibytes = 0;
    long online = sysconf(_SC_NPROCESSORS_CONF);
    hfi_machine *machine = calloc(1, sizeof *machine);
    if (machine == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    machine->cores = online > CORES_MAX ? CORES_MAX : online > 0 ? (uint32_t)online : 1;
    machine->text_size = LINE_SIZE * ((size_t)machine->cores + 1);
    machine->text = malloc(machine->text_size);
    machine->tick_seconds = 1.0 / (double)sysconf(_SC_CLK_TCK);
    hfi_procfile_open(&machine->stat, "/proc/stat");
    hfi_procfile_open(&machine->meminfo, "/proc/meminfo");
    open_disks(machine);
    if (machine->text == NULL) {
        hfi_machine_close(machine);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    }
    if (hfi_procfile_read(&machine->meminfo, text, sizeof text) > 0 &&
        hfi_procfile_find(text, "MemTotal:", &kibibytes))
        machine->memory_bytes = (double)kibibytes * 1024;
    *ret_machine = machine;
    return HF_OK;
}

/* A line's user, nice, system, irq, softirq and steal; guests are in user already. */
static double
busy_seconds(const hfi_machine *machine, const char *line) {
    uint64_t ticks = 0;
    for (int field = 0; field < 8; field++) {
        uint64_t number = hfi_procfile_number(line, &line);
        if (field != 3 && field != 4) /* idle, iowait */
            ticks += number;
    }
    return (double)ticks * machine->tick_seconds;
}

static int
read_cores(hfi_machine *machine, hf_monitor_reading *reading, double *ret_busy) {
    if (hfi_procfile_read(&machine->stat, machine->text, machine->text_size) <= 0 ||
        strncmp(machine->text, "cpu ", 4) != 0)
        return 0;
    reading->cpu_seconds = busy_seconds(machine, machine->text + 4);
    const char *line = machine->text;
    while ((line = strchr(line, '\n')) != NULL && strncmp(++line, "cpu", 3) == 0) {
        const char *numbers;
        uint64_t core = hfi_procfile_number(line + 3, &numbers);
        if (core < machine->cores)
            ret_busy[core] = busy_seconds(machine, numbers);
    }
    return 1;
}

static void
read_disks(const hfi_machine *machine, hf_monitor_reading *reading) {
    char text[LINE_SIZE];
    for (size_t i = 0; i < machine->disk_count; i++) {
        const char *at = text;
        if (hfi_procfile_read(&machine->disks[i], text, sizeof text) <= 0)
            continue; /* it was taken out */
        reading->io_read_count += (double)hfi_procfile_number(at, &at);
        at = hfi_procfile_skip(at, 1);
        reading->io_read_bytes += (double)hfi_procfile_number(at, &at) * SECTOR;
        at = hfi_procfile_skip(at, 1);
        reading->io_write_count += (double)hfi_procfile_number(at, &at);
        at = hfi_procfile_skip(at, 1);
        reading->io_write_bytes += (double)hfi_procfile_number(at, &at) * SECTOR;
    }
    reading->disk_read_bytes = reading->io_read_bytes;
    reading->disk_write_bytes = reading->io_write_bytes;
}

static int
read_machine(hfi_machine *machine, hf_monitor_reading *ret_reading, double *ret_busy) {
    char text[SAMPLE_SIZE];
    uint64_t kibibytes = 0;
    memset(ret_reading, 0, sizeof *ret_reading);
    if (!read_cores(machine, ret_reading, ret_busy))
        return 0;
    if (hfi_procfile_read(&machine->meminfo, text, sizeof text) > 0 &&
        hfi_procfile_find(text, "MemAvailable:", &kibibytes))
        ret_reading->memory_bytes = machine->memory_bytes - (double)kibibytes * 1024;
    read_disks(machine, ret_reading);
    ret_reading->valid = 1;
    return 1;
}

int
hfi_machine_read(hfi_machine *machine, hf_monitor_reading *ret_reading,
                 double *ret_busy) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    double age = (double)(now_ns - machine->kept_ns) / 1e9;
    if (machine->kept_ns == 0 || age >= machine->tick_seconds) {
        if (!read_machine(machine, &machine->kept, machine->kept_busy))
            return 0;
        machine->kept_ns = now_ns;
    }
    *ret_reading = machine->kept;
    memcpy(ret_busy, machine->kept_busy, machine->cores * sizeof *ret_busy);
    return 1;
}

#else

hf_status
hfi_machine_create(hfi_machine **ret_machine, hf_error *reterr) {
    hfi_machine *machine = calloc(1, sizeof *machine);
    if (machine == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory");
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    machine->stat.fd = machine->meminfo.fd = -1;
    machine->cores = online > CORES_MAX ? CORES_MAX : online > 0 ? (uint32_t)online : 1;
    *ret_machine = machine;
    return HF_OK;
}

int
hfi_machine_read(hfi_machine *machine, hf_monitor_reading *ret_reading,
                 double *ret_busy) {
    (void)machine;
    (void)ret_busy;
    memset(ret_reading, 0, sizeof *ret_reading);
    return 0;
}

#endif
