/* celllog.c - which cells ran, from when to when, and what was used up to then.
 *
 * The last few thousand cells are kept, in a ring of records of one size; their sources
 * lie in a ring of text beside it. Old ones are overwritten. A record has the readings
 * of all levels at the cell's begin and end, so that what a cell used is exact however
 * coarse the rows of its time have become (series.c), and known too where the sampling
 * wasn't running.
 *
 * A reader finds by the record's seqlock whether he saw it whole, and by the count of
 * text bytes whether the source was overwritten meanwhile: the writer moves that count
 * on before it writes the text. One writer.
 */
#include "monitor/celllog.h"

#include <string.h>

static hfi_layout_cell *
slot_of(hfi_series *series, int64_t index) {
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
write_text(hfi_series *series, const char *text, size_t size) {
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
    hfi_layout_cell *slot = slot_of(series, (int64_t)index);
    cell->source_cut = size > HFI_MONITOR_TEXT_MAX;
    cell->source_size = (uint32_t)(cell->source_cut ? HFI_MONITOR_TEXT_MAX : size);
    cell->index = (int64_t)index;
    write_cell(slot, cell, write_text(series, source, cell->source_size));
    atomic_store_explicit(&series->base->cells, index + 1, memory_order_release);
    return cell->index;
}

void
hfi_celllog_end(hfi_series *series, const hf_monitor_cell *cell) {
    hfi_layout_cell *slot = slot_of(series, cell->index);
    if (slot->cell.index == cell->index)
        write_cell(slot, cell, slot->text);
}
