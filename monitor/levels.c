/* levels.c - the use of each level, written as rows.
 *
 * Use is measured relative to what the processes may use. For the notebook's and the
 * job's these are the limits that hold here. The user's and the system's processes may
 * be in other control groups, so for them it is the machine, or the container.
 *
 * A reading of a level becomes a row of the series: the use since the reading before.
 * The process level reads the notebook's workers, the user level all processes of the
 * user (family.c). The system level reads the machine (machine.c), or this container
 * (cgroup.c). The Slurm level reads the job's control group, or its processes
 * (slurm.c).
 *
 * Levels differ in cost: a notebook's few processes take microseconds, all processes of
 * a user up to milliseconds. Each level's last cost is measured, and the level is left
 * out of samples until 199 times that has passed. So no level takes more than a
 * two-hundredth of a core, whatever the interval. At cells' begins and ends it may be a
 * twentieth, and a quarter for the notebook's own level, which the user asked for. That
 * level's readings at a cell's begin and end are never left out.
 *
 * GPUs are read for all levels at once, in a thread (gpus.c). Rows have the last
 * reading, and no values before the driver's first answer. A process's part of a GPU is
 * its memory. The time of a GPU isn't known by process. So a level with a process on a
 * GPU shows all of the GPU's use. One thread at a time.
 */
#include "monitor/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/cgroup.h"
#include "monitor/machine.h"
#include "monitor/gpus.h"
#include "monitor/thread.h"

/* So many times its cost must pass before a level is read again. */
#define SHARE      199 /* by samples */
#define SHARE_CELL 19  /* at a cell's begin and end */
#define SHARE_OWN  3
#define GIGABYTE   1073741824.0
#define MEGABYTE   1048576.0
#define COLUMNS    (HFI_COLUMN_CORE + 1024 + 3 * (1 + HF_MONITOR_GPUS_MAX))
#define NARROW     10 /* rows narrower than interval / this have no rates */
#define NARROW_NS  1000000LL
#define WEIGH_NS   1000000000LL /* between two weighings, if nothing has changed */
#define WEIGH_PART 100          /* a change of memory by this part counts as one */
/* Between two rows of the machine, whose processor time is counted in ticks of 10
 * ms. */
#define TICKS_NS 40000000LL

typedef struct level {
    hf_monitor_reading last; /* not valid: there was none since the start */
    int64_t cost_ns;
    int64_t ended_ns;
} level;

struct hfi_levels {
    hfi_series *series;
    hfi_family *family;
    hfi_family *users; /* NULL before the first start; likewise the next */
    hfi_family *mates; /* the Slurm job's, where that has no group */
    hfi_machine *machine;
    hfi_slurm slurm;
    hfi_cgroup container, job; /* of version 0: there is none */
    int weighs;
    int64_t weighed_ns, weigh_cost_ns;
    double weighed_memory; /* resident bytes at that time */
    double pss, uss;       /* of the process level, bytes; NaN: not weighed */
    hfi_gpus *gpus;        /* NULL before the first start */
    hfi_gpus_reading gpus_read;
    double gpu[HF_MONITOR_LEVELS][3 * HF_MONITOR_GPUS_MAX];
    level levels[HF_MONITOR_LEVELS];
    double *busy, *busy_last; /* seconds of each core */
    double cores;
    int64_t interval_ns; /* 0: no rows are written */
    double row[COLUMNS];
};

/* ---- a level -------------------------------------------------------------------- */

static int
read_level(hfi_levels *levels, int which, int force, hf_monitor_reading *reading) {
    int is_read = 1;
    hfi_family *others = which == HF_MONITOR_USER    ? levels->users
                         : which == HF_MONITOR_SLURM ? levels->mates
                                                     : NULL;
    reading->time_ns = hfi_thread_now();
    int64_t time_ns = reading->time_ns;
    if (which == HF_MONITOR_PROCESS) {
        hfi_family_search(levels->family, force);
        time_ns = hfi_thread_now();
        hfi_family_read(levels->family, reading);
    } else if (others != NULL) {
        is_read = levels->interval_ns > 0;
        if (is_read) {
            hfi_family_search(others, 0);
            time_ns = hfi_thread_now();
            hfi_family_read(others, reading);
        }
    } else if (which == HF_MONITOR_USER) {
        is_read = 0;
    } else if (which == HF_MONITOR_SYSTEM && levels->container.version == 0) {
        is_read = hfi_machine_read(levels->machine, reading, levels->busy);
    } else {
        is_read = hfi_cgroup_read(
            which == HF_MONITOR_SYSTEM ? &levels->container : &levels->job, reading);
    }
    reading->time_ns = time_ns;
    return is_read;
}

