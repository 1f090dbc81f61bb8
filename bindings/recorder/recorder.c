/* recorder.c - one recording: opened, given locations, closed.
 *
 * The expensive steps lie outside of what is measured: the archive is created with the
 * recorder, and the definitions and the profile are written when it is closed. In
 * between there are only the events of location.c.
 *
 * Invariants: location i is locations[i]; it lives until close, so a thread may keep a
 * pointer as long as it checks that the recorder is still the same (python_events.c
 * does, by a generation number). A location whose thread has ended has its buffer
 * written out and released when the next location is made.
 *
 * The interpreter's lock serializes all callers. The exception is `finished`, which an
 * ending thread sets after it has given that lock up for the last time.
 *
 * Rejected: writing definitions as they appear (they would fall into the measured part,
 * and a crash loses the anchor file all the same).
 */
#include "recorder.h"
#include "clock.h"
#include "profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hf_recorder {
    hf_recorder_options options;
    char *directory, *profile_name;
    void *archive; /* NULL without a trace */
    hfi_definitions *definitions;
    hfi_location **locations;
    size_t count, capacity;
    uint64_t begin_time;     /* ticks */
    uint64_t begin_realtime; /* ns */
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
    hfi_definitions_close(recorder->definitions);
    free(recorder->directory);
    free(recorder->profile_name);
    free(recorder);
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
    recorder->profile_name = strdup(options->profile_name ? options->profile_name : "");
    if (status != HF_OK || !recorder->directory || !recorder->profile_name) {
        status = no_memory(reterr);
        goto out;
    }
    recorder->options.directory = recorder->directory;
    recorder->options.profile_name = recorder->profile_name;
    if (options->backend)
        status = options->backend->open(recorder->directory, recorder->definitions,
                                        options->joins, &recorder->archive, reterr);
out:
    if (status != HF_OK) {
        recorder_free(recorder);
        return status;
    }
    *ret_recorder = recorder;
    return HF_OK;
}

/* Leave what is open and write the buffer out. */
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

static void
name_process(char *name, size_t size) {
    snprintf(name, size, "Process %ld", (long)getpid());
}

static void
name_host(char *name, size_t size) {
    name[size - 1] = '\0'; /* a name that is cut has no end */
    if (gethostname(name, size - 1) != 0)
        name[0] = '\0';
}

static hf_status
fill_profile(const hf_recorder *recorder, hfi_profile *profile) {
    char name[32];
    uint32_t process;
    name_process(name, sizeof name);
    name_host(profile->host, sizeof profile->host);
    hf_status status = hfi_profile_add_process(profile, name, &process);
    for (size_t i = 0; i < recorder->count && status == HF_OK; i++) {
        const hfi_location *location = recorder->locations[i];
        status = hfi_profile_add_location(profile, process, location->id,
                                          location->name, recorder->definitions,
                                          location->tree, hfi_clock_frequency());
    }
    return status;
}

static hf_status
write_profile(const hf_recorder *recorder, uint64_t *ret_collapsed, hf_error *reterr) {
    hfi_profile *profile;
    char file[256];
    int length = snprintf(file, sizeof file, "%s", recorder->profile_name);
    if (recorder->options.joins)
        length = snprintf(file, sizeof file, "%s-%ld", recorder->profile_name,
                          (long)getpid());
    if (length < 0 || (size_t)length >= sizeof file)
        return hf_error_set(reterr, HF_E_INVALID, "the profile's name is too long");
    if (hfi_profile_create(&profile) != HF_OK)
        return no_memory(reterr);
    hf_status status = fill_profile(recorder, profile);
    if (status != HF_OK)
        no_memory(reterr);
    else
        status = hfi_profile_write(profile, recorder->directory, file,
                                   recorder->options.profile_formats, reterr);
    *ret_collapsed = hfi_profile_count_collapsed(profile);
    hfi_profile_close(profile);
    return status;
}

