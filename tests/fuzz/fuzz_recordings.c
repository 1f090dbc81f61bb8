/* fuzz_recordings.c - what a recorded process left is read, whatever lies in it.
 *
 * The first byte says which file the rest is: the log of a process (log_reader.c), or
 * the part that an ended process leaves for the writer of the archive (part_file.c).
 * The log's events go to a back end that checks them: enters and leaves nest, numbers
 * are defined, times don't step back, and the writer gets as many as came. A part that
 * was accepted is written again, and its profile in each of the formats.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/check.h"
#include "driver.h"
#include "recorder/event_log.h"
#include "recorder/log_reader.h"
#include "recorder/part_file.h"
#include "recorder/profile.h"

enum { DEPTH_MAX = 1 << 16 };

const uint32_t fuzz_weight = 20; /* it writes files */

/* ---- files to begin with ---- */

static void
temporary_path(char ret_path[32]) {
    snprintf(ret_path, 32, "/tmp/fuzz_recordings.XXXXXX");
    int fd = mkstemp(ret_path);
    CHECK(fd >= 0);
    close(fd);
    CHECK(unlink(ret_path) == 0);
}

static size_t
read_whole(const char *path, uint8_t *ret_bytes, size_t most) {
    FILE *file = fopen(path, "rb");
    CHECK(file);
    size_t size = fread(ret_bytes, 1, most, file);
    fclose(file);
    CHECK(unlink(path) == 0);
    return size;
}

static hfi_definitions *
define(uint32_t ret_regions[2]) {
    hfi_definitions *definitions;
    uint32_t parameter, text;
    CHECK(hfi_definitions_create(&definitions) == HF_OK);
    CHECK(hfi_definitions_add_region(definitions, "outer", "cell.py", 1,
                                     HFI_REGION_USER, &ret_regions[0]) == HF_OK);
    CHECK(hfi_definitions_add_region(definitions, "inner", "cell.py", 7,
                                     HFI_REGION_FUNCTION, &ret_regions[1]) == HF_OK);
    CHECK(hfi_definitions_add_parameter(definitions, "n", HFI_PARAMETER_STRING,
                                        &parameter) == HF_OK);
    CHECK(hfi_definitions_add_string(definitions, "many", &text) == HF_OK);
    return definitions;
}

/* The file is a MiB, nearly all of it zeros: the window is moved up to the journal. */
static size_t
make_log(uint8_t *ret_file) {
    enum { PIECE_MAX = 1 << 20, WORDS = 16, WINDOW = 2048 };
    static uint8_t whole[2 * PIECE_MAX];
    char path[32];
    uint32_t regions[2];
    hfi_definitions *definitions = define(regions);
    hfi_log_head head = {.begin_time = 1, .process_name = "p", .host_name = "h"};
    hfi_log_file *file;
    uint64_t offset, *words, first;
    void *window;
    temporary_path(path);
    CHECK(hfi_log_file_create(path, &head, 0, definitions, &file, NULL) == HF_OK);
    CHECK(hfi_log_file_add_location(file, 5, "thread") == HF_OK);
    CHECK(hfi_log_file_map(file, 5, 1 << 16, &window, &offset) == HF_OK);
    hfi_log_file_unmap(file, window, 1 << 16);
    hfi_log_file_close(file);
    hfi_definitions_close(definitions);
    size_t size = read_whole(path, whole, sizeof whole);
    CHECK(size >= WINDOW);
    words = (uint64_t *)(void *)(whole + HFI_JOURNAL_FIRST);
    while ((first = *words) != 0) { /* where the window is said to be */
        if (first >> 56 == HFI_JOURNAL_WINDOW) {
            words[2] = WINDOW;
            words[3] = WORDS * sizeof *words;
        }
        words += 1 + ((first >> 32) & 0xFFFFFF);
    }
    CHECK((uint8_t *)words <= whole + WINDOW);
    memcpy(ret_file, whole, WINDOW);
    uint64_t events[WORDS] = {
        1u << HFI_LOG_WHAT_BITS | HFI_LOG_REGION(regions[0]),
        2u << HFI_LOG_WHAT_BITS | (HFI_LOG_SPECIAL + HFI_EVENT_PARAMETER_STRING),
        0,
        1,
        3u << HFI_LOG_WHAT_BITS | HFI_LOG_REGION(regions[1]),
        HFI_LOG_SPECIAL + HFI_EVENT_BASE,
        9,
        1u << HFI_LOG_WHAT_BITS | HFI_LOG_REGION(regions[1]) | HFI_LOG_LEAVE};
    memcpy(ret_file + WINDOW, events, sizeof events);
    return WINDOW + sizeof events;
}

static size_t
make_part(uint8_t *ret_file) {
    char path[32];
    uint32_t regions[2], process, paths[2];
    hfi_definitions *definitions = define(regions);
    hfi_profile *profile;
    hfi_location_summary location = {1, "thread", 3};
    CHECK(hfi_profile_create(&profile) == HF_OK);
    hfi_definitions_close(profile->definitions);
    profile->definitions = define(regions);
    CHECK(hfi_profile_add_process(profile, "p", "h", &process) == HF_OK);
    CHECK(hfi_calltree_path(profile->tree, 0, regions[0], &paths[0]) == HF_OK);
    CHECK(hfi_calltree_path(profile->tree, paths[0], regions[1], &paths[1]) == HF_OK);
    hfi_path_cost costs[] = {{paths[0], 1, 90, 30, 90, 90},
                             {paths[1], 2, 60, 60, 20, 40}};
    CHECK(hfi_profile_add_costs(profile, process, 1, "thread", costs, 2) == HF_OK);
    hfi_recording_summary summary = {.definitions = definitions,
                                     .locations = &location,
                                     .location_count = 1,
                                     .ticks_per_second = 1000,
                                     .end_time = 9,
                                     .process_name = "p",
                                     .host_name = "h",
                                     .is_traced = true,
                                     .profile = profile,
                                     .profile_files = {"profile", 31}};
    temporary_path(path);
    CHECK(hfi_trace_part_file_write(path, &summary, NULL) == HF_OK);
    hfi_profile_close(profile);
    hfi_definitions_close(definitions);
    return read_whole(path, ret_file, FUZZ_INPUT_MAX - 1);
}

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static uint8_t files[2][FUZZ_INPUT_MAX];
    static size_t sizes[2];
    if (!sizes[0]) {
        sizes[0] = make_log(files[0]);
        sizes[1] = make_part(files[1]);
    }
    ret_input[0] = (uint8_t)(number % 2);
    memcpy(ret_input + 1, files[number % 2], sizes[number % 2]);
    return 1 + sizes[number % 2];
}

