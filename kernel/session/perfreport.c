/* perfreport.c - what a cell used, shown after each cell, where the user wants that.
 *
 *   the cell runs -> its reply -> the home is asked -> what it shows -> idle
 *
 * A command of the user's (%perfmonitor_enable_perfreports) switches it on, in whatever
 * worker it runs: the worker says so ("perfreports"), and the frontend keeps it, since
 * it outlives them all. The report is asked for when the cell is over and replied to,
 * so it covers a cell of each kind, also one that died, and takes no part in what it
 * shows. It belongs to the cell that it follows: "idle" is said after it. The home
 * makes it, for which it has IPython's displays; after a cell that killed the home the
 * new one does.
 *
 * A report by the cell's own process was rejected: it would be measured with the cell,
 * which has no end yet, and a process that died makes none. One thread.
 */
#include "session/session.h"

#include <stdio.h>
#include <string.h>

void
hfi_perfreport_configure(hf_kernel *kernel, hfi_worker *worker,
                         const msgpack_object *map) {
    (void)worker;
    hfi_part level = hfi_map_part(map, "level");
    hfi_perfreports *reports = &kernel->perfreports;
    reports->on = hfi_map_flag(map, "on");
    reports->text = hfi_map_flag(map, "text");
    snprintf(reports->level, sizeof reports->level, "%.*s", (int)level.size,
             level.size > 0 ? (const char *)level.data : "");
}

static int
is_wanted(const hf_kernel *kernel) {
    const hfi_cell *execution = &kernel->cell;
    return kernel->perfreports.on && hfi_cell_is_execution(execution) &&
           !execution->silent && execution->verdict.kind != HFI_ANSWER &&
           kernel->home != NULL && !kernel->leaving && !kernel->stopping;
}

int
hfi_perfreport_begin(hf_kernel *kernel) {
    hfi_frame frame;
    if (!is_wanted(kernel))
        return 0;
    hfi_cell_move(&kernel->cell, HFI_CELL_REPORTING);
    kernel->cell.request->id = ++kernel->next_id;
    hfi_frame_init(&frame, "perfreport", 4);
    hfi_frame_add_integer(&frame, "id", kernel->cell.request->id);
    hfi_frame_add_bytes(&frame, "header", kernel->cell.request->message.header);
    hfi_frame_add_text(&frame, "level", hfi_part_text(kernel->perfreports.level));
    hfi_frame_add_flag(&frame, "text", kernel->perfreports.text);
    hfi_crew_tell_home(kernel, &frame);
    return 1;
}

int
hfi_perfreport_end(hf_kernel *kernel) {
    if (kernel->cell.state != HFI_CELL_REPORTING)
        return 0;
    hfi_execute_end(kernel);
    return 1;
}