static hf_status
close_archive(const hf_recorder *recorder, hf_error *reterr) {
    hfi_location_summary *locations =
        calloc(recorder->count ? recorder->count : 1, sizeof *locations);
    if (!locations)
        return no_memory(reterr);
    for (size_t i = 0; i < recorder->count; i++) {
        const hfi_location *location = recorder->locations[i];
        locations[i] =
            (hfi_location_summary){location->id, location->name, location->events};
    }
    char host[256], process[32];
    name_host(host, sizeof host);
    name_process(process, sizeof process);
    hfi_recording_summary summary = {.definitions = recorder->definitions,
                                     .locations = locations,
                                     .location_count = recorder->count,
                                     .begin_time = recorder->begin_time,
                                     .ticks_per_second = hfi_clock_frequency(),
                                     .end_time = hfi_clock_ticks(),
                                     .begin_realtime = recorder->begin_realtime,
                                     .process_name = process,
                                     .host_name = host};
    hf_status status =
        recorder->options.backend->close(recorder->archive, &summary, reterr);
    free(locations);
    return status;
}

hf_status
hf_recorder_close(hf_recorder *recorder, hfi_recording_totals *ret_totals,
                  hf_error *reterr) {
    if (!recorder)
        return HF_OK;
    hf_status status = HF_OK;
    hfi_recording_totals totals = {
        .locations = recorder->count,
        .regions = hfi_definitions_count_regions(recorder->definitions)};
    for (size_t i = 0; i < recorder->count; i++) {
        hf_status one = location_retire(recorder, recorder->locations[i],
                                        status == HF_OK ? reterr : NULL);
        status = status == HF_OK ? one : status;
        totals.events += recorder->locations[i]->events;
        totals.lost += recorder->locations[i]->lost;
        totals.rewound += recorder->locations[i]->rewound;
        totals.flushes += recorder->locations[i]->flushes;
    }
    if (recorder->archive) {
        hf_status one = close_archive(recorder, status == HF_OK ? reterr : NULL);
        status = status == HF_OK ? one : status;
    }
    if (recorder->options.profiling) {
        hf_status one =
            write_profile(recorder, &totals.collapsed, status == HF_OK ? reterr : NULL);
        status = status == HF_OK ? one : status;
    }
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

/* The archive and one location anew; `from` still exists. */
static hf_status
begin_again(hf_recorder *recorder, const hfi_location *from,
            hfi_location **ret_location, hf_error *reterr) {
    void *archive = recorder->archive;
    recorder->archive = NULL;
    recorder->options.joins = true;
    recorder->begin_time = hfi_clock_ticks();
    recorder->begin_realtime = hfi_clock_realtime();
    hf_status status = HF_OK;
    if (archive)
        status = recorder->options.backend->reopen(archive, &recorder->archive, reterr);
    *ret_location = NULL;
    if (status == HF_OK && from)
        status = hf_recorder_add_location(recorder, from->name, ret_location, reterr);
    if (status == HF_OK && from)
        hfi_location_enter_all(*ret_location, from);
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
    recorder->locations = NULL;
    recorder->count = recorder->capacity = 0;
    hf_status status = begin_again(recorder, from, ret_location, reterr);
    for (size_t i = 0; i < count; i++) {
        hfi_location_finish(locations[i]);
        location_free(locations[i]);
    }
    free(locations);
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
        if (location->writer &&
            atomic_load_explicit(&location->finished, memory_order_acquire) &&
            location_retire(recorder, location, NULL) != HF_OK)
            location->lost++;
    }
}

/* What the location's events go through, and to. Without a trace and a profile they go
 * nowhere, and there is no log. */
static hf_status
location_equip(hf_recorder *recorder, hfi_location *location, hf_error *reterr) {
    uint64_t bytes = recorder->options.buffer_bytes;
    size_t taken = recorder->archive ? location->backend->buffer_bytes : 0;
    if (!recorder->archive && !recorder->options.profiling)
        return HF_OK;
    if (recorder->options.profiling &&
        hfi_calltree_create(&recorder->options.room, &location->tree) != HF_OK)
        return no_memory(reterr);
    if (hfi_event_log_init(&location->log, bytes > taken ? bytes - taken : 0) != HF_OK)
        return no_memory(reterr);
    if (recorder->archive && location->backend->immediate)
        hfi_event_log_hold_nothing(&location->log);
    hfi_event_log_rewind(&location->log, &location->traced);
    hfi_event_log_rewind(&location->log, &location->profiled);
    location->logging = recorder->recording;
    if (!recorder->archive)
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
