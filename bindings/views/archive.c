/* archive.c - an OTF2 archive of any writer: opening it, and its properties.
 *
 * It is read by the OTF2 library. The definitions are read when the archive is opened
 * (archive_definitions.c), the events of a location when the caller asks for them
 * (archive_events.c). The library applies a location's own definitions to its numbers
 * and its clock.
 *
 * One thread at a time, and one reader of the process at a time: the library has one
 * callback for errors.
 */
#include "archive_private.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The library has one callback for the process, which a recorder may use, too. Errors
 * of other threads are passed on. */
static _Thread_local char last_error[256];
static _Thread_local bool is_reading;
static OTF2_ErrorCallback recorders;

static OTF2_ErrorCode
keep_reader_error(void *user_data, const char *file, uint64_t line,
                  const char *function, OTF2_ErrorCode code, const char *format,
                  va_list arguments) {
    char detail[160] = "";
    if (!is_reading)
        return recorders
                   ? recorders(user_data, file, line, function, code, format, arguments)
                   : code;
    if (format)
        vsnprintf(detail, sizeof detail, format, arguments);
    snprintf(last_error, sizeof last_error, "%s%s%s", OTF2_Error_GetDescription(code),
             *detail ? ": " : "", detail);
    return code;
}

void
hfi_archive_begin_reading(void) {
    OTF2_ErrorCallback former = OTF2_Error_RegisterCallback(keep_reader_error, NULL);
    if (former != keep_reader_error)
        recorders = former;
    last_error[0] = '\0';
    is_reading = true;
}

void
hfi_archive_end_reading(void) {
    is_reading = false;
}

hf_status
hfi_archive_fail(hf_error *reterr, const char *doing) {
    return hf_error_set(reterr, HF_E_CORRUPT, "%s: %s", doing,
                        *last_error ? last_error : "the OTF2 library refused");
}

hf_status
hfi_archive_open(const char *path, hfi_archive **ret_archive, hf_error *reterr) {
    hfi_archive *archive = calloc(1, sizeof *archive);
    if (!archive || hfi_definitions_create(&archive->definitions) != HF_OK) {
        free(archive);
        return hf_error_set(reterr, HF_E_NOMEM, "out of memory");
    }
    hfi_archive_begin_reading();
    archive->reader = OTF2_Reader_Open(path);
    hf_status status = archive->reader ? HF_OK : hfi_archive_fail(reterr, "opening it");
    if (status == HF_OK && OTF2_Reader_SetSerialCollectiveCallbacks(archive->reader))
        status = hfi_archive_fail(reterr, "opening it");
    if (status == HF_OK)
        status = hfi_archive_read_definitions(archive, reterr);
    for (size_t i = 0; status == HF_OK && i < archive->location_count; i++)
        if (OTF2_Reader_SelectLocation(archive->reader, archive->locations[i].id))
            status = hfi_archive_fail(reterr, "opening it");
    if (status == HF_OK) {
        hfi_archive_read_local_definitions(archive);
        if (OTF2_Reader_OpenEvtFiles(archive->reader))
            status = hfi_archive_fail(reterr, "opening its events");
    }
    hfi_archive_end_reading();
    if (status != HF_OK) {
        hfi_archive_close(archive);
        return status;
    }
    *ret_archive = archive;
    return HF_OK;
}

void
hfi_archive_close(hfi_archive *archive) {
    if (!archive)
        return;
    if (archive->reader)
        OTF2_Reader_Close(archive->reader);
    hfi_definitions_close(archive->definitions);
    free(archive->strings.items);
    free(archive->regions.items);
    free(archive->processes);
    free(archive->nodes);
    free(archive->locations);
    free(archive->waits);
    free(archive);
}

hfi_definitions *
hfi_archive_definitions(const hfi_archive *archive) {
    return archive->definitions;
}

bool
hfi_archive_waits(const hfi_archive *archive, uint32_t region) {
    return region < archive->waits_count && archive->waits[region];
}

hfi_archive_clock
hfi_archive_get_clock(const hfi_archive *archive) {
    return archive->clock;
}

uint64_t
hfi_archive_ns(const hfi_archive *archive, uint64_t time) {
    const hfi_archive_clock *clock = &archive->clock;
    uint64_t ticks = time > clock->begin ? time - clock->begin : 0;
    uint64_t seconds = ticks / clock->ticks_per_second;
    uint64_t rest = ticks % clock->ticks_per_second;
    return seconds * 1000000000u +
           (uint64_t)((double)rest * 1e9 / (double)clock->ticks_per_second);
}

const char *
hfi_archive_host(const hfi_archive *archive, size_t process) {
    for (size_t i = 0; i < archive->node_count && process < archive->process_count; i++)
        if (archive->nodes[i].ref == archive->processes[process].node)
            return hfi_definitions_get_string(archive->definitions,
                                              archive->nodes[i].name);
    return "";
}

size_t
hfi_archive_count_processes(const hfi_archive *archive) {
    return archive->process_count;
}

const char *
hfi_archive_process(const hfi_archive *archive, size_t at) {
    return at < archive->process_count
               ? hfi_definitions_get_string(archive->definitions,
                                            archive->processes[at].name)
               : "";
}

size_t
hfi_archive_count_locations(const hfi_archive *archive) {
    return archive->location_count;
}

const hfi_archive_location *
hfi_archive_get_location(const hfi_archive *archive, size_t location) {
    return &archive->locations[location];
}
