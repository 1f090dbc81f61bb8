/* progress.c - what a client sees while a cell's state is handed over for long.
 *
 *   holdfast: saving the notebook's variables for the cell, 2 s
 *
 * A hand-over takes milliseconds as a rule, and nothing is shown. If one takes more
 * than half a second, a display shows which of its parts it is in, and is updated until
 * that is over: the main worker's commit, the start of its process and the binding
 * before the cell, and the save after it. Then it is gone. Before the cell has begun
 * its output is the display alone, so clear_output takes it away. After the cell the
 * line of what it cost takes its place (summary.c), or, if none is shown, it becomes
 * empty.
 *
 * If the commands have shown something above the cell (%%finalize_multicellmode), or an
 * earlier run of it is shown there (repeat.c), which clear_output would remove, nothing is
 * shown before it. One thread.
 */
#include "session/listeners.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "session/workers.h"
#include "session/publish.h"

#define FIRST_NS 500000000LL
#define NEXT_NS  500000000LL

struct hfi_progress {
    long long shown_ns; /* when it was shown last; 0: it isn't shown */
};

const hfi_owner hfi_progress_owner = {offsetof(hf_kernel, progress),
                                      sizeof(struct hfi_progress), NULL, NULL};

static int
has_output(const hfi_directive *directive) {
    return directive->out != NULL || directive->err != NULL || directive->note != NULL;
}

/* The part of the hand-over that is waited for, and since when; NULL if no hand-over is
 * under way. */
static const char *
waits_for(const hf_kernel *kernel, long long *ret_since_ns) {
    const hfi_cell *execution = &kernel->cell;
    if (kernel->cell.request == NULL || execution->silent)
        return NULL;
    if (execution->state == HFI_CELL_COLLECTING && hfi_cell_is_in_worker(execution)) {
        *ret_since_ns = execution->ended_ns;
        return "saving what the cell changed";
    }
    *ret_since_ns = execution->begin_ns;
    if (has_output(&execution->directive) || !hfi_repeat_is_first(kernel))
        return NULL;
    if (hfi_cell_waits_for_commit(execution))
        return "saving the notebook's variables for the cell";
    if (hfi_cell_has_begun(execution) || !hfi_cell_is_in_worker(execution))
        return NULL;
    return hfi_workers_cell(kernel) != NULL && hfi_workers_cell(kernel)->ready_ns != 0
               ? "binding the notebook's variables in the cell's process"
               : "starting a process for the cell";
}

long long
hfi_progress_deadline_ns(const hf_kernel *kernel) {
    long long since_ns, shown_ns = kernel->progress->shown_ns;
    if (waits_for(kernel, &since_ns) == NULL)
        return -1;
    return shown_ns != 0 ? shown_ns + NEXT_NS : since_ns + FIRST_NS;
}

/* A display; `data` are the members of the message's "data". */
static void
publish(hf_kernel *kernel, hfi_part data, const char *kind) {
    long long shown_ns = kernel->progress->shown_ns;
    hfi_textbuf content = {0};
    hfi_textbuf_format(&content, "{\"data\":{");
    hfi_textbuf_append(&content, data.data, data.size);
    hfi_textbuf_format(&content, "},\"metadata\":{\"holdfast\":\"%s\"},\"transient\":{",
                       kind);
    if (shown_ns != 0 || strcmp(kind, "progress") == 0)
        hfi_textbuf_format(&content, "\"display_id\":\"holdfast-%s-%lld\"",
                           hfi_publish_name(kernel), kernel->cell.request->id);
    hfi_textbuf_format(&content, "}}");
    hfi_publish(kernel, shown_ns != 0 ? "update_display_data" : "display_data",
                kernel->cell.request->message.header, hfi_textbuf_part(&content));
    hfi_textbuf_fini(&content);
}

void
hfi_progress_tick(hf_kernel *kernel, long long now_ns) {
    long long since_ns = now_ns;
    const char *part = waits_for(kernel, &since_ns);
    hfi_textbuf text = {0}, data = {0};
    if (part == NULL || now_ns < hfi_progress_deadline_ns(kernel))
        return;
    hfi_textbuf_format(&text, "holdfast: %s", part);
    if (now_ns - since_ns >= 1000000000LL)
        hfi_textbuf_format(&text, ", %lld s", (now_ns - since_ns) / 1000000000LL);
    hfi_textbuf_format(&data, "\"text/plain\":");
    hfi_textbuf_append_json(&data, text.data, text.size);
    publish(kernel, hfi_textbuf_part(&data), "progress");
    kernel->progress->shown_ns = now_ns;
    hfi_textbuf_fini(&text);
    hfi_textbuf_fini(&data);
}

void
hfi_progress_replace(hf_kernel *kernel, hfi_part data, const char *kind) {
    publish(kernel, data, kind);
    kernel->progress->shown_ns = 0;
}

/* Marked as ours, so that a program that compares outputs can leave it out. */
static void
clear(hf_kernel *kernel) {
    hfi_outgoing message = {.type = "clear_output",
                            .parent = kernel->cell.request->message.header,
                            .metadata = hfi_part_text("{\"holdfast\":\"progress\"}"),
                            .content = hfi_part_text("{\"wait\":false}")};
    hfi_publish_outgoing(kernel, &message);
}

/* That part of the hand-over is over. */
static void
end(hf_kernel *kernel, int has_begun) {
    if (kernel->progress->shown_ns == 0)
        return;
    if (has_begun)
        hfi_progress_replace(kernel, hfi_part_text("\"text/plain\":\"\""), "progress");
    else
        clear(kernel);
    kernel->progress->shown_ns = 0;
}

void
hfi_progress_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_STARTED)
        end(kernel, 0);
    else if (event->kind == HFI_EVENT_CELL_FAILS ||
             event->kind == HFI_EVENT_CELL_FINISHED)
        end(kernel, kernel->cell.started_ns != 0);
}
