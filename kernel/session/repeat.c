/* repeat.c - a recorded cell that runs several times in turn (--repeat N).
 *
 * One run says nothing about the noise. So the request of such a cell isn't replied to
 * when a run ends. It goes back to the head of the queue and begins again, as if a
 * person had run the cell N times. All runs have the cell's number, which the prompts
 * show. Each run has a recording, and an entry in %trace's list, of its own. It finds
 * what the run before has left, and is over when its changes are published. The client
 * gets one reply, that of the last run, and below it one line with the median and the
 * range of all.
 *
 * A run that fails, dies or is interrupted is the last one, and has its own line.
 * Between two runs the kernel does whatever it does between two cells (a commit, a
 * rollback, an interrupt).
 *
 * Rejected:
 * - N runs within one request in the worker. There would be one rollback for all of
 *   them, one death would cost all recordings, and each of the three ways to run a cell
 *   would need a loop.
 * - Every run on the state before the first one. No process can return to it with its
 *   threads and devices. The user sees the cell run five times, and expects five times
 *   its changes.
 *
 * One thread.
 */
#include "session/listeners.h"

#include <stdlib.h>
#include <string.h>

#include "session/publish.h"
#include "session/request.h"

static hfi_repeats *
repeats_of(hf_kernel *kernel) {
    hfi_request *request = kernel->cell.request;
    size_t count = kernel->cell.directive.repeat;
    if (request->repeats == NULL && count > 0)
        request->repeats = calloc(1, sizeof(hfi_repeats) + count * sizeof(double));
    return request->repeats;
}

/* Only times of runs that succeeded are noted: one that raised can't be compared with
 * them. Without memory the cell runs once. */
static void
note_time(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    hfi_repeats *repeats = repeats_of(kernel);
    if (repeats == NULL || repeats->count >= kernel->cell.directive.repeat ||
        hfi_ends_read(reply).failed)
        return;
    hfi_times times = hfi_request_times(kernel, reply->report);
    repeats->run_ms[repeats->count++] = times.run_ms;
    hfi_cell_repeat(&kernel->cell,
                    !kernel->leaving && repeats->count < kernel->cell.directive.repeat);
}

static int
compare_times(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void
write_time(hfi_textbuf *text, double ms) {
    if (ms >= 1000)
        hfi_textbuf_format(text, "%.2f s", ms / 1000);
    else
        hfi_textbuf_format(text, ms >= 99.95 ? "%.0f ms" : "%.3g ms", ms);
}

static void
write_runs(hfi_textbuf *text, hfi_repeats *repeats, long long number) {
    size_t count = repeats->count;
    qsort(repeats->run_ms, count, sizeof *repeats->run_ms, compare_times);
    double median = (repeats->run_ms[count / 2] + repeats->run_ms[(count - 1) / 2]) / 2;
    hfi_textbuf_format(text, "%zu runs of In[%lld]: median ", count, number);
    write_time(text, median);
    hfi_textbuf_format(text, ", from ");
    write_time(text, repeats->run_ms[0]);
    hfi_textbuf_format(text, " to ");
    write_time(text, repeats->run_ms[count - 1]);
}

/* Show the line below the last run. */
static void
show_runs(hf_kernel *kernel) {
    hfi_repeats *repeats = kernel->cell.request->repeats;
    const hf_kernel_commands *table = kernel->command_table;
    hfi_textbuf text = {0}, html = {0}, content = {0};
    if (repeats == NULL || repeats->count < 2 || kernel->cell.goes_on)
        return;
    write_runs(&text, repeats, kernel->cell.number);
    hfi_textbuf_format(&html, "<div style=\"font-size:90%%;opacity:.8\">%s",
                       hfi_textbuf_string(&text));
    if (table != NULL && table->where != NULL)
        hfi_textbuf_format(&html,
                           " &middot; <code>%s %lld --view compare</code> shows "
                           "the functions",
                           table->where, kernel->cell.number);
    hfi_textbuf_format(&html, "</div>");
    hfi_textbuf_format(&content, "{\"data\":{\"text/plain\":");
    hfi_textbuf_append_json(&content, text.data, text.size);
    hfi_textbuf_format(&content, ",\"text/html\":");
    hfi_textbuf_append_json(&content, html.data, html.size);
    hfi_textbuf_format(&content, "},\"metadata\":{\"holdfast\":\"summary\"},"
                                 "\"transient\":{}}");
    hfi_publish(kernel, "display_data", kernel->cell.request->message.header,
                hfi_textbuf_part(&content));
    hfi_textbuf_fini(&text);
    hfi_textbuf_fini(&html);
    hfi_textbuf_fini(&content);
}

int
hfi_repeat_is_first(const hf_kernel *kernel) {
    const hfi_repeats *repeats = kernel->cell.request->repeats;
    return repeats == NULL || repeats->count == 0;
}

int
hfi_repeat_is_last(const hf_kernel *kernel) {
    const hfi_repeats *repeats = kernel->cell.request->repeats;
    return (repeats != NULL ? repeats->count : 0) + 1 >= kernel->cell.directive.repeat;
}

int
hfi_repeat_is_told(const hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    return kernel->cell.directive.repeat == 0 || hfi_ends_read(reply).failed;
}

void
hfi_repeat_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind != HFI_EVENT_CELL_COLLECTED || event->failed)
        return;
    note_time(kernel, event->reply);
    show_runs(kernel);
}
