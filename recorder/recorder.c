/* recorder.c - one recording: opened, given locations, closed.
 *
 * The expensive steps lie outside the measured part. The log file is created with the
 * recorder, and the trace and the profile are written when it is closed. In between
 * there are only the events of location.c. The trace is written from the file, by the
 * code that also does it for a killed process (trace_recovery.c). So a recording may end
 * before it is closed (hf_recorder_end): its log has everything, and says so. Or it isn't
 * closed at all, and another process writes the trace (hf_recorder_leave).
 *
 * Invariants: location i is locations[i], and lives until close. So a thread may keep a
 * pointer to it, if it checks that the recorder is still the same (python_events.c
 * does, by a generation number). If a location's thread has ended, its log is unmapped
 * when the next location is made.
 *
 * The interpreter's lock serializes all callers. The exception is `finished`, which an
 * ending thread sets after it has given up that lock for the last time.
 *
 * Rejected: writing the archive's definitions as they appear. This would take time in
 * the measured part, and the archive can't be read before it is complete.
 */
#include "recorder.h"
#include "clock.h"
#include "log_reader.h"
#include "profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hf_recorder {
    hf_recorder_options options;
    char *directory, *profile_name;
    void *archive;     /* NULL without a trace */
    hfi_log_file *log; /* NULL: none, or the back end is immediate */
    char *log_path;
    hfi_definitions *definitions;
    hfi_location **locations;
    size_t count, capacity;
    uint64_t begin_time;     /* ticks */
    uint64_t begin_realtime; /* ns */
    uint64_t end_time;       /* 0: it goes on */
    uint64_t end_realtime;
    bool recording;
};

static hf_status
no_memory(hf_error *reterr) {
    return hf_error_set(reterr, HF_E_NOMEM, "no memory for the recording");
}

static void
location_free(hfi_location *location) {
    hfi_calltree_close(location->tree);
    hfi_event_log_fini(&location->log);
    free(location->stack);
    free(location);
}

static void
recorder_free(hf_recorder *recorder) {
    for (size_t i = 0; i < recorder->count; i++)
        location_free(recorder->locations[i]);
    free(recorder->locations);
    hfi_log_file_close(recorder->log);
    hfi_definitions_close(recorder->definitions);
    free(recorder->log_path);
    free(recorder->directory);
    free(recorder->profile_name);
    free(recorder);
}

static void
name_process(const hf_recorder *recorder, char *name, size_t size) {
    if (recorder->options.has_rank)
        snprintf(name, size, "MPI Rank %" PRIu32, recorder->options.rank);
    else
        snprintf(name, size, "Process %ld", (long)getpid());
}

static void
name_host(char *name, size_t size) {
    name[size - 1] = '\0'; /* a name that is cut has no NUL */
    if (gethostname(name, size - 1) != 0)
        name[0] = '\0';
}

static unsigned
wanted_formats(const hf_recorder *recorder) {
    return recorder->options.profiling ? recorder->options.profile_files.formats : 0;
}

/* Open the log file. The back end's archive is open already. */
static hf_status
open_log(hf_recorder *recorder, hf_error *reterr) {
    const hfi_backend *backend = recorder->options.backend;
    if (!backend->log_path)
        return HF_OK;
    hf_status status = backend->log_path(recorder->archive, &recorder->log_path);
    if (status != HF_OK)
        return no_memory(reterr);
    hfi_log_head head = {.process = hfi_process_self(),
                         .begin_time = recorder->begin_time,
                         .begin_realtime = recorder->begin_realtime,
                         .has_rank = recorder->options.has_rank,
                         .rank = recorder->options.rank,
                         .clock_counts = hfi_clock_counts,
                         .clock_first = hfi_clock_first(),
                         .clock_last = hfi_clock_look(),
                         .profile_formats = wanted_formats(recorder),
                         .profile_depth = recorder->options.room.depth,
                         .profile_paths = recorder->options.room.paths};
    snprintf(head.profile_name, sizeof head.profile_name, "%s", recorder->profile_name);
    name_process(recorder, head.process_name, sizeof head.process_name);
    name_host(head.host_name, sizeof head.host_name);
    hfi_clock_name(head.machine, sizeof head.machine);
    return hfi_log_file_create(recorder->log_path, &head,
                               recorder->options.reserve_bytes, recorder->definitions,
                               &recorder->log, reterr);
}

