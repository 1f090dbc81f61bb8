/* request.c - a request as the worker sees it, and its cost as the client sees it.
 *
 * The client's JSON goes on unparsed: the worker reads the parts that it needs. To an
 * execute_request the frontend adds what it has decided: the code, with the frontend's
 * magics blanked, and the execution count. A cell worker also gets what to record, and
 * which names stayed in the main worker.
 *
 * The cost of a cell is put into the reply's metadata under "holdfast". It has three
 * times, which add up to what the client has waited for:
 * - in: from taking the request to the first line of user code; the main worker's
 *   commit and the worker's binding
 * - run: the code
 * - out: from the last line to the reply
 */
#include "session/request.h"

#include <math.h>
#include <string.h>

#include "session/commits.h"
#include "session/lists.h"
#include "workers/program.h"

/* The members of a frame that come from the client's message. */
#define OF_MESSAGE(request)                                                            \
    .id = (request)->id, .type = hfi_part_text((request)->message.type),               \
    .header = (request)->message.header, .parent = (request)->message.parent,          \
    .metadata = (request)->message.metadata, .content = (request)->message.content,    \
    .buffers = {(request)->message.buffers, (request)->message.buffer_count}

/* Send a frame. A dead worker is noticed by its channel, which ends the request. */
static void
send_frame(hfi_control *channel, const hfi_frame *frame, const char *type) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_control_send_consume(channel, frame, &error) != HF_OK) {
        hfi_log("%s: %s", type, error.message);
        hfi_control_end(channel); /* without it nobody would answer the request */
    }
}

int
hfi_request_is_for_worker(const char *type) {
    static const char *const types[] = {
        "complete_request", "inspect_request",   "is_complete_request",
        "history_request",  "comm_info_request", "comm_open",
        "comm_msg",         "comm_close",        "debug_request"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return 1;
    return 0;
}

void
hfi_request_send(hf_kernel *kernel, hfi_worker *worker, hfi_request *request) {
    hfi_request_send_with(kernel, worker, request, NULL);
}

void
hfi_request_send_with(hf_kernel *kernel, hfi_worker *worker, hfi_request *request,
                      const hfi_map_history *history) {
    const char *type = request->message.type;
    const hfi_cell *cell = &kernel->cell;
    bool executes = strcmp(type, "execute_request") == 0;
    hf_generation name;
    request->id = ++kernel->next_id;
    hfi_map_instrument instrument = {.source = NULL};
    hfi_to_worker_request frame = {.head.row = &hfi_row_to_worker_request,
                                   OF_MESSAGE(request),
                                   .history = history};
    if (executes) {
        frame.code = hfi_cell_code(cell);
        frame.execution_count = cell->number;
    }
    if (executes && cell->plan >= HFI_PLAN_IN_PROCESS) {
        instrument.arguments = hfi_list_of_strings(cell->directive.arguments);
        instrument.unserializable =
            hfi_list_of_object(hfi_commits_unserializable(kernel));
        instrument.isolated = cell->directive.isolated;
        instrument.viewed = cell->directive.viewer != NULL;
        instrument.run_reason = hfi_textbuf_part(&cell->run_reason);
        instrument.name = hfi_commits_name(kernel, &name);
        frame.instrument = &instrument;
    }
    send_frame(worker->control, &frame.head, type);
    hfi_list_free(instrument.arguments.items);
    hfi_list_free(instrument.unserializable.items);
}

void
hfi_request_send_aside(hf_kernel *kernel, hfi_control *channel, hfi_request *request,
                       const char *subshell, long long number) {
    const char *type = request->message.type;
    json_t *code = json_object_get(request->message.body, "code");
    request->id = ++kernel->next_id;
    hfi_to_subshells_request frame = {.head.row = &hfi_row_to_subshells_request,
                                      OF_MESSAGE(request),
                                      .subshell = hfi_part_text(subshell)};
    if (strcmp(type, "execute_request") == 0) {
        frame.code = hfi_part_of(json_string_value(code), json_string_length(code));
        frame.execution_count = number;
    }
    send_frame(channel, &frame.head, type);
}

static void
write_number(hfi_textbuf *writer, const char *name, double value) {
    if (!isfinite(value))
        value = 0;
    if (value == floor(value) && fabs(value) < 1e15)
        hfi_textbuf_format(writer, ",\"%s\":%lld", name, (long long)value);
    else
        hfi_textbuf_format(writer, ",\"%s\":%.4f", name, value);
}

/* The way in is what remains. It includes the wait for a standby that wasn't ready, and
 * what IPython does before the cell's code. Both are parts of wait_ms. */
hfi_times
hfi_request_times(const hf_kernel *kernel, const hfi_map_report *report) {
    const hfi_cell *execution = &kernel->cell;
    const hfi_map_report none = {.source = NULL};
    const hfi_map_report *has = report != NULL ? report : &none;
    long long now_ns = hfi_clock_ns();
    double publish = (double)(now_ns - execution->replied_ns) / 1e6;
    hfi_times times = {.total_ms = (double)(now_ns - execution->begin_ns) / 1e6,
                       .run_ms = has->seconds_run * 1e3,
                       .out_ms = has->seconds_out * 1e3 + publish,
                       .bind_ms = has->seconds_in * 1e3,
                       .prepare_ms = has->seconds_prepared * 1e3,
                       .trace_ms = has->seconds_trace * 1e3,
                       .cpu_ms = has->seconds_cpu * 1e3,
                       .recorder_ms = has->seconds_recorder * 1e3};
    times.commit_ms = (double)(execution->sent_ns - execution->begin_ns) / 1e6;
    times.in_ms = fmax(0, times.total_ms - times.run_ms - times.out_ms);
    double own_ms = times.bind_ms;
    if (execution->plan == HFI_PLAN_IN_PROCESS)
        own_ms += times.prepare_ms;
    times.wait_ms = fmax(0, times.in_ms - times.commit_ms - own_ms);
    return times;
}

static void
write_times(hf_kernel *kernel, const hfi_map_report *report, hfi_textbuf *writer) {
    hfi_times times = hfi_request_times(kernel, report);
    if (report == NULL) {
        write_number(writer, "run_ms", times.total_ms);
        return;
    }
    write_number(writer, "hand_over_in_ms", times.in_ms);
    write_number(writer, "run_ms", times.run_ms);
    write_number(writer, "hand_over_out_ms", times.out_ms);
    write_number(writer, "commit_ms", times.commit_ms);
    write_number(writer, "wait_ms", times.wait_ms);
    write_number(writer, "bind_ms", times.bind_ms);
    write_number(writer, "trace_ms", times.trace_ms);
    write_number(writer, "flush_ms", report->seconds_flushed * 1e3);
    write_number(writer, "prepare_ms", times.prepare_ms);
    write_number(writer, "cpu_ms", times.cpu_ms);
    write_number(writer, "recorder_ms", times.recorder_ms);
}

/* Write the worker's own figures: those that are numbers or text. */
static void
write_report(const hf_kernel *kernel, const hfi_map_report *report,
             hfi_textbuf *writer) {
#define NUMBER(name) write_number(writer, #name, (double)report->name)
    write_number(writer, "bytes_copied",
                 (double)report->bytes_copied + kernel->cell.commit_bytes_copied);
    NUMBER(bytes_mapped);
    NUMBER(bytes_shared);
    NUMBER(copy_faults);
    NUMBER(names_bound);
    NUMBER(names_decoded);
    NUMBER(names_skipped);
    NUMBER(names_saved);
    NUMBER(events);
    NUMBER(names_unserializable);
    NUMBER(bytes_prepared);
    NUMBER(bytes_populated);
    NUMBER(events_lost);
    NUMBER(events_rewound);
    NUMBER(flushes);
    NUMBER(bytes_peak);
    NUMBER(bytes_grown);
    NUMBER(bytes_read);
    NUMBER(bytes_written);
    NUMBER(events_others);
    NUMBER(bytes_preallocated);
#undef NUMBER
    if (report->reason.size > 0) {
        hfi_textbuf_format(writer, ",\"reason\":");
        hfi_textbuf_append_json(writer, report->reason.data, report->reason.size);
    }
}

static size_t
skip_blanks(const char *text, size_t size, size_t at) {
    while (at < size && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' ||
                         text[at] == '\t'))
        at++;
    return at;
}

