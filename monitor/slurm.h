/* slurm.h - the Slurm job that this process is in. */
#ifndef HFI_SLURM_H
#define HFI_SLURM_H

#include "monitor/cgroup.h"

typedef struct hfi_slurm {
    char job[32];      /* its number; "": there is none */
    char unique[32];   /* its other name, since Slurm 26.05; may be "" */
    char variable[64]; /* what the environment of its processes has */
} hfi_slurm;

/* By the environment; 0 where there is no job. */
int hfi_slurm_find(hfi_slurm *ret_slurm);
/* Its control group, wherever the site has it; 0 where it isn't found. `root` goes
 * before every path: "" but in tests. */
int hfi_slurm_find_group(const char *root, const hfi_slurm *slurm, long uid,
                         hfi_cgroup *ret_group);
/* The memory on this machine that it was given, in bytes, and the variables that say
 * so; 0 where none does. */
double hfi_slurm_memory(char *ret_source, size_t size);

#endif
