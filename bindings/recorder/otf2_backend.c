/* otf2_backend.c - the built-in back end: an OTF2 archive through the OTF2 library.
 *
 * One event writer a location, opened at the location's first use and closed when its
 * thread has ended, so that a program with ten thousand short threads holds a few
 * buffers, not ten thousand. Events come from a location's log, many at a time.
 *
 * Definitions are global and written at close; the local definition files stay empty,
 * but exist, since readers look for them.
 *
 * A forked child shares the parent's file descriptions. abandon() points the child's
 * descriptors for files below the archive's directory to /dev/null: whatever OTF2 or
 * the C library still holds in its stream buffers then goes nowhere when the child
 * exits. Closing the archive there would write it a second time into the parent's
 * files.
 *
 * OTF2 reports errors through one process-wide callback, which prints by default; ours
 * keeps the last text for hf_error. Locks: none, the interpreter's lock covers it all.
 */
#include "backend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <otf2/otf2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct otf2_archive {
    OTF2_Archive *archive;
    char *directory; /* absolute, without symbolic links */
    uint64_t begin_time;
} otf2_archive;

static char last_error[256];

static OTF2_ErrorCode
keep_error(void *user_data, const char *file, uint64_t line, const char *function,
           OTF2_ErrorCode code, const char *format, va_list arguments) {
    (void)user_data, (void)file, (void)line;
    char detail[160] = "";
    if (format)
        vsnprintf(detail, sizeof detail, format, arguments);
    snprintf(last_error, sizeof last_error, "%s in %s%s%s",
             OTF2_Error_GetDescription(code), function, *detail ? ": " : "", detail);
    return code;
}

static hf_status
fail(hf_error *reterr, const char *doing) {
    return hf_error_set(reterr, HF_E_SYSTEM, "%s: %s", doing,
                        *last_error ? last_error : "the OTF2 library refused");
}

static OTF2_FlushType
before_flush(void *user_data, OTF2_FileType type, OTF2_LocationRef location,
             void *caller_data, bool final) {
    (void)user_data, (void)type, (void)location, (void)caller_data, (void) final;
    return OTF2_FLUSH;
}

/* Without the second callback the library notes no pause: location.c does. */
static const OTF2_FlushCallbacks flush_callbacks = {before_flush, NULL};

/* The library's own allocation lets a buffer grow to 128 MiB before it is flushed. Ours
 * gives an event buffer one chunk, kept from flush to flush so that its pages are
 * touched once. The other files are small and written at close: they get what they ask
 * for, in the smallest chunks, since the library clears each: with its default of 4 MiB
 * closing an empty trace took 2.7 ms, so it takes 0.2. */
typedef struct chunk {
    struct chunk *next;
    bool in_use;
    _Alignas(16) unsigned char bytes[];
} chunk;

static void *
allocate_chunk(void *user_data, OTF2_FileType type, OTF2_LocationRef location,
               void **buffer_data, uint64_t size) {
    (void)user_data, (void)location;
    chunk *first = *buffer_data;
    if (first && type == OTF2_FILETYPE_EVENTS) {
        if (first->in_use)
            return NULL; /* full: flush */
        first->in_use = true;
        return first->bytes;
    }
    chunk *made = malloc(sizeof *made + size);
    if (!made)
        return NULL;
    made->next = first;
    made->in_use = true;
    *buffer_data = made;
    return made->bytes;
}

