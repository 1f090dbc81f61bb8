/* test_archive.c - what is read of an OTF2 archive nests and lies within its window,
 * whatever the archive says; and what two threads did becomes two rows and one profile.
 *
 * The archives are written here, through the OTF2 library: a recorder's are
 * well-formed.
 */
#include <otf2/otf2.h>
#include <stdarg.h>
#include <unistd.h>

#include "support/check.h"
#include "views/overview.h"
#include "views/trace_files.h"

#define LOCATIONS 2u
#define UNDEFINED 77u

typedef struct written {
    OTF2_Archive *archive;
    OTF2_EvtWriter *events[LOCATIONS];
    uint64_t count[LOCATIONS];
} written;

static OTF2_FlushType
on_flush(void *data, OTF2_FileType type, OTF2_LocationRef location, void *caller,
         bool final) {
    (void)data, (void)type, (void)location, (void)caller, (void) final;
    return OTF2_FLUSH;
}

static const OTF2_FlushCallbacks flushing = {on_flush, NULL};

static written
begin(const char *directory) {
    written made = {0};
    made.archive =
        OTF2_Archive_Open(directory, "traces", OTF2_FILEMODE_WRITE, 1 << 20, 4 << 20,
                          OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    CHECK(made.archive);
    CHECK(!OTF2_Archive_SetFlushCallbacks(made.archive, &flushing, NULL));
    CHECK(!OTF2_Archive_SetSerialCollectiveCallbacks(made.archive));
    CHECK(!OTF2_Archive_OpenEvtFiles(made.archive));
    for (uint64_t i = 0; i < LOCATIONS; i++)
        made.events[i] = OTF2_Archive_GetEvtWriter(made.archive, i);
    return made;
}

static void
enter(written *to, unsigned location, uint64_t time, uint32_t region) {
    CHECK(!OTF2_EvtWriter_Enter(to->events[location], NULL, time, region));
    to->count[location]++;
}

static void
leave(written *to, unsigned location, uint64_t time, uint32_t region) {
    CHECK(!OTF2_EvtWriter_Leave(to->events[location], NULL, time, region));
    to->count[location]++;
}

static void
define(written *to, uint64_t ticks_per_second, uint64_t first, uint64_t length) {
    static const char *const texts[] = {"",
                                        "main",
                                        "inner",
                                        "x.py",
                                        "host",
                                        "node",
                                        "rank 0",
                                        "one",
                                        "b\xff"
                                        "d",
                                        "two"};
    OTF2_GlobalDefWriter *out = OTF2_Archive_GetGlobalDefWriter(to->archive);
    CHECK(!OTF2_GlobalDefWriter_WriteClockProperties(out, ticks_per_second, first,
                                                     length, 1700000000000000000));
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(!OTF2_GlobalDefWriter_WriteString(out, i, texts[i]));
    /* Numbers with gaps; 4 and 9 are the same function, 30 waits. */
    static const uint32_t numbers[] = {4, 9, 30}, names[] = {1, 1, 2};
    static const OTF2_RegionRole roles[] = {
        OTF2_REGION_ROLE_FUNCTION, OTF2_REGION_ROLE_FUNCTION, OTF2_REGION_ROLE_BARRIER};
    for (uint32_t i = 0; i < 3; i++)
        CHECK(!OTF2_GlobalDefWriter_WriteRegion(out, numbers[i], names[i], names[i], 0,
                                                roles[i], OTF2_PARADIGM_NONE,
                                                OTF2_REGION_FLAG_NONE, 3, names[i], 0));
    CHECK(!OTF2_GlobalDefWriter_WriteSystemTreeNode(out, 0, 4, 5,
                                                    OTF2_UNDEFINED_SYSTEM_TREE_NODE));
    CHECK(!OTF2_GlobalDefWriter_WriteLocationGroup(
        out, 0, 6, OTF2_LOCATION_GROUP_TYPE_PROCESS, 0, OTF2_UNDEFINED_LOCATION_GROUP));
    static const uint32_t threads[LOCATIONS] = {7, 8};
    for (uint32_t i = 0; i < LOCATIONS; i++)
        CHECK(!OTF2_GlobalDefWriter_WriteLocation(
            out, i, threads[i], OTF2_LOCATION_TYPE_CPU_THREAD, to->count[i], 0));
}

static void
end(written *from) {
    for (unsigned i = 0; i < LOCATIONS; i++)
        CHECK(!OTF2_Archive_CloseEvtWriter(from->archive, from->events[i]));
    CHECK(!OTF2_Archive_CloseEvtFiles(from->archive));
    CHECK(!OTF2_Archive_Close(from->archive));
}

static hfi_archive *
opened(const char *directory) {
    char path[256];
    hfi_archive *archive;
    hf_error error = HF_ERROR_INIT;
    snprintf(path, sizeof path, "%s/traces.otf2", directory);
    CHECK(hfi_archive_open(path, &archive, &error) == HF_OK);
    return archive;
}

/* -- what is handed on ------------------------------------------------------------- */

typedef struct transcript {
    char text[1024];
    const hfi_archive *archive;
    unsigned open;
} transcript;

static void
add(transcript *to, const char *format, ...) {
    size_t length = strlen(to->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to->text + length, sizeof to->text - length, format, arguments);
    va_end(arguments);
}

static void
on_enter(void *context, uint64_t time, uint32_t region) {
    transcript *to = context;
    const hfi_definitions *names = hfi_archive_definitions(to->archive);
    uint32_t name = hfi_definitions_get_region(names, region)->name;
    to->open++;
    add(to, "%s@%u ", hfi_definitions_get_string(names, name), (unsigned)time);
}

static void
on_leave(void *context, uint64_t time) {
    transcript *to = context;
    CHECK(to->open-- > 0);
    add(to, "-%u ", (unsigned)time);
}

static void
on_stop(void *context, uint64_t from, uint64_t to) {
    add(context, "stop %u-%u ", (unsigned)from, (unsigned)to);
}

static const char *
read_all(hfi_archive *archive, size_t location, uint64_t from, uint64_t to) {
    static transcript all;
    all = (transcript){.archive = archive};
    hfi_archive_sink sink = {on_enter, on_leave, on_stop, &all, from, to};
    uint64_t events;
    hf_error error = HF_ERROR_INIT;
    CHECK(hfi_archive_read(archive, location, &sink, &events, &error) == HF_OK);
    CHECK(all.open == 0);
    return all.text;
}

static void
test_calls_nest_whatever_the_archive_says(const char *directory) {
    written to = begin(directory);
    leave(&to, 0, 100, 4); /* never entered */
    enter(&to, 0, 110, 4);
    enter(&to, 0, 120, UNDEFINED);
    enter(&to, 0, 130, 30);
    leave(&to, 0, 140, UNDEFINED);
    leave(&to, 0, 150, 9); /* the same function by another number: ends inner, too */
    enter(&to, 0, 160, 30);
    CHECK(!OTF2_EvtWriter_BufferFlush(to.events[0], NULL, 170, 180));
    to.count[0]++;
    enter(&to, 0, 190, 9); /* and nothing is left */
    enter(&to, 1, 500, 4);
    leave(&to, 1, 900, 4);
    define(&to, 1000, 100, 800);
    end(&to);

    hfi_archive *archive = opened(directory);
    CHECK(hfi_archive_count_locations(archive) == 2);
    CHECK_TEXT(
        read_all(archive, 0, 0, UINT64_MAX),
        "main@110 inner@130 -150 -150 inner@160 stop 170-180 main@190 -190 -190 ");
    CHECK_TEXT(read_all(archive, 1, 0, UINT64_MAX), "main@500 -900 ");
    /* Windows: within calls, between them, and before everything. */
    CHECK_TEXT(read_all(archive, 0, 135, 145), "main@135 inner@135 -145 -145 ");
    CHECK_TEXT(read_all(archive, 0, 151, 165), "inner@160 -165 ");
    CHECK_TEXT(read_all(archive, 0, 0, 105), "");
    CHECK_TEXT(read_all(archive, 1, 600, 700), "main@600 -700 ");
    hfi_archive_close(archive);
}

static void
test_what_it_is_about(const char *directory) {
    hfi_archive *archive = opened(directory);
    hfi_archive_clock clock = hfi_archive_get_clock(archive);
    CHECK(clock.ticks_per_second == 1000 && clock.begin == 100 && clock.length == 800);
    CHECK(clock.realtime == 1700000000000000000);
    CHECK(hfi_archive_ns(archive, 50) == 0); /* before it began */
    CHECK(hfi_archive_ns(archive, 3101) == 3001000000);
    CHECK_TEXT(hfi_archive_host(archive, 0), "host");
    CHECK_TEXT(hfi_archive_process(archive, 0), "rank 0");
    CHECK_TEXT(hfi_archive_process(archive, 1), "");
    const hfi_archive_location *second = hfi_archive_get_location(archive, 1);
    const hfi_definitions *names = hfi_archive_definitions(archive);
    CHECK_TEXT(hfi_definitions_get_string(names, second->name), "b?d"); /* UTF-8 */
    CHECK(second->process == 0 && second->events == 2);
    CHECK(hfi_definitions_count_regions(names) == 2);
    CHECK(!hfi_archive_waits(archive, 0) && hfi_archive_waits(archive, 1));
    CHECK(!hfi_archive_waits(archive, 1000));
    hfi_archive_close(archive);
}

static void
test_an_overview_has_rows_and_their_profile(const char *directory) {
    hfi_archive *archive = opened(directory);
    hfi_overview *overview;
    hf_error error = HF_ERROR_INIT;
    CHECK(hfi_overview_create(archive, 100, 900, 1000, &overview, &error) == HF_OK);
    CHECK(hfi_overview_count_rows(overview) == 2);
    const hfi_overview_row *row = hfi_overview_get_row(overview, 1);
    CHECK(row->calls == 1 && row->count == 1 && row->slices[0].length == 400);
    const hfi_profile *profile = hfi_overview_profile(overview);
    CHECK(profile->process_count == 1 && profile->location_count == 2);
    CHECK_TEXT(profile->processes[0].host, "host");
    hfi_overview_close(overview);
    /* Nobody called anything there: no row, and rows aren't always wanted. */
    CHECK(hfi_overview_create(archive, 300, 400, 1000, &overview, &error) == HF_OK);
    CHECK(hfi_overview_count_rows(overview) == 0);
    hfi_overview_close(overview);
    CHECK(hfi_overview_create(archive, 100, 900, 0, &overview, &error) == HF_OK);
    CHECK(hfi_overview_get_row(overview, 0)->count == 0);
    hfi_overview_close(overview);
    hfi_archive_close(archive);
}

static void
test_a_window_as_chromes_events(const char *directory) {
    hfi_archive *archive = opened(directory);
    hf_error error = HF_ERROR_INIT;
    char text[2048] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    CHECK(file);
    CHECK(hfi_trace_write_chrome(archive, 600, 700, file, &error) == HF_OK);
    fclose(file);
    /* From the archive's begin, in us. */
    CHECK(strstr(text, "\"name\":\"main\",\"pid\":1,\"tid\":2,\"ts\":500000.000,"
                       "\"dur\":100000.000}"));
    CHECK(strstr(text, "\"args\":{\"name\":\"b?d\"}"));
    hfi_archive_close(archive);
}

int
main(void) {
    char directory[] = "/tmp/test-archive-XXXXXX", remove[64];
    CHECK(mkdtemp(directory));
    test_calls_nest_whatever_the_archive_says(directory);
    test_what_it_is_about(directory);
    test_an_overview_has_rows_and_their_profile(directory);
    test_a_window_as_chromes_events(directory);
    snprintf(remove, sizeof remove, "rm -r %s", directory);
    CHECK(system(remove) == 0);
    return 0;
}
