/* series.c - the monitor's tables of samples, and its log of cells, in shared memory.
 *
 * A level's rows lie column by column, oldest first, without gaps. A new row is written
 * behind the last and then counted. So a reader that has read the count may read all
 * rows before it. Nothing moves meanwhile except by compaction, which is rare and shows
 * in `moves`.
 *
 * Compaction keeps the memory bounded however long a notebook lives. When a table is
 * full, neighbours in its older half are joined until an eighth of it is free: first
 * those whose sum is at most twice as wide as the narrowest row, then four times, and
 * so on. So the rows of the older half have about the same width, which grows with the
 * time that they cover. The newer half is as it was sampled. Rejected: always joining
 * the oldest rows. After some hundred times the first row would cover nearly
 * everything.
 *
 * A joined row's amounts are sums, its gauges means weighted by width, its low and high
 * the least and the greatest of both. So totals, means, least and greatest values of a
 * whole table stay exact. Those of a period are as exact as the rows at its ends.
 *
 * The columns of GPUs come last. There is room for the highest number, but they are
 * shown and written only when the number is known: asking takes long. Unknown values
 * are NaN.
 *
 * Memory is touched only when it is used: a monitor that is never started takes two
 * pages. There is one writer. Readers check for damage (view.c).
 */
#include "monitor/series.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/object.h"

#define ROWS_MAX  8192
#define ROWS_MIN  2048
#define ROW_BYTES 512 /* of a table with the most rows */
#define PAGE      4096

/* ---- the shape ------------------------------------------------------------------ */

static const struct {
    const char *name;
    hf_monitor_kind kind;
} common[HFI_COLUMN_CORE] = {
    {"cpu_util", HF_MONITOR_GAUGE},       {"memory", HF_MONITOR_GAUGE},
    {"io_read_count", HF_MONITOR_AMOUNT}, {"io_write_count", HF_MONITOR_AMOUNT},
    {"io_read_mb", HF_MONITOR_AMOUNT},    {"io_write_mb", HF_MONITOR_AMOUNT},
    {"disk_read_mb", HF_MONITOR_AMOUNT},  {"disk_write_mb", HF_MONITOR_AMOUNT},
    {"memory_pss", HF_MONITOR_GAUGE},     {"memory_uss", HF_MONITOR_GAUGE},
};

static uint64_t
take_space(uint64_t *end, uint64_t size) {
    uint64_t at = (*end + 63) & ~(uint64_t)63;
    *end = at + size;
    return at;
}

static uint32_t
column_count(const hfi_series_shape *shape) {
    return HFI_COLUMN_CORE + shape->cores + 3 * (1 + HF_MONITOR_GPUS_MAX);
}

/* Cores have no lows and highs: there are many cores, and no view shows them. */
static int
is_ranged(const hfi_series_shape *shape, uint32_t column) {
    return column < HFI_COLUMN_CORE || column >= HFI_COLUMN_CORE + shape->cores;
}

static uint64_t
capacity_of(const hfi_series_shape *shape) {
    uint64_t row = 16 + 8 * (3 * HFI_COLUMN_CORE + (uint64_t)shape->cores);
    uint64_t capacity = ROWS_MAX;
    while (capacity > ROWS_MIN && row * capacity > (uint64_t)ROW_BYTES * ROWS_MAX)
        capacity /= 2;
    return capacity;
}

static uint64_t
place_level(const hfi_series_shape *shape, uint64_t end, hfi_layout_level *level) {
    level->cores = shape->cores;
    level->columns = HFI_COLUMN_CORE + shape->cores;
    level->capacity = capacity_of(shape);
    level->columns_at =
        take_space(&end, column_count(shape) * sizeof(hfi_layout_column));
    level->time_at = take_space(&end, level->capacity * 8);
    level->width_at = take_space(&end, level->capacity * 8);
    return end;
}

static void
name_column(const hfi_series_shape *shape, uint32_t index, hfi_layout_column *column) {
    static const char *const gpu[] = {"gpu_util", "gpu_band", "gpu_mem"};
    uint32_t beyond = index - HFI_COLUMN_CORE;
    column->kind = HF_MONITOR_GAUGE;
    if (index < HFI_COLUMN_CORE) {
        snprintf(column->name, sizeof column->name, "%s", common[index].name);
        column->kind = common[index].kind;
    } else if (beyond < shape->cores) {
        snprintf(column->name, sizeof column->name, "cpu_util_%u", beyond);
    } else {
        beyond -= shape->cores;
        const char *name = gpu[beyond % 3];
        if (beyond < 3) /* of all GPUs */
            snprintf(column->name, sizeof column->name, "%s", name);
        else
            snprintf(column->name, sizeof column->name, "%s_%u", name, beyond / 3 - 1);
    }
}

