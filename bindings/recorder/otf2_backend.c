/* otf2_backend.c - the built-in back end: an OTF2 archive through the OTF2 library.
 *
 * One event writer a location, opened at the location's first use and closed when its
 * thread has ended, so that a program with ten thousand short threads holds a few
 * buffers, not ten thousand. Events come from a location's log, many at a time.
 *
 * Each process writes its events to files of its own, the first one where they will
 * stay, the others below their part of the experiment (parts.c). Who ends last, and the
 * first process, writes the definitions and moves the event files to their place
 * (otf2_merge.c). The numbers of its locations begin with
 * that of the part, so files of several processes never have the same name.
 *
 * A forked child shares the parent's file descriptions. abandon() points the child's
 * descriptors for files below the archive's directory to /dev/null: whatever OTF2 or
 * the C library still holds in its stream buffers then goes nowhere when the child
 * exits. Closing the archive there would write it a second time into the parent's
 * files.
 *
 * Locks: none, the interpreter's lock covers it all.
 */
#include "otf2_files.h"
#include "part_file.h"
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <otf2/otf2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first process makes its place among the parts when there may be others: one
 * without children never does, and what a file system takes for it is not small. */
typedef struct otf2_archive {
    OTF2_Archive *archive; /* of this part */
    hfi_part part;
    hfi_part next; /* of a child that is being forked */
} otf2_archive;

/* The part is given up on failure. */
static hf_status
open_part(hfi_part *part, void **ret_archive, hf_error *reterr) {
    otf2_archive *self = calloc(1, sizeof *self);
    hf_status status = HF_E_NOMEM;
    if (self)
        status = hfi_otf2_create(part->number ? part->own : part->directory,
                                 &self->archive, reterr);
    if (status == HF_OK && OTF2_Archive_OpenEvtFiles(self->archive)) {
        status = hfi_otf2_fail(reterr, "opening the archive");
        OTF2_Archive_Close(self->archive);
    }
    if (status != HF_OK) {
        if (part->own)
            hfi_part_remove(part->own);
        hfi_part_leave(part, false);
        free(self);
        return status;
    }
    self->part = *part;
    self->next.lock = -1;
    *ret_archive = self;
    return HF_OK;
}

static hf_status
otf2_open(const char *directory, const hfi_definitions *definitions, bool joins,
          void **ret_archive, hf_error *reterr) {
    (void)definitions; /* they come with the end */
    hfi_part part = {.lock = -1};
    hf_status status = HF_OK;
    if (joins)
        status = hfi_part_join(directory, false, 0, &part, reterr);
    else if (!(part.directory = realpath(directory, NULL)))
        status = hf_error_set_errno(reterr, errno, "opening %s", directory);
    return status == HF_OK ? open_part(&part, ret_archive, reterr) : status;
}

static hf_status
otf2_share(void *archive, hf_error *reterr) {
    otf2_archive *self = archive;
    hfi_part part;
    if (self->part.lock >= 0)
        return HF_OK;
    hf_status status = hfi_part_join(self->part.directory, true, 0, &part, reterr);
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
        status = hfi_part_join(self->part.directory, false, self->part.number + 1,
                               &self->next, NULL);
    if (status != HF_OK)
        self->next.lock = -1; /* the child will say so */
}

static void
otf2_fork_end(void *archive) {
    hfi_part_leave(&((otf2_archive *)archive)->next, false);
}

static hf_status
otf2_reopen(void *archive, void **ret_archive, hf_error *reterr) {
    otf2_archive *self = archive;
    hf_status status;
    if (self->next.lock < 0)
        status = hf_error_set(reterr, HF_E_SYSTEM, "no part of %s could be made",
                              self->part.directory);
    else
        status = open_part(&self->next, ret_archive, reterr);
    free(self->part.own);
    free(self->part.directory);
    free(self);
    return status;
}

/* The numbers of locations are unique in the experiment. */
static uint64_t
location_id(const otf2_archive *self, uint64_t location) {
    return (uint64_t)self->part.number << 32 | location;
}

