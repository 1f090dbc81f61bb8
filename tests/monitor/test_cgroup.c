/* test_cgroup.c - control groups of both versions, and Slurm jobs as sites have them,
 * in a directory that looks like the system's.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/check.h"
#include "monitor/cgroup.h"
#include "monitor/machine.h"

static char root[256];

static void
write_file(const char *path, const char *text) {
    char full[1024];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void
new_root(void) {
    snprintf(root, sizeof root, "/tmp/holdfast-monitor-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
}

static void
remove_root(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

static int
find_job(const char *job, const char *unique, long uid, hfi_cgroup *ret_group) {
    hfi_slurm slurm = {{0}, {0}, {0}};
    snprintf(slurm.job, sizeof slurm.job, "%s", job);
    snprintf(slurm.unique, sizeof slurm.unique, "%s", unique);
    return hfi_slurm_find_group(root, &slurm, uid, ret_group);
}

#define V2 "/sys/fs/cgroup"

static void
write_job(const char *scope) {
    static const char *const files[][2] = {
        {"job_42/cgroup.procs", ""},
        {"job_42/memory.current", "3000\n"},
        {"job_42/memory.stat", "anon 1\ninactive_file 1000\n"},
        {"job_42/memory.max", "8000\n"},
        {"job_42/cpu.stat", "usage_usec 2500000\n"},
        {"job_42/io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0\n"
                           "8:16 rbytes=10 wbytes=20 rios=30 wios=40\n"},
        {"job_42/step_0/user/cgroup.procs", ""},
        {"job_42/step_0/user/memory.max", "max\n"},
        {"cpu.max", "250000 100000\n"}};
    char path[256];
    write_file(V2 "/cgroup.procs", "");
    write_file(V2 "/cgroup.controllers", "cpu io memory");
    snprintf(path, sizeof path, "0::/%s/job_42/step_0/user\n", scope);
    write_file("/proc/self/cgroup", path);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, V2 "/%s/%s", scope, files[i][0]);
        write_file(path, files[i][1]);
    }
}

/* A job under version 2, with a limit on the job and a quota above it. */
static void
test_cgroup_2(const char *scope) {
    char source[160] = "";
    hf_monitor_reading reading;
    hfi_cgroup group, other;
    new_root();
    write_job(scope);
    CHECK(!hfi_cgroup_find_container(root, 1e12, &group)); /* the machine's top */
    CHECK(!find_job("4", "", 1000, &group));
    CHECK(find_job("42", "", 1000, &group));
    CHECK(hfi_cgroup_read(&group, &reading));
    CHECK(reading.memory_bytes == 2000 && reading.cpu_seconds == 2.5);
    CHECK(reading.disk_read_bytes == 11 && reading.disk_write_bytes == 22);
    CHECK(reading.io_read_count == 33 && reading.io_write_count == 44);
    CHECK(hfi_cgroup_own_limit(root, 1e9, source, sizeof source) == 8000);
    CHECK(strstr(source, "/job_42/memory.max") != NULL);
    CHECK(strncmp(source, V2, strlen(V2)) == 0);
    CHECK(hfi_cgroup_own_limit(root, 5000, source, sizeof source) == 0);
    CHECK(hfi_cgroup_own_cores(root, 64) == 2.5);
    CHECK(hfi_cgroup_own_cores(root, 2) == 2);
    hfi_cgroup_close(&group);
    write_file("/proc/self/cgroup", "0::/other\n"); /* from outside of the job */
    CHECK(find_job("42", "", 1000, &group) && !find_job("7", "", 1000, &other));
    hfi_cgroup_close(&group);
    remove_root();
}

/* Since Slurm 26.05 a job's group has another name. */
static void
test_a_unique_name(void) {
    static const char *const paths[] = {"/proc/self/cgroup", "/nowhere"};
    hf_monitor_reading reading;
    hfi_cgroup group;
    for (int outside = 0; outside < 2; outside++) {
        new_root();
        write_file(V2 "/cgroup.procs", "");
        write_file(V2 "/cgroup.controllers", "cpu io memory");
        write_file(V2 "/system.slice/slurmstepd.scope/sEKNK/cgroup.procs", "");
        write_file(V2 "/system.slice/slurmstepd.scope/sEKNK/memory.current", "70\n");
        write_file(V2 "/system.slice/slurmstepd.scope/sEKNK/step_0/cgroup.procs", "");
        write_file(paths[outside], "0::/system.slice/slurmstepd.scope/sEKNK/step_0\n");
        CHECK(!find_job("42", "", 1000, &group));
        CHECK(!find_job("42", "sEKN", 1000, &group));
        CHECK(find_job("42", "sEKNK", 1000, &group));
        CHECK(hfi_cgroup_read(&group, &reading) && reading.memory_bytes == 70);
        hfi_cgroup_close(&group);
        remove_root();
    }
}

/* A site that doesn't count memory has groups without it: they report too little. */
static void
test_a_job_without_memory(void) {
    hfi_cgroup group;
    new_root();
    write_file(V2 "/cgroup.procs", "");
    write_file(V2 "/cgroup.controllers", "cpu");
    write_file(V2 "/system.slice/slurmstepd.scope/job_42/cgroup.procs", "");
    write_file("/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_42\n");
    CHECK(!find_job("42", "", 1000, &group) && group.version == 0);
    remove_root();
}

