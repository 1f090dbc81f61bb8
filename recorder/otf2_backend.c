/* otf2_backend.c - the built-in back end: an OTF2 archive, written by the OTF2 library.
 *
 * While the program runs, nothing of the archive exists: events are in the log file.
 * They become records when the recording is closed, or when another process finds that
 * this one is dead (trace_recovery.c). There is one event writer at a time, so a
 * program with ten thousand threads needs one buffer.
 *
 * Each process writes its events to files of its own. The first process writes them
 * where they will stay, the others below their part of the experiment (parts.c). The
 * first process and the one that ends last write the definitions, and move the event
 * files to their place (otf2_merge.c). The numbers of a process's locations begin with
 * the number of its part, so files of several processes never have the same name.
 *
 * A recording that has only a profile uses the same code without events: its processes
 * are parts, too, and their profiles become one.
 *
 * Locks: none; the interpreter's lock covers everything.
 */
#include "otf2_files.h"
#include "part_file.h"
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <otf2/otf2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first process makes its place among the parts only when other processes may come.
 * A process without children never does, because this takes a file system noticeable
 * time. */
typedef struct otf2_archive {
    OTF2_Archive *archive; /* of this part; NULL: not begun yet */
    bool is_dead;          /* of another process, which is dead */
    hfi_trace_part part;
    hfi_trace_part next; /* the part of a child that is being forked */
    hfi_others others;   /* known once everything is written */
} otf2_archive;

static hf_status
open_part(const hfi_trace_part *part, void **ret_archive) {
    otf2_archive *self = calloc(1, sizeof *self);
    if (!self)
        return HF_E_NOMEM;
    self->part = *part;
    self->next.lock = -1;
    *ret_archive = self;
    return HF_OK;
}

hf_status
hfi_otf2_open_dead(const hfi_trace_part *part, void **ret_archive) {
    hf_status status = open_part(part, ret_archive);
    if (status == HF_OK)
        ((otf2_archive *)*ret_archive)->is_dead = true;
    return status;
}

/* On failure the part is given up. */
static hf_status
open_own(hfi_trace_part *part, void **ret_archive) {
    hf_status status = open_part(part, ret_archive);
    if (status != HF_OK) {
        if (part->own)
            hfi_trace_part_remove(part->own);
        hfi_trace_part_leave(part, false);
    }
    return status;
}

static hf_status
otf2_open(const char *directory, const hfi_definitions *definitions, bool joins,
          void **ret_archive, hf_error *reterr) {
    (void)definitions; /* they are written at the end */
    hfi_trace_part part = {.lock = -1};
    hf_status status = HF_OK;
    if (joins)
        status = hfi_trace_part_join(directory, false, 0, &part, reterr);
    else if (!(part.directory = realpath(directory, NULL)))
        status = hf_error_set_errno(reterr, errno, "opening %s", directory);
    return status == HF_OK ? open_own(&part, ret_archive) : status;
}

static bool
otf2_is_alone(const void *archive) {
    return ((const otf2_archive *)archive)->part.lock < 0;
}

static hf_status
otf2_share(void *archive, hf_error *reterr) {
    otf2_archive *self = archive;
    hfi_trace_part part;
    if (self->part.lock >= 0)
        return HF_OK;
    hf_status status =
        hfi_trace_part_join(self->part.directory, true, 0, &part, reterr);
    if (status == HF_OK) {
        free(self->part.directory);
        self->part = part;
    }
    return status;
}

static void
otf2_fork_begin(void *archive) {
    otf2_archive *self = archive;
    hf_status status = otf2_share(self, NULL);
    if (status == HF_OK)
        status = hfi_trace_part_join(self->part.directory, false, self->part.number + 1,
                                     &self->next, NULL);
    if (status != HF_OK)
        self->next.lock = -1; /* otf2_reopen() reports it in the child */
}