/* ---- a back end that checks what it gets ---- */

typedef struct checked {
    const hfi_definitions *definitions;
    uint32_t open[DEPTH_MAX];
    size_t depth;
    uint64_t last, events;
} checked;

static checked *
check_time(void *writer, uint64_t time) {
    checked *self = writer;
    CHECK(time >= self->last);
    self->last = time;
    self->events++;
    return self;
}

static int
check_enter(void *writer, uint64_t time, uint32_t region) {
    checked *self = check_time(writer, time);
    CHECK(region < hfi_definitions_count_regions(self->definitions));
    if (self->depth == DEPTH_MAX)
        return 1;
    self->open[self->depth++] = region;
    return 0;
}

static int
check_leave(void *writer, uint64_t time, uint32_t region) {
    checked *self = check_time(writer, time);
    CHECK(self->depth && self->open[self->depth - 1] == region);
    self->depth--;
    return 0;
}

static int
check_int(void *writer, uint64_t time, uint32_t parameter, int64_t value) {
    checked *self = check_time(writer, time);
    (void)value;
    CHECK(parameter < hfi_definitions_count_parameters(self->definitions));
    return 0;
}

static int
check_uint(void *writer, uint64_t time, uint32_t parameter, uint64_t value) {
    return check_int(writer, time, parameter, (int64_t)value);
}

static int
check_string(void *writer, uint64_t time, uint32_t parameter, uint32_t string) {
    checked *self = writer;
    CHECK(string < hfi_definitions_count_strings(self->definitions));
    return check_int(writer, time, parameter, 0);
}

static int
check_recording(void *writer, uint64_t time, bool on) {
    (void)check_time(writer, time), (void)on;
    return 0;
}

static int
check_flushed(void *writer, uint64_t start, uint64_t stop) {
    (void)writer, (void)start, (void)stop;
    return 0;
}

static const hfi_backend checking = {.name = "checking",
                                     .enter = check_enter,
                                     .leave = check_leave,
                                     .parameter_int = check_int,
                                     .parameter_uint = check_uint,
                                     .parameter_string = check_string,
                                     .recording = check_recording,
                                     .flushed = check_flushed};

/* ---- the readers ---- */

static void
read_log(const char *path) {
    static checked self;
    hfi_log_reader *reader;
    hf_status status = hfi_log_reader_open(path, NULL, &reader, NULL);
    if (status != HF_OK) {
        CHECK(status == HF_E_CORRUPT || status == HF_E_SYSTEM);
        return;
    }
    const hfi_log_head *head = hfi_log_reader_head(reader);
    CHECK(strlen(head->host_name) < sizeof head->host_name);
    (void)hfi_log_reader_ticks_per_second(reader);
    for (size_t i = 0; i < hfi_log_reader_count_locations(reader); i++) {
        hfi_events_written written;
        CHECK(hfi_log_reader_location(reader, i).name);
        self.definitions = hfi_log_reader_definitions(reader);
        self.depth = 0;
        self.last = self.events = 0;
        status = hfi_log_reader_write(reader, i, &checking, &self, &written);
        if (status == HF_OK)
            CHECK(self.depth == 0 && written.events == self.events &&
                  written.kinds.nested + written.kinds.deep + written.kinds.steps <=
                      written.events &&
                  written.last_time >= self.last);
    }
    hfi_log_reader_close(reader);
}

static void
write_profile(const hfi_profile *profile) {
    static hf_status (*const writers[])(const hfi_profile *, FILE *) = {
        hfi_profile_write_json, hfi_profile_write_callgrind, hfi_profile_write_pstats,
        hfi_profile_write_cubex, hfi_profile_write_cubex_sum};
    hfi_profile *merged;
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        FILE *file = tmpfile();
        CHECK(file);
        CHECK(writers[i](profile, file) == HF_OK);
        fclose(file);
    }
    CHECK(hfi_profile_create(&merged) == HF_OK);
    CHECK(hfi_profile_merge(merged, profile) == HF_OK);
    (void)hfi_profile_count_collapsed(merged);
    hfi_profile_close(merged);
}

static void
read_part(const char *path) {
    hfi_recording_summary *summary;
    hf_status status = hfi_trace_part_file_read(path, &summary, NULL);
    char again[32];
    if (status != HF_OK) {
        CHECK(status == HF_E_CORRUPT);
        return;
    }
    temporary_path(again);
    CHECK(hfi_trace_part_file_write(again, summary, NULL) == HF_OK);
    CHECK(unlink(again) == 0);
    if (summary->profile)
        write_profile(summary->profile);
    hfi_trace_part_file_free(summary);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32];
    if (size == 0)
        return 0;
    int fd = memfd_create("recording", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    (data[0] % 2 ? read_part : read_log)(path);
    close(fd);
    return 0;
}
