/* progress.c - what a notebook shows while the hand-over of a cell's state takes long.
 *
 *   holdfast: saving the notebook's variables for the cell, 2 s
 *
 * As a rule a hand-over takes milliseconds, and nothing is shown. If it takes more than
 * a second, a display shows which part it is in: the main worker's commit, the start of
 * the cell's process, or the binding. The display is updated until the cell begins.
 * Then clear_output removes it. Until then it was all of the cell's output.
 *
 * Only a notebook that a person has open gets the display: its requests name their cell
 * ("cellId", from JupyterLab, Notebook and VS Code). Programs that run notebooks
 * (nbclient, papermill, nbconvert) and consoles get the messages that ipykernel sends.
 *
 * Two cases have no display, because clear_output would remove other output:
 * - The commands have shown something above the cell (%%finalize_multicellmode), or an
 *   earlier run of it is shown there (repeat.c).
 * - The save after a cell. To empty the display instead would leave an empty display in
 *   the stored notebook.
 *
 * One thread.
 */
#include "session/listeners.h"

#include <stddef.h>

#include <jansson.h>

#include "session/workers.h"
#include "session/publish.h"

#define FIRST_NS 1000000000LL
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

/* Whether the client keeps each cell's output apart. */
static int
is_notebook(const hfi_request *request) {
    hfi_part text = request->message.metadata;
    json_t *metadata = json_loadb(text.data, text.size, 0, NULL);
    int found = json_object_get(metadata, "cellId") != NULL;
    json_decref(metadata);
    return found;
}

/* The part of the hand-over that we wait for; NULL: none, or nobody sees it. */
static const char *
waits_for(const hf_kernel *kernel) {
    const hfi_cell *execution = &kernel->cell;
    int commits = hfi_cell_waits_for_commit(execution);
    int starts = hfi_cell_is_in_worker(execution) && !hfi_cell_has_begun(execution);
    if (execution->request == NULL || execution->silent || !(commits || starts))
        return NULL;
    if (has_output(&execution->directive) || !hfi_repeat_is_first(kernel) ||
        !is_notebook(execution->request))
        return NULL;
    if (commits)
        return "saving the notebook's variables for the cell";
    return hfi_workers_cell(kernel) != NULL && hfi_workers_cell(kernel)->ready_ns != 0
               ? "binding the notebook's variables in the cell's process"
               : "starting a process for the cell";
}

long long
hfi_progress_deadline_ns(const hf_kernel *kernel) {
    long long shown_ns = kernel->progress->shown_ns;
    if (waits_for(kernel) == NULL)
        return -1;
    return shown_ns != 0 ? shown_ns + NEXT_NS : kernel->cell.begin_ns + FIRST_NS;
}

void
hfi_progress_tick(hf_kernel *kernel, long long now_ns) {
    const char *part = waits_for(kernel);
    hfi_textbuf text = {0}, content = {0};
    if (part == NULL || now_ns < hfi_progress_deadline_ns(kernel))
        return;
    hfi_textbuf_format(&text, "holdfast: %s, %lld s", part,
                       (now_ns - kernel->cell.begin_ns) / 1000000000LL);
    hfi_textbuf_format(&content, "{\"data\":{\"text/plain\":");
    hfi_textbuf_append_json(&content, text.data, text.size);
    hfi_textbuf_format(&content,
                       "},\"metadata\":{\"holdfast\":\"progress\"},\"transient\":{"
                       "\"display_id\":\"holdfast-%s-%lld\"}}",
                       hfi_publish_name(kernel), kernel->cell.request->id);
    hfi_publish(kernel,
                kernel->progress->shown_ns != 0 ? "update_display_data"
                                                : "display_data",
                kernel->cell.request->message.header, hfi_textbuf_part(&content));
    kernel->progress->shown_ns = now_ns;
    hfi_textbuf_fini(&text);
    hfi_textbuf_fini(&content);
}

/* The cell begins, or ends before it began: remove the display. The message is marked
 * as ours, so that a program that compares outputs can leave it out. */
void
hfi_progress_hear(hf_kernel *kernel, const hfi_event *event) {
    if (kernel->progress->shown_ns == 0 ||
        (event->kind != HFI_EVENT_CELL_STARTED && event->kind != HFI_EVENT_CELL_FAILS &&
         event->kind != HFI_EVENT_CELL_FINISHED))
        return;
    hfi_outgoing message = {.type = "clear_output",
                            .parent = kernel->cell.request->message.header,
                            .metadata = hfi_part_text("{\"holdfast\":\"progress\"}"),
                            .content = hfi_part_text("{\"wait\":false}")};
    hfi_publish_outgoing(kernel, &message);
    kernel->progress->shown_ns = 0;
}
