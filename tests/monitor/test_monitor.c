/* test_monitor.c - tables that are compacted, cells that are dropped, readers, GPUs
 * that are only pretended.
 */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/check.h"
#include "monitor/series.h"
#include "monitor/gpus.h"
#include "monitor/sampler.h"
#include "monitor/thread.h"

static const hfi_series_shape shapes[HF_MONITOR_LEVELS] = {{0}, {0}, {3}, {0}};
static hf_error error = HF_ERROR_INIT;

static hf_monitor_view *
view_of(int fd) {
    hf_monitor_view *view = NULL;
    CHECK(hf_monitor_view_open_consume(dup(fd), &view, &error) == HF_OK);
    return view;
}

static hf_monitor_rows
rows_of(const hf_monitor_view *view, hf_monitor_level level) {
    hf_monitor_rows rows = {.struct_size = sizeof rows};
    CHECK(hf_monitor_view_rows(view, level, -1, INT64_MAX, &rows, &error) == HF_OK);
    return rows;
}

/* A week at one second, in which one sample stands out. */
static void
test_a_week(void) {
    enum { SECONDS = 7 * 24 * 3600, ODD = 200000 };
    const int64_t second = 1000000000;
    double row[HFI_COLUMN_CORE + 3], written = 0, used = 0, weight = 0, high = 0;
    int64_t end = 0;
    hfi_series series;
    CHECK(hfi_series_create(shapes, &series, &error) == HF_OK);
    for (int i = 0; i < SECONDS; i++) {
        for (int c = 0; c < HFI_COLUMN_CORE + 3; c++)
            row[c] = i == ODD ? 100 : 2;
        hfi_series_add(&series, HF_MONITOR_SYSTEM, (i + 1) * second, second, row, 0);
    }
    hf_monitor_view *view = view_of(series.fd);
    hf_monitor_rows rows = rows_of(view, HF_MONITOR_SYSTEM);
    CHECK(rows.columns == HFI_COLUMN_CORE + 3);
    CHECK_TEXT(rows.column[HFI_COLUMN_CORE]->name, "cpu_util_0");
    CHECK(rows.count > 1024 && rows.count <= 8192);
    for (size_t i = 0; i < rows.count; i++) {
        double width = (double)rows.widths[i];
        CHECK(rows.times[i] == end + rows.widths[i]); /* no gap, nothing twice */
        end = rows.times[i];
        CHECK(width <= 1024e9); /* no row stands for nearly everything */
        used += rows.column[HFI_COLUMN_CPU]->values[i] * width;
        weight += width;
        written += rows.column[HFI_COLUMN_WRITE]->values[i];
        high = fmax(high, rows.column[HFI_COLUMN_CPU]->highs[i]);
        CHECK(rows.column[HFI_COLUMN_CPU]->lows[i] == 2 || width <= 1e9);
    }
    CHECK(rows.widths[rows.count - 1] == second && high == 100);
    CHECK(end == SECONDS * second);
    CHECK(fabs(written - (2.0 * SECONDS + 98)) < 1e-3);
    CHECK(fabs(used / weight - (2.0 + 98.0 / SECONDS)) < 1e-9);
    hf_monitor_rows_fini(&rows);
    hf_monitor_view_close(view);
    hfi_series_close(&series);
}

/* A rate needs some time; what is known of a moment doesn't, however soon after the last
 * row it was. */
static void
test_a_narrow_row(void) {
    double row[HFI_COLUMN_CORE + 3];
    hfi_series series;
    CHECK(hfi_series_create(shapes, &series, &error) == HF_OK);
    for (int c = 0; c < HFI_COLUMN_CORE + 3; c++)
        row[c] = 2;
    hfi_series_add(&series, HF_MONITOR_PROCESS, 1000, 10, row, 20);
    hf_monitor_view *view = view_of(series.fd);
    hf_monitor_rows rows = rows_of(view, HF_MONITOR_PROCESS);
    for (int c = 0; c < HFI_COLUMN_CORE; c++) {
        int is_moment =
            c == HFI_COLUMN_MEMORY || c == HFI_COLUMN_PSS || c == HFI_COLUMN_USS;
        CHECK(rows.column[c]->values[0] == 2);
        CHECK(is_moment ? rows.column[c]->highs[0] == 2
                        : isnan(rows.column[c]->highs[0]));
    }
    hf_monitor_rows_fini(&rows);
    hf_monitor_view_close(view);
    hfi_series_close(&series);
}

