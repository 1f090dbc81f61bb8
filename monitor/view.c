/* view.c - reading the monitor's shared memory.
 *
 * The writer doesn't wait for readers. So a reader copies, and then checks that the
 * copied data wasn't changed meanwhile: its counter is even, and the same before and
 * after. State and cells are small, and changed rarely. Rows are only added, and moved
 * once in a thousand. If a writer died in the middle of a change, the counter stays
 * odd: after some thousand tries the reader gets HF_BUSY, and doesn't wait for ever.
 *
 * Every place and count is checked against the size of the mapping before it is used,
 * since the memory may have any content. The mapping is read-only. No locks, any
 * thread.
 */
#include "monitor/layout.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/struct_size.h"
#include "platform/object.h"

#define TRIES       10000
#define COLUMNS_MAX 8192
#define ROWS_LIMIT  (1u << 20)

struct hf_monitor_view {
    const hfi_layout *base;
    size_t size;
};

hf_status
hf_monitor_view_open_consume(int fd, hf_monitor_view **ret_view, hf_error *reterr) {
    if (!ret_view)
        close(fd);
    HFI_NEED(reterr, ret_view);
    struct stat facts;
    void *address = NULL;
    hf_monitor_view *view = calloc(1, sizeof *view);
    hf_status status = HF_OK;
    if (view == NULL)
        status = hf_error_set(reterr, HF_E_NOMEM, "no memory");
    else if (fstat(fd, &facts) != 0)
        status = hf_error_set(reterr, HF_E_INVALID, "no descriptor of a monitor");
    else if (facts.st_size < (off_t)sizeof(hfi_layout))
        status = hf_error_set(reterr, HF_E_CORRUPT, "too short for a monitor");
    if (status == HF_OK) {
        int err =
            hfi_object_map(fd, 0, (size_t)facts.st_size, HFI_MAP_READ, NULL, &address);
        if (err != 0)
            status = hf_error_set_errno(reterr, err, "the monitor's shared memory");
    }
    close(fd);
    if (status == HF_OK) {
        view->base = address;
        view->size = (size_t)facts.st_size;
        if (view->base->magic != HFI_MONITOR_MAGIC || view->base->size != view->size)
            status = hf_error_set(reterr, HF_E_CORRUPT, "this isn't a monitor");
        else if (view->base->version != HFI_MONITOR_VERSION)
            status = hf_error_set(reterr, HF_E_VERSION, "a monitor of another version");
    }
    if (status != HF_OK) {
        hf_monitor_view_close(view);
        return status;
    }
    *ret_view = view;
    return HF_OK;
}

void
hf_monitor_view_close(hf_monitor_view *view) {
    if (view == NULL)
        return;
    if (view->base != NULL)
        hfi_object_unmap((void *)(uintptr_t)view->base, view->size);
    free(view);
}

/* Whether `count` elements of `size` bytes lie at `at`. */
static int
array_is_inside(const hf_monitor_view *view, uint64_t at, uint64_t count,
                uint64_t size) {
    return at % 8 == 0 && at >= sizeof(hfi_layout) && at <= view->size &&
           count <= (view->size - at) / size;
}

static const void *
place_in_view(const hf_monitor_view *view, uint64_t at) {
    return (const char *)view->base + at;
}

/* Begin to read under a counter. 0 if the writer is in the middle of a change; then it
 * also waits a little. */
static int
begin_reading(const _Atomic uint64_t *counter, uint64_t *ret_seen) {
    *ret_seen = atomic_load_explicit(counter, memory_order_acquire);
    if (*ret_seen % 2 == 0)
        return 1;
    sched_yield();
    return 0;
}

static int
counter_unchanged(const _Atomic uint64_t *counter, uint64_t seen) {
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(counter, memory_order_relaxed) == seen;
}

static void
end_text(char *text, size_t size) {
    text[size - 1] = '\0';
}

/* Shared memory may have any content: make sure that texts end and counts are in range.
 * */
static void
make_sound(hf_monitor_state *state, hf_monitor_facts *facts) {
    end_text(facts->memory_limit_source, sizeof facts->memory_limit_source);
    end_text(facts->slurm_limit_source, sizeof facts->slurm_limit_source);
    end_text(facts->slurm_job, sizeof facts->slurm_job);
    end_text(facts->gpu_trouble, sizeof facts->gpu_trouble);
    for (int g = 0; g < HF_MONITOR_GPUS_MAX; g++)
        end_text(facts->gpu[g].name, sizeof facts->gpu[g].name);
    if (facts->gpu_count < 0 || facts->gpu_count > HF_MONITOR_GPUS_MAX)
        facts->gpu_count = 0;
    if (state->pid_count < 0 || state->pid_count > HF_MONITOR_PIDS_MAX)
        state->pid_count = 0;
}

