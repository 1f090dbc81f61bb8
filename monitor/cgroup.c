/* cgroup.c - what a control group uses, versions 1 and 2.
 *
 * A container is a process whose top group has limits: the machine's real top has none.
 * Then what the system uses is what that group uses, and not the host.
 *
 * Memory is what is charged to the group without the cached files that it could drop at
 * once, as container tools count it. Reading keeps files open. No state beside them.
 */
#include "monitor/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/cgroup_place.h"

/* ---- groups --------------------------------------------------------------------- */

static void
open_in(hfi_procfile *file, const char *directory, const char *name) {
    char path[HFI_CGROUP_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    file->fd = -1;
    if (*directory != '\0')
        hfi_procfile_open(file, path);
}

static void
open_files(hfi_cgroup *group) {
    int two = group->version == 2;
    open_in(&group->memory_now, group->memory,
            two ? "memory.current" : "memory.usage_in_bytes");
    open_in(&group->memory_stat, group->memory, "memory.stat");
    open_in(&group->cpu_now, group->cpu, two ? "cpu.stat" : "cpuacct.usage");
    open_in(&group->io_now, group->io,
            two ? "io.stat" : "blkio.throttle.io_service_bytes");
    open_in(&group->io_count, two ? "" : group->io, "blkio.throttle.io_serviced");
}

void
hfi_cgroup_close(hfi_cgroup *group) {
    if (group->version == 0)
        return;
    hfi_procfile_close(&group->memory_now);
    hfi_procfile_close(&group->memory_stat);
    hfi_procfile_close(&group->cpu_now);
    hfi_procfile_close(&group->io_now);
    hfi_procfile_close(&group->io_count);
    group->version = 0;
}

void
hfi_cgroup_open(hfi_cgroup *group, int version, const char *memory, const char *cpu,
                const char *io) {
    memset(group, 0, sizeof *group);
    group->version = version;
    snprintf(group->memory, sizeof group->memory, "%s", memory);
    snprintf(group->cpu, sizeof group->cpu, "%s", cpu);
    snprintf(group->io, sizeof group->io, "%s", io);
    open_files(group);
}

int
hfi_cgroup_find_container(const char *root, double machine_bytes,
                          hfi_cgroup *ret_group) {
    char top[HFI_CGROUP_PATH], cpu[HFI_CGROUP_PATH], io[HFI_CGROUP_PATH];
    memset(ret_group, 0, sizeof *ret_group);
    if (hfi_place_unified(root, top, sizeof top) && hfi_place_has(top, "memory.max")) {
        hfi_cgroup_open(ret_group, 2, top, top, top);
        return 1;
    }
    snprintf(top, sizeof top, "%s" HFI_PLACE_MOUNT "/memory", root);
    double limit = hfi_place_number(top, "memory.limit_in_bytes");
    if (limit <= 0 || limit >= HFI_CGROUP_NO_LIMIT || limit > machine_bytes)
        return 0;
    snprintf(cpu, sizeof cpu, "%s" HFI_PLACE_MOUNT "/cpuacct", root);
    snprintf(io, sizeof io, "%s" HFI_PLACE_MOUNT "/blkio", root);
    hfi_cgroup_open(ret_group, 1, top, cpu, io);
    return 1;
}

/* ---- reading -------------------------------------------------------------------- */

/* Version 2: "8:0 rbytes=1 wbytes=2 rios=3 wios=4 ..." for each device. */
static void
add_io_2(const char *text, hf_monitor_reading *reading) {
    const char *at = text;
    while ((at = strchr(at, '=')) != NULL) {
        const char *name = at;
        while (name > text && name[-1] != ' ' && name[-1] != '\n')
            name--;
        double number = (double)hfi_procfile_number(++at, NULL);
        if (strncmp(name, "rbytes=", 7) == 0)
            reading->disk_read_bytes += number;
        else if (strncmp(name, "wbytes=", 7) == 0)
            reading->disk_write_bytes += number;
        else if (strncmp(name, "rios=", 5) == 0)
            reading->io_read_count += number;
        else if (strncmp(name, "wios=", 5) == 0)
            reading->io_write_count += number;
    }
}

/* Version 1: "8:0 Read 1" and "8:0 Write 2" for each device. */
static void
add_io_1(const char *text, double *read, double *written) {
    for (const char *at = text; (at = strchr(at, ' ')) != NULL; at++) {
        if (strncmp(at, " Read ", 6) == 0)
            *read += (double)hfi_procfile_number(at + 6, NULL);
        else if (strncmp(at, " Write ", 7) == 0)
            *written += (double)hfi_procfile_number(at + 7, NULL);
    }
}

static void
read_io(const hfi_cgroup *group, hf_monitor_reading *reading) {
    char text[HFI_PLACE_TEXT_SIZE];
    if (hfi_procfile_read(&group->io_now, text, sizeof text) > 0) {
        if (group->version == 2)
            add_io_2(text, reading);
        else
            add_io_1(text, &reading->disk_read_bytes, &reading->disk_write_bytes);
    }
    if (hfi_procfile_read(&group->io_count, text, sizeof text) > 0)
        add_io_1(text, &reading->io_read_count, &reading->io_write_count);
    reading->io_read_bytes = reading->disk_read_bytes;
    reading->io_write_bytes = reading->disk_write_bytes;
}

int
hfi_cgroup_read(const hfi_cgroup *group, hf_monitor_reading *ret_reading) {
    char text[HFI_PLACE_TEXT_SIZE];
    uint64_t number = 0;
    memset(ret_reading, 0, sizeof *ret_reading);
    if (group->version == 0 ||
        hfi_procfile_read(&group->memory_now, text, sizeof text) <= 0)
        return 0;
    ret_reading->memory_bytes = (double)hfi_procfile_number(text, NULL);
    const char *key = group->version == 2 ? "inactive_file " : "total_inactive_file ";
    if (hfi_procfile_read(&group->memory_stat, text, sizeof text) > 0 &&
        hfi_procfile_find(text, key, &number) &&
        (double)number < ret_reading->memory_bytes)
        ret_reading->memory_bytes -= (double)number;
    if (hfi_procfile_read(&group->cpu_now, text, sizeof text) > 0) {
        if (group->version == 1)
            ret_reading->cpu_seconds = (double)hfi_procfile_number(text, NULL) / 1e9;
        else if (hfi_procfile_find(text, "usage_usec ", &number))
            ret_reading->cpu_seconds = (double)number / 1e6;
    }
    read_io(group, ret_reading);
    ret_reading->valid = 1;
    return 1;
}
