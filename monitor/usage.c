/* usage.c - the use of one process, as the system reports it.
 *
 * On Linux, processor time comes from the process's own clock, which counts nanoseconds
 * where /proc has hundredths of a second. The time of children that it has waited for
 * comes from stat, memory from statm, input and output from io, which includes
 * waited-for children. Memory is resident memory: private pages, and those of files and
 * shared memory. The kernel keeps these counts per processor, and the sum is exact to
 * some hundred KiB. PSS and USS, from smaps_rollup, are exact, and take a millisecond a
 * gigabyte and more: only callers that ask get them.
 *
 * Input and output are the bytes that system calls moved, cached or not. What came from
 * storage is counted separately. A process that may not be read (it has changed its
 * user) has no io, so it counts as 0.
 *
 * On macOS proc_pid_rusage reports the same, except for the calls. Descriptors are kept
 * open. No other state, any thread.
 */
#include "monitor/usage.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__

static void
open_process_file(hfi_procfile *file, pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    hfi_procfile_open(file, path);
}

static long
read_process_file(const hfi_process_use *process, const hfi_procfile *file,
                  const char *name, char *ret_text, size_t size) {
    char path[64];
    if (file->fd >= 0)
        return hfi_procfile_read(file, ret_text, size);
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)process->pid, name);
    return hfi_procfile_read_once(path, ret_text, size);
}

int
hfi_process_open(hfi_process_use *process, pid_t pid, int keep) {
    hfi_usage usage;
    memset(process, 0, sizeof *process);
    process->pid = pid;
    process->stat.fd = process->statm.fd = process->io.fd = -1;
    if (keep) {
        open_process_file(&process->stat, pid, "stat");
        open_process_file(&process->statm, pid, "statm");
        open_process_file(&process->io, pid, "io");
    }
    process->has_clock = clock_getcpuclockid(pid, &process->clock) == 0;
    if (hfi_process_read(process, &usage) && process->start != 0)
        return 1;
    hfi_process_close(process);
    return 0;
}

void
hfi_process_close(hfi_process_use *process) {
    hfi_procfile_close(&process->stat);
    hfi_procfile_close(&process->statm);
    hfi_procfile_close(&process->io);
}

void
hfi_usage_parse_io(const char *text, hfi_usage *usage) {
    double *const lines[] = {&usage->read,       &usage->write,
                             &usage->read_count, &usage->write_count,
                             &usage->disk_read,  &usage->disk_write};
    for (size_t i = 0; i < sizeof lines / sizeof *lines && text != NULL; i++) {
        text = strchr(text, ':');
        if (text != NULL)
            *lines[i] = (double)hfi_procfile_number(text + 1, &text);
    }
}

static void
read_process_memory(const hfi_process_use *process, hfi_usage *usage) {
    static long page;
    char text[128];
    const char *at = text;
    if (page == 0)
        page = sysconf(_SC_PAGESIZE);
    if (read_process_file(process, &process->statm, "statm", text, sizeof text) <= 0)
        return;
    hfi_procfile_number(at, &at);
    uint64_t resident = hfi_procfile_number(at, &at);
    uint64_t shared = hfi_procfile_number(at, &at);
    if (shared > resident)
        shared = resident;
    usage->shared_bytes = (double)shared * (double)page;
    usage->private_bytes = (double)(resident - shared) * (double)page;
}

int
hfi_process_read(hfi_process_use *process, hfi_usage *ret_usage) {
    static long ticks;
    char text[1024];
    struct timespec own;
    memset(ret_usage, 0, sizeof *ret_usage);
    if (ticks == 0)
        ticks = sysconf(_SC_CLK_TCK);
    if (read_process_file(process, &process->stat, "stat", text, sizeof text) <= 0)
        return 0;
    const char *at = strrchr(text, ')'); /* the name may contain any character */
    if (at == NULL)
        return 0;
    double tick = 1e9 / (double)ticks;
    at = hfi_procfile_skip(at + 1, 11); /* behind field 13 */
    double user = (double)hfi_procfile_number(at, &at);
    double system = (double)hfi_procfile_number(at, &at);
    ret_usage->cpu = (user + system) * tick;
    user = (double)hfi_procfile_number(at, &at);
    system = (double)hfi_procfile_number(at, &at);
    ret_usage->cpu_children = (user + system) * tick;
    uint64_t start = hfi_procfile_number(hfi_procfile_skip(at, 4), NULL);
    if (process->start == 0)
        process->start = start;
    if (start != process->start)
        return 0;
    if (process->has_clock && clock_gettime(process->clock, &own) == 0)
        ret_usage->cpu = (double)own.tv_sec * 1e9 + (double)own.tv_nsec;
    read_process_memory(process, ret_usage);
    if (read_process_file(process, &process->io, "io", text, sizeof text) > 0)
        hfi_usage_parse_io(text, ret_usage);
    return 1;
}

size_t
hfi_process_list(uid_t uid, pid_t *ret_pids, size_t size) {
    size_t count = 0;
    struct stat facts;
    const struct dirent *item;
    DIR *directory = opendir("/proc");
    if (directory == NULL)
        return 0;
    while (count < size && (item = readdir(directory)) != NULL)
        if (item->d_name[0] >= '1' && item->d_name[0] <= '9' &&
            fstatat(dirfd(directory), item->d_name, &facts, 0) == 0 &&
            facts.st_uid == uid)
            ret_pids[count++] = (pid_t)hfi_procfile_number(item->d_name, NULL);
    closedir(directory);
    return count;
}

