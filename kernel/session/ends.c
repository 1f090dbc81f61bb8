/* ends.c - how a request ends: its reply, what it used, and "idle".
 *
 * Every way to the end in the table of states (cell.h) goes through hfi_ends_finish.
 * Listeners get an event (session.h).
 *
 * If the user wants it, a report of what the cell used follows its reply:
 *
 *   the cell runs -> its reply -> the main worker is asked -> its display -> idle
 *
 * A command of the user's (%perfmonitor_enable_perfreports) switches the reports on, in
 * whatever worker it runs. The worker reports that ("perfreports"), and the frontend
 * keeps the setting, since it outlives all workers. The report is asked for when the
 * cell is over and replied to. So it covers cells of every kind, also those that died,
 * and isn't a part of what it shows. It belongs to the cell before it. The main worker
 * makes it, because it has IPython's displays. After a cell that killed the main
 * worker, the new one makes it.
 *
 * Rejected: a report by the cell's own process. It would be measured with the cell,
 * which has no end yet, and a process that died makes none. One thread.
 */
#include "session/request.h"

#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "session/workers.h"
#include "session/publish.h"
#include "session/escalate.h"
#include "session/rerun.h"

/* The reports that the user wants after each cell. */
struct hfi_ends {
    int on;
    int text;       /* as plain text */
    char level[16]; /* "process", ... */
};

const hfi_owner hfi_ends_owner = {offsetof(hf_kernel, ends), sizeof(struct hfi_ends),
                                  NULL, NULL};

/* ---- replies -------------------------------------------------------------------- */

/* Whether a reply's content asks the client to let the kernel exit, as after exit(). */
static int
asks_exit(json_t *body) {
    json_t *item;
    size_t i;
    int asks = 0;
    json_array_foreach(json_object_get(body, "payload"), i, item) {
        const char *source = json_string_value(json_object_get(item, "source"));
        asks |= source != NULL && strcmp(source, "ask_exit") == 0 &&
                !json_is_true(json_object_get(item, "keepkernel"));
    }
    return asks;
}

hfi_ends_outcome
hfi_ends_read(const hfi_from_worker_reply *reply) {
    json_t *body =
        json_loadb(reply->content.data, reply->content.size, JSON_ALLOW_NUL, NULL);
    const char *status = json_string_value(json_object_get(body, "status"));
    const char *error = json_string_value(json_object_get(body, "ename"));
    hfi_ends_outcome outcome = {.failed =
                                    status != NULL && strcmp(status, "error") == 0,
                                .exits = asks_exit(body)};
    if (outcome.failed)
        snprintf(outcome.error, sizeof outcome.error, "%s",
                 error != NULL && *error != 0 ? error : "?"); /* "" means well */
    json_decref(body);
    return outcome;
}

int
hfi_ends_goes_on(hf_kernel *kernel, const char *error) {
    int as_before = hfi_rerun_ended(kernel, error);
    if (!kernel->cell.goes_on &&
        (error[0] == 0 || (as_before && !hfi_escalate_has_reached(kernel))) &&
        hfi_rerun_goes_on(kernel))
        hfi_cell_repeat(&kernel->cell, 1);
    return kernel->cell.goes_on;
}