static hf_status
close_archive(OTF2_Archive *archive, hf_error *reterr) {
    if (OTF2_Archive_Close(archive))
        return hfi_otf2_fail(reterr, "closing the archive");
    /* Some writes that failed are only told to the callback. */
    return hfi_otf2_has_failed() ? hfi_otf2_fail(reterr, "writing the archive") : HF_OK;
}

static hf_status
write_part_file(const hfi_part *part, const hfi_recording_summary *summary,
                hf_error *reterr) {
    char *path = NULL;
    if (asprintf(&path, "%s/part", part->own) < 0)
        return HF_E_NOMEM;
    hf_status status = hfi_part_file_write(path, summary, reterr);
    free(path);
    return status;
}

/* The first process and the last one write the archive, so that it is there when the
 * program has ended, and complete when all have. The gate is closed. */
static hf_status
finish_part(otf2_archive *self, bool is_last, const hfi_recording_summary *summary,
            hf_error *reterr) {
    const hfi_part *part = &self->part;
    hf_status status = HF_OK;
    bool in_place = is_last && part->number == 0;
    if (in_place)
        status = hfi_otf2_merge(part->directory, 0, summary, self->archive, reterr);
    hf_status closed = close_archive(self->archive, status == HF_OK ? reterr : NULL);
    status = status == HF_OK ? closed : status;
    if (status == HF_OK && !is_last)
        status = write_part_file(part, summary, reterr);
    if (status == HF_OK && !in_place && (is_last || part->number == 0))
        status = hfi_otf2_merge(part->directory, part->number, summary, NULL, reterr);
    return status;
}

static hf_status
otf2_close(void *archive, const hfi_recording_summary *summary, hf_error *reterr) {
    otf2_archive *self = archive;
    hfi_recording_summary numbered = *summary;
    hfi_location_summary *locations =
        calloc(summary->location_count + 1, sizeof *locations);
    for (size_t i = 0; i < summary->location_count && locations; i++) {
        locations[i] = summary->locations[i];
        locations[i].id = location_id(self, locations[i].id);
    }
    numbered.locations = locations;
    otf2_fork_end(self); /* where a thread forks at this moment */
    hf_status status = locations ? HF_OK : HF_E_NOMEM;
    if (OTF2_Archive_CloseEvtFiles(self->archive) && status == HF_OK)
        status = hfi_otf2_fail(reterr, "writing the events");
    bool is_alone = self->part.lock < 0, is_last = is_alone;
    if (status == HF_OK && !is_alone)
        status = hfi_part_finish(&self->part, reterr);
    if (status == HF_OK) {
        is_last = is_last || hfi_part_is_last(&self->part);
        status = finish_part(self, is_last, &numbered, reterr);
    } else {
        (void)OTF2_Archive_Close(self->archive);
    }
    hfi_part_leave(&self->part, !is_alone && is_last && status == HF_OK);
    free(locations);
    free(self);
    return status;
}

/* The path behind a descriptor; false where it has none. */
static bool
descriptor_path(int fd, char path[PATH_MAX]) {
#if defined(__APPLE__)
    return fcntl(fd, F_GETPATH, path) == 0;
#else
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    return true;
#endif
}

static void
otf2_abandon(void *archive) {
    otf2_archive *self = archive;
    size_t prefix = strlen(self->part.directory);
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    DIR *open_files = opendir("/dev/fd");
    for (struct dirent *entry;
         open_files && sink >= 0 && (entry = readdir(open_files));) {
        char path[PATH_MAX];
        int fd = atoi(entry->d_name);
        if (fd > 2 && fd != sink && fd != self->next.lock && fd != dirfd(open_files) &&
            descriptor_path(fd, path) &&
            strncmp(path, self->part.directory, prefix) == 0 && path[prefix] == '/')
            dup2(sink, fd);
    }
    if (open_files)
        closedir(open_files);
    if (sink >= 0)
        close(sink);
}

static hf_status
otf2_writer_open(void *archive, uint64_t location, void **ret_writer,
                 hf_error *reterr) {
    otf2_archive *self = archive;
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
    if (OTF2_Archive_CloseEvtWriter(self->archive, writer))
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
    .buffer_bytes = OTF2_CHUNK_SIZE_MIN,
    .open = otf2_open,
    .close = otf2_close,
    .abandon = otf2_abandon,
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