hf_status
hf_recorder_create(const hf_recorder_options *options, hf_recorder **ret_recorder,
                   hf_error *reterr) {
    hf_recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder)
        return no_memory(reterr);
    recorder->options = *options;
    recorder->recording = true;
    hfi_clock_init();
    recorder->begin_time = hfi_clock_ticks();
    recorder->begin_realtime = hfi_clock_realtime();
    hf_status status = hfi_definitions_create(&recorder->definitions);
    recorder->directory = strdup(options->directory);
    const char *profile_name = options->profile_files.name;
    recorder->profile_name = strdup(profile_name ? profile_name : "");
    if (status != HF_OK || !recorder->directory || !recorder->profile_name) {
        status = no_memory(reterr);
        goto out;
    }
    recorder->options.directory = recorder->directory;
    recorder->options.profile_files.name = recorder->profile_name;
    if (options->backend)
        status = options->backend->open(recorder->directory, recorder->definitions,
                                        options->joins, &recorder->archive, reterr);
    if (status == HF_OK && recorder->archive) {
        status = open_log(recorder, reterr);
        if (status != HF_OK)
            (void)options->backend->close(recorder->archive, NULL, NULL, NULL);
    }
out:
    if (status != HF_OK) {
        recorder_free(recorder);
        return status;
    }
    *ret_recorder = recorder;
    return HF_OK;
}

/* Leave what is open. The location gets no more events. */
static hf_status
location_retire(hf_recorder *recorder, hfi_location *location, hf_error *reterr) {
    hfi_location_finish(location);
    hfi_event_log_fini(&location->log);
    void *writer = location->writer;
    location->writer = NULL;
    if (!writer)
        return HF_OK;
    return recorder->options.backend->writer_close(recorder->archive, writer, reterr);
}

/* All locations. If several fail, the first failure is returned. */
static hf_status
retire_all(hf_recorder *recorder, hf_error *reterr) {
    hf_status status = HF_OK;
    for (size_t i = 0; i < recorder->count; i++) {
        hf_status one = location_retire(recorder, recorder->locations[i],
                                        status == HF_OK ? reterr : NULL);
        status = status == HF_OK ? one : status;
    }
    if (!recorder->end_time) {
        recorder->end_time = hfi_clock_ticks();
        recorder->end_realtime = hfi_clock_realtime();
    }
    return status;
}

static hf_status
fill_profile(const hf_recorder *recorder, hfi_profile *profile) {
    char name[32], host[256];
    uint32_t process;
    name_process(recorder, name, sizeof name);
    name_host(host, sizeof host);
    hf_status status = hfi_profile_add_process(profile, name, host, &process);
    for (size_t i = 0; i < recorder->count && status == HF_OK; i++) {
        const hfi_location *location = recorder->locations[i];
        status = hfi_profile_add_location(profile, process, location->id,
                                          location->name, recorder->definitions,
                                          location->tree, hfi_clock_frequency());
    }
    return status;
}

/* NULL in *ret_profile: none is wanted. */
static hf_status
make_profile(const hf_recorder *recorder, hfi_profile **ret_profile, hf_error *reterr) {
    hfi_profile *profile = NULL;
    *ret_profile = NULL;
    if (!recorder->options.profiling)
        return HF_OK;
    if (hfi_profile_create(&profile) != HF_OK ||
        fill_profile(recorder, profile) != HF_OK) {
        hfi_profile_close(profile);
        return no_memory(reterr);
    }
    *ret_profile = profile;
    return HF_OK;
}

/* -- the trace --------------------------------------------------------------------- */

typedef hf_status visit_location(hf_recorder *recorder, const hfi_log_reader *log,
                                 size_t index, hf_error *reterr);

/* Pass the location's events to a back end. */
static hf_status
pass_events(hfi_location *location, const hfi_log_reader *log, size_t index,
            const hfi_backend *backend, void *writer) {
    hfi_events_written written;
    hf_status status = hfi_log_reader_write(log, index, backend, writer, &written);
    location->events = written.events;
    location->kinds = written.kinds;
    return status;
}

