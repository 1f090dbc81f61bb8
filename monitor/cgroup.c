/* cgroup.c - control groups, versions 1 and 2: their directories, use and limits.
 *
 * Version 2 has one tree. Version 1 has one for each controller, mounted beside each
 * other, and a process may be in a different group of each. Both are found by
 * /proc/self/cgroup, under the usual places in /sys/fs/cgroup. A path of version 1 that
 * doesn't exist is a name from outside of a container. Then the controller's top is the
 * container's group.
 *
 * A process is in a container if its top group has limits: the machine's real top has
 * none. Then the use of the system is that of this group, and not the host's.
 *
 * Memory is what is charged to the group, without cached files that it could drop at
 * once. Container tools count it so, too. A limit holds for a group and for all below
 * it, so the lowest limit on the way up to the mount counts. Files stay open for
 * reading. There is no other state; any thread.
 */
#include "monitor/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- places --------------------------------------------------------------------- */

int
hfi_place_has(const char *directory, const char *file) {
    char path[HFI_CGROUP_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    return access(path, R_OK) == 0;
}

int
hfi_place_unified(const char *root, char *ret_path, size_t size) {
    static const char *const places[] = {HFI_PLACE_MOUNT, HFI_PLACE_MOUNT "/unified"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(ret_path, size, "%s%s", root, places[i]);
        if (hfi_place_has(ret_path, "cgroup.procs") &&
            hfi_place_has(ret_path, "cgroup.controllers"))
            return 1;
    }
    return 0;
}

/* This process's group in version 1's tree of `controller`, or, for "", version 2's. */
static int
own_group(const char *text, const char *controller, char *ret_group, size_t size) {
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *names = strchr(line, ':');
        const char *group = names != NULL ? strchr(names + 1, ':') : NULL;
        const char *end = strchr(line, '\n');
        if (group == NULL || end == NULL)
            return 0;
        size_t wanted = strlen(controller);
        for (const char *at = names; at < group;) { /* names between commas */
            const char *name = at + 1;
            at = name;
            while (*at != ',' && *at != ':')
                at++;
            if ((size_t)(at - name) != wanted || memcmp(name, controller, wanted) != 0)
                continue;
            int length = (int)(end - group - 1);
            snprintf(ret_group, size, "%.*s", length == 1 ? 0 : length, group + 1);
            return 1;
        }
        line = end + 1;
    }
    return 0;
}

int
hfi_place_read_own(const char *root, char *ret_text, size_t size) {
    char path[HFI_CGROUP_PATH];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    return hfi_procfile_read_once(path, ret_text, size) > 0;
}

int
hfi_place_own_1(const char *root, const char *text, const char *controller,
                char *ret_path, size_t size) {
    char group[HFI_CGROUP_PATH / 2];
    if (!own_group(text, controller, group, sizeof group))
        return 0;
    snprintf(ret_path, size, "%s" HFI_PLACE_MOUNT "/%s%s", root, controller, group);
    if (!hfi_place_has(ret_path,
                       "cgroup.procs")) /* a name from outside of a container */
        snprintf(ret_path, size, "%s" HFI_PLACE_MOUNT "/%s", root, controller);
    return hfi_place_has(ret_path, "cgroup.procs");
}

int
hfi_place_own_2(const char *root, const char *text, char *ret_path, size_t size) {
    char mount[HFI_CGROUP_PATH / 2], group[HFI_CGROUP_PATH / 2];
    if (!hfi_place_unified(root, mount, sizeof mount) ||
        !own_group(text, "", group, sizeof group))
        return 0;
    snprintf(ret_path, size, "%s%s", mount, group);
    if (!hfi_place_has(ret_path, "cgroup.procs"))
        snprintf(ret_path, size, "%s", mount);
    return 1;
}

double
hfi_place_number(const char *directory, const char *file) {
    char path[HFI_CGROUP_PATH + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    if (hfi_procfile_read_once(path, text, sizeof text) <= 0)
        return 0;
    return (double)hfi_procfile_number(text, NULL);
}

int
hfi_place_climb(char *directory, size_t floor) {
    char *slash = strrchr(directory, '/');
    if (slash == NULL || (size_t)(slash - directory) < floor)
        return 0;
    *slash = '\0';
    return 1;
}

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
open_group_files(hfi_cgroup *group) {
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
    open_group_files(group);
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
read_group_io(const hfi_cgroup *group, hf_monitor_reading *reading) {
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
    read_group_io(group, ret_reading);
    ret_reading->valid = 1;
    return 1;
}

/* ---- limits --------------------------------------------------------------------- */

double
hfi_cgroup_limit(const char *root, const char *directory, int version, double most,
                 char *ret_source, size_t size) {
    const char *file = version == 2 ? "memory.max" : "memory.limit_in_bytes";
    char at[HFI_CGROUP_PATH];
    double least = 0;
    size_t floor = strlen(root) + strlen(HFI_PLACE_MOUNT);
    snprintf(at, sizeof at, "%s", directory);
    do {
        double limit = hfi_place_number(at, file);
        if (limit > 0 && limit < HFI_CGROUP_NO_LIMIT && limit < most &&
            (least == 0 || limit < least)) {
            least = limit;
            snprintf(ret_source, size, "%s/%s", at + strlen(root), file);
        }
    } while (hfi_place_climb(at, floor));
    return least;
}

double
hfi_cgroup_own_limit(const char *root, double most, char *ret_source, size_t size) {
    char text[HFI_PLACE_TEXT_SIZE], path[HFI_CGROUP_PATH], source[HFI_CGROUP_PATH];
    double least = 0;
    if (!hfi_place_read_own(root, text, sizeof text))
        return 0;
    if (hfi_place_own_2(root, text, path, sizeof path))
        least = hfi_cgroup_limit(root, path, 2, most, source, sizeof source);
    if (least == 0 && hfi_place_own_1(root, text, "memory", path, sizeof path))
        least = hfi_cgroup_limit(root, path, 1, most, source, sizeof source);
    if (least > 0)
        snprintf(ret_source, size, "%s", source);
    return least;
}

/* Version 2 has "quota period" in one file, version 1 in two. */
static double
quota_cores(const char *directory, int version) {
    char path[HFI_CGROUP_PATH + 64], text[64];
    const char *next = text;
    double quota, period;
    if (version == 2) {
        snprintf(path, sizeof path, "%s/cpu.max", directory);
        if (hfi_procfile_read_once(path, text, sizeof text) <= 0)
            return 0;
        quota = (double)hfi_procfile_number(text, &next); /* "max" is 0 */
        period = (double)hfi_procfile_number(next, NULL);
    } else {
        quota = hfi_place_number(directory, "cpu.cfs_quota_us"); /* "-1" is 0 */
        period = hfi_place_number(directory, "cpu.cfs_period_us");
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

double
hfi_cgroup_own_cores(const char *root, double most) {
    char text[HFI_PLACE_TEXT_SIZE], path[HFI_CGROUP_PATH];
    size_t floor = strlen(root) + strlen(HFI_PLACE_MOUNT);
    if (!hfi_place_read_own(root, text, sizeof text))
        return most;
    for (int version = 1; version <= 2; version++) {
        int found = version == 2
                        ? hfi_place_own_2(root, text, path, sizeof path)
                        : hfi_place_own_1(root, text, "cpu", path, sizeof path);
        while (found) {
            double cores = quota_cores(path, version);
            most = cores > 0 && cores < most ? cores : most;
            found = hfi_place_climb(path, floor);
        }
    }
    return most;
}
