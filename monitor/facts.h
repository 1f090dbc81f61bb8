/* facts.h - what the machine, the container and the Slurm job have. */
#ifndef HFI_FACTS_H
#define HFI_FACTS_H

#include "holdfast/monitor.h"
#include "monitor/machine.h"
#include "monitor/slurm.h"

/* Cores, memory and limits, as they hold for this process; the job, where there is one,
 * and its control group (of version 0: none). GPUs come later, by their driver. */
void hfi_facts_find(const hfi_machine *machine, hfi_slurm *ret_slurm,
                    hfi_cgroup *ret_job, hf_monitor_facts *ret_facts);

#endif
