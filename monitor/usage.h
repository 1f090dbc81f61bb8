/* usage.h - the use of processes: one, or a set with all processes that they start.
 *
 * Threads: any; each struct belongs to one thread at a time.
 */
#ifndef HFI_USAGE_H
#define HFI_USAGE_H

#include <time.h>
#include <sys/types.h>

#include "holdfast/monitor.h"
#include "monitor/procfile.h"

/* ---- usage.c: the use of one process, by the system's counters ---- */

/* Counters of a process. Times in ns, the rest in bytes or calls. */
typedef struct hfi_usage {
    double cpu;          /* its own */
    double cpu_children; /* of those that it has waited for */
    double read_count, write_count;
    double read, write;           /* by system calls */
    double disk_read, disk_write; /* that came from or went to storage */
    double private_bytes;         /* resident, now */
    double shared_bytes;          /* of files and shared memory */
} hfi_usage;

/* A process that is looked at again and again. */
typedef struct hfi_process_use {
    pid_t pid;
    hfi_procfile stat, statm, io; /* closed: they are opened for each reading */
    uint64_t start; /* when it started: the next of its number did later */
    clockid_t clock;
    int has_clock;
} hfi_process_use;

/* 0 if there is no such process. With `keep` its files stay open, which makes reading
 * cheaper and takes three descriptors. */
int hfi_process_open(hfi_process_use *process, pid_t pid, int keep);
void hfi_process_close(hfi_process_use *process);
/* 0 if the process is gone. Members that may not be read are 0. */
int hfi_process_read(hfi_process_use *process, hfi_usage *ret_usage);
/* List all processes of this user. Returns how many. */
size_t hfi_process_list(uid_t uid, pid_t *ret_pids, size_t size);
/* Whether its environment, as it began, has this "NAME=VALUE". */
int hfi_process_has_variable(pid_t pid, const char *variable);
/* List its children. Returns how many. */
size_t hfi_process_children(pid_t pid, pid_t *ret_pids, size_t size);
/* A number that changes when processes are started; 0 if the system has none. `file` is
 * kept open for it from the first call on. */
uint64_t hfi_process_births(hfi_procfile *file);
/* Its proportional and its unique set size, in bytes: its part of each page by how many
 * have that, and its own pages alone. It takes a millisecond a gigabyte and more. 0 if
 * it isn't known. */
int hfi_process_weigh(pid_t pid, double *ret_pss, double *ret_uss);
/* Most resident memory that it has had, in bytes; 0 if it isn't known. */
double hfi_process_peak(pid_t pid);
/* The counters in a text of /proc/PID/io. */
void hfi_usage_parse_io(const char *text, hfi_usage *usage);

/* ---- family.c: a set of processes with all that they start ---- */

/* One thread at a time. */
typedef struct hfi_family hfi_family;

/* NULL without memory. The first is empty; the second always has all processes of the
 * user, and none can be added or removed: with `variable`, "NAME=VALUE", which is kept,
 * only those that have it in their environment. */
hfi_family *hfi_family_create(void);
hfi_family *hfi_family_create_of_user(uid_t uid, const char *variable);
void hfi_family_close(hfi_family *family);

/* Count this process and those that it starts, from now on; their use so far doesn't
 * count. Nothing happens if it counts already, or is gone. */
void hfi_family_add(hfi_family *family, pid_t pid);
/* The process and its descendants no longer count; their use so far still does. */
void hfi_family_remove(hfi_family *family, pid_t pid);
/* The process has ended, and a process that doesn't count has waited for it.
 * `cpu_seconds`: its final use, with its children; `io` is the text of its file in
 * /proc, or NULL. */
void hfi_family_note_end(hfi_family *family, pid_t pid, double cpu_seconds,
                         const char *io);
/* The same of a process that a member has left to the process that waited for it: it
 * counts although it may never have been found. */
void hfi_family_note_orphan(hfi_family *family, pid_t pid, double cpu_seconds,
                            const char *io);
/* A member reports the use of the children that it has waited for, in ns: others get
 * that from the system in hundredths of a second only. */
void hfi_family_set_children(hfi_family *family, pid_t pid, double children_ns);

/* Look for descendants that are new; unless `force` only where processes were started
 * since the last look, which is 20 ms ago or more. */
void hfi_family_search(hfi_family *family, int force);
/* Read the use of all. */
void hfi_family_read(hfi_family *family, hf_monitor_reading *ret_reading);
/* The proportional and unique set sizes of all, in bytes; NaN if none is known. */
void hfi_family_weigh(const hfi_family *family, double *ret_pss, double *ret_uss);
/* 0 for NULL. */
int hfi_family_has(const hfi_family *family, pid_t pid);
/* The same, if this process is all there is and has no child, from what it says of
 * itself: nothing is read. 0 if there are others. */
int hfi_family_read_said(hfi_family *family, pid_t pid, const hfi_usage *said,
                         hf_monitor_reading *ret_reading);
/* The use of one member by the last reading; all 0 if it is no member. */
hfi_usage hfi_family_usage_of(const hfi_family *family, pid_t pid);
/* The first of them; how many were given. */
size_t hfi_family_pids(const hfi_family *family, int32_t *ret_pids, size_t size);

#endif