int
hfi_process_has_variable(pid_t pid, const char *variable) {
    char path[64];
    char *text = NULL;
    size_t size = 0;
    int found = 0;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && getdelim(&text, &size, '\0', file) > 0)
        found = strcmp(text, variable) == 0;
    free(text);
    if (file != NULL)
        fclose(file);
    return found;
}

static size_t
children_of_thread(pid_t pid, const char *thread, pid_t *ret_pids, size_t size) {
    char path[320], text[4096];
    const char *at = text;
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%ld/task/%s/children", (long)pid, thread);
    if (hfi_procfile_read_once(path, text, sizeof text) <= 0)
        return 0;
    while (count < size) {
        uint64_t child = hfi_procfile_number(at, &at);
        if (child == 0 || *at != ' ') /* a number that was cut has no blank behind it */
            break;
        ret_pids[count++] = (pid_t)child;
    }
    return count;
}

size_t
hfi_process_children(pid_t pid, pid_t *ret_pids, size_t size) {
    char path[64];
    size_t count = 0;
    const struct dirent *item;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return 0;
    while (count < size && (item = readdir(threads)) != NULL)
        if (item->d_name[0] != '.')
            count +=
                children_of_thread(pid, item->d_name, ret_pids + count, size - count);
    closedir(threads);
    return count;
}

/* The newest process number of this pid namespace: the last word of loadavg. */
uint64_t
hfi_process_births(hfi_procfile *file) {
    char text[128];
    if (file->fd < 0)
        hfi_procfile_open(file, "/proc/loadavg");
    if (hfi_procfile_read(file, text, sizeof text) <= 0)
        return 0;
    const char *last = strrchr(text, ' ');
    return last != NULL ? hfi_procfile_number(last, NULL) : 0;
}

int
hfi_process_weigh(pid_t pid, double *ret_pss, double *ret_uss) {
    char path[64], text[4096];
    uint64_t pss = 0, clean = 0, dirty = 0;
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", (long)pid);
    if (hfi_procfile_read_once(path, text, sizeof text) <= 0 ||
        !hfi_procfile_find(text, "Pss:", &pss) ||
        !hfi_procfile_find(text, "Private_Clean:", &clean) ||
        !hfi_procfile_find(text, "Private_Dirty:", &dirty))
        return 0;
    *ret_pss = (double)pss * 1024;
    *ret_uss = (double)(clean + dirty) * 1024;
    return 1;
}

double
hfi_process_peak(pid_t pid) {
    char path[64], text[4096];
    uint64_t kibibytes = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    if (hfi_procfile_read_once(path, text, sizeof text) <= 0 ||
        !hfi_procfile_find(text, "VmHWM:", &kibibytes))
        return 0;
    return (double)kibibytes * 1024;
}

#elif defined(__APPLE__)

#include <libproc.h>
#include <mach/mach_time.h>

int
hfi_process_open(hfi_process_use *process, pid_t pid, int keep) {
    hfi_usage usage;
    (void)keep;
    memset(process, 0, sizeof *process);
    process->pid = pid;
    process->stat.fd = process->statm.fd = process->io.fd = -1;
    return hfi_process_read(process, &usage);
}

void
hfi_process_close(hfi_process_use *process) {
    process->pid = 0;
}

int
hfi_process_read(hfi_process_use *process, hfi_usage *ret_usage) {
    static mach_timebase_info_data_t base;
    struct rusage_info_v2 info;
    memset(ret_usage, 0, sizeof *ret_usage);
    if (base.denom == 0)
        mach_timebase_info(&base);
    if (proc_pid_rusage(process->pid, RUSAGE_INFO_V2, (rusage_info_t *)&info) != 0)
        return 0;
    double scale = (double)base.numer / (double)base.denom;
    ret_usage->cpu = (double)(info.ri_user_time + info.ri_system_time) * scale;
    ret_usage->cpu_children =
        (double)(info.ri_child_user_time + info.ri_child_system_time) * scale;
    ret_usage->private_bytes = (double)info.ri_resident_size;
    ret_usage->read = ret_usage->disk_read = (double)info.ri_diskio_bytesread;
    ret_usage->write = ret_usage->disk_write = (double)info.ri_diskio_byteswritten;
    return 1;
}

void
hfi_usage_parse_io(const char *text, hfi_usage *usage) {
    (void)text;
    (void)usage;
}

size_t
hfi_process_list(uid_t uid, pid_t *ret_pids, size_t size) {
    int bytes = proc_listpids(PROC_UID_ONLY, (uint32_t)uid, ret_pids,
                              (int)(size * sizeof *ret_pids));
    return bytes > 0 ? (size_t)bytes / sizeof *ret_pids : 0;
}

int
hfi_process_has_variable(pid_t pid, const char *variable) {
    (void)pid;
    (void)variable;
    return 0;
}

size_t
hfi_process_children(pid_t pid, pid_t *ret_pids, size_t size) {
    int bytes = proc_listchildpids(pid, ret_pids, (int)(size * sizeof *ret_pids));
    return bytes > 0 ? (size_t)bytes
                     : 0; /* it returns how many, in spite of its name */
}

uint64_t
hfi_process_births(hfi_procfile *file) {
    (void)file;
    return 0;
}

int
hfi_process_weigh(pid_t pid, double *ret_pss, double *ret_uss) {
    (void)pid;
    *ret_pss = *ret_uss = 0;
    return 0;
}

double
hfi_process_peak(pid_t pid) {
    (void)pid;
    return 0;
}

#else
#error "write hfi_process_read for this system"
#endif
