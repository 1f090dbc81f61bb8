/* machine.h - the machine and the Slurm job: their resources, and the use of them.
 *
 * Threads: any; an hfi_machine belongs to one at a time.
 */
#ifndef HFI_MACHINE_H
#define HFI_MACHINE_H

#include "holdfast/monitor.h"
#include "monitor/cgroup.h"

/* ---- machine.c: the use and the resources of the whole machine ---- */

/* One thread at a time. */
typedef struct hfi_machine hfi_machine;

/* HF_E_NOMEM. */
HF_CHECK hf_status hfi_machine_create(hfi_machine **ret_machine, hf_error *reterr);
void hfi_machine_close(hfi_machine *machine);

/* Cores of which the kernel reports each. */
uint32_t hfi_machine_cores(const hfi_machine *machine);
/* Bytes of memory. */
double hfi_machine_memory(const hfi_machine *machine);
/* The use since the machine started, and its processors' times: `ret_busy` has a number
 * of seconds for each core. 0 if the system doesn't report it. */
int hfi_machine_read(hfi_machine *machine, hf_monitor_reading *ret_reading,
                     double *ret_busy);

/* ---- slurm.c: the Slurm job that this process is in ---- */

typedef struct hfi_slurm {
    char job[32];      /* its number; "": there is none */
    char unique[32];   /* its other name, since Slurm 26.05; may be "" */
    char variable[64]; /* in the environment of its processes */
} hfi_slurm;

/* By the environment; 0 if there is no job. */
int hfi_slurm_find(hfi_slurm *ret_slurm);
/* Its control group, at one of the places that sites use; 0 if it isn't found. `root`
 * goes before every path: "" but in tests. */
int hfi_slurm_find_group(const char *root, const hfi_slurm *slurm, long uid,
                         hfi_cgroup *ret_group);
/* The memory on this machine that the job was given, in bytes, and the variables that
 * say so; 0 if none does. */
double hfi_slurm_memory(char *ret_source, size_t size);

/* ---- facts.c: resources of the machine, the container and the Slurm job ---- */

/* Cores, memory and limits, as they hold for this process; the job, if there is one,
 * and its control group (of version 0: none). GPUs come later, by their driver. */
void hfi_facts_find(const hfi_machine *machine, hfi_slurm *ret_slurm,
                    hfi_cgroup *ret_job, hf_monitor_facts *ret_facts);

#endif