static void
free_chunks(void *user_data, OTF2_FileType type, OTF2_LocationRef location,
            void **buffer_data, bool final) {
    (void)user_data, (void)location;
    if (!final && type == OTF2_FILETYPE_EVENTS && *buffer_data) {
        ((chunk *)*buffer_data)->in_use = false;
        return;
    }
    for (chunk *at = *buffer_data, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    *buffer_data = NULL;
}

static const OTF2_MemoryCallbacks memory_callbacks = {allocate_chunk, free_chunks};

static hf_status
otf2_open(const char *directory, const hfi_definitions *definitions, void **ret_archive,
          hf_error *reterr) {
    (void)definitions; /* they come with the end */
    last_error[0] = '\0';
    OTF2_Error_RegisterCallback(keep_error, NULL);
    otf2_archive *self = calloc(1, sizeof *self);
    if (!self || !(self->directory = realpath(directory, NULL))) {
        free(self);
        return hf_error_set_errno(reterr, errno, "opening %s", directory);
    }
    self->archive = OTF2_Archive_Open(directory, "traces", OTF2_FILEMODE_WRITE,
                                      OTF2_CHUNK_SIZE_MIN, OTF2_CHUNK_SIZE_MIN,
                                      OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (!self->archive) {
        free(self->directory);
        free(self);
        return fail(reterr, "opening the archive");
    }
    OTF2_ErrorCode bad =
        OTF2_Archive_SetFlushCallbacks(self->archive, &flush_callbacks, NULL);
    if (!bad)
        bad = OTF2_Archive_SetMemoryCallbacks(self->archive, &memory_callbacks, NULL);
    if (!bad)
        bad = OTF2_Archive_SetSerialCollectiveCallbacks(self->archive);
    if (!bad)
        bad = OTF2_Archive_SetCreator(self->archive, "holdfast " HF_VERSION);
    if (!bad)
        bad = OTF2_Archive_OpenEvtFiles(self->archive);
    if (bad) {
        hf_status status = fail(reterr, "opening the archive");
        OTF2_Archive_Close(self->archive);
        free(self->directory);
        free(self);
        return status;
    }
    *ret_archive = self;
    return HF_OK;
}

/* What the definitions are written through, and where the next free string id is: names
 * that only the archive needs come after the recording's own. */
typedef struct def_file {
    OTF2_GlobalDefWriter *writer;
    uint32_t next_string;
    OTF2_ErrorCode bad; /* the first error; later writes are skipped */
} def_file;

static uint32_t
write_string(def_file *file, const char *text) {
    uint32_t id = file->next_string++;
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteString(file->writer, id, text);
    return id;
}

static OTF2_Paradigm
region_paradigm(hfi_region_kind kind) {
    return kind == HFI_REGION_USER ? OTF2_PARADIGM_USER : OTF2_PARADIGM_COMPILER;
}

static void
write_regions(def_file *file, const hfi_definitions *definitions) {
    for (size_t i = 0; i < hfi_definitions_count_strings(definitions) && !file->bad;
         i++)
        file->bad = OTF2_GlobalDefWriter_WriteString(
            file->writer, (uint32_t)i,
            hfi_definitions_get_string(definitions, (uint32_t)i));
    for (size_t i = 0; i < hfi_definitions_count_regions(definitions) && !file->bad;
         i++) {
        const hfi_region *region = hfi_definitions_get_region(definitions, (uint32_t)i);
        file->bad = OTF2_GlobalDefWriter_WriteRegion(
            file->writer, (uint32_t)i, region->name, region->name, 0,
            region->kind == HFI_REGION_USER ? OTF2_REGION_ROLE_CODE
                                            : OTF2_REGION_ROLE_FUNCTION,
            region_paradigm(region->kind), OTF2_REGION_FLAG_NONE, region->file,
            region->line, 0);
    }
}

static void
write_parameters(def_file *file, const hfi_definitions *definitions) {
    static const OTF2_ParameterType types[] = {
        [HFI_PARAMETER_INT] = OTF2_PARAMETER_TYPE_INT64,
        [HFI_PARAMETER_UINT] = OTF2_PARAMETER_TYPE_UINT64,
        [HFI_PARAMETER_STRING] = OTF2_PARAMETER_TYPE_STRING};
    for (size_t i = 0; i < hfi_definitions_count_parameters(definitions) && !file->bad;
         i++) {
        const hfi_parameter *parameter =
            hfi_definitions_get_parameter(definitions, (uint32_t)i);
        file->bad = OTF2_GlobalDefWriter_WriteParameter(
            file->writer, (uint32_t)i, parameter->name, types[parameter->kind]);
    }
}

static void
write_places(def_file *file, const hfi_recording_summary *summary) {
    uint32_t machine = write_string(file, "machine");
    uint32_t node = write_string(file, "node");
    uint32_t host = write_string(file, summary->host_name);
    uint32_t process = write_string(file, summary->process_name);
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteSystemTreeNode(
            file->writer, 0, machine, machine, OTF2_UNDEFINED_SYSTEM_TREE_NODE);
    if (!file->bad)
        file->bad =
            OTF2_GlobalDefWriter_WriteSystemTreeNode(file->writer, 1, host, node, 0);
    if (!file->bad)
        file->bad = OTF2_GlobalDefWriter_WriteLocationGroup(
            file->writer, 0, process, OTF2_LOCATION_GROUP_TYPE_PROCESS, 1,
            OTF2_UNDEFINED_LOCATION_GROUP);
    for (size_t i = 0; i < summary->location_count; i++) {
        const hfi_location_summary *location = &summary->locations[i];
        uint32_t name = write_string(file, location->name);
        if (!file->bad)
            file->bad = OTF2_GlobalDefWriter_WriteLocation(
                file->writer, location->id, name, OTF2_LOCATION_TYPE_CPU_THREAD,
                location->events, 0);
    }
}

static OTF2_ErrorCode
write_definitions(OTF2_Archive *archive, const hfi_recording_summary *summary) {
    OTF2_ErrorCode bad = OTF2_Archive_OpenDefFiles(archive);
    for (size_t i = 0; i < summary->location_count && !bad; i++) {
        OTF2_DefWriter *local =
            OTF2_Archive_GetDefWriter(archive, summary->locations[i].id);
        bad = local ? OTF2_Archive_CloseDefWriter(archive, local)
                    : OTF2_ERROR_INVALID_CALL;
    }
    if (!bad)
        bad = OTF2_Archive_CloseDefFiles(archive);
    def_file file = {OTF2_Archive_GetGlobalDefWriter(archive),
                     (uint32_t)hfi_definitions_count_strings(summary->definitions),
                     bad};
    if (!file.writer)
        return bad ? bad : OTF2_ERROR_INVALID_CALL;
    if (!file.bad)
        file.bad = OTF2_GlobalDefWriter_WriteClockProperties(
            file.writer, summary->ticks_per_second, summary->begin_time,
            summary->end_time - summary->begin_time, summary->begin_realtime);
    write_regions(&file, summary->definitions);
    write_parameters(&file, summary->definitions);
    write_places(&file, summary);
    return file.bad;
}

static hf_status
otf2_close(void *archive, const hfi_recording_summary *summary, hf_error *reterr) {
    otf2_archive *self = archive;
    hf_status status = HF_OK;
    OTF2_ErrorCode bad = OTF2_Archive_CloseEvtFiles(self->archive);
    if (!bad)
        bad = write_definitions(self->archive, summary);
    if (bad)
        status = fail(reterr, "writing the definitions");
    if (OTF2_Archive_Close(self->archive) && status == HF_OK)
        status = fail(reterr, "closing the archive");
    /* Some writes that failed are only told to the callback. */
    if (*last_error && status == HF_OK)
        status = fail(reterr, "writing the archive");
    free(self->directory);
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
    size_t prefix = strlen(self->directory);
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    DIR *open_files = opendir("/dev/fd");
    for (struct dirent *entry;
         open_files && sink >= 0 && (entry = readdir(open_files));) {
        char path[PATH_MAX];
        int fd = atoi(entry->d_name);
        if (fd > 2 && fd != sink && fd != dirfd(open_files) &&
            descriptor_path(fd, path) && strncmp(path, self->directory, prefix) == 0 &&
            path[prefix] == '/')
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
    OTF2_EvtWriter *writer = OTF2_Archive_GetEvtWriter(self->archive, location);
    if (!writer)
        return fail(reterr, "opening a location");
    *ret_writer = writer;
    return HF_OK;
}

static hf_status
otf2_writer_close(void *archive, void *writer, hf_error *reterr) {
    otf2_archive *self = archive;
    if (OTF2_Archive_CloseEvtWriter(self->archive, writer))
        return fail(reterr, "writing a location's events");
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