static void
test_cells(void) {
    char *source = NULL;
    char text[4096];
    int64_t first, end;
    hf_monitor_cell cell = {.struct_size = sizeof cell};
    hfi_series series;
    CHECK(hfi_series_create(shapes, &series, &error) == HF_OK);
    hf_monitor_view *view = view_of(series.fd);
    memset(text, 'x', sizeof text);
    for (int i = 0; i < HFI_MONITOR_CELLS + 10; i++) {
        memset(&cell, 0, sizeof cell);
        cell.struct_size = sizeof cell;
        cell.begin_ns = i;
        int size = snprintf(text, sizeof text, "cell %d", i);
        text[size] = 'x';
        CHECK(hfi_celllog_begin(&series, &cell, text, sizeof text) == i);
    }
    cell.end_ns = 77;
    hfi_celllog_end(&series, &cell);
    hf_monitor_view_cells(view, &first, &end);
    CHECK(first == 10 && end == HFI_MONITOR_CELLS + 10);
    CHECK(hf_monitor_view_cell(view, 9, &cell, &source) == HF_NOT_FOUND);
    CHECK(hf_monitor_view_cell(view, end, &cell, &source) == HF_NOT_FOUND);
    CHECK(hf_monitor_view_cell(view, end - 1, &cell, &source) == HF_OK);
    CHECK(cell.end_ns == 77 && strncmp(source, "cell 4105x", 10) == 0);
    free(source);
    cell.struct_size = 0;
    CHECK(hf_monitor_view_cell(view, first, &cell, &source) == HF_E_INVALID);
    cell.struct_size = sizeof cell;
    CHECK(hf_monitor_view_cell(view, first, &cell, &source) == HF_OK);
    CHECK(cell.begin_ns == 10 && *source == '\0'); /* 16 MiB of text went by */
    free(source);
    hf_monitor_view_close(view);
    hfi_series_close(&series);
}

/* What isn't a monitor, and one whose places lie. */
static void
test_hostile_bytes(void) {
    hf_monitor_view *view = NULL;
    hf_monitor_rows rows = {.struct_size = sizeof rows};
    hf_monitor_cell cell = {.struct_size = sizeof cell};
    hfi_series series;
    int fds[2];
    double row[HFI_COLUMN_CORE] = {0};
    CHECK(pipe(fds) == 0);
    CHECK(hf_monitor_view_open_consume(fds[0], &view, &error) != HF_OK);
    close(fds[1]);
    CHECK(hf_monitor_view_open_consume(open("/dev/null", O_RDONLY), &view, &error) ==
          HF_E_CORRUPT);
    CHECK(hfi_series_create(shapes, &series, &error) == HF_OK);
    hfi_series_add(&series, HF_MONITOR_PROCESS, 1, 1, row, 0);
    view = view_of(series.fd);
    hfi_layout_level *level = &series.base->level[HF_MONITOR_PROCESS];
    uint64_t kept = level->time_at;
    const uint64_t places[] = {series.base->size - 8, series.base->size + 64, 7, 0};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        level->time_at = places[i];
        CHECK(hf_monitor_view_rows(view, HF_MONITOR_PROCESS, -1, 9, &rows, &error) ==
              HF_E_CORRUPT);
    }
    level->time_at = kept;
    level->capacity = UINT64_MAX / 8;
    CHECK(hf_monitor_view_rows(view, HF_MONITOR_PROCESS, -1, 9, &rows, &error) ==
          HF_E_CORRUPT);
    level->capacity = 16;
    atomic_fetch_add(&level->moves, 1); /* the writer died here */
    CHECK(hf_monitor_view_rows(view, HF_MONITOR_PROCESS, -1, 9, &rows, &error) ==
          HF_BUSY);
    atomic_store(&series.base->cells, 1);
    series.base->cells_at = series.base->size;
    CHECK(hf_monitor_view_cell(view, 0, &cell, NULL) == HF_NOT_FOUND);
    CHECK(hf_monitor_view_rows(view, (hf_monitor_level)9, -1, 9, &rows, &error) ==
          HF_NOT_FOUND);
    hf_monitor_view_close(view);
    hfi_series_close(&series);
}

