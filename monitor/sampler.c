/* sampler.c - the monitor: samples at an interval, and at begin and end of cells.
 *
 * A sample is a reading of each level, and a row of what was used since the reading
 * before. One thread takes them, at absolute times, so that a late one doesn't make the
 * next late; those whose time has passed are counted as missed. It begins with the
 * first start. A caller that begins or ends a cell takes a sample itself, in its own
 * thread: a cell of a few milliseconds has its exact use by the difference of two
 * readings, and those stand in the cell's record too, whether sampling runs or not.
 * Such a reading comes a little late, by as long as the word of the cell's process was
 * under way; what that process used meanwhile is taken out of it by what it says that
 * it had used.
 *
 * While nothing samples, nothing is read in a burst of short cells: a reading of 50 ms
 * ago or less stands, and what the cell's process says of itself is all that its cell
 * has used, as long as that process is alone and has no child that runs. Then the other
 * levels have no reading. A cell that lasts longer is read at its end.
 *
 * The lock covers everything but the readers' memory, which needs none; it is held for
 * a sample at most, and by the thread never while it sleeps.
 */
#include "monitor/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/series.h"
#include "monitor/thread.h"
#include "monitor/usage.h"

#define BURST_NS 50000000LL

struct hfi_sampler {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* running, interval or quit did */
    pthread_t thread;
    int threaded, running, quit;
    int64_t interval_ns, due_ns;
    hfi_series series;
    hfi_levels *levels;
    hf_monitor_cell cell; /* the one that runs */
    int cell_open, cell_settled;
    pid_t cell_pid;
    double cell_peak;    /* of that process, before the cell began */
    hfi_usage cell_used; /* by the reading at the begin, as corrected */
    int64_t read_ns;     /* when all levels were read for a cell */
    int cell_said;       /* the last reading of a cell is by its process's word alone */
};

/* ---- the thread ----------------------------------------------------------------- */

/* The next time; those that have passed are missed. */
static void
advance_due(hfi_sampler *sampler) {
    int64_t now = hfi_thread_now();
    sampler->due_ns += sampler->interval_ns;
    if (sampler->due_ns > now)
        return;
    int64_t missed = (now - sampler->due_ns) / sampler->interval_ns + 1;
    sampler->due_ns += missed * sampler->interval_ns;
    hfi_series_begin(&sampler->series);
    sampler->series.base->state.missed += (uint64_t)missed;
    hfi_series_end(&sampler->series);
}

static void *
run_sampler(void *context) {
    hfi_sampler *sampler = context;
    hfi_thread_name("monitor");
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->quit) {
        if (!sampler->running) {
            pthread_cond_wait(&sampler->changed, &sampler->lock);
        } else if (hfi_thread_now() < sampler->due_ns) {
            hfi_thread_wait_until(&sampler->changed, &sampler->lock, sampler->due_ns);
        } else {
            hfi_levels_sample(sampler->levels, 0, NULL);
            advance_due(sampler);
        }
    }
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

/* ---- creation ------------------------------------------------------------------- */

hf_status
hfi_sampler_create(hfi_sampler **ret_sampler, hf_error *reterr) {
    hfi_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for the monitor");
    pthread_mutex_init(&sampler->lock, NULL);
    hfi_thread_init_condition(&sampler->changed);
    sampler->series.fd = -1;
    hf_status status = hfi_levels_create(&sampler->series, &sampler->levels, reterr);
    if (status != HF_OK) {
        hfi_sampler_close(sampler);
        return status;
    }
    *ret_sampler = sampler;
    return HF_OK;
}

void
hfi_sampler_close(hfi_sampler *sampler) {
    if (sampler == NULL)
        return;
    if (sampler->threaded) {
        pthread_mutex_lock(&sampler->lock);
        sampler->quit = 1;
        pthread_cond_signal(&sampler->changed);
        pthread_mutex_unlock(&sampler->lock);
        pthread_join(sampler->thread, NULL);
    }
    hfi_levels_close(sampler->levels);
    hfi_series_close(&sampler->series);
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}

int
hfi_sampler_fd(const hfi_sampler *sampler) {
    return sampler->series.fd;
}

