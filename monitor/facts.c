/* facts.c - what the machine, the container and the Slurm job have.
 *
 * They are read once, when the monitor is made. A process may use less than the machine
 * has. Cores are limited by the affinity and by the quota of the control group, memory
 * by the lowest limit on the way up to the mount (cgroup.c). A limit is shown with the
 * file that has it, since its user will ask. A Slurm job's memory is the limit of its
 * group. If the site has no groups, it is the value that Slurm put into the
 * environment. No state, any thread.
 */
#include "monitor/machine.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "monitor/cgroup.h"

static double
count_cores(void) {
#ifdef __linux__
    cpu_set_t *set = CPU_ALLOC(8192);
    size_t size = CPU_ALLOC_SIZE(8192);
    int count = 0;
    if (set != NULL && sched_getaffinity(0, size, set) == 0)
        count = CPU_COUNT_S(size, set);
    CPU_FREE(set);
    if (count > 0)
        return count;
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (double)online : 1;
}

static void
find_job(hfi_slurm *slurm, hfi_cgroup *ret_job, hf_monitor_facts *facts) {
    if (!hfi_slurm_find(slurm))
        return;
    snprintf(facts->slurm_job, sizeof facts->slurm_job, "%s", slurm->job);
    if (hfi_slurm_find_group("", slurm, (long)getuid(), ret_job))
        facts->slurm_limit_bytes = hfi_cgroup_limit(
            "", ret_job->memory, ret_job->version, facts->memory_bytes,
            facts->slurm_limit_source, sizeof facts->slurm_limit_source);
    if (facts->slurm_limit_bytes <= 0)
        facts->slurm_limit_bytes = hfi_slurm_memory(facts->slurm_limit_source,
                                                    sizeof facts->slurm_limit_source);
}

void
hfi_facts_find(const hfi_machine *machine, hfi_slurm *ret_slurm, hfi_cgroup *ret_job,
               hf_monitor_facts *ret_facts) {
    hf_monitor_facts *facts = ret_facts;
    facts->cores = hfi_cgroup_own_cores("", count_cores());
    facts->machine_cores = hfi_machine_cores(machine);
    facts->memory_bytes = hfi_machine_memory(machine);
    facts->memory_limit_bytes = facts->memory_bytes;
    snprintf(facts->memory_limit_source, sizeof facts->memory_limit_source,
             "the machine's memory");
    double limit =
        hfi_cgroup_own_limit("", facts->memory_bytes, facts->memory_limit_source,
                             sizeof facts->memory_limit_source);
    if (limit > 0)
        facts->memory_limit_bytes = limit;
    find_job(ret_slurm, ret_job, facts);
}