static void
otf2_fork_end(void *archive) {
    hfi_trace_part_leave(&((otf2_archive *)archive)->next, false);
}

static hf_status
otf2_reopen(void *archive, void **ret_archive, hf_error *reterr) {
    otf2_archive *self = archive;
    hf_status status;
    if (self->next.lock < 0)
        status = hf_error_set(reterr, HF_E_SYSTEM,
                              "there is no place for it in the experiment");
    else
        status = open_own(&self->next, ret_archive);
    free(self);
    return status;
}

/* The location's number, which is unique in the experiment. */
static uint64_t
location_id(const otf2_archive *self, uint64_t location) {
    return (uint64_t)self->part.number << 32 | location;
}

static hf_status
otf2_log_path(void *archive, char **ret_path) {
    const hfi_trace_part *part = &((otf2_archive *)archive)->part;
    return hfi_log_path(part->directory, part->number, ret_path);
}

static const char *
place_of(const otf2_archive *self) {
    bool is_in_place = self->part.number == 0 && !self->is_dead;
    return is_in_place ? self->part.directory : self->part.own;
}

/* Nothing of the archive is made before the first event, or the end. */
static hf_status
begin_archive(otf2_archive *self, hf_error *reterr) {
    if (self->archive)
        return HF_OK;
    hf_status status = hfi_otf2_create(place_of(self), &self->archive, reterr);
    if (status == HF_OK && OTF2_Archive_OpenEvtFiles(self->archive))
        status = hfi_otf2_fail(reterr, "opening the archive");
    return status;
}

static hf_status
close_archive(otf2_archive *self, hf_error *reterr) {
    OTF2_Archive *archive = self->archive;
    self->archive = NULL;
    return archive ? hfi_otf2_close(archive, reterr) : HF_OK;
}

/* Event files that could not be written to their end: a full disk gets its space back,
 * also if they are still open. */
static void
drop_events(const otf2_archive *self) {
    char *path = NULL;
    DIR *entries = NULL;
    if (asprintf(&path, "%s/traces", place_of(self)) >= 0) {
        entries = opendir(path);
        free(path);
    }
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char *end;
        uint64_t id = strtoull(entry->d_name, &end, 10);
        if (strcmp(end, ".evt") != 0 || id >> 32 != self->part.number)
            continue;
        int fd = openat(dirfd(entries), entry->d_name, O_WRONLY | O_TRUNC | O_CLOEXEC);
        if (fd >= 0)
            close(fd);
        (void)unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries)
        closedir(entries);
}

static hf_status
write_part_file(const hfi_trace_part *part, const hfi_recording_summary *summary,
                hf_error *reterr) {
    char *path = NULL;
    if (asprintf(&path, "%s/part", part->own) < 0)
        return HF_E_NOMEM;
    hf_status status = hfi_trace_part_file_write(path, summary, reterr);
    free(path);
    return status;
}

/* The first process and the last one write the archive. So it exists when the program
 * has ended, and is complete when all processes have. The gate is closed meanwhile. */
static hf_status
finish_part(otf2_archive *self, bool is_last, const hfi_recording_summary *summary,
            hf_error *reterr) {
    const hfi_trace_part *part = &self->part;
    hf_status status = HF_OK;
    bool in_place = is_last && part->number == 0 && !self->is_dead;
    if (in_place)
        status = hfi_experiment_write(part->directory, 0, summary, self->archive,
                                      &self->others, reterr);
    hf_status closed = close_archive(self, status == HF_OK ? reterr : NULL);
    status = status == HF_OK ? closed : status;
    if (status == HF_OK && !is_last)
        status = write_part_file(part, summary, reterr);
    if (status == HF_OK && !in_place && !self->is_dead &&
        (is_last || part->number == 0))
        status = hfi_experiment_write(part->directory, part->number, summary, NULL,
                                      &self->others, reterr);
    return status;
}

