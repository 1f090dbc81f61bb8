/* cgroup.h - control groups, versions 1 and 2: their places, their use and their
 * limits. No state, any thread.
 */
#ifndef HFI_CGROUP_H
#define HFI_CGROUP_H

#include "holdfast/monitor.h"
#include "monitor/procfile.h"

#define HFI_CGROUP_PATH     512
#define HFI_PLACE_MOUNT     "/sys/fs/cgroup"
#define HFI_PLACE_TEXT_SIZE 8192
#define HFI_CGROUP_NO_LIMIT 1e18 /* version 1 has a huge number if there is none */

/* The directories of a group's files, by controller; the same one three times in
 * version 2. Empty: there is no such controller. */
typedef struct hfi_cgroup {
    int version; /* 0: no group */
    char memory[HFI_CGROUP_PATH];
    char cpu[HFI_CGROUP_PATH];
    char io[HFI_CGROUP_PATH];
    hfi_procfile memory_now, memory_stat, cpu_now, io_now, io_count;
} hfi_cgroup;

/* `root` is put before every path: "", except in tests. Each returns 0 if there is
 * none. */

/* Whether a directory has a file that may be read. */
int hfi_place_has(const char *directory, const char *file);
/* A file that holds one number; 0 if the file has none. */
double hfi_place_number(const char *directory, const char *file);
/* The mount of version 2: the only one, or beside those of version 1. */
int hfi_place_unified(const char *root, char *ret_path, size_t size);
/* The kernel's list of this process's groups, for the next two functions. */
int hfi_place_read_own(const char *root, char *ret_text, size_t size);
/* The directory of this process's group: of a controller of version 1, of version 2. */
int hfi_place_own_1(const char *root, const char *text, const char *controller,
                    char *ret_path, size_t size);
int hfi_place_own_2(const char *root, const char *text, char *ret_path, size_t size);
/* Remove the last part of the path. 0 at `floor`, the length of the mount. */
int hfi_place_climb(char *directory, size_t floor);

/* The container's group as seen from inside, if this process is in a container. */
int hfi_cgroup_find_container(const char *root, double machine_bytes,
                              hfi_cgroup *ret_group);
/* One by its directories. */
void hfi_cgroup_open(hfi_cgroup *group, int version, const char *memory,
                     const char *cpu, const char *io);
void hfi_cgroup_close(hfi_cgroup *group);

/* Read the group's use; 0 if it can't be read. */
int hfi_cgroup_read(const hfi_cgroup *group, hf_monitor_reading *ret_reading);

/* The least memory limit that holds for a directory of a memory controller, itself and
 * those above it, and the file that has it; 0 if there is none below `most`. */
double hfi_cgroup_limit(const char *root, const char *directory, int version,
                        double most, char *ret_source, size_t size);
/* The limits that hold for this process. */
double hfi_cgroup_own_limit(const char *root, double most, char *ret_source,
                            size_t size);
/* Cores by the quota that holds for this process; `most` if there is none. */
double hfi_cgroup_own_cores(const char *root, double most);

#endif
