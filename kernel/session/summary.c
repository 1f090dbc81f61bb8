/* summary.c - the line below an instrumented cell: what it cost, at a glance.
 *
 *   1.24 s on 1.0 cores; memory up to 312 MiB (+24 MiB); read 0 B, wrote 12 MiB;
 *   1,011,604 events, recording took 52 ms (4.2 %); in 23 ms (1.2 GiB; binding
 *   variables 20 ms), out 2.0 ms (80 MiB); ran isolated
 *
 * Nothing is read or measured for it here: the worker's report has the cell's processor
 * time, memory and I/O, the recorder has counted its events, and the frontend knows
 * what the client waited for. So it costs as much as a message. What recording took is
 * known of our own recorder, once a process that waits has measured what an event
 * costs; of Score-P it isn't, and the line says so.
 *
 * It is a display of its own after the cell's outputs, marked in its metadata, so that
 * a program that compares outputs can leave it out. The worker says whether it is
 * wanted, since the switch is in the notebook's environment (HOLDFAST_SUMMARY).
 *
 * One thread.
 */
#include "session/listeners.h"

#include <math.h>
#include <string.h>

#include "session/request.h"

#define LEAST_MS 0.001 /* of recording: less is nothing to say */
#define CAUSE_MS 20    /* a way in that took so long has its largest part named */

/* What fits best of B, KiB, ...; three digits. */
static void
write_bytes(hfi_textbuf *text, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    int decimals = unit == 0 || fabs(bytes) >= 99.95 ? 0 : fabs(bytes) >= 9.995 ? 1 : 2;
    hfi_textbuf_format(text, "%.*f %s", decimals, bytes, units[unit]);
}

static void
write_time(hfi_textbuf *text, double ms) {
    if (ms >= 1000)
        hfi_textbuf_format(text, "%.2f s", ms / 1000);
    else if (ms < 0.0995) /* what few events cost */
        hfi_textbuf_format(text, "%.2g \xc2\xb5s", ms * 1000);
    else
        hfi_textbuf_format(text, ms >= 99.95 ? "%.0f ms" : "%.1f ms", ms);
}

/* 1,234,567 */
static void
write_count(hfi_textbuf *text, double value) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", value);
    for (int i = 0; i < length; i++)
        hfi_textbuf_format(text, i && (length - i) % 3 == 0 ? ",%c" : "%c", digits[i]);
}

static void
write_resources(hfi_textbuf *text, const msgpack_object *report,
                const hfi_times *times) {
    double peak = hfi_map_real(report, "bytes_peak", 0);
    double grown = hfi_map_real(report, "bytes_grown", 0);
    if (times->run_ms > 0)
        hfi_textbuf_format(text, " on %.1f cores", times->cpu_ms / times->run_ms);
    if (peak > 0) {
        hfi_textbuf_format(text, "; memory up to ");
        write_bytes(text, peak);
        hfi_textbuf_format(text, grown < 0 ? " (" : " (+");
        write_bytes(text, grown);
        hfi_textbuf_format(text, ")");
    }
    if (hfi_map_get(report, "bytes_read") != NULL) {
        hfi_textbuf_format(text, "; read ");
        write_bytes(text, hfi_map_real(report, "bytes_read", 0));
        hfi_textbuf_format(text, ", wrote ");
        write_bytes(text, hfi_map_real(report, "bytes_written", 0));
    }
}

static void
write_recording(hfi_textbuf *text, const msgpack_object *report,
                const hfi_times *times) {
    double lost = hfi_map_real(report, "events_lost", 0);
    double others = hfi_map_real(report, "events_others", 0);
    hfi_textbuf_format(text, "; ");
    write_count(text, hfi_map_real(report, "events", 0) + others);
    hfi_textbuf_format(text, " events");
    if (others > 0) {
        hfi_textbuf_format(text, " (");
        write_count(text, others);
        hfi_textbuf_format(text, " of other processes)");
    }
    if (lost > 0) {
        hfi_textbuf_format(text, ", ");
        write_count(text, lost);
        hfi_textbuf_format(text, " lost");
    }
    if (times->recorder_ms >= LEAST_MS && times->run_ms > 0) {
        hfi_textbuf_format(text, ", recording took ");
        write_time(text, times->recorder_ms);
        hfi_textbuf_format(text, " (%.1f %%)",
                           100 * times->recorder_ms / times->run_ms);
    } else if (times->recorder_ms <= 0) {
        hfi_textbuf_format(text, ", recording not measured");
    }
}

