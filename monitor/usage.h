/* usage.h - what one process has used: the system's side of family.c. */
#ifndef HFI_USAGE_H
#define HFI_USAGE_H

#include <sys/types.h>
#include <time.h>

#include "monitor/procfile.h"

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
typedef struct hfi_process {
    pid_t pid;
    hfi_procfile stat, statm, io; /* closed: they are opened for each reading */
    uint64_t start; /* when it started: the next of its number did later */
    clockid_t clock;
    int has_clock;
} hfi_process;

/* 0 where there is no such process. With `keep` its files stay open, which makes
 * reading cheaper and takes three descriptors. */
int hfi_process_open(hfi_process *process, pid_t pid, int keep);
void hfi_process_close(hfi_process *process);
/* 0 where it is gone. What may not be read is 0. */
int hfi_process_read(hfi_process *process, hfi_usage *ret_usage);
/* All processes of this user; how many were given. */
size_t hfi_process_list(uid_t uid, pid_t *ret_pids, size_t size);
/* Whether its environment, as it began, has this "NAME=VALUE". */
int hfi_process_has_variable(pid_t pid, const char *variable);
/* Its children now; how many were given. */
size_t hfi_process_children(pid_t pid, pid_t *ret_pids, size_t size);
/* A number that changes when processes are started; 0 where the system has none. `file`
 * is kept open for it from the first call on. */
uint64_t hfi_process_births(hfi_procfile *file);
/* Its proportional and its unique set size, in bytes: its part of each page by how many
 * have that, and its own pages alone. It takes a millisecond a gigabyte and more. 0
 * where that isn't known. */
int hfi_process_weigh(pid_t pid, double *ret_pss, double *ret_uss);
/* Most resident memory that it has had, in bytes; 0 where that isn't known. */
double hfi_process_peak(pid_t pid);
/* The counters in a text of /proc/PID/io. */
void hfi_usage_parse_io(const char *text, hfi_usage *usage);

#endif