/* Everything is written, so the log file is no longer needed. */
static void
remove_log(otf2_archive *self) {
    char *path;
    if (otf2_log_path(self, &path) == HF_OK) {
        (void)unlink(path);
        free(path);
    }
}

/* Whether nothing more will come from other processes. The files of dead processes
 * become parts. If that fails, they wait for a process that can read them, and so do
 * the parts. */
static bool
settle_others(const hfi_trace_part *part) {
    hfi_recovered others = {.left = 1};
    bool is_last = hfi_trace_part_is_last(part);
    if (!is_last && part->number != 0)
        return false;
    (void)!hfi_recover_parts(part, &others, NULL);
    return is_last && others.left == 0;
}

static hf_status
finish_own(otf2_archive *self, const hfi_recording_summary *summary, hf_error *reterr) {
    bool is_alone = self->part.lock < 0, is_last = is_alone;
    hf_status status = HF_OK;
    if (!is_alone)
        status = hfi_trace_part_finish(&self->part, reterr);
    if (status == HF_OK && !is_alone)
        is_last = settle_others(&self->part);
    if (status == HF_OK)
        status = finish_part(self, is_last, summary, reterr);
    if (status == HF_OK)
        remove_log(self);
    hfi_trace_part_leave(&self->part, !is_alone && is_last && status == HF_OK);
    return status;
}

static hf_status
finish_dead(otf2_archive *self, const hfi_recording_summary *summary,
            hf_error *reterr) {
    hf_status status = finish_part(self, false, summary, reterr);
    if (status == HF_OK)
        remove_log(self);
    return status;
}

static hf_status
finish_events(otf2_archive *self, hf_error *reterr) {
    hf_status status = begin_archive(self, reterr);
    if (status == HF_OK && OTF2_Archive_CloseEvtFiles(self->archive))
        status = hfi_otf2_fail(reterr, "writing the events");
    return status;
}

/* The log file stays. Its recovery makes this part again later. */
static hf_status
finish_cut(otf2_archive *self, const hfi_recording_summary *summary, hf_error *reterr) {
    hf_status status = HF_OK;
    bool is_alone = self->part.lock < 0;
    if (self->is_dead || !summary->profile)
        return HF_OK;
    if (!is_alone)
        status = hfi_trace_part_finish(&self->part, reterr);
    if (status == HF_OK)
        status = hfi_experiment_write(self->part.directory, self->part.number, summary,
                                      NULL, &self->others, reterr);
    return status;
}

/* The numbers of the locations, here and in the profile, become those of the
 * experiment. */
static hf_status
write_summary(otf2_archive *self, const hfi_recording_summary *summary,
              hf_error *reterr) {
    hfi_recording_summary numbered = *summary;
    hfi_location_summary *locations =
        calloc(summary->location_count + 1, sizeof *locations);
    if (!locations)
        return HF_E_NOMEM;
    for (size_t i = 0; i < summary->location_count; i++) {
        locations[i] = summary->locations[i];
        locations[i].id = location_id(self, locations[i].id);
    }
    numbered.locations = locations;
    for (size_t i = 0; summary->profile && i < summary->profile->location_count; i++) {
        hfi_profile_location *location = &summary->profile->locations[i];
        location->id = location_id(self, location->id);
    }
    hf_status status = HF_OK;
    if (summary->is_traced && !summary->is_cut)
        status = finish_events(self, reterr);
    if (status == HF_OK && summary->is_cut)
        status = finish_cut(self, &numbered, reterr);
    else if (status == HF_OK && self->is_dead)
        status = finish_dead(self, &numbered, reterr);
    else if (status == HF_OK)
        status = finish_own(self, &numbered, reterr);
    free(locations);
    return status;
}