/* ---- GPUs, by a library that only pretends (pretended_nvml.c) -------------------- */

static void
test_gpus(const char *library) {
    char trouble[96] = "";
    hf_monitor_gpu gpu;
    hfi_gpu_use use;
    setenv("HOLDFAST_NVML", "/nowhere/libnvidia-ml.so", 1);
    CHECK(hfi_nvml_open(trouble, sizeof trouble) == NULL && *trouble != '\0');
    CHECK(hfi_nvml_count(NULL) == 0);
    setenv("HOLDFAST_NVML", library, 1);
    hfi_nvml *nvml = hfi_nvml_open(trouble, sizeof trouble);
    CHECK(nvml != NULL && hfi_nvml_count(nvml) == 2);
    hfi_nvml_describe(nvml, 1, &gpu);
    CHECK_TEXT(gpu.name, "Pretended GPU 1");
    CHECK(gpu.memory_bytes == 8e9);
    hfi_nvml_read(nvml, 1, &use);
    CHECK(use.util == 51 && use.band == 21 && use.memory_bytes == 2e9);
    CHECK(use.process_count == 2 && use.process[0].pid == getpid());
    CHECK(use.process[0].memory_bytes == 1e9 && use.process[1].memory_bytes == 0);
    hfi_nvml_close(nvml);
}

/* ---- all together --------------------------------------------------------------- */

static void
wait_for_samples(const hf_monitor_view *view, uint64_t count) {
    hf_monitor_state state = {.struct_size = sizeof state};
    hf_monitor_facts facts = {.struct_size = sizeof facts};
    for (int i = 0; i < 60000 && state.samples < count; i++) {
        usleep(1000);
        CHECK(hf_monitor_view_state(view, &state, &facts) == HF_OK);
    }
    CHECK(state.samples >= count);
}

/* Both of the pretended GPUs, and both together. */
static void
check_gpu_columns(const hf_monitor_rows *rows) {
    CHECK(rows->columns == HFI_COLUMN_CORE + 9);
    CHECK_TEXT(rows->column[HFI_COLUMN_CORE]->name, "gpu_util");
    CHECK_TEXT(rows->column[HFI_COLUMN_CORE + 3]->name, "gpu_util_0");
    CHECK_TEXT(rows->column[HFI_COLUMN_CORE + 8]->name, "gpu_mem_1");
    const double *all = rows->column[HFI_COLUMN_CORE]->values;
    const double *all_memory = rows->column[HFI_COLUMN_CORE + 2]->values;
    const double *first_memory = rows->column[HFI_COLUMN_CORE + 5]->values;
    const double *use = rows->column[HFI_COLUMN_CORE + 6]->values;
    const double *memory = rows->column[HFI_COLUMN_CORE + 8]->values;
    CHECK(isnan(use[0]) && use[rows->count - 1] == 51);
    for (size_t i = 0; i < rows->count; i++) { /* this process's part */
        CHECK(isnan(use[i]) || use[i] == 51);
        CHECK(isnan(memory[i]) || fabs(memory[i] - 1e9 / 1073741824) < 1e-9);
        CHECK(isnan(use[i]) == isnan(all[i]));
        CHECK(isnan(use[i]) || fabs(all[i] - 50.5) < 1e-9);
        CHECK(isnan(use[i]) ||
              fabs(all_memory[i] - first_memory[i] - memory[i]) < 1e-9);
        CHECK(isnan(use[i]) == isnan(memory[i]) &&
              (i == 0 || use[i - 1] != 51 || use[i] == 51));
    }
}