static hf_status
count_location(hf_recorder *recorder, const hfi_log_reader *log, size_t index,
               hf_error *reterr) {
    (void)reterr;
    return pass_events(recorder->locations[index], log, index, &hfi_no_backend, NULL);
}

static hf_status
write_location(hf_recorder *recorder, const hfi_log_reader *log, size_t index,
               hf_error *reterr) {
    const hfi_backend *backend = recorder->options.backend;
    hfi_location *location = recorder->locations[index];
    void *writer;
    hf_status status =
        backend->writer_open(recorder->archive, location->id, &writer, reterr);
    if (status != HF_OK)
        return status;
    status = pass_events(location, log, index, backend, writer);
    if (status != HF_OK)
        hf_error_set(reterr, status, "the archive takes no more events");
    hf_status closed = backend->writer_close(recorder->archive, writer,
                                             status == HF_OK ? reterr : NULL);
    return status == HF_OK ? closed : status;
}

/* Read the log file, location by location. */
static hf_status
read_log(hf_recorder *recorder, visit_location *visit, hf_error *reterr) {
    hfi_log_reader *log;
    hf_status status =
        hfi_log_reader_open(recorder->log_path, recorder->definitions, &log, reterr);
    if (status == HF_NOT_FOUND)
        status = hf_error_set(reterr, HF_E_SYSTEM, "%s is gone", recorder->log_path);
    if (status != HF_OK)
        return status;
    size_t count = hfi_log_reader_count_locations(log);
    for (size_t i = 0; i < count && i < recorder->count && status == HF_OK; i++)
        status = visit(recorder, log, i, reterr);
    hfi_log_reader_close(log);
    return status;
}

static hf_status
write_events(hf_recorder *recorder, hf_error *reterr) {
    if (!recorder->log)
        return HF_OK;
    if (hfi_log_file_has_room(recorder->log))
        return read_log(recorder, write_location, reterr);
    return hf_error_set(reterr, HF_E_SYSTEM,
                        "the disk has no room for it. Its events are kept in %s: "
                        "make room, then write it with python -m holdfast.scorep "
                        "--recover %s",
                        recorder->log_path, recorder->directory);
}

static hf_status
close_archive(const hf_recorder *recorder, const hfi_profile *profile, bool is_cut,
              hfi_others *ret_others, hf_error *reterr) {
    hfi_location_summary *locations =
        calloc(recorder->count ? recorder->count : 1, sizeof *locations);
    if (!locations) {
        (void)recorder->options.backend->close(recorder->archive, NULL, NULL, NULL);
        return no_memory(reterr);
    }
    for (size_t i = 0; i < recorder->count; i++) {
        const hfi_location *location = recorder->locations[i];
        locations[i] =
            (hfi_location_summary){location->id, location->name, location->events};
    }
    char host[256], process[32], machine[256];
    name_host(host, sizeof host);
    name_process(recorder, process, sizeof process);
    hfi_clock_name(machine, sizeof machine);
    hfi_recording_summary summary = {.definitions = recorder->definitions,
                                     .locations = locations,
                                     .location_count = recorder->count,
                                     .begin_time = recorder->begin_time,
                                     .ticks_per_second = hfi_clock_frequency(),
                                     .end_time = recorder->end_time,
                                     .begin_realtime = recorder->begin_realtime,
                                     .end_realtime = recorder->end_realtime,
                                     .cpu_ns = hfi_clock_process_ns(),
                                     .has_rank = recorder->options.has_rank,
                                     .rank = recorder->options.rank,
                                     .process_name = process,
                                     .host_name = host,
                                     .machine = machine,
                                     .is_traced = recorder->log != NULL,
                                     .is_cut = is_cut,
                                     .profile = profile,
                                     .profile_files = recorder->options.profile_files};
    hf_status status = recorder->options.backend->close(recorder->archive, &summary,
                                                        ret_others, reterr);
    free(locations);
    return status;
}