/* Counters are read one after the other, so the result may be a little too high. */
static double
percent_of(double seconds, double of_seconds) {
    double use = of_seconds > 0 ? 100 * seconds / of_seconds : 0;
    return use < 0 ? 0 : use > 100 ? 100 : use;
}

static void
fill_common(hfi_levels *levels, int which, const hf_monitor_reading *now, double *row) {
    const hf_monitor_reading *last = &levels->levels[which].last;
    double seconds = (double)(now->time_ns - last->time_ns) / 1e9;
    int is_machine = levels->container.version == 0 &&
                     (which == HF_MONITOR_SYSTEM || which == HF_MONITOR_USER);
    double cores =
        is_machine ? (double)hfi_machine_cores(levels->machine) : levels->cores;
    row[HFI_COLUMN_CPU] =
        percent_of(now->cpu_seconds - last->cpu_seconds, seconds * cores);
    row[HFI_COLUMN_READ_COUNT] = now->io_read_count - last->io_read_count;
    row[HFI_COLUMN_WRITE_COUNT] = now->io_write_count - last->io_write_count;
    row[HFI_COLUMN_READ] = (now->io_read_bytes - last->io_read_bytes) / MEGABYTE;
    row[HFI_COLUMN_WRITE] = (now->io_write_bytes - last->io_write_bytes) / MEGABYTE;
    row[HFI_COLUMN_DISK_READ] =
        (now->disk_read_bytes - last->disk_read_bytes) / MEGABYTE;
    row[HFI_COLUMN_DISK_WRITE] =
        (now->disk_write_bytes - last->disk_write_bytes) / MEGABYTE;
}

/* A level's part of a GPU. */
static void
share_gpu(const hfi_levels *levels, int which, const hfi_gpu_use *use, double *ret) {
    const hfi_family *family = which == HF_MONITOR_PROCESS ? levels->family
                               : levels->mates != NULL && which == HF_MONITOR_SLURM
                                   ? levels->mates
                                   : levels->users;
    int shares = which == HF_MONITOR_SYSTEM;
    double memory = shares ? use->memory_bytes : 0;
    for (size_t p = 0; p < use->process_count && which != HF_MONITOR_SYSTEM; p++) {
        if (!hfi_family_has(family, use->process[p].pid))
            continue;
        shares = 1;
        memory += use->process[p].memory_bytes;
    }
    ret[0] = shares ? use->util : 0;
    ret[1] = shares ? use->band : 0;
    ret[2] = memory / GIGABYTE;
}

static void
note_gpus(hfi_levels *levels) {
    hf_monitor_facts *facts = &levels->series->base->facts;
    const hfi_gpus_reading *gpus_read = &levels->gpus_read;
    hfi_series_begin(levels->series);
    memcpy(facts->gpu_trouble, gpus_read->trouble, sizeof facts->gpu_trouble);
    memcpy(facts->gpu, gpus_read->gpu, gpus_read->count * sizeof *gpus_read->gpu);
    facts->gpu_count = (int64_t)gpus_read->count;
    hfi_series_end(levels->series);
    hfi_series_show_gpus(levels->series, (uint32_t)gpus_read->count);
}

/* Take the driver's reading, if it is new. */
static void
take_gpus(hfi_levels *levels) {
    int first = levels->gpus_read.turn == 0;
    if (levels->interval_ns == 0 || !hfi_gpus_read(levels->gpus, &levels->gpus_read))
        return;
    if (first)
        note_gpus(levels);
    for (int i = 0; i < HF_MONITOR_LEVELS; i++)
        for (size_t g = 0; g < levels->gpus_read.count; g++)
            share_gpu(levels, i, &levels->gpus_read.use[g], &levels->gpu[i][3 * g]);
}

/* The values of all GPUs together, and then of each: the mean use and bandwidth, and the
 * sum of memory. */
static void
fill_gpus(const hfi_levels *levels, int which, double *row) {
    size_t count = levels->gpus_read.count;
    double *all = row + HFI_COLUMN_CORE + levels->series->base->level[which].cores;
    for (size_t i = 0; i < 3 * count; i++) {
        double value = levels->gpus_read.used ? levels->gpu[which][i] : NAN;
        all[3 + i] = value;
        all[i % 3] += i % 3 == 2 ? value : value / (double)count;
    }
}

static void
fill_cores(hfi_levels *levels, const hf_monitor_reading *now, double *row) {
    uint32_t count = hfi_machine_cores(levels->machine);
    double seconds =
        (double)(now->time_ns - levels->levels[HF_MONITOR_SYSTEM].last.time_ns) / 1e9;
    for (uint32_t i = 0; i < count; i++)
        row[HFI_COLUMN_CORE + i] =
            percent_of(levels->busy[i] - levels->busy_last[i], seconds);
}