/* The reading of a cell at its begin and end, by words that say it used 2 s, 3 s with
 * its children, and 100 MiB. */
static hf_monitor_cell
cell_by_words(hfi_sampler *sampler, hf_monitor_view *view, int childless) {
    hf_monitor_cell cell = {.struct_size = sizeof cell};
    static int64_t used = 1000000000; /* it only grows */
    int64_t first, end;
    used += 10000000000;
    hfi_word began = {.time_ns = hfi_thread_now(),
                      .cpu_ns = used,
                      .children_ns = used,
                      .io = {used, used, 3, 4, 5, 6},
                      .memory = 100 << 20,
                      .peak = 120 << 20,
                      .unused = 1 << 20,
                      .childless = childless};
    hfi_word ended = began, brief = began;
    brief.io[0] = brief.io[1] = brief.memory = brief.peak = brief.unused = 0;
    began.time_ns++; /* the code begins */
    hfi_sampler_begin_cell(sampler, HF_MONITOR_PLAIN, 3, getpid(), &brief, "burn", 4);
    ended.time_ns += 3000001;
    ended.cpu_ns += 2000000000;
    ended.children_ns += 3000000000;
    ended.io[1] += 500;
    ended.peak += 1 << 20;
    hfi_sampler_settle_cell(sampler, &began, &ended);
    hfi_sampler_end_cell(sampler, HF_MONITOR_OK);
    hf_monitor_view_cells(view, &first, &end);
    CHECK(hf_monitor_view_cell(view, end - 1, &cell, NULL) == HF_OK);
    return cell;
}

/* In a burst of short cells nothing is read, if the words are all there is to know. */
static void
test_words(void) {
    hfi_sampler *sampler = NULL;
    const int p = HF_MONITOR_PROCESS, s = HF_MONITOR_SYSTEM;
    CHECK(hfi_sampler_create(&sampler, &error) == HF_OK);
    hf_monitor_view *view = view_of(hfi_sampler_fd(sampler));
    hfi_sampler_add(sampler, getpid());
    hf_monitor_cell cell = cell_by_words(sampler, view, 1);
    CHECK(cell.begin[s].valid); /* the first is read, in any case */
    cell = cell_by_words(sampler, view, 1);
    const hf_monitor_reading *begin = &cell.begin[p], *end = &cell.end[p];
    CHECK(begin->valid && end->valid && !cell.begin[s].valid && !cell.end[s].valid);
    CHECK(fabs(end->cpu_seconds - begin->cpu_seconds - 5) < 1e-6);
    CHECK(end->io_write_bytes - begin->io_write_bytes == 500);
    CHECK(begin->memory_bytes == 101 << 20 && cell.end_bytes == 100 << 20);
    CHECK(cell.end_ns - cell.begin_ns == 3000000 && cell.peak_bytes == 122 << 20);
    cell = cell_by_words(sampler, view, 0);
    CHECK(cell.begin[p].valid && cell.begin[p].memory_bytes != 101 << 20);
    hf_monitor_view_close(view);
    hfi_sampler_close(sampler);
}