/* If several steps fail, the first failure is returned. */
static hf_status
write_results(hf_recorder *recorder, hfi_recording_totals *totals, hf_error *reterr) {
    hfi_profile *profile;
    if (!recorder->archive)
        return HF_OK;
    hf_status status = make_profile(recorder, &profile, reterr);
    hf_status events = write_events(recorder, status == HF_OK ? reterr : NULL);
    status = status == HF_OK ? events : status;
    hf_status closed = close_archive(recorder, profile, events != HF_OK,
                                     &totals->others, status == HF_OK ? reterr : NULL);
    if (profile)
        totals->collapsed = hfi_profile_count_collapsed(profile);
    hfi_profile_close(profile);
    return status == HF_OK ? closed : status;
}

static void
sum_up(const hf_recorder *recorder, hfi_recording_totals *totals) {
    uint64_t flush_ticks = 0;
    totals->locations = recorder->count;
    totals->regions = hfi_definitions_count_regions(recorder->definitions);
    for (size_t i = 0; i < recorder->count; i++) {
        const hfi_location *location = recorder->locations[i];
        totals->events += location->events;
        totals->kinds.nested += location->kinds.nested;
        totals->kinds.deep += location->kinds.deep;
        totals->kinds.steps += location->kinds.steps;
        totals->calls.made += location->calls.made;
        totals->calls.from_c += location->calls.from_c;
        totals->calls.deep_from_c += location->calls.deep_from_c;
        totals->calls.raised += location->calls.raised;
        totals->calls.of_c += location->calls.of_c;
        totals->calls.bound += location->calls.bound;
        totals->own_seconds += (double)location->own_ns / 1e9;
        totals->lost += location->lost;
        totals->rewound += location->rewound;
        totals->flushes += location->flushes;
        flush_ticks += location->flush_ticks;
    }
    totals->trouble = recorder->log ? hfi_log_file_trouble(recorder->log) : 0;
    if (flush_ticks)
        totals->flush_seconds = (double)flush_ticks / (double)hfi_clock_frequency();
}

/* What others add, and a profile's figures, are known only when they are written. */
static bool
can_wait(const hf_recorder *recorder) {
    const hfi_backend *backend = recorder->options.backend;
    return recorder->log && !recorder->options.profiling && backend->is_alone &&
           backend->is_alone(recorder->archive);
}

hf_status
hf_recorder_end(hf_recorder *recorder, hfi_recording_totals *ret_totals,
                hf_error *reterr) {
    hfi_recording_totals totals = {0};
    if (!can_wait(recorder))
        return HF_DECLINED;
    hf_status status = retire_all(recorder, reterr);
    if (status == HF_OK)
        status = read_log(recorder, count_location, reterr);
    if (status != HF_OK)
        return status;
    sum_up(recorder, &totals);
    hfi_log_file_end(recorder->log, recorder->end_time, recorder->end_realtime,
                     hfi_clock_process_ns());
    *ret_totals = totals;
    return HF_OK;
}

hf_status
hf_recorder_leave(hf_recorder *recorder) {
    if (!hfi_log_file_has_room(recorder->log))
        return HF_DECLINED;
    (void)recorder->options.backend->close(recorder->archive, NULL, NULL, NULL);
    recorder_free(recorder);
    return HF_OK;
}

hf_status
hf_recorder_close(hf_recorder *recorder, hfi_recording_totals *ret_totals,
                  hf_error *reterr) {
    if (!recorder)
        return HF_OK;
    hfi_recording_totals totals = {0};
    hf_status status = retire_all(recorder, reterr);
    hf_status written =
        write_results(recorder, &totals, status == HF_OK ? reterr : NULL);
    status = status == HF_OK ? written : status;
    sum_up(recorder, &totals);
    recorder_free(recorder);
    if (status == HF_OK && ret_totals)
        *ret_totals = totals;
    return status;
}

hf_status
hf_recorder_share(hf_recorder *recorder, hf_error *reterr) {
    const hfi_backend *backend = recorder->options.backend;
    if (!recorder->archive || !backend->share)
        return HF_OK;
    return backend->share(recorder->archive, reterr);
}

static bool
follows_forks(const hf_recorder *recorder) {
    const hfi_backend *backend = recorder->options.backend;
    return recorder->options.children && (!backend || backend->reopen);
}

