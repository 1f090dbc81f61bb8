/* request.c - a request as the worker sees it, and its cost as the client sees it.
 *
 * The JSON parts history unparsed: the worker reads what it needs. For an
 * execute_request the frontend adds what it decided: the code with its own magics
 * blanked, the execution count, and for a cell worker what to record and which names
 * stayed in the main worker.
 *
 * The cost of a cell goes into the reply's metadata under "holdfast". Hand-over in is
 * what passed from taking the request to the first line of user code: the main worker's
 * commit and the worker's binding; hand-over out is everything after the last line up
 * to the reply. So the three times add up to what the client waited for.
 */
#include "session/request.h"

#include <math.h>
#include <string.h>

#include "session/commits.h"
#include "workers/program.h"

static size_t
argument_count(char *const *arguments) {
    size_t count = 0;
    while (arguments != NULL && arguments[count] != NULL)
        count++;
    return count;
}

static void
add_instrument(hf_kernel *kernel, hfi_frame *frame) {
    const hfi_directive *directive = &kernel->cell.directive;
    size_t count = argument_count(directive->arguments);
    json_t *unserializable = hfi_commits_unserializable(kernel);
    const char *name;
    json_t *reason;
    hfi_frame_add_map(frame, "instrument", 5);
    hfi_commits_add_name(kernel, frame);
    hfi_frame_add_array(frame, "arguments", count);
    for (size_t i = 0; i < count; i++)
        hfi_frame_put_text(frame, hfi_part_text(directive->arguments[i]));
    hfi_frame_add_flag(frame, "isolated", directive->isolated);
    hfi_frame_add_text(frame, "run_reason", hfi_textbuf_part(&kernel->cell.run_reason));
    hfi_frame_add_map(frame, "unserializable", json_object_size(unserializable));
    json_object_foreach(unserializable, name, reason)
        hfi_frame_add_text(frame, name, hfi_part_text(json_string_value(reason)));
}

/* Begin a frame of the message's own seven keys and `more`. */
static void
begin_frame(hf_kernel *kernel, hfi_frame *frame, hfi_request *request, size_t more) {
    const hfi_message *message = &request->message;
    request->id = ++kernel->next_id;
    hfi_frame_init(frame, "request", (uint32_t)(7 + more));
    hfi_frame_add_integer(frame, "id", request->id);
    hfi_frame_add_text(frame, "type", hfi_part_text(message->type));
    hfi_frame_add_bytes(frame, "header", message->header);
    hfi_frame_add_bytes(frame, "parent", message->parent);
    hfi_frame_add_bytes(frame, "metadata", message->metadata);
    hfi_frame_add_bytes(frame, "content", message->content);
    hfi_frame_add_array(frame, "buffers", message->buffer_count);
    for (size_t i = 0; i < message->buffer_count; i++)
        hfi_frame_put_bytes(frame, message->buffers[i]);
}