/* Samples, a cell, and GPUs whose driver takes its time. */
static void
test_sampling(void) {
    const hfi_word silence = {0};
    hfi_sampler *sampler = NULL;
    hf_monitor_state state = {.struct_size = sizeof state};
    hf_monitor_facts facts = {.struct_size = sizeof facts};
    hf_monitor_cell cell = {.struct_size = sizeof cell};
    char *source = NULL;
    char place[] = "/tmp/holdfast-monitor-XXXXXX", gate[64];
    CHECK(mkdtemp(place) != NULL);
    snprintf(gate, sizeof gate, "%s/gate", place);
    CHECK(mkfifo(gate, 0600) == 0 && setenv("PRETENDED_NVML_GATE", gate, 1) == 0);
    CHECK(hfi_sampler_create(&sampler, &error) == HF_OK);
    hf_monitor_view *view = view_of(hfi_sampler_fd(sampler));
    hfi_sampler_add(sampler, getpid());
    CHECK(hfi_sampler_start(sampler, 999, 0, &error) == HF_E_INVALID);
    CHECK(hf_monitor_view_state(view, &state, &facts) == HF_OK);
    CHECK(!state.running && state.begin_ns == 0 && facts.cores >= 1);
    CHECK(hfi_sampler_start(sampler, 1000000, 1, &error) == HF_OK);
    hfi_sampler_begin_cell(sampler, HF_MONITOR_PLAIN, 3, getpid(), &silence, "burn", 4);
    wait_for_samples(view, 20); /* nobody waits for the driver */
    CHECK(hf_monitor_view_state(view, &state, &facts) == HF_OK);
    CHECK(facts.gpu_count == 0);
    close(open(gate, O_WRONLY));
    unsetenv("PRETENDED_NVML_GATE");
    CHECK(unlink(gate) == 0 && rmdir(place) == 0);
    for (int i = 0; i < 60000 && facts.gpu_count == 0; i++) {
        usleep(1000);
        CHECK(hf_monitor_view_state(view, &state, &facts) == HF_OK);
    }
    wait_for_samples(view, state.samples + 20);
    hfi_sampler_settle_cell(sampler, &silence, &silence);
    hfi_sampler_end_cell(sampler, HF_MONITOR_ERROR);
    hfi_sampler_stop(sampler);
    CHECK(hf_monitor_view_state(view, &state, &facts) == HF_OK);
    CHECK(!state.running && state.samples >= 20 && state.end_ns > state.begin_ns);
    CHECK(state.cost_ns > 0 && state.costed >= state.samples);
    CHECK(state.available & 1u << HF_MONITOR_PROCESS);
    CHECK(state.available & 1u << HF_MONITOR_USER);
    CHECK(facts.gpu_count == 2); /* the pretended */
    hf_monitor_rows rows = rows_of(view, HF_MONITOR_PROCESS);
    CHECK(rows.count >= 3 && rows.widths[0] == 0);
    const double *pss = rows.column[HFI_COLUMN_PSS]->values;
    const double *uss = rows.column[HFI_COLUMN_USS]->values;
    CHECK_TEXT(rows.column[HFI_COLUMN_PSS]->name, "memory_pss");
    CHECK(pss[0] > 0 && uss[0] > 0 && uss[0] <= pss[0]);
    CHECK(pss[0] <= rows.column[HFI_COLUMN_MEMORY]->values[0] * 1.05);
    check_gpu_columns(&rows);
    for (size_t i = 1; i < rows.count; i++)
        CHECK(rows.times[i] - rows.widths[i] == rows.times[i - 1]);
    hf_monitor_rows_fini(&rows);
    CHECK(hf_monitor_view_cell(view, 0, &cell, &source) == HF_OK);
    CHECK_TEXT(source, "burn");
    CHECK(cell.number == 3 && cell.outcome == HF_MONITOR_ERROR && cell.end_ns > 0);
    CHECK(cell.begin[0].valid && cell.end[0].cpu_seconds > cell.begin[0].cpu_seconds);
    CHECK(cell.pid_count >= 1 && cell.pids[0] == getpid());
    free(source);
    hf_monitor_view_close(view);
    hfi_sampler_close(sampler);
}

int
main(int argc, char **argv) {
    CHECK(argc == 2);
    test_gpus(argv[1]);
    test_a_week();
    test_a_narrow_row();
    test_cells();
    test_hostile_bytes();
    test_words();
    test_sampling();
    return 0;
}