/* ---- start and stop ------------------------------------------------------------- */

static void
note_start(hfi_sampler *sampler, int64_t now) {
    hf_monitor_state *state = &sampler->series.base->state;
    hfi_series_begin(&sampler->series);
    if (!state->running) {
        state->samples = state->missed = state->cost_ns = state->costed = 0;
        memset(state->level_cost_ns, 0, sizeof state->level_cost_ns);
        memset(state->level_costed, 0, sizeof state->level_costed);
        state->begin_ns = now;
        state->unix_ns = hfi_thread_clock(CLOCK_REALTIME);
        state->end_ns = 0;
    }
    state->running = 1;
    state->interval_ns = sampler->interval_ns;
    hfi_series_end(&sampler->series);
}

hf_status
hfi_sampler_start(hfi_sampler *sampler, int64_t interval_ns, int weigh,
                  hf_error *reterr) {
    int err = 0;
    if (interval_ns < HFI_SAMPLER_INTERVAL_MIN_NS ||
        interval_ns > HFI_SAMPLER_INTERVAL_MAX_NS)
        return hf_error_set(reterr, HF_E_INVALID,
                            "an interval is 0.001 to 3600 seconds");
    pthread_mutex_lock(&sampler->lock);
    if (!sampler->threaded)
        err = hfi_thread_start(&sampler->thread, run_sampler, sampler);
    if (err == 0) {
        sampler->threaded = 1;
        hfi_levels_start(sampler->levels, interval_ns, weigh);
        int64_t now = hfi_thread_now();
        sampler->interval_ns = interval_ns;
        sampler->due_ns = now;
        note_start(sampler, now);
        sampler->running = 1;
        pthread_cond_signal(&sampler->changed);
    }
    pthread_mutex_unlock(&sampler->lock);
    return err == 0 ? HF_OK : hf_error_set_errno(reterr, err, "the monitor's thread");
}

void
hfi_sampler_stop(hfi_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    if (sampler->running) {
        hf_monitor_state *state = &sampler->series.base->state;
        hfi_levels_sample(sampler->levels, 1, NULL);
        hfi_levels_start(sampler->levels, 0, 0);
        sampler->running = 0;
        hfi_series_begin(&sampler->series);
        state->running = 0;
        state->end_ns = hfi_thread_now();
        hfi_series_end(&sampler->series);
        pthread_cond_signal(&sampler->changed);
    }
    pthread_mutex_unlock(&sampler->lock);
}

/* ---- processes ------------------------------------------------------------------ */

void
hfi_sampler_add(hfi_sampler *sampler, pid_t pid) {
    pthread_mutex_lock(&sampler->lock);
    hfi_family_add(hfi_levels_family(sampler->levels), pid);
    pthread_mutex_unlock(&sampler->lock);
}

void
hfi_sampler_remove(hfi_sampler *sampler, pid_t pid) {
    pthread_mutex_lock(&sampler->lock);
    hfi_family_remove(hfi_levels_family(sampler->levels), pid);
    pthread_mutex_unlock(&sampler->lock);
}

void
hfi_sampler_note_end(hfi_sampler *sampler, pid_t pid, double cpu_seconds,
                     const char *io) {
    pthread_mutex_lock(&sampler->lock);
    hfi_family_note_end(hfi_levels_family(sampler->levels), pid, cpu_seconds, io);
    pthread_mutex_unlock(&sampler->lock);
}

void
hfi_sampler_note_orphan(hfi_sampler *sampler, pid_t pid, double cpu_seconds,
                        const char *io) {
    pthread_mutex_lock(&sampler->lock);
    hfi_family_note_orphan(hfi_levels_family(sampler->levels), pid, cpu_seconds, io);
    pthread_mutex_unlock(&sampler->lock);
}

/* ---- cells ---------------------------------------------------------------------- */

static const hfi_word silence;

/* The worker's first, whatever else the notebook has. */
static void
note_pids(const hfi_sampler *sampler, hf_monitor_cell *cell) {
    int32_t pids[HF_MONITOR_PIDS_MAX];
    size_t count =
        hfi_family_pids(hfi_levels_family(sampler->levels), pids, HF_MONITOR_PIDS_MAX);
    cell->pid_count = sampler->cell_pid > 0;
    for (size_t i = 0; i < count && cell->pid_count < HF_MONITOR_PIDS_MAX; i++)
        if (pids[i] != sampler->cell_pid)
            cell->pids[cell->pid_count++] = pids[i];
}