/* A dead worker is noticed by its channel, which ends the request. */
static void
send_frame(hfi_control *channel, hfi_frame *frame, const char *type) {
    hf_error error = HF_ERROR_INIT;
    if (hfi_control_send_consume(channel, frame, NULL, 0, &error) != HF_OK) {
        hfi_log("%s: %s", type, error.message);
        hfi_control_end(channel); /* nobody would answer it */
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
                      hfi_request_key *more) {
    const char *type = request->message.type;
    int executes = strcmp(type, "execute_request") == 0;
    int instruments = executes && kernel->cell.plan >= HFI_PLAN_IN_PROCESS;
    hfi_frame frame;
    begin_frame(kernel, &frame, request,
                (executes ? 2u : 0) + (instruments ? 1u : 0) + (more != NULL ? 1u : 0));
    if (executes) {
        hfi_frame_add_text(&frame, "code", hfi_cell_code(&kernel->cell));
        hfi_frame_add_integer(&frame, "execution_count", kernel->cell.number);
    }
    if (instruments)
        add_instrument(kernel, &frame);
    if (more != NULL)
        more(kernel, &frame);
    send_frame(worker->control, &frame, type);
}

void
hfi_request_send_aside(hf_kernel *kernel, hfi_control *channel, hfi_request *request,
                       const char *subshell, long long number) {
    const char *type = request->message.type;
    json_t *code = json_object_get(request->message.body, "code");
    int executes = strcmp(type, "execute_request") == 0;
    hfi_frame frame;
    begin_frame(kernel, &frame, request, 1u + (executes ? 2u : 0));
    hfi_frame_add_text(&frame, "subshell", hfi_part_text(subshell));
    if (executes) {
        hfi_frame_add_text(
            &frame, "code",
            hfi_part_of(json_string_value(code), json_string_length(code)));
        hfi_frame_add_integer(&frame, "execution_count", number);
    }
    send_frame(channel, &frame, type);
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

/* The way in is what remains: a standby that wasn't ready yet is waited for there, and
 * what IPython does before the cell's code is there, too, as a part of wait_ms. */
hfi_times
hfi_request_times(const hf_kernel *kernel, const msgpack_object *report) {
    const hfi_cell *execution = &kernel->cell;
    long long now_ns = hfi_clock_ns();
    double publish = (double)(now_ns - execution->replied_ns) / 1e6;
    hfi_times times = {.total_ms = (double)(now_ns - execution->begin_ns) / 1e6,
                       .run_ms = hfi_map_real(report, "seconds_run", 0) * 1e3,
                       .out_ms = hfi_map_real(report, "seconds_out", 0) * 1e3 + publish,
                       .bind_ms = hfi_map_real(report, "seconds_in", 0) * 1e3,
                       .prepare_ms = hfi_map_real(report, "seconds_prepared", 0) * 1e3,
                       .trace_ms = hfi_map_real(report, "seconds_trace", 0) * 1e3,
                       .cpu_ms = hfi_map_real(report, "seconds_cpu", 0) * 1e3,
                       .recorder_ms =
                           hfi_map_real(report, "seconds_recorder", 0) * 1e3};
    times.commit_ms = (double)(execution->sent_ns - execution->begin_ns) / 1e6;
    times.in_ms = fmax(0, times.total_ms - times.run_ms - times.out_ms);
    double own_ms = times.bind_ms;
    if (execution->plan == HFI_PLAN_IN_PROCESS)
        own_ms += times.prepare_ms;
    times.wait_ms = fmax(0, times.in_ms - times.commit_ms - own_ms);
    return times;
}

static void
write_times(hf_kernel *kernel, const msgpack_object *report, hfi_textbuf *writer) {
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
    write_number(writer, "flush_ms", hfi_map_real(report, "seconds_flushed", 0) * 1e3);
    write_number(writer, "prepare_ms", times.prepare_ms);
    write_number(writer, "cpu_ms", times.cpu_ms);
    write_number(writer, "recorder_ms", times.recorder_ms);
}

/* The worker's own figures, those that are numbers or text. */
static void
write_report(const hf_kernel *kernel, const msgpack_object *report,
             hfi_textbuf *writer) {
    static const char *const numbers[] = {
        "bytes_mapped",         "bytes_shared",
        "copy_faults",          "names_bound",
        "names_decoded",        "names_skipped",
        "names_saved",          "events",
        "names_unserializable", "bytes_prepared",
        "bytes_populated",      "events_lost",
        "events_rewound",       "flushes",
        "bytes_peak",           "bytes_grown",
        "bytes_read",           "bytes_written",
        "events_others",        "bytes_preallocated",
    };
    write_number(writer, "bytes_copied",
                 hfi_map_real(report, "bytes_copied", 0) +
                     kernel->cell.commit_bytes_copied);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        write_number(writer, numbers[i], hfi_map_real(report, numbers[i], 0));
    hfi_part reason = hfi_map_part(report, "reason");
    if (reason.size > 0) {
        hfi_textbuf_format(writer, ",\"reason\":");
        hfi_textbuf_append_json(writer, reason.data, reason.size);
    }
}

static size_t
skip_blanks(const char *text, size_t size, size_t at) {
    while (at < size && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' ||
                         text[at] == '\t'))
        at++;
    return at;
}

/* The worker's metadata with one key more. */
static void
splice(hfi_textbuf *ret_metadata, hfi_part metadata, const hfi_textbuf *own) {
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
hfi_request_cost(hf_kernel *kernel, const msgpack_object *reply, const char *run_mode,
                 hfi_textbuf *ret_metadata) {
    hfi_textbuf own = {0};
    const hfi_textbuf *why = &kernel->cell.run_reason;
    const msgpack_object *report =
        strcmp(run_mode, "plain") != 0 ? hfi_map_get(reply, "report") : NULL;
    hfi_part trace = hfi_map_part(reply, "trace");
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
    splice(ret_metadata, hfi_map_part(reply, "metadata"), &own);
    hfi_textbuf_fini(&own);
}