/* What took most of the way in, where that is long; after `before`. */
static void
write_cause(hfi_textbuf *text, const hf_kernel *kernel, const hfi_times *times,
            const char *before, const char *after) {
    int is_isolated = kernel->cell.plan == HFI_PLAN_ISOLATED;
    int is_in_process = kernel->cell.plan == HFI_PLAN_IN_PROCESS;
    const struct {
        const char *words;
        double ms;
    } parts[] = {
        {"saving variables", times->commit_ms},
        {is_isolated ? "waiting for a process" : "the fork and the start", times->wait_ms},
        {is_in_process ? "opening the recording" : "binding variables", times->bind_ms},
        {"making memory ready", is_in_process ? times->prepare_ms : 0},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (times->in_ms >= CAUSE_MS && parts[i].ms >= times->in_ms / 2) {
            hfi_textbuf_format(text, "%s%s ", before, parts[i].words);
            write_time(text, parts[i].ms);
            hfi_textbuf_format(text, "%s", after);
        }
}

static void
write_hand_over(hfi_textbuf *text, const hf_kernel *kernel,
                const msgpack_object *report, const hfi_times *times) {
    hfi_textbuf_format(text, "; in ");
    write_time(text, times->in_ms);
    if (kernel->cell.plan != HFI_PLAN_IN_PROCESS) {
        hfi_textbuf_format(text, " (");
        write_bytes(text, hfi_map_real(report, "bytes_mapped", 0));
        write_cause(text, kernel, times, "; ", "");
        hfi_textbuf_format(text, ")");
    } else {
        write_cause(text, kernel, times, " (", ")");
    }
    hfi_textbuf_format(text, ", out ");
    write_time(text, times->out_ms);
    if (kernel->cell.plan != HFI_PLAN_IN_PROCESS) {
        hfi_textbuf_format(text, " (");
        write_bytes(text, hfi_map_real(report, "bytes_copied", 0) +
                              hfi_map_real(report, "bytes_shared", 0));
        hfi_textbuf_format(text, ")");
    }
    hfi_textbuf_format(text, "; ran %s", hfi_cell_run_mode(&kernel->cell));
}

static void
show(hf_kernel *kernel, const msgpack_object *reply) {
    const msgpack_object *report = hfi_map_get(reply, "report");
    hfi_textbuf first = {0}, rest = {0}, content = {0}, text = {0};
    if (hfi_map_part(reply, "trace").size == 0 || !hfi_map_flag(report, "summary"))
        return;
    hfi_times times = hfi_request_times(kernel, report);
    write_time(&first, times.run_ms);
    write_resources(&rest, report, &times);
    write_recording(&rest, report, &times);
    write_hand_over(&rest, kernel, report, &times);
    hfi_textbuf_append(&text, first.data, first.size);
    hfi_textbuf_append(&text, rest.data, rest.size);
    hfi_textbuf_format(&content, "\"text/plain\":");
    hfi_textbuf_append_json(&content, text.data, text.size);
    hfi_textbuf_clear(&text);
    hfi_textbuf_format(&text, "<div style=\"font-size:90%%;opacity:.8\"><b>%s</b>%s",
                       hfi_textbuf_string(&first), hfi_textbuf_string(&rest));
    if (kernel->command_table != NULL && kernel->command_table->where != NULL)
        hfi_textbuf_format(&text, " &middot; <code>%s</code> shows where",
                           kernel->command_table->where);
    hfi_textbuf_format(&text, "</div>");
    hfi_textbuf_format(&content, ",\"text/html\":");
    hfi_textbuf_append_json(&content, text.data, text.size);
    hfi_progress_replace(kernel, hfi_textbuf_part(&content), "summary");
    hfi_textbuf_fini(&first);
    hfi_textbuf_fini(&rest);
    hfi_textbuf_fini(&content);
    hfi_textbuf_fini(&text);
}

void
hfi_summary_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_COLLECTED && !event->failed)
        show(kernel, event->map);
}