hf_status
hf_monitor_view_state(const hf_monitor_view *view, hf_monitor_state *ret_state,
                      hf_monitor_facts *ret_facts) {
    HFI_NEED(NULL, view, ret_state, ret_facts);
    uint64_t seen;
    hf_monitor_state state;
    hf_monitor_facts facts;
    hf_status status =
        HFI_STRUCT_CHECK_OUTPUT(ret_state, hf_monitor_state, pid_count, NULL);
    if (status == HF_OK)
        status =
            HFI_STRUCT_CHECK_OUTPUT(ret_facts, hf_monitor_facts, gpu_trouble, NULL);
    for (int i = 0; i < TRIES && status == HF_OK; i++) {
        if (!begin_reading(&view->base->sequence, &seen))
            continue;
        state = view->base->state;
        facts = view->base->facts;
        if (!counter_unchanged(&view->base->sequence, seen))
            continue;
        make_sound(&state, &facts);
        hfi_struct_write(ret_state, &state, sizeof state);
        hfi_struct_write(ret_facts, &facts, sizeof facts);
        return HF_OK;
    }
    return status != HF_OK ? status : HF_BUSY;
}

/* ---- rows ----------------------------------------------------------------------- */

void
hf_monitor_rows_fini(hf_monitor_rows *rows) {
    if (!rows)
        return;
    static const hf_monitor_rows none = {0};
    free(rows->memory);
    hfi_struct_write(rows, &none, sizeof none);
}

static int
level_lies(const hf_monitor_view *view, const hfi_layout_level *level) {
    uint64_t capacity = level->capacity;
    if (level->columns > COLUMNS_MAX || capacity > ROWS_LIMIT ||
        !array_is_inside(view, level->columns_at, level->columns,
                         sizeof(hfi_layout_column)) ||
        !array_is_inside(view, level->time_at, capacity, 8) ||
        !array_is_inside(view, level->width_at, capacity, 8))
        return 0;
    const hfi_layout_column *columns = place_in_view(view, level->columns_at);
    for (uint32_t i = 0; i < level->columns; i++) {
        const hfi_layout_column *column = &columns[i];
        if (!array_is_inside(view, column->value_at, capacity, 8) ||
            (column->low_at != 0 &&
             (!array_is_inside(view, column->low_at, capacity, 8) ||
              !array_is_inside(view, column->high_at, capacity, 8))))
            return 0;
    }
    return 1;
}