void
hf_recorder_fork_begin(hf_recorder *recorder) {
    if (recorder->archive && follows_forks(recorder))
        recorder->options.backend->fork_begin(recorder->archive);
}

void
hf_recorder_fork_end(hf_recorder *recorder) {
    if (recorder->archive && follows_forks(recorder))
        recorder->options.backend->fork_end(recorder->archive);
}

static void
abandon_archive(hf_recorder *recorder) {
    if (recorder->archive)
        recorder->options.backend->abandon(recorder->archive);
    for (size_t i = 0; i < recorder->count; i++)
        recorder->locations[i]->writer = NULL;
}

void
hf_recorder_abandon(hf_recorder *recorder) {
    if (!recorder)
        return;
    abandon_archive(recorder);
    for (size_t i = 0; i < recorder->count; i++)
        hfi_location_finish(recorder->locations[i]);
    recorder_free(recorder);
}

/* The regions that the child inherits become one region of its own. It takes the place
 * of the innermost one. */
static hf_status
inherit_regions(hf_recorder *recorder, hfi_location *location,
                const hfi_location *from) {
    hfi_definitions *definitions = recorder->definitions;
    const char *file = "";
    uint32_t line = 0, forked;
    for (size_t i = from->depth; i-- > 0;)
        if (from->stack[i].region < hfi_definitions_count_regions(definitions)) {
            const hfi_region *innermost =
                hfi_definitions_get_region(definitions, from->stack[i].region);
            file = hfi_definitions_get_string(definitions, innermost->file);
            line = innermost->line;
            break;
        }
    hf_status status = hfi_definitions_add_region(definitions, "forked process", file,
                                                  line, HFI_REGION_ARTIFICIAL, &forked);
    if (status == HF_OK)
        hfi_location_inherit(location, from, forked);
    return status;
}

void
hf_recorder_begin_now(hf_recorder *recorder) {
    for (size_t i = 0; i < recorder->count; i++) {
        const hfi_location *location = recorder->locations[i];
        if (location->events > 0 || location->log.next != location->log.words)
            return;
    }
    recorder->begin_time = hfi_clock_ticks();
    recorder->begin_realtime = hfi_clock_realtime();
}

/* Open the archive, its log file and one location again. `from` still exists. */
static hf_status
begin_again(hf_recorder *recorder, const hfi_location *from,
            hfi_location **ret_location, hf_error *reterr) {
    void *archive = recorder->archive;
    recorder->archive = NULL;
    recorder->options.joins = true;
    recorder->options.has_rank = false; /* only the parent is that rank */
    recorder->begin_time = hfi_clock_ticks();
    recorder->begin_realtime = hfi_clock_realtime();
    hf_status status = HF_OK;
    if (archive)
        status = recorder->options.backend->reopen(archive, &recorder->archive, reterr);
    if (recorder->archive)
        status = open_log(recorder, reterr);
    *ret_location = NULL;
    if (status == HF_OK && from)
        status = hf_recorder_add_location(recorder, from->name, ret_location, reterr);
    if (status == HF_OK && from &&
        inherit_regions(recorder, *ret_location, from) != HF_OK)
        status = no_memory(reterr);
    return status;
}

hf_status
hf_recorder_continue(hf_recorder *recorder, const hfi_location *from,
                     hfi_location **ret_location, hf_error *reterr) {
    if (!follows_forks(recorder))
        return HF_DECLINED;
    abandon_archive(recorder);
    hfi_location **locations = recorder->locations;
    size_t count = recorder->count;
    hfi_log_file *log = recorder->log;
    free(recorder->log_path);
    recorder->locations = NULL;
    recorder->count = recorder->capacity = 0;
    recorder->log = NULL;
    recorder->log_path = NULL;
    hf_status status = begin_again(recorder, from, ret_location, reterr);
    for (size_t i = 0; i < count; i++) {
        hfi_location_finish(locations[i]);
        location_free(locations[i]);
    }
    free(locations);
    hfi_log_file_close(log);
    return status;
}