/* Correct a reading to the moment of the cell process's report. `used` is what that
 * process had used by the reading. */
static void
correct_reading(hf_monitor_reading *reading, const hfi_word *word, hfi_usage *used) {
    if (word->cpu_ns <= 0 || used->cpu <= 0) /* a brief word, or none */
        return;
    reading->cpu_seconds += ((double)word->cpu_ns - used->cpu) / 1e9;
    reading->time_ns = word->time_ns;
    used->cpu = (double)word->cpu_ns;
    if (word->io[0] <= 0 && word->io[1] <= 0)
        return;
    double *const counters[] = {&reading->io_read_bytes,   &reading->io_write_bytes,
                                &reading->io_read_count,   &reading->io_write_count,
                                &reading->disk_read_bytes, &reading->disk_write_bytes};
    double *const known[] = {&used->read,        &used->write,     &used->read_count,
                             &used->write_count, &used->disk_read, &used->disk_write};
    for (int i = 0; i < 6; i++) {
        *counters[i] += (double)word->io[i] - *known[i];
        *known[i] = (double)word->io[i];
    }
}

/* What isn't said is that of the last reading. */
static hfi_usage
usage_said(const hfi_word *word, hfi_usage last) {
    double *const io[] = {&last.read,        &last.write,     &last.read_count,
                          &last.write_count, &last.disk_read, &last.disk_write};
    last.cpu = word->cpu_ns > 0 ? (double)word->cpu_ns : last.cpu;
    last.cpu_children = fmax(last.cpu_children, (double)word->children_ns);
    if (word->memory > 0) {
        last.private_bytes = (double)(word->memory + word->unused);
        last.shared_bytes = 0;
    }
    for (int i = 0; i < 6 && (word->io[0] > 0 || word->io[1] > 0); i++)
        *io[i] = (double)word->io[i];
    return last;
}

/* A reading by its word alone. 0 if that isn't enough. */
static int
read_said(hfi_sampler *sampler, const hfi_word *word, hf_monitor_reading *readings) {
    hfi_family *family = hfi_levels_family(sampler->levels);
    sampler->cell_said = 0;
    if (sampler->running || !word->childless ||
        word->time_ns - sampler->read_ns > BURST_NS)
        return 0;
    hfi_usage said = usage_said(word, hfi_family_usage_of(family, sampler->cell_pid));
    if (!hfi_family_read_said(family, sampler->cell_pid, &said,
                              &readings[HF_MONITOR_PROCESS]))
        return 0;
    readings[HF_MONITOR_PROCESS].time_ns = word->time_ns;
    readings[HF_MONITOR_PROCESS].pss_bytes = NAN;
    readings[HF_MONITOR_PROCESS].uss_bytes = NAN;
    sampler->cell_said = 1;
    return 1;
}

/* Take a reading at a cell's begin or end, and what its process had used by then. */
static hfi_usage
read_cell(hfi_sampler *sampler, const hfi_word *word, hf_monitor_reading *readings) {
    hfi_family *family = hfi_levels_family(sampler->levels);
    if (read_said(sampler, word, readings))
        return hfi_family_usage_of(family, sampler->cell_pid);
    sampler->read_ns = hfi_thread_now();
    if (word->children_ns > 0)
        hfi_family_set_children(family, sampler->cell_pid, (double)word->children_ns);
    hfi_levels_sample(sampler->levels, 1, readings);
    hfi_usage used = hfi_family_usage_of(family, sampler->cell_pid);
    correct_reading(&readings[HF_MONITOR_PROCESS], word, &used);
    return used;
}

/* The most memory that the cell's process has had. */
static double
peak_by(const hfi_sampler *sampler, const hfi_word *word) {
    if (word->peak > 0)
        return (double)(word->peak + word->unused);
    return sampler->cell_pid > 0 ? hfi_process_peak(sampler->cell_pid) : 0;
}