static uint64_t
place_columns(const hfi_series_shape *shape, uint64_t end,
              const hfi_layout_level *level, hfi_layout_column *columns) {
    for (uint32_t i = 0; i < column_count(shape); i++) {
        uint64_t size = level->capacity * 8;
        uint64_t value = take_space(&end, size);
        uint64_t low = is_ranged(shape, i) ? take_space(&end, size) : 0;
        uint64_t high = is_ranged(shape, i) ? take_space(&end, size) : 0;
        if (columns == NULL)
            continue;
        name_column(shape, i, &columns[i]);
        columns[i].value_at = value;
        columns[i].low_at = low;
        columns[i].high_at = high;
    }
    return end;
}

/* The same walk twice: first for the size alone, with `base` NULL. */
static uint64_t
lay_out_series(const hfi_series_shape shapes[HF_MONITOR_LEVELS], hfi_layout *base) {
    uint64_t end = sizeof(hfi_layout);
    for (int i = 0; i < HF_MONITOR_LEVELS; i++) {
        hfi_layout_level scratch = {0};
        hfi_layout_level *level = base != NULL ? &base->level[i] : &scratch;
        end = place_level(&shapes[i], end, level);
        hfi_layout_column *columns =
            base != NULL
                ? (hfi_layout_column *)(void *)((char *)base + level->columns_at)
                : NULL;
        end = place_columns(&shapes[i], end, level, columns);
    }
    uint64_t cells = take_space(&end, HFI_MONITOR_CELLS * sizeof(hfi_layout_cell));
    uint64_t text = take_space(&end, HFI_MONITOR_TEXT);
    end = (end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (base != NULL) {
        base->levels = HF_MONITOR_LEVELS;
        base->cells_at = cells;
        base->text_at = text;
        base->size = end;
    }
    return end;
}

/* ---- creation ------------------------------------------------------------------- */

hf_status
hfi_series_create(const hfi_series_shape shapes[HF_MONITOR_LEVELS],
                  hfi_series *ret_series, hf_error *reterr) {
    uint64_t size = lay_out_series(shapes, NULL);
    void *address = NULL;
    int fd = -1;
    int err = hfi_object_create_anonymous("/holdfast-monitor", &fd);
    if (err == 0)
        err = hfi_object_truncate(fd, size);
    if (err == 0)
        err = hfi_object_map(fd, 0, (size_t)size, HFI_MAP_SHARED, NULL, &address);
    if (err != 0) {
        if (fd >= 0)
            close(fd);
        return hf_error_set_errno(reterr, err, "the monitor's shared memory");
    }
    ret_series->fd = fd;
    ret_series->base = address;
    lay_out_series(shapes, ret_series->base);
    ret_series->base->version = HFI_MONITOR_VERSION;
    ret_series->base->magic = HFI_MONITOR_MAGIC;
    return HF_OK;
}

void
hfi_series_close(hfi_series *series) {
    if (series->base == NULL)
        return;
    hfi_object_unmap(series->base, (size_t)series->base->size);
    close(series->fd);
    series->base = NULL;
    series->fd = -1;
}

void
hfi_series_begin(hfi_series *series) {
    atomic_fetch_add_explicit(&series->base->sequence, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

void
hfi_series_end(hfi_series *series) {
    atomic_fetch_add_explicit(&series->base->sequence, 1, memory_order_release);
}

/* ---- rows ----------------------------------------------------------------------- */

static double *
doubles_at(const hfi_series *series, uint64_t at) {
    return at != 0 ? (double *)(void *)((char *)series->base + at) : NULL;
}

static int64_t *
integers_at(const hfi_series *series, uint64_t at) {
    return (int64_t *)(void *)((char *)series->base + at);
}

static const hfi_layout_column *
column_at(const hfi_series *series, const hfi_layout_level *level, uint32_t index) {
    return (const hfi_layout_column *)(const void *)((char *)series->base +
                                                     level->columns_at) +
           index;
}

static void
fill_unknown(const hfi_series *series, const hfi_layout_column *column, size_t count) {
    const uint64_t places[] = {column->value_at, column->low_at, column->high_at};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (size_t row = 0; row < count; row++)
            doubles_at(series, places[p])[row] = NAN;
}

void
hfi_series_show_gpus(hfi_series *series, uint32_t count) {
    for (int i = 0; i < HF_MONITOR_LEVELS; i++) {
        hfi_layout_level *level = &series->base->level[i];
        size_t rows = (size_t)atomic_load_explicit(&level->count, memory_order_relaxed);
        uint32_t columns = HFI_COLUMN_CORE + level->cores;
        columns += count > 0 ? 3 * (1 + count) : 0;
        for (uint32_t c = level->columns; c < columns; c++)
            fill_unknown(series, column_at(series, level, c), rows);
        atomic_fetch_add_explicit(&level->moves, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
        level->columns = columns;
        atomic_fetch_add_explicit(&level->moves, 1, memory_order_release);
    }
}

/* Join the rows of a column: row i becomes a part of row target[i]. */
static void
join_column(const hfi_layout_column *column, const hfi_series *series,
            const int64_t *widths, const uint16_t *target, size_t count) {
    double *values = doubles_at(series, column->value_at);
    double *lows = doubles_at(series, column->low_at);
    double *highs = doubles_at(series, column->high_at);
    double joined = 0; /* width of the row that is being filled */
    for (size_t i = 0; i < count; i++) {
        size_t to = target[i];
        double width = (double)widths[i];
        if (i == 0 || target[i - 1] != to) {
            values[to] = values[i];
            joined = width;
            if (lows != NULL) {
                lows[to] = lows[i];
                highs[to] = highs[i];
            }
            continue;
        }
        if (column->kind == HF_MONITOR_AMOUNT)
            values[to] += values[i];
        else if (isnan(values[to]) || isnan(values[i])) /* what is known of them */
            values[to] = isnan(values[to]) ? values[i] : values[to];
        else if (joined + width > 0)
            values[to] = (values[to] * joined + values[i] * width) / (joined + width);
        joined += width;
        if (lows != NULL) { /* fmin and fmax ignore NaN */
            lows[to] = fmin(lows[to], lows[i]);
            highs[to] = fmax(highs[to], highs[i]);
        }
    }
}

/* The new place of each row if neighbours up to `limit` together are joined; returns
 * how many are left. */
static size_t
plan_rows(const int64_t *widths, size_t count, int64_t limit, uint16_t *ret_target) {
    size_t used = 0;
    int64_t joined = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || joined + widths[i] > limit) {
            used++;
            joined = 0;
        }
        joined += widths[i];
        ret_target[i] = (uint16_t)(used - 1);
    }
    return used;
}

static size_t
choose_rows(const int64_t *widths, size_t count, size_t wanted, uint16_t *ret_target) {
    int64_t limit = INT64_MAX;
    size_t left = count;
    for (size_t i = 0; i < count; i++)
        if (widths[i] > 0 && widths[i] < limit)
            limit = widths[i];
    do {
        limit = limit < INT64_MAX / 2 ? 2 * limit : INT64_MAX;
        left = plan_rows(widths, count, limit, ret_target);
    } while (count - left < wanted && limit < INT64_MAX);
    return left;
}

static void
move_column(double *values, size_t from, size_t to, size_t count) {
    if (values != NULL)
        memmove(values + to, values + from, count * sizeof *values);
}

static void
compact_level(hfi_series *series, hfi_layout_level *level) {
    uint16_t target[ROWS_MAX];
    size_t count = (size_t)atomic_load_explicit(&level->count, memory_order_relaxed);
    int64_t *times = integers_at(series, level->time_at);
    int64_t *widths = integers_at(series, level->width_at);
    size_t old = count / 2, fresh = count - old;
    size_t left = choose_rows(widths, old, count / 8, target);
    atomic_fetch_add_explicit(&level->moves, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (uint32_t c = 0; c < level->columns; c++) {
        const hfi_layout_column *column = column_at(series, level, c);
        join_column(column, series, widths, target, old);
        move_column(doubles_at(series, column->value_at), old, left, fresh);
        move_column(doubles_at(series, column->low_at), old, left, fresh);
        move_column(doubles_at(series, column->high_at), old, left, fresh);
    }
    for (size_t i = 0; i < old; i++) {
        int64_t width = widths[i];
        int first = i == 0 || target[i - 1] != target[i];
        times[target[i]] = times[i];
        widths[target[i]] = (first ? 0 : widths[target[i]]) + width;
    }
    memmove(times + left, times + old, fresh * sizeof *times);
    memmove(widths + left, widths + old, fresh * sizeof *widths);
    atomic_store_explicit(&level->count, left + fresh, memory_order_relaxed);
    atomic_fetch_add_explicit(&level->moves, 1, memory_order_release);
}

void
hfi_series_add(hfi_series *series, hf_monitor_level which, int64_t time_ns,
               int64_t width_ns, const double *values, int64_t narrow_ns) {
    hfi_layout_level *level = &series->base->level[which];
    if (atomic_load_explicit(&level->count, memory_order_relaxed) >= level->capacity)
        compact_level(series, level);
    uint64_t row = atomic_load_explicit(&level->count, memory_order_relaxed);
    int narrow = width_ns <= 0 || width_ns < narrow_ns;
    integers_at(series, level->time_at)[row] = time_ns;
    integers_at(series, level->width_at)[row] = width_ns;
    for (uint32_t c = 0; c < level->columns; c++) {
        const hfi_layout_column *column = column_at(series, level, c);
        double low = values[c];
        if (column->kind == HF_MONITOR_AMOUNT && width_ns > 0)
            low = values[c] * 1e9 / (double)width_ns;
        if (narrow && (column->kind == HF_MONITOR_AMOUNT || c == HFI_COLUMN_CPU))
            low = NAN; /* other gauges belong to one moment: any one is as good */
        doubles_at(series, column->value_at)[row] = values[c];
        if (column->low_at == 0)
            continue;
        doubles_at(series, column->low_at)[row] = low;
        doubles_at(series, column->high_at)[row] = low;
    }
    atomic_store_explicit(&level->count, row + 1, memory_order_release);
}

/* ---- cells ---------------------------------------------------------------------- */

/* The last few thousand cells are kept, in a ring of records of one size; their sources
 * lie in a ring of text beside it. Old ones are overwritten. A record has the readings
 * of all levels at the cell's begin and end, so that what a cell used is exact however
 * coarse the rows of its time have become, and known too where the sampling
 * wasn't running.
 *
 * A reader finds by the record's seqlock whether he saw it whole, and by the count of
 * text bytes whether the source was overwritten meanwhile: the writer moves that count
 * on before it writes the text. */

static hfi_layout_cell *
slot_of_cell(hfi_series *series, int64_t index) {
    hfi_layout_cell *cells =
        (hfi_layout_cell *)(void *)((char *)series->base + series->base->cells_at);
    return &cells[index % HFI_MONITOR_CELLS];
}

static void
write_cell(hfi_layout_cell *slot, const hf_monitor_cell *cell, uint64_t text) {
    atomic_fetch_add_explicit(&slot->sequence, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    slot->cell = *cell;
    slot->text = text;
    atomic_fetch_add_explicit(&slot->sequence, 1, memory_order_release);
}

static uint64_t
write_ring_text(hfi_series *series, const char *text, size_t size) {
    char *ring = (char *)series->base + series->base->text_at;
    uint64_t at = atomic_load_explicit(&series->base->text, memory_order_relaxed);
    size_t place = (size_t)(at % HFI_MONITOR_TEXT);
    size_t first = HFI_MONITOR_TEXT - place < size ? HFI_MONITOR_TEXT - place : size;
    atomic_store_explicit(&series->base->text, at + size, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy(ring + place, text, first);
    memcpy(ring, text + first, size - first);
    return at;
}

int64_t
hfi_celllog_begin(hfi_series *series, hf_monitor_cell *cell, const char *source,
                  size_t size) {
    uint64_t index = atomic_load_explicit(&series->base->cells, memory_order_relaxed);
    hfi_layout_cell *slot = slot_of_cell(series, (int64_t)index);
    cell->source_cut = size > HFI_MONITOR_TEXT_MAX;
    cell->source_size = (uint32_t)(cell->source_cut ? HFI_MONITOR_TEXT_MAX : size);
    cell->index = (int64_t)index;
    write_cell(slot, cell, write_ring_text(series, source, cell->source_size));
    atomic_store_explicit(&series->base->cells, index + 1, memory_order_release);
    return cell->index;
}

void
hfi_celllog_end(hfi_series *series, const hf_monitor_cell *cell) {
    hfi_layout_cell *slot = slot_of_cell(series, cell->index);
    if (slot->cell.index == cell->index)
        write_cell(slot, cell, slot->text);
}