/* The first row that ends after `time_ns`: times don't fall. */
static size_t
first_after(const int64_t *times, size_t count, int64_t time_ns) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (times[middle] > time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* One allocation: pointers to the columns' heads, these, then `3 * columns + 2`
 * arrays. */
static hf_status
allocate_rows(const hfi_layout_column *columns, size_t column_count, size_t count,
              hf_monitor_rows *ret_rows) {
    size_t pointers = column_count * sizeof(hf_monitor_column *);
    size_t heads = pointers + column_count * sizeof(hf_monitor_column);
    size_t arrays = (3 * column_count + 2) * (count + 1) * 8;
    char *memory = malloc(heads + arrays);
    if (memory == NULL)
        return HF_E_NOMEM;
    double *next = (double *)(void *)(memory + heads);
    ret_rows->memory = memory;
    ret_rows->column = (hf_monitor_column **)(void *)memory;
    ret_rows->columns = column_count;
    ret_rows->count = count;
    ret_rows->times = (int64_t *)(void *)next;
    ret_rows->widths = ret_rows->times + count;
    next += 2 * count;
    for (size_t i = 0; i < column_count; i++) {
        hf_monitor_column *column =
            (hf_monitor_column *)(void *)(memory + pointers) + i;
        ret_rows->column[i] = column;
        memcpy(column->name, columns[i].name, sizeof column->name);
        end_text(column->name, sizeof column->name);
        column->kind =
            columns[i].kind == HF_MONITOR_AMOUNT ? HF_MONITOR_AMOUNT : HF_MONITOR_GAUGE;
        column->values = next;
        column->lows = columns[i].low_at != 0 ? next + count : NULL;
        column->highs = columns[i].low_at != 0 ? next + 2 * count : NULL;
        next += columns[i].low_at != 0 ? 3 * count : count;
    }
    return HF_OK;
}

static void
copy_rows(const hf_monitor_view *view, const hfi_layout_level *level, size_t first,
          hf_monitor_rows *rows) {
    const hfi_layout_column *columns = place_in_view(view, level->columns_at);
    size_t size = rows->count * 8, from = first * 8;
    memcpy(rows->times, place_in_view(view, level->time_at + from), size);
    memcpy(rows->widths, place_in_view(view, level->width_at + from), size);
    for (size_t i = 0; i < rows->columns; i++) {
        hf_monitor_column *column = rows->column[i];
        memcpy(column->values, place_in_view(view, columns[i].value_at + from), size);
        if (column->lows == NULL)
            continue;
        memcpy(column->lows, place_in_view(view, columns[i].low_at + from), size);
        memcpy(column->highs, place_in_view(view, columns[i].high_at + from), size);
    }
}

hf_status
hf_monitor_view_rows(const hf_monitor_view *view, hf_monitor_level which,
                     int64_t begin_ns, int64_t end_ns, hf_monitor_rows *ret_rows,
                     hf_error *reterr) {
    HFI_NEED(reterr, view, ret_rows);
    uint64_t seen;
    hf_status status =
        HFI_STRUCT_CHECK_OUTPUT(ret_rows, hf_monitor_rows, memory, reterr);
    if (status != HF_OK)
        return status;
    if ((unsigned)which >= HF_MONITOR_LEVELS)
        return HF_NOT_FOUND;
    const hfi_layout_level *level = &view->base->level[which];
    if (!level_lies(view, level))
        return hf_error_set(reterr, HF_E_CORRUPT, "the monitor's tables are damaged");
    for (int i = 0; i < TRIES; i++) {
        if (!begin_reading(&level->moves, &seen))
            continue;
        uint64_t count = atomic_load_explicit(&level->count, memory_order_acquire);
        const int64_t *times = place_in_view(view, level->time_at);
        const int64_t *widths = place_in_view(view, level->width_at);
        count = count < level->capacity ? count : level->capacity;
        size_t first = first_after(times, (size_t)count, begin_ns);
        size_t last = first_after(times, (size_t)count, end_ns);
        if (last < count && times[last] - widths[last] < end_ns)
            last++;
        hf_monitor_rows rows = {.struct_size = sizeof rows};
        if (allocate_rows(place_in_view(view, level->columns_at), level->columns,
                          last > first ? last - first : 0, &rows) != HF_OK)
            return hf_error_set(reterr, HF_E_NOMEM, "no memory for the samples");
        copy_rows(view, level, first, &rows);
        if (counter_unchanged(&level->moves, seen)) {
            hfi_struct_write(ret_rows, &rows, sizeof rows);
            return HF_OK;
        }
        hf_monitor_rows_fini(&rows);
    }
    return hf_error_set(reterr, HF_BUSY, "the monitor ended while it wrote");
}

/* ---- cells ---------------------------------------------------------------------- */

void
hf_monitor_view_cells(const hf_monitor_view *view, int64_t *ret_first,
                      int64_t *ret_end) {
    if (!view || !ret_first || !ret_end)
        return;
    uint64_t count = atomic_load_explicit(&view->base->cells, memory_order_acquire);
    if (count > INT64_MAX)
        count = 0;
    *ret_end = (int64_t)count;
    *ret_first = (int64_t)(count > HFI_MONITOR_CELLS ? count - HFI_MONITOR_CELLS : 0);
}

static char *
copy_ring_text(const hf_monitor_view *view, uint64_t at, size_t size) {
    char *text = malloc(size + 1);
    if (text == NULL)
        return NULL;
    const char *ring = place_in_view(view, view->base->text_at);
    size_t from = (size_t)(at % HFI_MONITOR_TEXT);
    size_t first = HFI_MONITOR_TEXT - from < size ? HFI_MONITOR_TEXT - from : size;
    memcpy(text, ring + from, first);
    memcpy(text + first, ring, size - first);
    text[size] = '\0';
    atomic_thread_fence(memory_order_acquire);
    uint64_t now = atomic_load_explicit(&view->base->text, memory_order_relaxed);
    if (now < at + size || now - at > HFI_MONITOR_TEXT) /* overwritten */
        *text = '\0';
    return text;
}

hf_status
hf_monitor_view_cell(const hf_monitor_view *view, int64_t index,
                     hf_monitor_cell *ret_cell, char **ret_source) {
    HFI_NEED(NULL, view, ret_cell);
    int64_t first, end;
    uint64_t seen, text;
    hf_monitor_cell cell;
    hf_status status = HFI_STRUCT_CHECK_OUTPUT(ret_cell, hf_monitor_cell, end, NULL);
    if (status != HF_OK)
        return status;
    hf_monitor_view_cells(view, &first, &end);
    if (index < first || index >= end ||
        !array_is_inside(view, view->base->cells_at, HFI_MONITOR_CELLS,
                         sizeof(hfi_layout_cell)) ||
        !array_is_inside(view, view->base->text_at, HFI_MONITOR_TEXT, 1))
        return HF_NOT_FOUND;
    const hfi_layout_cell *slot = place_in_view(view, view->base->cells_at);
    slot += index % HFI_MONITOR_CELLS;
    for (int i = 0; i < TRIES; i++) {
        if (!begin_reading(&slot->sequence, &seen))
            continue;
        cell = slot->cell;
        text = slot->text;
        if (!counter_unchanged(&slot->sequence, seen))
            continue;
        if (cell.index != index || cell.pid_count > HF_MONITOR_PIDS_MAX ||
            cell.source_size > HFI_MONITOR_TEXT_MAX)
            return HF_NOT_FOUND;
        if (ret_source != NULL &&
            (*ret_source = copy_ring_text(view, text, cell.source_size)) == NULL)
            return HF_E_NOMEM;
        hfi_struct_write(ret_cell, &cell, sizeof cell);
        return HF_OK;
    }
    return HF_NOT_FOUND;
}