static void
set_begin(hfi_sampler *sampler, int64_t time_ns) {
    hf_monitor_cell *cell = &sampler->cell;
    int64_t now = hfi_thread_now();
    cell->begin_ns = time_ns > 0 && time_ns < now ? time_ns : now;
    cell->unix_ns = hfi_thread_clock(CLOCK_REALTIME) - (now - cell->begin_ns);
}

static void
correct_begin(hfi_sampler *sampler, const hfi_word *begin) {
    hf_monitor_cell *cell = &sampler->cell;
    if (!sampler->cell_open || sampler->cell_settled ||
        begin->time_ns <= cell->begin_ns)
        return;
    if (sampler->cell_said && read_said(sampler, begin, cell->begin)) /* with more */
        sampler->cell_used =
            hfi_family_usage_of(hfi_levels_family(sampler->levels), sampler->cell_pid);
    else
        correct_reading(&cell->begin[HF_MONITOR_PROCESS], begin, &sampler->cell_used);
    set_begin(sampler, begin->time_ns);
    cell->begin_bytes = (double)begin->memory;
    sampler->cell_peak = peak_by(sampler, begin);
}

static void
settle_cell(hfi_sampler *sampler, const hfi_word *end) {
    hf_monitor_cell *cell = &sampler->cell;
    if (!sampler->cell_open || sampler->cell_settled)
        return;
    sampler->cell_settled = 1;
    (void)read_cell(sampler, end, cell->end);
    cell->end_ns = end->time_ns > cell->begin_ns
                       ? end->time_ns
                       : cell->end[HF_MONITOR_PROCESS].time_ns;
    note_pids(sampler, cell);
    double peak = peak_by(sampler, end);
    if (cell->kind != HF_MONITOR_PLAIN && end->peak > 0) /* begun anew with the cell */
        cell->peak_bytes = (double)end->peak;
    else
        cell->peak_bytes = peak > sampler->cell_peak ? peak : 0;
    cell->end_bytes = (double)end->memory;
}

static void
end_cell(hfi_sampler *sampler, hf_monitor_outcome outcome) {
    if (!sampler->cell_open)
        return;
    settle_cell(sampler, &silence);
    sampler->cell.outcome = outcome;
    hfi_celllog_end(&sampler->series, &sampler->cell);
    sampler->cell_open = 0;
}

void
hfi_sampler_begin_cell(hfi_sampler *sampler, hf_monitor_cell_kind kind, int64_t number,
                       pid_t pid, const hfi_word *begin, const char *source,
                       size_t size) {
    hf_monitor_cell *cell = &sampler->cell;
    pthread_mutex_lock(&sampler->lock);
    end_cell(sampler, HF_MONITOR_OK);
    memset(cell, 0, sizeof *cell);
    sampler->cell_pid = pid;
    sampler->cell_used = read_cell(sampler, begin, cell->begin);
    /* A brief word's cell has a longer one later, or its peak isn't known. */
    sampler->cell_peak =
        sampler->cell_said && begin->peak == 0 ? INFINITY : peak_by(sampler, begin);
    set_begin(sampler, begin->time_ns);
    cell->begin_bytes = (double)begin->memory;
    cell->kind = (uint32_t)kind;
    cell->outcome = HF_MONITOR_RUNNING;
    cell->number = number;
    cell->pids[0] = (int32_t)pid;
    cell->pid_count = pid > 0;
    hfi_celllog_begin(&sampler->series, cell, source, size);
    sampler->cell_open = 1;
    sampler->cell_settled = 0;
    pthread_mutex_unlock(&sampler->lock);
}

void
hfi_sampler_settle_cell(hfi_sampler *sampler, const hfi_word *begin,
                        const hfi_word *end) {
    pthread_mutex_lock(&sampler->lock);
    correct_begin(sampler, begin);
    if (end->time_ns > 0)
        settle_cell(sampler, end);
    pthread_mutex_unlock(&sampler->lock);
}

void
hfi_sampler_end_cell(hfi_sampler *sampler, hf_monitor_outcome outcome) {
    pthread_mutex_lock(&sampler->lock);
    end_cell(sampler, outcome);
    pthread_mutex_unlock(&sampler->lock);
}
