/* slurm.c - the Slurm job that this process is in.
 *
 * Slurm describes a job in the environment of its processes. The job's use is that of
 * its control group, which is named after it: job_J, or, since 26.05 by default, by the
 * job's unique name. Usually this process is in that group or below it, whatever names
 * the site gives to the groups above. If it isn't, these places are searched:
 *
 *   version 2   SLICE/[NODE_]slurmstepd.scope/JOB       the slice is the site's choice
 *   version 1   CONTROLLER/slurm[_NODE]/uid_U/job_J
 *
 * If a site has no such groups (it tracks processes by their parents), the job's
 * processes are those of the user that have its number in their environment (family.c).
 * No state, any thread. Sources: cgroup.conf(5), sbatch(1).
 */
#include "monitor/machine.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/cgroup.h"

#define SCOPE "slurmstepd.scope"

static const char *
read_variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' && strchr(value, '/') == NULL ? value : NULL;
}

int
hfi_slurm_find(hfi_slurm *ret_slurm) {
    static const char *const names[] = {"SLURM_JOB_ID", "SLURM_JOBID"};
    const char *unique = read_variable("SLURM_JOB_SLUID");
    memset(ret_slurm, 0, sizeof *ret_slurm);
    for (size_t i = 0; i < 2 && *ret_slurm->job == '\0'; i++) {
        const char *job = read_variable(names[i]);
        if (job == NULL)
            continue;
        snprintf(ret_slurm->job, sizeof ret_slurm->job, "%s", job);
        snprintf(ret_slurm->variable, sizeof ret_slurm->variable, "%s=%s", names[i],
                 ret_slurm->job);
    }
    if (unique != NULL)
        snprintf(ret_slurm->unique, sizeof ret_slurm->unique, "%s", unique);
    return *ret_slurm->job != '\0';
}

/* ---- its group ------------------------------------------------------------------ */

/* Cut a path behind its part `name`; 0 if it has none. */
static int
cut_behind(char *path, const char *name) {
    char part[64];
    int length = snprintf(part, sizeof part, "/%s", name);
    char *found = *name != '\0' ? strstr(path, part) : NULL;
    if (found == NULL || (found[length] != '/' && found[length] != '\0'))
        return 0;
    found[length] = '\0';
    return 1;
}

static int
text_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static int
text_ends(const char *text, const char *with) {
    size_t length = strlen(text), wanted = strlen(with);
    return length >= wanted && strcmp(text + length - wanted, with) == 0;
}

typedef int fits(const char *entry, const char *part);

/* The group `rest` below a directory, and below entries of it that fit the parts. */
static int
find_below(const char *directory, fits *fit, const char *const *parts, const char *rest,
           char *ret_path, size_t size) {
    const struct dirent *entry;
    char below[HFI_CGROUP_PATH];
    int found = 0;
    if (*parts == NULL) {
        int whole = snprintf(ret_path, size, "%s/%s", directory, rest);
        return whole < (int)size && hfi_place_has(ret_path, "cgroup.procs");
    }
    DIR *entries = opendir(directory);
    while (entries != NULL && !found && (entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] == '.' || !fit(entry->d_name, *parts))
            continue;
        int length = snprintf(below, sizeof below, "%s/%s", directory, entry->d_name);
        found = length < (int)sizeof below &&
                find_below(below, fit, parts + 1, rest, ret_path, size);
    }
    if (entries != NULL)
        closedir(entries);
    return found;
}

static int
find_2(const char *root, const char *text, const char *const names[2], char *ret_path,
       size_t size) {
    static const char *const parts[] = {".slice", SCOPE, NULL};
    char mount[HFI_CGROUP_PATH / 2];
    for (int i = 0; i < 2; i++) {
        if (*names[i] == '\0')
            continue;
        if (hfi_place_own_2(root, text, ret_path, size) &&
            cut_behind(ret_path, names[i]))
            return 1;
        if (hfi_place_unified(root, mount, sizeof mount) &&
            find_below(mount, text_ends, parts, names[i], ret_path, size))
            return 1;
    }
    return 0;
}

static int
find_1(const char *root, const char *text, const char *controller, const char *name,
       long uid, char *ret_path, size_t size) {
    static const char *const parts[] = {"slurm", NULL};
    char mount[HFI_CGROUP_PATH / 2], rest[96];
    if (hfi_place_own_1(root, text, controller, ret_path, size) &&
        cut_behind(ret_path, name))
        return 1;
    snprintf(mount, sizeof mount, "%s" HFI_PLACE_MOUNT "/%s", root, controller);
    snprintf(rest, sizeof rest, "uid_%ld/%s", uid, name);
    if (find_below(mount, text_begins, parts, rest, ret_path, size))
        return 1;
    *ret_path = '\0';
    return 0;
}

int
hfi_slurm_find_group(const char *root, const hfi_slurm *slurm, long uid,
                     hfi_cgroup *ret_group) {
    char text[HFI_PLACE_TEXT_SIZE] = "", name[40];
    char memory[HFI_CGROUP_PATH], cpu[HFI_CGROUP_PATH], io[HFI_CGROUP_PATH];
    const char *const names[2] = {name, slurm->unique};
    memset(ret_group, 0, sizeof *ret_group);
    snprintf(name, sizeof name, "job_%s", slurm->job);
    hfi_place_read_own(root, text, sizeof text);
    if (find_2(root, text, names, memory, sizeof memory) &&
        hfi_place_has(memory, "memory.current")) {
        hfi_cgroup_open(ret_group, 2, memory, memory, memory);
        return 1;
    }
    if (!find_1(root, text, "memory", name, uid, memory, sizeof memory))
        return 0;
    (void)find_1(root, text, "cpuacct", name, uid, cpu, sizeof cpu);
    (void)find_1(root, text, "blkio", name, uid, io, sizeof io);
    hfi_cgroup_open(ret_group, 1, memory, cpu, io);
    return 1;
}

/* ---- its memory ----------------------------------------------------------------- */

double
hfi_slurm_memory(char *ret_source, size_t size) {
    static const struct {
        const char *memory,
            *times; /* the variable with MiB; the one with the count, or NULL */
    } given[] = {{"SLURM_MEM_PER_NODE", NULL},
                 {"SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE"},
                 {"SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE"}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const char *memory = read_variable(given[i].memory);
        const char *times =
            given[i].times != NULL ? read_variable(given[i].times) : "1";
        double bytes = memory != NULL && times != NULL
                           ? strtod(memory, NULL) * strtod(times, NULL) * 1048576
                           : 0;
        if (bytes <= 0) /* 0 stands for all memory of the machine */
            continue;
        snprintf(ret_source, size, "%s%s%s", given[i].memory,
                 given[i].times != NULL ? " for each of " : "",
                 given[i].times != NULL ? given[i].times : "");
        return bytes;
    }
    return 0;
}