/* Write the worker's metadata with one more key. */
static void
splice_metadata(hfi_textbuf *ret_metadata, hfi_part metadata, const hfi_textbuf *own) {
    const char *text = metadata.data;
    size_t size = metadata.size;
    size_t at = skip_blanks(text, size, 0);
    int object = at < size && text[at] == '{';
    size_t first = skip_blanks(text, size, at + 1);
    hfi_textbuf_format(ret_metadata, "{\"holdfast\":");
    hfi_textbuf_append(ret_metadata, own->data, own->size);
    if (object && first < size && text[first] == '"') {
        hfi_textbuf_append(ret_metadata, ",", 1);
        hfi_textbuf_append(ret_metadata, text + first, size - first);
    } else {
        hfi_textbuf_append(ret_metadata, "}", 1);
    }
}

void
hfi_request_cost(hf_kernel *kernel, const hfi_from_worker_reply *reply,
                 const char *run_mode, hfi_textbuf *ret_metadata) {
    hfi_textbuf own = {0};
    const hfi_textbuf *why = &kernel->cell.run_reason;
    const hfi_map_report *report =
        strcmp(run_mode, "plain") != 0 ? reply->report : NULL;
    hfi_part trace = reply->trace;
    hfi_textbuf_format(&own, "{\"run\":\"%s\",\"generation\":%llu", run_mode,
                       (unsigned long long)hf_session_generation(kernel->store));
    if (why->size > 0) {
        hfi_textbuf_format(&own, ",\"run_reason\":");
        hfi_textbuf_append_json(&own, why->data, why->size);
    }
    write_times(kernel, report, &own);
    if (report != NULL)
        write_report(kernel, report, &own);
    if (trace.size > 0) {
        hfi_textbuf_format(&own, ",\"trace\":");
        hfi_textbuf_append_json(&own, trace.data, trace.size);
    }
    hfi_textbuf_append(&own, "}", 1);
    splice_metadata(ret_metadata, reply->metadata, &own);
    hfi_textbuf_fini(&own);
}