static void
test_a_job_in_the_environment(void) {
    static const char *const names[] = {"SLURM_JOB_ID",      "SLURM_JOBID",
                                        "SLURM_JOB_SLUID",   "SLURM_MEM_PER_NODE",
                                        "SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE",
                                        "SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE"};
    char source[96] = "";
    hfi_slurm slurm;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    CHECK(!hfi_slurm_find(&slurm) && hfi_slurm_memory(source, sizeof source) == 0);
    setenv("SLURM_JOBID", "9", 1);
    CHECK(hfi_slurm_find(&slurm));
    CHECK_TEXT(slurm.variable, "SLURM_JOBID=9");
    setenv("SLURM_JOB_ID", "../9", 1); /* no number, and no way out of the tree */
    CHECK(hfi_slurm_find(&slurm));
    CHECK_TEXT(slurm.job, "9");
    setenv("SLURM_JOB_ID", "10", 1);
    setenv("SLURM_JOB_SLUID", "sE", 1);
    CHECK(hfi_slurm_find(&slurm));
    CHECK_TEXT(slurm.variable, "SLURM_JOB_ID=10");
    CHECK_TEXT(slurm.unique, "sE");
    setenv("SLURM_MEM_PER_CPU", "2", 1);
    CHECK(hfi_slurm_memory(source, sizeof source) == 0); /* of how many? */
    setenv("SLURM_CPUS_ON_NODE", "3", 1);
    CHECK(hfi_slurm_memory(source, sizeof source) == 6 * 1048576.0);
    CHECK_TEXT(source, "SLURM_MEM_PER_CPU for each of SLURM_CPUS_ON_NODE");
    setenv("SLURM_MEM_PER_NODE", "0", 1); /* all that there is */
    CHECK(hfi_slurm_memory(source, sizeof source) == 6 * 1048576.0);
    setenv("SLURM_MEM_PER_NODE", "100", 1);
    CHECK(hfi_slurm_memory(source, sizeof source) == 100 * 1048576.0);
    CHECK_TEXT(source, "SLURM_MEM_PER_NODE");
}

#define V1 "/sys/fs/cgroup/memory"

/* Version 1, where this process isn't in the job's group. */
static void
test_cgroup_1(void) {
    char source[160] = "";
    hf_monitor_reading reading;
    hfi_cgroup group;
    new_root();
    write_file("/proc/self/cgroup", "4:memory:/other\n2:cpu,cpuacct:/far/away\n0::/\n");
    write_file(V1 "/cgroup.procs", "");
    write_file(V1 "/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(!hfi_cgroup_find_container(root, 1e12, &group));
    CHECK(hfi_cgroup_own_limit(root, 1e12, source, sizeof source) == 0);
    write_file(V1 "/slurm/uid_7/job_5/cgroup.procs", "");
    write_file(V1 "/slurm/uid_7/job_5/memory.usage_in_bytes", "700\n");
    write_file(V1 "/slurm/uid_7/job_5/memory.limit_in_bytes", "900\n");
    CHECK(find_job("5", "", 7, &group) && group.version == 1);
    CHECK(hfi_cgroup_read(&group, &reading) && reading.memory_bytes == 700);
    CHECK(hfi_cgroup_limit(root, group.memory, 1, 1e12, source, sizeof source) == 900);
    CHECK_TEXT(source, V1 "/slurm/uid_7/job_5/memory.limit_in_bytes");
    hfi_cgroup_close(&group);
    CHECK(!find_job("5", "", 8, &group));
    remove_root();
}

/* Version 1 with the node's name, as where several daemons run on one machine. */
static void
test_a_node_with_a_name(void) {
    hfi_cgroup group;
    new_root();
    write_file("/proc/self/cgroup", "4:memory:/other\n");
    write_file(V1 "/cgroup.procs", "");
    write_file(V1 "/slurm/uid_7/job_6/cgroup.procs", "");
    write_file(V1 "/slurm_node9/uid_7/job_5/cgroup.procs", "");
    CHECK(find_job("5", "", 7, &group));
    CHECK(strstr(group.memory, "/slurm_node9/uid_7/job_5") != NULL);
    hfi_cgroup_close(&group);
    remove_root();
}

/* In a container the path is given as it is outside, and isn't there. */
static void
test_container(void) {
    char source[160] = "";
    hf_monitor_reading reading;
    hfi_cgroup group;
    new_root();
    write_file("/proc/self/cgroup", "4:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n");
    write_file(V1 "/cgroup.procs", "");
    write_file(V1 "/memory.limit_in_bytes", "5000\n");
    write_file(V1 "/memory.usage_in_bytes", "4000\n");
    write_file(V1 "/memory.stat", "cache 1\ntotal_inactive_file 500\n");
    write_file(V2 "/cpuacct/cpuacct.usage", "1500000000\n");
    write_file(V2 "/cpu/cgroup.procs", "");
    write_file(V2 "/cpu/cpu.cfs_quota_us", "150000\n");
    write_file(V2 "/cpu/cpu.cfs_period_us", "100000\n");
    write_file(V2 "/blkio/blkio.throttle.io_service_bytes",
               "8:0 Read 5\n8:0 Write 6\n8:0 Total 11\nTotal 11\n");
    CHECK(hfi_cgroup_find_container(root, 1e12, &group));
    CHECK(hfi_cgroup_read(&group, &reading));
    CHECK(reading.memory_bytes == 3500 && reading.cpu_seconds == 1.5);
    CHECK(reading.disk_read_bytes == 5 && reading.disk_write_bytes == 6);
    CHECK(hfi_cgroup_own_limit(root, 1e12, source, sizeof source) == 5000);
    CHECK(hfi_cgroup_own_cores(root, 64) == 1.5);
    hfi_cgroup_close(&group);
    remove_root();
}

int
main(void) {
    test_cgroup_2("system.slice/slurmstepd.scope");
    test_cgroup_2("system.slice/node7_slurmstepd.scope");
    test_cgroup_2("batch.slice/slurmstepd.scope");
    test_a_unique_name();
    test_a_job_without_memory();
    test_cgroup_1();
    test_a_node_with_a_name();
    test_container();
    test_a_job_in_the_environment();
    return 0;
}
