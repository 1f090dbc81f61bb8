/* summary.c - the line below a recorded cell: what it cost, at a glance.
 *
 *     1.24 s on 1.0 cores; memory up to 312 MiB (+24 MiB); read 0 B, wrote 12 MiB;
 *     1,011,604 events, without 230 ms of other processes, recording took 52 ms
 *     (4.2 %); in 23 ms (1.2 GiB; binding variables 20 ms), out 2.0 ms (80 MiB); ran
 *     isolated
 *
 * Nothing is read or measured for the line, so it costs no more than a message. The
 * worker's report has the processor time, memory and I/O of the cell. The recorder has
 * counted its events. The frontend knows how long the client has waited. The time that
 * recording took is known for our own recorder, once a process that waits, or that of
 * the first cell, has measured the cost of an event. For Score-P it isn't known, and
 * the line says so.
 *
 * Each term has its meaning beside it: in the HTML as a title, which a browser shows
 * under the pointer, and in a frame to the main worker for `%holdfast explain`.
 *
 * The line is a display of its own after the cell's outputs. Its metadata marks it, so
 * that a program that compares outputs can leave it out. The worker says whether the
 * user wants it, because the switch is in the notebook's environment
 * (HOLDFAST_SUMMARY). One thread.
 */
#include "session/listeners.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "session/publish.h"
#include "session/request.h"
#include "session/rollback.h"
#include "session/workers.h"

#define LEAST_MS  0.001 /* of recording; less isn't shown */
#define CAUSE_MS  20    /* a way in that took this long has its largest part named */
#define TERMS_MAX 16    /* the line below has 15 at most */

/* The line, and its terms with their meanings. A meaning is used in HTML and in text,
 * so it has no character that is special in HTML. */
typedef struct cost_line {
    hfi_textbuf text;
    struct {
        size_t begin, end; /* place in the text */
        hfi_textbuf meaning;
    } terms[TERMS_MAX];
    size_t count;
} cost_line;

static void
line_fini(cost_line *line) {
    hfi_textbuf_fini(&line->text);
    for (size_t i = 0; i < line->count; i++)
        hfi_textbuf_fini(&line->terms[i].meaning);
}

/* Begin a term: write `before`, which belongs to no term. The caller writes the term,
 * and calls end_term(). */
static hfi_textbuf *
begin_term(cost_line *line, const char *before) {
    assert(line->count < TERMS_MAX);
    hfi_textbuf_format(&line->text, "%s", before);
    line->terms[line->count].begin = line->text.size;
    return &line->text;
}

static void __attribute__((format(printf, 2, 3)))
end_term(cost_line *line, const char *meaning, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, meaning);
    vsnprintf(text, sizeof text, meaning, arguments);
    va_end(arguments);
    line->terms[line->count].end = line->text.size;
    hfi_textbuf_format(&line->terms[line->count++].meaning, "%s", text);
}

/* In the best unit of B, KiB, ..., with three digits. */
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
    else if (ms < 0.0995) /* the time of few events */
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
write_use(cost_line *line, const hfi_map_report *report, const hfi_times *times) {
    double peak = (double)report->bytes_peak;
    double grown = (double)report->bytes_grown;
    if (times->run_ms > 0) {
        hfi_textbuf_format(begin_term(line, " "), "on %.1f cores",
                           times->cpu_ms / times->run_ms);
        end_term(line,
                 "Processor time divided by wall time: the cell's process, all of its "
                 "threads, and the processes that it has started used %.3g s. 1.0 is "
                 "one processor all the time; much less means that the cell waited.",
                 times->cpu_ms / 1e3);
    }
    if (peak > 0) {
        hfi_textbuf_format(begin_term(line, "; "), "memory up to ");
        write_bytes(&line->text, peak);
        end_term(line, "The most resident memory (RSS) of the cell's process while the "
                       "cell ran. What the notebook held before is part of it.");
        begin_term(line, " ");
        hfi_textbuf_format(&line->text, grown < 0 ? "(" : "(+");
        write_bytes(&line->text, grown);
        hfi_textbuf_format(&line->text, ")");
        end_term(line, "How much more resident memory the process had after the cell "
                       "than before it; negative if it had less.");
    }
    if (report->source != NULL && hfi_map_get(report->source, "bytes_read") != NULL) {
        hfi_textbuf_format(begin_term(line, "; "), "read ");
        write_bytes(&line->text, (double)report->bytes_read);
        end_term(line, "Bytes that the cell's process got from read calls, from a disk "
                       "or from the system's cache. Access to mapped files isn't "
                       "counted.");
        hfi_textbuf_format(begin_term(line, ", "), "wrote ");
        write_bytes(&line->text, (double)report->bytes_written);
        end_term(line, "Bytes that the cell's process passed to write calls, whether "
                       "they have reached the disk or not.");
    }
}

/* Less is what a system's ticks leave open, or what a program takes to begin and end. */
#define UNRECORDED_S     0.05
#define UNRECORDED_SHARE 0.05 /* of the cell's processor time */

