/* runs.c - what the main worker knows of the recorded cells that ran.
 *
 * %trace shows a cell's trace after the cell, also beside that of the cell's run
 * before. So the main worker gets a frame for each run, whichever process ran it, and
 * also if that died. The frame has the run's number, its code, where its trace is
 * (nowhere, if the process died without one), how it ended, and what it cost. For an
 * isolated cell the main worker gets the same, to show what it cost, but it has no
 * trace to be listed.
 *
 * The list is kept here as well, because a main worker may die: the next one gets all
 * of it. The number of runs and the length of a run's code are bounded. The traces stay
 * on the disk, whatever the list has. One thread.
 */
#include "session/listeners.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session/workers.h"
#include "workers/program.h"

#define RUNS_MAX 256
#define CODE_MAX (64 << 10) /* of a longer cell only the trace is kept */

typedef struct hfi_runs {
    json_t *list; /* array, oldest first */
} hfi_runs;

static void
fini_runs(hf_kernel *kernel) {
    json_decref(kernel->runs->list);
}

const hfi_owner hfi_runs_owner = {offsetof(hf_kernel, runs), sizeof(struct hfi_runs),
                                  NULL, fini_runs};

static void
report_run(hf_kernel *kernel, const json_t *run, bool is_listed) {
    char *text = json_dumps(run, JSON_COMPACT);
    if (text == NULL)
        return;
    hfi_workers_send_main(kernel, HFI_FRAME(to_main_ran, .run = hfi_part_text(text),
                                            .listed = is_listed));
    free(text);
}

static double
wall_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Bytes that aren't UTF-8, as a path may have them, become U+FFFD. */
static json_t *
text_value(hfi_part part) {
    if (part.size == 0 || hfi_utf8_is_valid(part.data, part.size))
        return json_stringn_nocheck(part.size > 0 ? part.data : "", part.size);
    hfi_textbuf quoted = {0};
    hfi_textbuf_append_json(&quoted, part.data, part.size);
    json_t *value = json_loadb(quoted.data, quoted.size, JSON_DECODE_ANY, NULL);
    hfi_textbuf_fini(&quoted);
    return value;
}

/* The cost as the client gets it, without its key. */
static json_t *
cost_value(const hfi_textbuf *metadata) {
    json_t *all =
        metadata != NULL ? json_loadb(metadata->data, metadata->size, 0, NULL) : NULL;
    json_t *cost = json_incref(json_object_get(all, "holdfast"));
    json_decref(all);
    return cost != NULL ? cost : json_object();
}

/* Whether the cell should have left a trace. Score-P writes it when a process exits,
 * and some processes end otherwise. */
static bool
is_recorded(const hf_kernel *kernel) {
    const hfi_directive *directive = &kernel->cell.directive;
    return directive->kind == HFI_RUN_INSTRUMENTED && !directive->isolated;
}

static void
note_run(hf_kernel *kernel, const hfi_from_worker_reply *reply, const char *outcome,
         const hfi_textbuf *metadata) {
    hfi_textbuf path = {0};
    hfi_part trace = reply != NULL ? reply->trace : hfi_trace_recording(kernel);
    long long begin_ns = kernel->cell.begin_ns, now_ns = hfi_clock_ns();
    bool is_listed = trace.size > 0 || (reply == NULL && is_recorded(kernel));
    if (kernel->cell.request == NULL || (reply == NULL && !is_listed))
        return;
    if (trace.size > 0)
        hfi_trace_path(kernel, trace, &path);
    hfi_part code = hfi_cell_code(&kernel->cell);
    if (code.size > CODE_MAX)
        code = hfi_part_text("");
    json_t *run = json_pack(
        "{s:I,s:o,s:o,s:s,s:b,s:b,s:I,s:I,s:f,s:o}", "number",
        (json_int_t)kernel->cell.number, "code", text_value(code), "trace",
        text_value(hfi_textbuf_part(&path)), "outcome", outcome, "multicell",
        kernel->cell.directive.multicell, "automatic",
        reply != NULL ? reply->automatic : hfi_trace_is_automatic(kernel), "begin_ns",
        (json_int_t)begin_ns, "end_ns", (json_int_t)now_ns, "wall",
        wall_clock() - (double)(now_ns - begin_ns) / 1e9, "cost", cost_value(metadata));
    hfi_textbuf_fini(&path);
    if (run == NULL)
        return;
    report_run(kernel, run, is_listed);
    if (!is_listed) {
        json_decref(run);
        return;
    }
    if (kernel->runs->list == NULL)
        kernel->runs->list = json_array();
    if (json_array_size(kernel->runs->list) >= RUNS_MAX)
        json_array_remove(kernel->runs->list, 0);
    json_array_append_new(kernel->runs->list, run);
}

static void
report_all(hf_kernel *kernel) {
    size_t i;
    json_t *run;
    json_array_foreach(kernel->runs->list, i, run) report_run(kernel, run, true);
}

void
hfi_runs_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_REPLIED)
        note_run(kernel, event->reply, event->failed ? "error" : "ok", event->metadata);
    else if (event->kind == HFI_EVENT_CELL_DIED)
        note_run(kernel, NULL, "died", NULL);
    else if (event->kind == HFI_EVENT_MAIN_MADE)
        report_all(kernel);
}