/* The same content with the request's own number; NULL: it has that. */
static char *
renumber_content(const hf_kernel *kernel, const hfi_request *request,
                 hfi_part content) {
    if (request != kernel->cell.request || !hfi_cell_reruns(&kernel->cell))
        return NULL;
    json_t *body = json_loadb(content.data, content.size, JSON_ALLOW_NUL, NULL);
    (void)json_object_set_new(body, "execution_count", json_integer(request->number));
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

void
hfi_ends_reply(hf_kernel *kernel, const hfi_request *request,
               const hfi_from_worker_reply *reply, hfi_part metadata) {
    if (reply->content.size == 0 ||
        (request == kernel->cell.request &&
         hfi_ends_goes_on(kernel, hfi_ends_read(reply).error)))
        return;
    char *own = renumber_content(kernel, request, reply->content);
    hfi_reply(kernel, request, own != NULL ? hfi_part_text(own) : reply->content,
              metadata, reply->buffers.items, reply->buffers.count);
    free(own);
}

/* ---- what it used --------------------------------------------------------------- */

void
hfi_ends_want_reports(hf_kernel *kernel, hfi_worker *worker,
                      const hfi_from_worker_perfreports *frame) {
    (void)worker;
    struct hfi_ends *reports = kernel->ends;
    reports->on = frame->on;
    reports->text = frame->text;
    snprintf(reports->level, sizeof reports->level, "%.*s", (int)frame->level.size,
             frame->level.size > 0 ? frame->level.data : "");
}

int
hfi_ends_will_report(const hf_kernel *kernel) {
    const hfi_cell *execution = &kernel->cell;
    return kernel->ends->on && hfi_cell_is_execution(execution) && !execution->silent &&
           execution->directive.kind != HFI_ANSWER &&
           execution->directive.kind != HFI_REFUSE &&
           hfi_workers_main(kernel) != NULL && !kernel->leaving && !kernel->stopping;
}

static void
ask_report(hf_kernel *kernel) {
    hfi_request *request = kernel->cell.request;
    request->id = ++kernel->next_id;
    hfi_workers_send_main(kernel, HFI_FRAME(to_main_perfreport, .id = request->id,
                                            .header = request->message.header,
                                            .level = hfi_part_text(kernel->ends->level),
                                            .text = kernel->ends->text != 0));
}

/* Whether the main worker has to answer before the cell ends, although the cell was
 * replied to: it reports what it can't bind of the cell's changes, or makes the user's
 * report. */
static int
begin_report(hf_kernel *kernel) {
    int reports = hfi_ends_will_report(kernel);
    int adopts = kernel->cell.adoption != 0 && hfi_workers_main(kernel) != NULL &&
                 !kernel->leaving && !kernel->stopping;
    if (!reports && !adopts)
        return 0;
    hfi_cell_move(&kernel->cell, HFI_CELL_REPORTING);
    if (reports)
        ask_report(kernel);
    else
        kernel->cell.request->id = kernel->cell.adoption;
    return 1;
}

/* ---- ends ----------------------------------------------------------------------- */

void
hfi_ends_abort(hf_kernel *kernel, hfi_queue *queue) {
    hfi_request *request;
    while ((request = hfi_queue_pop_kind(queue, HFI_REQUEST_CELL)) != NULL) {
        hfi_publish_busy(kernel, request);
        hfi_reply(kernel, request, hfi_part_text("{\"status\":\"aborted\"}"),
                  hfi_part_text("{\"status\":\"aborted\"}"), NULL, 0);
        hfi_publish_idle(kernel, request);
        hfi_request_close(request);
    }
}

/* Nothing runs any more. */
static void
end_running_cell(hf_kernel *kernel) {
    int executed = hfi_cell_is_execution(&kernel->cell);
    int goes_on = kernel->cell.goes_on;
    int stop =
        executed && !goes_on && kernel->cell.failed && kernel->cell.stop_on_error;
    hfi_request *request = hfi_cell_end(&kernel->cell);
    /* Messages that were sent by now are dropped, too, but none that answers the
     * "idle". */
    if (stop)
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_STOPS_QUEUE});
    if (!goes_on)
        hfi_publish_idle(kernel, request);
    if (executed) {
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_OVER});
        hfi_cell_fini(&kernel->cell);
        hfi_publish_keep_parent(kernel, request->message.header);
        if (stop)
            hfi_ends_abort(kernel, &kernel->queue);
    }
    if (goes_on)
        hfi_queue_push_first(&kernel->queue, request);
    else
        hfi_request_close(request);
}

int
hfi_ends_report(hf_kernel *kernel) {
    if (kernel->cell.state != HFI_CELL_REPORTING)
        return 0;
    end_running_cell(kernel);
    return 1;
}

void
hfi_ends_postpone(hf_kernel *kernel) {
    if (kernel->cell.request == NULL || hfi_ends_report(kernel))
        return;
    hfi_rerun_postpone(kernel);
    hfi_cell_repeat(&kernel->cell, 1);
    hfi_cell_move(&kernel->cell, HFI_CELL_REPLIED);
    end_running_cell(kernel);
}

void
hfi_ends_finish(hf_kernel *kernel, int error) {
    hfi_cell_finish(&kernel->cell, error);
    if (hfi_cell_is_execution(&kernel->cell))
        hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_FINISHED});
    hfi_cell_move(&kernel->cell, HFI_CELL_REPLIED);
    if (!begin_report(kernel))
        end_running_cell(kernel);
}

void
hfi_ends_fail(hf_kernel *kernel, const char *name, const char *value) {
    hfi_ends_fail_with(kernel, name, value, hfi_part_text("{\"status\":\"error\"}"));
}

void
hfi_ends_fail_with(hf_kernel *kernel, const char *name, const char *value,
                   hfi_part metadata) {
    if (kernel->cell.request == NULL || hfi_ends_report(kernel))
        return;
    hfi_emit(kernel, &(hfi_event){.kind = HFI_EVENT_CELL_FAILS});
    hfi_cell_fail(&kernel->cell, name);
    hfi_reply_error_with(kernel, kernel->cell.request, kernel->cell.silent, name, value,
                         metadata);
    hfi_ends_finish(kernel, 1);
}