/* A weight holds as long as the resident memory stays the same. Then it is unknown
 * until the processes are weighed again. At a cell's begin and end that is done at
 * once. */
static void
weigh_processes(hfi_levels *levels, hf_monitor_reading *reading, int at_cell) {
    double memory = reading->memory_bytes;
    double change = fabs(memory - levels->weighed_memory);
    int is_new = !(change * WEIGH_PART <= memory);
    int64_t began = hfi_thread_now();
    int64_t wait = levels->weigh_cost_ns * (is_new ? SHARE_CELL : SHARE);
    if (!is_new && wait < WEIGH_NS)
        wait = WEIGH_NS;
    if (is_new && at_cell)
        wait = 0;
    if (!levels->weighs)
        return;
    if (began - levels->weighed_ns >= wait) {
        hfi_family_weigh(levels->family, &levels->pss, &levels->uss);
        levels->weighed_memory = memory;
        levels->weighed_ns = hfi_thread_now();
        levels->weigh_cost_ns = levels->weighed_ns - began;
    } else if (is_new) {
        levels->pss = levels->uss = NAN;
        levels->weighed_memory = NAN; /* even if it is the same again */
    }
    reading->pss_bytes = levels->pss;
    reading->uss_bytes = levels->uss;
}

/* Add the row with the use since the last reading. The first row has no width. */
static void
add_row(hfi_levels *levels, int which, const hf_monitor_reading *now) {
    const hf_monitor_reading *last = &levels->levels[which].last;
    int64_t width = last->valid ? now->time_ns - last->time_ns : 0;
    int64_t narrow = levels->interval_ns / NARROW;
    memset(levels->row, 0, sizeof levels->row);
    if (last->valid) {
        fill_common(levels, which, now, levels->row);
        if (which == HF_MONITOR_SYSTEM && levels->container.version == 0)
            fill_cores(levels, now, levels->row);
    }
    fill_gpus(levels, which, levels->row);
    levels->row[HFI_COLUMN_PSS] = now->pss_bytes / GIGABYTE;
    levels->row[HFI_COLUMN_USS] = now->uss_bytes / GIGABYTE;
    levels->row[HFI_COLUMN_MEMORY] = now->memory_bytes / GIGABYTE;
    hfi_series_add(levels->series, which, now->time_ns, width, levels->row,
                   narrow < NARROW_NS ? narrow : NARROW_NS);
}

static void
keep_reading(hfi_levels *levels, int which, const hf_monitor_reading *now) {
    levels->levels[which].last = *now;
    if (which == HF_MONITOR_SYSTEM)
        memcpy(levels->busy_last, levels->busy,
               hfi_machine_cores(levels->machine) * sizeof *levels->busy);
}

/* Whether a row that ends now would be empty. */
static int
is_narrow(const hfi_levels *levels, int which, int64_t now_ns) {
    const hf_monitor_reading *last = &levels->levels[which].last;
    return which == HF_MONITOR_SYSTEM && levels->container.version == 0 &&
           last->valid && now_ns - last->time_ns < TICKS_NS;
}

/* Whether a level is read in this sample. */
static int
level_is_due(const hfi_levels *levels, int which, int at_cell) {
    const level *one = &levels->levels[which];
    int64_t now = hfi_thread_now();
    int share = which == HF_MONITOR_PROCESS ? SHARE_OWN : at_cell ? SHARE_CELL : SHARE;
    if (at_cell && which == HF_MONITOR_PROCESS)
        return 1;
    return now - one->ended_ns >= share * one->cost_ns &&
           (at_cell || !is_narrow(levels, which, now));
}

/* ---- a sample ------------------------------------------------------------------- */

