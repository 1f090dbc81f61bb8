/* trace.c - the trace that a cell wrote: its place, its viewer, and its rescue.
 *
 * In all run modes the client is told where the trace is, and a viewer is started on it
 * if the cell's directive names one. A viewer that can't be started is named on stderr
 * and has no other effect, since the cell is done.
 *
 * A process that dies leaves what it recorded in a file. A program makes a trace of it
 * (recorder/guardian.c). The cell's error waits for the program, so that it can say
 * where the trace is. The loop goes on meanwhile. It is woken by the end of a pipe that
 * only the program has open. After RESCUE_NS the program is ended, and the user can ask
 * for the trace again.
 *
 * A process that lives may leave a large recording in the same way, and go on with the next
 * cell. The same program writes the trace then, beside that cell, and nobody here waits
 * for it. Readers do; if it fails, they write the trace themselves.
 *
 * The line that names the directory is an interface: notebooks of the Score-P kernel
 * have it as expected output. One thread.
 */
#include "session/listeners.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "session/workers.h"
#include "session/publish.h"
#include "workers/program.h"

#define RESCUE_NS 10000000000LL
/* how long it may take from the end of its pipe to its exit */
#define RESCUE_END_MS 100

/* State of the running cell. */
struct hfi_trace {
    hfi_textbuf directory; /* of the open recording; empty: there is none */
    hfi_textbuf guardian; /* the program that writes the trace if the process is dead */
    hfi_textbuf recover;  /* the user's command to have it written later */
    bool is_automatic;    /* nobody has named the directory */
    int rescued;          /* the program was started, or couldn't be */
    pid_t pid;            /* of the running program; 0: none */
    int end_fd;           /* readable at the program's end */
    long long deadline_ns; /* when the program is ended */
};

static void
end_rescue(struct hfi_trace *trace, int timeout_ms) {
    if (trace->pid == 0)
        return;
    (void)hfi_program_end(trace->pid, timeout_ms);
    close(trace->end_fd);
    trace->pid = 0;
}

static void
forget_trace(hf_kernel *kernel) {
    end_rescue(kernel->trace, 0);
    kernel->trace->rescued = 0;
    hfi_textbuf_fini(&kernel->trace->directory);
    hfi_textbuf_fini(&kernel->trace->guardian);
    hfi_textbuf_fini(&kernel->trace->recover);
}

static void
fini_trace(hf_kernel *kernel) {
    forget_trace(kernel);
}

const hfi_owner hfi_trace_owner = {offsetof(hf_kernel, trace), sizeof(struct hfi_trace),
                                   NULL, fini_trace};

static void
show_trace(hf_kernel *kernel, hfi_part trace) {
    hfi_textbuf text = {0};
    if (trace.size == 0)
        return;
    hfi_textbuf_format(&text, "Instrumentation results can be found in %.*s\n",
                       (int)trace.size, (const char *)trace.data);
    hfi_publish_stream(kernel, HFI_STDOUT, kernel->cell.request->message.header,
                       hfi_textbuf_part(&text));
    hfi_textbuf_fini(&text);
}

static void
note_text(hfi_textbuf *text, hfi_part part) {
    hfi_textbuf_clear(text);
    hfi_textbuf_append(text, part.data, part.size);
}

static void
note_recording(hf_kernel *kernel, const hfi_from_worker_started *started) {
    note_text(&kernel->trace->directory, started->trace);
    note_text(&kernel->trace->guardian, started->guardian);
    note_text(&kernel->trace->recover, started->recover);
    kernel->trace->is_automatic = started->automatic;
}

static void
begin_rescue(struct hfi_trace *trace, long long now_ns) {
    hf_error error = HF_ERROR_INIT;
    int ends[2];
    char *argv[] = {(char *)(uintptr_t)hfi_textbuf_string(&trace->guardian),
                    (char *)(uintptr_t)hfi_textbuf_string(&trace->directory), NULL};
    trace->rescued = 1;
    hf_status status = hfi_program_pipe(ends, &error);
    if (status == HF_OK) {
        status = hfi_program_spawn(argv, &ends[1], 1, &trace->pid, &error);
        close(ends[1]);
        if (status != HF_OK)
            close(ends[0]);
    }
    if (status != HF_OK) {
        hfi_log("%s", error.message);
        trace->pid = 0;
        return;
    }
    trace->end_fd = ends[0];
    trace->deadline_ns = now_ns + RESCUE_NS;
}

/* The worker has left the recording. */
static void
write_aside(struct hfi_trace *trace) {
    hf_error error = HF_ERROR_INIT;
    char *argv[] = {(char *)(uintptr_t)hfi_textbuf_string(&trace->guardian),
                    (char *)(uintptr_t)hfi_textbuf_string(&trace->directory), NULL};
    if (hfi_program_detach(argv, &error) != HF_OK)
        hfi_log("%s is written when it is read: %s", argv[1], error.message);
}

static int
is_at_end(const struct hfi_trace *trace) {
    struct pollfd end = {trace->end_fd, POLLIN, 0};
    return poll(&end, 1, 0) > 0;
}