void
hf_recorder_set_recording(hf_recorder *recorder, hfi_location *location, bool on) {
    if (recorder->recording == on)
        return;
    recorder->recording = on;
    hfi_location_mark_recording(location, on);
    for (size_t i = 0; i < recorder->count; i++)
        recorder->locations[i]->logging = on && recorder->locations[i]->log.words;
}

bool
hf_recorder_is_recording(const hf_recorder *recorder) {
    return recorder->recording;
}

hfi_definitions *
hf_recorder_get_definitions(hf_recorder *recorder) {
    return recorder->definitions;
}

static void
retire_finished(hf_recorder *recorder) {
    for (size_t i = 0; i < recorder->count; i++) {
        hfi_location *location = recorder->locations[i];
        if (location->log.words &&
            atomic_load_explicit(&location->finished, memory_order_acquire) &&
            location_retire(recorder, location, NULL) != HF_OK)
            location->lost++;
    }
}

/* A log gets a sixteenth of what the others have left. So many threads keep within the
 * total, and a few have long windows. The minimum size is always granted. */
static size_t
share_of_buffers(const hf_recorder *recorder) {
    uint64_t left = recorder->options.buffer_bytes;
    for (size_t i = 0; i < recorder->count; i++) {
        uint64_t taken = recorder->locations[i]->log.window_bytes;
        left -= taken < left ? taken : left;
    }
    return (size_t)(left / 16);
}

/* Without room in the file for its events the location has no trace. */
static hf_status
begin_log(const hf_recorder *recorder, hfi_location *location) {
    size_t bytes = share_of_buffers(recorder);
    hf_status status =
        hfi_event_log_init(&location->log, bytes, recorder->log, location->id);
    if (!recorder->log)
        return status;
    bool is_full = status != HF_OK;
    status = hfi_log_file_add_location(recorder->log, location->id, location->name);
    if (!is_full && status == HF_OK)
        return HF_OK;
    location->broken = true;
    if (!is_full)
        hfi_event_log_fini(&location->log);
    return hfi_event_log_init(&location->log, 0, NULL, location->id);
}

/* Set up what gets the location's events. Without a trace and a profile nothing does,
 * and there is no log. */
static hf_status
location_equip(hf_recorder *recorder, hfi_location *location, hf_error *reterr) {
    hf_status status;
    if (!recorder->archive && !recorder->options.profiling)
        return HF_OK;
    if (recorder->options.profiling &&
        hfi_calltree_create(&recorder->options.room, &location->tree) != HF_OK)
        return no_memory(reterr);
    status = begin_log(recorder, location);
    if (status != HF_OK)
        return hf_error_set(reterr, status, "no room for a thread's events");
    bool is_immediate = recorder->archive && location->backend->immediate;
    if (is_immediate)
        hfi_event_log_hold_nothing(&location->log);
    hfi_event_log_rewind(&location->log, &location->traced);
    hfi_event_log_rewind(&location->log, &location->profiled);
    location->logging = recorder->recording;
    if (!is_immediate)
        return HF_OK;
    return location->backend->writer_open(recorder->archive, location->id,
                                          &location->writer, reterr);
}

hf_status
hf_recorder_add_location(hf_recorder *recorder, const char *name,
                         hfi_location **ret_location, hf_error *reterr) {
    retire_finished(recorder);
    if (recorder->count == recorder->capacity) {
        size_t capacity = recorder->capacity ? recorder->capacity * 2 : 16;
        hfi_location **grown =
            realloc(recorder->locations, capacity * sizeof(hfi_location *));
        if (!grown)
            return no_memory(reterr);
        recorder->locations = grown;
        recorder->capacity = capacity;
    }
    hfi_location *location = calloc(1, sizeof *location);
    if (!location)
        return no_memory(reterr);
    location->recorder = recorder;
    location->backend = recorder->options.backend;
    location->id = recorder->count;
    if (name)
        snprintf(location->name, sizeof location->name, "%s", name);
    else
        snprintf(location->name, sizeof location->name, "Thread %zu", recorder->count);
    hf_status status = location_equip(recorder, location, reterr);
    if (status != HF_OK) {
        location_free(location);
        return status;
    }
    recorder->locations[recorder->count++] = location;
    *ret_location = location;
    return HF_OK;
}