void
hfi_levels_sample(hfi_levels *levels, int at_cell,
                  hf_monitor_reading ret_readings[HF_MONITOR_LEVELS]) {
    int64_t began = hfi_thread_clock(CLOCK_THREAD_CPUTIME_ID), before = began;
    uint32_t available = 0;
    uint64_t costs[HF_MONITOR_LEVELS] = {0};
    take_gpus(levels);
    for (int i = 0; i < HF_MONITOR_LEVELS; i++) {
        level *one = &levels->levels[i];
        hf_monitor_reading reading = {0};
        if (!level_is_due(levels, i, at_cell) ||
            !read_level(levels, i, at_cell, &reading))
            continue;
        available |= 1u << i;
        reading.pss_bytes = reading.uss_bytes = NAN;
        if (i == HF_MONITOR_PROCESS && levels->interval_ns > 0) {
            int64_t weighing = hfi_thread_clock(CLOCK_THREAD_CPUTIME_ID);
            weigh_processes(levels, &reading, at_cell);
            before += hfi_thread_clock(CLOCK_THREAD_CPUTIME_ID) - weighing;
        }
        if (levels->interval_ns > 0 && !is_narrow(levels, i, reading.time_ns)) {
            add_row(levels, i, &reading);
            keep_reading(levels, i, &reading);
        }
        if (ret_readings != NULL)
            ret_readings[i] = reading;
        int64_t after = hfi_thread_clock(CLOCK_THREAD_CPUTIME_ID);
        one->cost_ns = after - before;
        costs[i] = (uint64_t)one->cost_ns;
        one->ended_ns = hfi_thread_now();
        before = after;
    }
    hf_monitor_state *state = &levels->series->base->state;
    hfi_series_begin(levels->series);
    state->available |= available;
    if (levels->interval_ns > 0) { /* readings for cells alone aren't sampling */
        state->cost_ns += (uint64_t)(before - began);
        state->costed++;
    }
    for (int i = 0; i < HF_MONITOR_LEVELS; i++) {
        state->level_cost_ns[i] += costs[i];
        state->level_costed[i] += available >> i & 1;
    }
    state->samples += levels->interval_ns > 0 && !at_cell;
    state->pid_count =
        (int64_t)hfi_family_pids(levels->family, state->pids, HF_MONITOR_PIDS_MAX);
    hfi_series_end(levels->series);
}

/* ---- creation ------------------------------------------------------------------- */

hf_status
hfi_levels_create(hfi_series *ret_series, hfi_levels **ret_levels, hf_error *reterr) {
    hfi_series_shape shapes[HF_MONITOR_LEVELS] = {{0}};
    hfi_levels *levels = calloc(1, sizeof *levels);
    if (levels == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the monitor");
    levels->series = ret_series;
    hf_status status = hfi_machine_create(&levels->machine, reterr);
    if (status == HF_OK) {
        uint32_t cores = hfi_machine_cores(levels->machine);
        levels->family = hfi_family_create();
        levels->busy = calloc(cores, sizeof *levels->busy);
        levels->busy_last = calloc(cores, sizeof *levels->busy_last);
        if (!hfi_cgroup_find_container("", hfi_machine_memory(levels->machine),
                                       &levels->container))
            shapes[HF_MONITOR_SYSTEM].cores = cores;
        if (levels->family == NULL || levels->busy == NULL || levels->busy_last == NULL)
            status = hf_error_set(reterr, HF_E_NOMEM, "no memory for the monitor");
    }
    if (status == HF_OK)
        status = hfi_series_create(shapes, ret_series, reterr);
    if (status != HF_OK) {
        hfi_levels_close(levels);
        return status;
    }
    hf_monitor_facts *facts = &ret_series->base->facts;
    hfi_facts_find(levels->machine, &levels->slurm, &levels->job, facts);
    levels->cores = facts->cores;
    *ret_levels = levels;
    return HF_OK;
}

void
hfi_levels_close(hfi_levels *levels) {
    if (levels == NULL)
        return;
    hfi_family_close(levels->family);
    hfi_family_close(levels->users);
    hfi_family_close(levels->mates);
    hfi_cgroup_close(&levels->container);
    hfi_cgroup_close(&levels->job);
    hfi_gpus_close(levels->gpus);
    hfi_machine_close(levels->machine);
    free(levels->busy);
    free(levels->busy_last);
    free(levels);
}

hfi_family *
hfi_levels_family(hfi_levels *levels) {
    return levels->family;
}

void
hfi_levels_start(hfi_levels *levels, int64_t interval_ns, int weigh) {
    levels->weighs = weigh;
    levels->pss = levels->uss = NAN;
    levels->weighed_ns = levels->weigh_cost_ns = 0;
    levels->weighed_memory = NAN;
    if (interval_ns > 0 && levels->users == NULL) {
        levels->users = hfi_family_create_of_user(getuid(), NULL);
        if (*levels->slurm.job != '\0' && levels->job.version == 0)
            levels->mates = hfi_family_create_of_user(getuid(), levels->slurm.variable);
        levels->gpus = hfi_gpus_create();
    }
    hfi_gpus_want(levels->gpus, interval_ns > 0);
    if (levels->interval_ns == 0) /* no row covers the time between */
        for (int i = 0; i < HF_MONITOR_LEVELS; i++)
            levels->levels[i].last.valid = 0;
    levels->interval_ns = interval_ns;
}