static void
write_unrecorded(cost_line *line, const hfi_map_report *report) {
    double seconds = report->seconds_unrecorded;
    if (seconds < UNRECORDED_S || seconds < UNRECORDED_SHARE * report->seconds_cpu)
        return;
    hfi_textbuf *text = begin_term(line, ", ");
    hfi_textbuf_format(text, "without ");
    write_time(text, 1e3 * seconds);
    hfi_textbuf_format(text, " of other processes");
    end_term(line,
             "Processor time of processes that the cell has started and whose calls "
             "aren't in its trace: programs that can't be recorded or weren't, "
             "processes that hadn't ended, and what killed ones did after their last "
             "call.");
}

static void
write_events(cost_line *line, const hfi_map_report *report) {
    double lost = (double)report->events_lost;
    double others = (double)report->events_others;
    hfi_textbuf *text = begin_term(line, "; ");
    write_count(text, (double)report->events + others);
    hfi_textbuf_format(text, " events");
    end_term(line, "The trace of this cell has an event for each call and each return "
                   "of a recorded function or region. With a filter there are fewer.");
    if (others > 0) {
        hfi_textbuf_format(begin_term(line, " "), "(");
        write_count(text, others);
        hfi_textbuf_format(text, " of other processes)");
        end_term(line, "How many of these events belong to processes that the cell "
                       "started, as far as they have ended.");
    }
    if (lost > 0) {
        write_count(begin_term(line, ", "), lost);
        hfi_textbuf_format(text, " lost");
        end_term(line,
                 "Events that found no room, so the trace lacks them. Look at the "
                 "recorder's memory and at the free space of the disk.");
    }
    write_unrecorded(line, report);
}

/* Without an event there was nothing to take time. */
static void
write_recording(cost_line *line, const hfi_map_report *report, const hfi_times *times) {
    if (times->recorder_ms >= LEAST_MS && times->cpu_ms > 0) {
        hfi_textbuf *text = begin_term(line, ", ");
        hfi_textbuf_format(text, "recording took ");
        write_time(text, times->recorder_ms);
        hfi_textbuf_format(text, " (%.1f %%)",
                           100 * times->recorder_ms / times->cpu_ms);
        end_term(line, "Processor time that the recorder took, and its part of the "
                       "cell's processor time. It is an estimate: the number of events "
                       "times the cost of one on this machine. If it is large, the "
                       "functions' times are too long: leave out short functions by a "
                       "filter.");
    } else if (times->recorder_ms <= 0 && report->events > 0) {
        hfi_textbuf_format(begin_term(line, ", "), "recording not measured");
        end_term(
            line,
            "The time that recording took isn't known: another recorder than the "
            "built-in one was used, or the cost of an event could not be measured.");
    }
}