int
hfi_trace_rescues(hf_kernel *kernel, long long now_ns) {
    struct hfi_trace *trace = kernel->trace;
    if (trace->directory.size == 0)
        return 0;
    if (!trace->rescued)
        begin_rescue(trace, now_ns);
    if (trace->pid != 0 && !is_at_end(trace) && now_ns < trace->deadline_ns)
        return 1;
    end_rescue(trace, now_ns < trace->deadline_ns ? RESCUE_END_MS : 0);
    return 0;
}

pid_t
hfi_trace_rescuer(const hf_kernel *kernel) {
    return kernel->trace->pid;
}

int
hfi_trace_rescue_fd(const hf_kernel *kernel) {
    return kernel->trace->pid != 0 ? kernel->trace->end_fd : -1;
}

long long
hfi_trace_rescue_deadline_ns(const hf_kernel *kernel) {
    return kernel->trace->pid != 0 ? kernel->trace->deadline_ns : -1;
}

void
hfi_trace_name_rescued(const hf_kernel *kernel, hfi_textbuf *text) {
    hfi_textbuf *directory = &kernel->trace->directory;
    hfi_textbuf path = {0};
    if (directory->size == 0)
        return;
    hfi_textbuf_format(&path, "%s/traces.otf2", hfi_textbuf_string(directory));
    if (access(hfi_textbuf_string(&path), F_OK) == 0) {
        hfi_textbuf_format(text, "; what was recorded until then is in %s",
                           hfi_textbuf_string(directory));
        if (kernel->command_table != NULL && kernel->command_table->where != NULL)
            hfi_textbuf_format(text, ": %s shows it", kernel->command_table->where);
    } else if (kernel->trace->recover.size > 0) {
        hfi_textbuf_format(text, "; what was recorded until then can be had by %s %s",
                           hfi_textbuf_string(&kernel->trace->recover),
                           hfi_textbuf_string(directory));
    }
    hfi_textbuf_fini(&path);
}

/* The worker reports the directory relative to the main worker's working directory. */
void
hfi_trace_path(const hf_kernel *kernel, hfi_part trace, hfi_textbuf *ret_path) {
    char directory[4096];
    const char *text = trace.data;
    if (trace.size > 0 && text[0] != '/') {
        hfi_workers_directory(kernel, directory, sizeof directory);
        hfi_textbuf_format(ret_path, "%s/", directory);
    }
    hfi_textbuf_append(ret_path, text, trace.size);
}

static void
open_it(hf_kernel *kernel, hfi_part trace) {
    const hfi_viewer *viewer = kernel->cell.directive.viewer;
    if (trace.size == 0 || viewer == NULL || !hfi_repeat_is_last(kernel))
        return;
    hfi_textbuf path = {0}, text = {0};
    hf_error error = HF_ERROR_INIT;
    int launched = 0;
    hfi_trace_path(kernel, trace, &path);
    hfi_textbuf_format(&path, "/%s", viewer->file);
    const char *file = hfi_textbuf_string(&path);
    char *const argv[] = {(char *)(uintptr_t)viewer->program, (char *)(uintptr_t)file,
                          NULL}; /* the type that exec takes */
    if (path.failed)
        hfi_textbuf_format(&text, "%s is not started: no memory\n", viewer->name);
    else if (access(file, R_OK) != 0)
        hfi_textbuf_format(&text, "%s is not started: the cell wrote no %s\n",
                           viewer->name, file);
    else if (hfi_program_detach(argv, &error) != HF_OK)
        hfi_textbuf_format(&text, "%s is not started: %s\n", viewer->name,
                           error.message);
    else {
        launched = 1;
        hfi_textbuf_format(&text, "%s opens %s\n", viewer->name, file);
    }
    hfi_publish_stream(kernel, launched ? HFI_STDOUT : HFI_STDERR,
                       kernel->cell.request->message.header, hfi_textbuf_part(&text));
    hfi_textbuf_fini(&path);
    hfi_textbuf_fini(&text);
}

void
hfi_trace_hear(hf_kernel *kernel, const hfi_event *event) {
    if (event->kind == HFI_EVENT_CELL_STARTED) {
        note_recording(kernel, event->started);
    } else if (event->kind == HFI_EVENT_CELL_COLLECTED) {
        if (event->reply->unwritten)
            write_aside(kernel->trace);
        if (hfi_repeat_is_last(kernel) || hfi_repeat_is_told(kernel, event->reply))
            show_trace(kernel, event->reply->trace);
        if (!event->failed)
            open_it(kernel, event->reply->trace);
    } else if (event->kind == HFI_EVENT_CELL_OVER) {
        forget_trace(kernel);
    }
}

hfi_part
hfi_trace_recording(const hf_kernel *kernel) {
    return hfi_textbuf_part(&kernel->trace->directory);
}

bool
hfi_trace_is_automatic(const hf_kernel *kernel) {
    return kernel->trace->is_automatic;
}