static hf_status
otf2_close(void *archive, const hfi_recording_summary *summary, hfi_others *ret_others,
           hf_error *reterr) {
    otf2_archive *self = archive;
    otf2_fork_end(self); /* a thread may be forking at this moment */
    hf_status status = summary ? write_summary(self, summary, reterr) : HF_OK;
    if (ret_others)
        *ret_others = self->others;
    if (self->archive && hfi_otf2_has_failed())
        drop_events(self);
    (void)!close_archive(self, NULL);
    if (!self->is_dead)
        hfi_trace_part_leave(&self->part, false);
    free(self);
    return status;
}

static void
otf2_abandon(void *archive) {
    hfi_trace_part_leave(&((otf2_archive *)archive)->part, false);
}

static hf_status
otf2_writer_open(void *archive, uint64_t location, void **ret_writer,
                 hf_error *reterr) {
    otf2_archive *self = archive;
    hf_status status = begin_archive(self, reterr);
    if (status != HF_OK)
        return status;
    OTF2_EvtWriter *writer =
        OTF2_Archive_GetEvtWriter(self->archive, location_id(self, location));
    if (!writer)
        return hfi_otf2_fail(reterr, "opening a location");
    *ret_writer = writer;
    return HF_OK;
}

static hf_status
otf2_writer_close(void *archive, void *writer, hf_error *reterr) {
    otf2_archive *self = archive;
    if (hfi_otf2_has_failed() || OTF2_Archive_CloseEvtWriter(self->archive, writer))
        return hfi_otf2_fail(reterr, "writing a location's events");
    return HF_OK;
}

static int
otf2_enter(void *writer, uint64_t time, uint32_t region) {
    return OTF2_EvtWriter_Enter(writer, NULL, time, region);
}

static int
otf2_leave(void *writer, uint64_t time, uint32_t region) {
    return OTF2_EvtWriter_Leave(writer, NULL, time, region);
}

static int
otf2_parameter_int(void *writer, uint64_t time, uint32_t parameter, int64_t value) {
    return OTF2_EvtWriter_ParameterInt(writer, NULL, time, parameter, value);
}

static int
otf2_parameter_uint(void *writer, uint64_t time, uint32_t parameter, uint64_t value) {
    return OTF2_EvtWriter_ParameterUnsignedInt(writer, NULL, time, parameter, value);
}

static int
otf2_parameter_string(void *writer, uint64_t time, uint32_t parameter,
                      uint32_t string) {
    return OTF2_EvtWriter_ParameterString(writer, NULL, time, parameter, string);
}

static int
otf2_recording(void *writer, uint64_t time, bool on) {
    return OTF2_EvtWriter_MeasurementOnOff(
        writer, NULL, time, on ? OTF2_MEASUREMENT_ON : OTF2_MEASUREMENT_OFF);
}

static int
otf2_flushed(void *writer, uint64_t start, uint64_t stop) {
    return OTF2_EvtWriter_BufferFlush(writer, NULL, start, stop);
}

const hfi_backend hfi_otf2_backend = {
    .name = "otf2",
    .open = otf2_open,
    .log_path = otf2_log_path,
    .close = otf2_close,
    .abandon = otf2_abandon,
    .is_alone = otf2_is_alone,
    .share = otf2_share,
    .fork_begin = otf2_fork_begin,
    .fork_end = otf2_fork_end,
    .reopen = otf2_reopen,
    .writer_open = otf2_writer_open,
    .writer_close = otf2_writer_close,
    .enter = otf2_enter,
    .leave = otf2_leave,
    .parameter_int = otf2_parameter_int,
    .parameter_uint = otf2_parameter_uint,
    .parameter_string = otf2_parameter_string,
    .recording = otf2_recording,
    .flushed = otf2_flushed,
};

const hfi_backend hfi_profile_backend = {
    .name = "profile",
    .open = otf2_open,
    .close = otf2_close,
    .abandon = otf2_abandon,
    .share = otf2_share,
    .fork_begin = otf2_fork_begin,
    .fork_end = otf2_fork_end,
    .reopen = otf2_reopen,
};