/* Write `before`, and the part that took most of a long way in. */
static void
write_cause(hfi_textbuf *text, const hf_kernel *kernel, const hfi_times *times,
            const char *before, const char *after) {
    int is_isolated = kernel->cell.plan == HFI_PLAN_ISOLATED;
    int is_in_process = kernel->cell.plan == HFI_PLAN_IN_PROCESS;
    const struct {
        const char *words;
        double ms;
    } parts[] = {
        {is_in_process ? "waiting for the notebook's process" : "saving variables",
         times->commit_ms},
        {is_isolated ? "waiting for a process and the start" : "the fork and the start",
         times->wait_ms},
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
write_hand_over(cost_line *line, const hf_kernel *kernel, const hfi_map_report *report,
                const hfi_times *times) {
    int is_in_process = kernel->cell.plan == HFI_PLAN_IN_PROCESS;
    hfi_textbuf *text = begin_term(line, "; ");
    hfi_textbuf_format(text, "in ");
    write_time(text, times->in_ms);
    if (!is_in_process) {
        hfi_textbuf_format(text, " (");
        write_bytes(text, (double)report->bytes_mapped);
        write_cause(text, kernel, times, "; ", "");
        hfi_textbuf_format(text, ")");
    } else {
        write_cause(text, kernel, times, " (", ")");
    }
    static const char words[] =
        "Hand-over to the cell: from the request until its code began. %s%s%s A cause "
        "that took half of it is named.";
    if (is_in_process)
        end_term(line, words, "Most of it is what ", hfi_shell_name(kernel),
                 " does before the code, and the fork that brings the notebook back "
                 "after a crash: if the notebook's process is making that fork, or "
                 "writes the trace of the cell before, the cell waits for it.");
    else
        end_term(line, words,
                 "The bytes are those of variables that were mapped without a copy.",
                 "", "");
    hfi_textbuf_format(begin_term(line, ", "), "out ");
    write_time(text, times->out_ms);
    if (!is_in_process) {
        hfi_textbuf_format(text, " (");
        write_bytes(text, (double)report->bytes_copied + (double)report->bytes_shared);
        hfi_textbuf_format(text, ")");
    }
    end_term(line, "Hand-over back: from the end of its code until the reply. %s",
             is_in_process
                 ? "Its result and its figures are shown, and the recording ends."
                 : "Its result and its figures are shown, the recording ends, and "
                   "what the cell changed is committed; the bytes are those that were "
                   "saved.");
}

static void
write_run_mode(cost_line *line, const hf_kernel *kernel) {
    hfi_textbuf_format(begin_term(line, "; "), "ran %s",
                       hfi_cell_run_mode(&kernel->cell));
    end_term(
        line, "%s",
        kernel->cell.plan == HFI_PLAN_IN_PROCESS
            ? "The notebook's own process ran the cell, with a sleeping fork of it "
              "as the rollback."
        : kernel->cell.plan == HFI_PLAN_FORKED
            ? "A fork of the notebook's process ran the cell; what it changed was "
              "carried back."
            : "A clean process ran the cell, with the variables mapped and decoded "
              "there; what it changed was carried back.");
}

static void
write_protection(cost_line *line, const hf_kernel *kernel) {
    hfi_rollback_given_up given_up = hfi_rollback_has_given_up(kernel);
    if (given_up.pages == 0)
        return;
    hfi_textbuf *text = begin_term(line, "; ");
    hfi_textbuf_format(text, "protection given up after ");
    write_time(text, given_up.after_ms);
    hfi_textbuf_format(text, ": ");
    write_count(text, (double)given_up.pages);
    hfi_textbuf_format(text, " pages copied");
    end_term(line,
             "The cell wrote to memory that the sleeping fork shared, and each such "
             "page had to be copied first. Rather than slow the cell, the fork was "
             "ended: a crash would have lost what no commit has.");
}

static void
write_line(cost_line *line, const hf_kernel *kernel, const hfi_map_report *report) {
    hfi_times times = hfi_request_times(kernel, report);
    write_time(begin_term(line, ""), times.run_ms);
    end_term(line,
             "Wall time of the cell's code, from the begin of its first statement to "
             "the end of its last. The hand-over isn't part of it, nor is what %s does "
             "before the code and after it.",
             hfi_shell_name(kernel));
    write_use(line, report, &times);
    write_events(line, report);
    write_recording(line, report, &times);
    write_hand_over(line, kernel, report, &times);
    write_run_mode(line, kernel);
    write_protection(line, kernel);
}

/* The first term is bold, because the time is what people look for. */
static void
write_html(const cost_line *line, const char *where, hfi_textbuf *html) {
    size_t at = 0;
    hfi_textbuf_format(html, "<div style=\"font-size:90%%;opacity:.8\">");
    for (size_t i = 0; i < line->count; i++) {
        size_t begin = line->terms[i].begin, end = line->terms[i].end;
        const char *tag = i == 0 ? "b" : "span";
        hfi_part meaning = hfi_textbuf_part(&line->terms[i].meaning);
        hfi_textbuf_append(html, line->text.data + at, begin - at);
        hfi_textbuf_format(html, "<%s style=\"cursor:help\" title=\"%.*s\">", tag,
                           (int)meaning.size, (const char *)meaning.data);
        hfi_textbuf_append(html, line->text.data + begin, end - begin);
        hfi_textbuf_format(html, "</%s>", tag);
        at = end;
    }
    if (where != NULL)
        hfi_textbuf_format(html, " &middot; <code>%s</code> shows where", where);
    hfi_textbuf_format(html, "</div>");
}

/* Send the terms to the main worker, for `%holdfast explain`. */
static void
send_terms(hf_kernel *kernel, const cost_line *line) {
    hfi_part terms[2 * TERMS_MAX];
    for (size_t i = 0; i < line->count; i++) {
        size_t begin = line->terms[i].begin, end = line->terms[i].end;
        terms[2 * i] = hfi_part_of(line->text.data + begin, end - begin);
        terms[2 * i + 1] = hfi_textbuf_part(&line->terms[i].meaning);
    }
    hfi_workers_send_main(kernel,
                          HFI_FRAME(to_main_shown, .number = kernel->cell.number,
                                    .terms = {terms, 2 * line->count}));
}

static void
show_summary(hf_kernel *kernel, const hfi_from_worker_reply *reply) {
    const hfi_map_report *report = reply->report;
    const hf_kernel_commands *table = kernel->command_table;
    hfi_textbuf content = {0}, html = {0};
    cost_line line = {.count = 0};
    if (reply->trace.size == 0 || report == NULL || !report->summary)
        return;
    write_line(&line, kernel, report);
    write_html(&line, table != NULL ? table->where : NULL, &html);
    hfi_textbuf_format(&content, "{\"data\":{\"text/plain\":");
    hfi_textbuf_append_json(&content, line.text.data, line.text.size);
    hfi_textbuf_format(&content, ",\"text/html\":");
    hfi_textbuf_append_json(&content, html.data, html.size);
    hfi_textbuf_format(&content, "},\"metadata\":{\"holdfast\":\"summary\"},"
                                 "\"transient\":{}}");
    hfi_publish(kernel, "display_data", kernel->cell.request->message.header,
                hfi_textbuf_part(&content));
    send_terms(kernel, &line);
    line_fini(&line);
    hfi_textbuf_fini(&content);
    hfi_textbuf_fini(&html);
}

void
hfi_summary_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_COLLECTED && !event->failed &&
        hfi_repeat_is_told(kernel, event->reply))
        show_summary(kernel, event->reply);
}
