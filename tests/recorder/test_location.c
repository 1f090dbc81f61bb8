/* test_location.c - what is open on a thread, written by a back end that keeps text.
 *
 * Regions are numbered 0 to 25 and shown as a to z: "a" enters, "A" leaves.
 */
#include "support/check.h"
#include "recorder/log_reader.h"
#include "recorder/recorder.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { a, b, c, d };

static char text[256]; /* what was written */
static char scratch[] = "/tmp/test-location-XXXXXX";
static char log_path[sizeof scratch + 8];
static int parameters; /* that were written */
static int flushes;    /* that were reported */
static int room;       /* events until the back end refuses; negative: no limit */
static int counted;    /* events, where too many come for a text; negative: few do */

static int
put(int letter) {
    size_t length = strlen(text);
    if (counted >= 0) {
        counted++;
        return 0;
    }
    if (room == 0 || length + 1 >= sizeof text)
        return 1;
    room--;
    text[length] = (char)letter;
    text[length + 1] = '\0';
    return 0;
}

static int
fake_enter(void *writer, uint64_t time, uint32_t region) {
    (void)writer, (void)time;
    return put('a' + (int)region);
}

static int
fake_leave(void *writer, uint64_t time, uint32_t region) {
    (void)writer, (void)time;
    return put('A' + (int)region);
}

static int
fake_recording(void *writer, uint64_t time, bool on) {
    (void)writer, (void)time;
    return put(on ? '+' : '-');
}

static int
fake_flushed(void *writer, uint64_t start, uint64_t stop) {
    (void)writer;
    CHECK(start <= stop);
    flushes++;
    return 0;
}

static hf_status
fake_open(const char *directory, const hfi_definitions *definitions, bool joins,
          void **ret_archive, hf_error *reterr) {
    (void)directory, (void)definitions, (void)joins, (void)reterr;
    *ret_archive = text;
    return HF_OK;
}

static hf_status
fake_log_path(void *archive, char **ret_path) {
    (void)archive;
    *ret_path = strdup(log_path);
    return HF_OK;
}

static hf_status
fake_close(void *archive, const hfi_recording_summary *summary, hfi_others *ret_others,
           hf_error *reterr) {
    (void)archive, (void)ret_others, (void)reterr;
    CHECK(!summary || summary->location_count == 1);
    if (summary && !summary->is_cut)
        (void)unlink(log_path);
    return HF_OK;
}

static hf_status
fake_writer_open(void *archive, uint64_t location, void **ret_writer,
                 hf_error *reterr) {
    (void)location, (void)reterr;
    *ret_writer = archive;
    return HF_OK;
}

static hf_status
fake_writer_close(void *archive, void *writer, hf_error *reterr) {
    (void)archive, (void)writer, (void)reterr;
    return HF_OK;
}

static int
fake_parameter_int(void *writer, uint64_t time, uint32_t parameter, int64_t value) {
    (void)writer, (void)time;
    CHECK(parameter == 0 && value == parameters);
    parameters++;
    return 0;
}

static const hfi_backend fake = {.name = "fake",
                                 .open = fake_open,
                                 .log_path = fake_log_path,
                                 .close = fake_close,
                                 .writer_open = fake_writer_open,
                                 .writer_close = fake_writer_close,
                                 .enter = fake_enter,
                                 .leave = fake_leave,
                                 .recording = fake_recording,
                                 .parameter_int = fake_parameter_int,
                                 .flushed = fake_flushed};

static hf_recorder *recorder;

static hfi_location *
begin_with(const hfi_backend *backend) {
    hf_recorder_options options = {.directory = "/", .backend = backend};
    hfi_location *location;
    text[0] = '\0';
    room = counted = -1;
    CHECK(hf_recorder_create(&options, &recorder, NULL) == HF_OK);
    hfi_definitions *definitions = hf_recorder_get_definitions(recorder);
    for (uint32_t i = a, id; i <= d; i++) {
        char name[] = {(char)('a' + (int)i), '\0'};
        CHECK(hfi_definitions_add_region(definitions, name, "", 1, HFI_REGION_USER,
                                         &id) == HF_OK &&
              id == i);
    }
    uint32_t parameter;
    CHECK(hfi_definitions_add_parameter(definitions, "p", HFI_PARAMETER_INT,
                                        &parameter) == HF_OK);
    CHECK(hf_recorder_add_location(recorder, "main", &location, NULL) == HF_OK);
    return location;
}

static hfi_location *
begin(void) {
    return begin_with(&fake);
}

static hfi_recording_totals
end(const char *wanted) {
    hfi_recording_totals totals;
    CHECK(hf_recorder_close(recorder, &totals, NULL) == HF_OK);
    CHECK_TEXT(text, wanted);
    return totals;
}

static void
test_what_is_open_is_left_at_the_end(void) {
    hfi_location *location = begin();
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    CHECK(end("abBA").events == 4);
}

/* An owner that was entered before events were on, and one whose return was missed. */
static void
test_unpaired_returns(void) {
    hfi_location *location = begin();
    hfi_location_leave(location, 99);
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    hfi_location_enter(location, 48, c);
    hfi_location_leave(location, 32);
    hfi_location_leave(location, 16);
    (void)end("abcCBA");
}

static void
test_user_regions_are_split_to_nest(void) {
    hfi_location *location = begin();
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, HFI_OWNER_USER, b);
    hfi_location_leave(location, 16); /* b outlives a */
    hfi_location_enter(location, 32, c);
    CHECK(hfi_location_leave_user(location, b)); /* and ends in c */
    CHECK(!hfi_location_leave_user(location, b));
    hfi_location_leave(location, 32);
    (void)end("abBAbcCBcC");
}

static void
test_only_live_frames_stay(void) {
    hfi_location *location = begin();
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    hfi_location_enter(location, 48, c);
    /* 32 is an address that another function's frame has by now. */
    hfi_live_frame live[] = {{48, c}, {32, d}, {16, a}};
    hfi_location_keep_only(location, live, 3);
    (void)end("abcCBcCA");
}

static void
test_recording_off_keeps_balance(void) {
    hfi_location *location = begin();
    hfi_location_enter(location, 16, a);
    hf_recorder_set_recording(recorder, location, false);
    hfi_location_enter(location, 32, b);
    hf_recorder_set_recording(recorder, location, true);
    hfi_location_leave(location, 32);
    hfi_location_leave(location, 16);
    (void)end("a-+A");
}

/* The recording goes on; what could not be written is still there at the end. */
static void
test_a_back_end_that_refuses(void) {
    hfi_location *location = begin();
    room = 2;
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    hfi_location_leave(location, 32);
    hfi_location_leave(location, 16);
    hf_error error = HF_ERROR_INIT;
    CHECK(hf_recorder_close(recorder, NULL, &error) == HF_E_SYSTEM);
    CHECK_TEXT(text, "ab");
    CHECK(unlink(log_path) == 0);
}

static bool alone;

static bool
fake_is_alone(const void *archive) {
    (void)archive;
    return alone;
}

static bool
is_ended(void) {
    hfi_log_reader *log;
    CHECK(hfi_log_reader_open(log_path, NULL, &log, NULL) == HF_OK);
    bool ended = hfi_log_reader_head(log)->end_time != 0;
    hfi_log_reader_close(log);
    return ended;
}

/* All is counted, and nothing is written yet. With others it has to be written at once. */
static void
test_a_recording_that_ends_before_it_is_written(void) {
    hfi_backend later = fake;
    later.is_alone = fake_is_alone;
    for (int i = 0; i < 2; i++) {
        hfi_recording_totals totals = {0};
        hfi_location *location = begin_with(&later);
        hfi_location_enter(location, 16, a);
        hfi_location_enter(location, 32, b);
        CHECK(!is_ended());
        alone = i == 0;
        CHECK(hf_recorder_end(recorder, &totals, NULL) ==
              (alone ? HF_OK : HF_DECLINED));
        CHECK(is_ended() == alone && totals.events == (alone ? 4 : 0));
        CHECK_TEXT(text, "");
        CHECK(end("abBA").events == 4);
    }
}

/* After the first refusal nothing is written on this location, but it goes on. */
static void
test_an_immediate_back_end_that_refuses(void) {
    hfi_backend immediate = fake;
    immediate.immediate = true;
    immediate.log_path = NULL;
    hfi_location *location = begin_with(&immediate);
    room = 2;
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    hfi_location_leave(location, 32);
    hfi_location_leave(location, 16);
    hfi_recording_totals totals = end("ab");
    CHECK(totals.events == 2 && totals.lost == 2);
}

/* The log is full in the middle: nothing is missing, and the pause is reported. */
static void
test_a_full_log_is_followed_by_another(void) {
    hfi_location *location = begin();
    flushes = 0;
    hfi_location_enter(location, 16, a);
    for (int i = 0; i < 10000; i++) {
        hfi_location_enter(location, 48, c);
        hfi_location_leave(location, 48);
    }
    hfi_location_leave(location, 16);
    counted = 0;
    hfi_recording_totals totals = end("");
    CHECK(totals.events == 20002 && counted == 20002 && totals.lost == 0);
    CHECK(flushes == 2 && totals.flushes == 2);
    location = begin();
    for (int i = 0; i < 3000; i++)
        hfi_location_parameter_int(location, 0, i);
    CHECK(end("").events == 3000);
    CHECK(parameters == 3000 && flushes == 3);
}

/* There is no space for more events in the log's file. */
static void
test_a_log_that_can_not_grow(void) {
    struct rlimit before, small;
    hfi_location *location = begin();
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = (struct rlimit){128 * 1024, before.rlim_max};
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (int i = 0; i < 10000; i++) {
        hfi_location_enter(location, 48, c);
        hfi_location_leave(location, 48);
    }
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    counted = 0;
    hfi_recording_totals totals = end("");
    CHECK(totals.lost > 10000 && totals.events > 8000 && totals.events % 2 == 0);
    CHECK(totals.events + totals.lost - 20000 <= 1); /* a leave that was lost */
    CHECK((uint64_t)counted == totals.events);
}

/* What is taken back stays in the profile; a region that is open then isn't left twice.
 * Two marks say where it was. */
static void
test_rewinding(void) {
    hfi_location *location = begin();
    hfi_location_enter(location, 16, a);
    CHECK(hfi_location_rewind_end(location, 1, true) == HF_NOT_FOUND);
    CHECK(hfi_location_rewind_begin(location, 1) == HF_OK);
    hfi_location_enter(location, 32, b);
    CHECK(hfi_location_rewind_begin(location, 2) == HF_OK);
    hfi_location_leave(location, 32);
    CHECK(hfi_location_rewind_end(location, 2, true) == HF_DECLINED);
    hfi_location_enter(location, 48, c);
    CHECK(hfi_location_rewind_end(location, 1, true) == HF_OK);
    hfi_location_enter(location, 64, d);
    hfi_location_leave(location, 64);
    hfi_location_leave(location, 48);
    hfi_location_leave(location, 16);
    CHECK(end("a-+dDA").events == 6);
}

/* A cell's statements have frames of their own, and no regions. What one of them begins
 * goes on over the next, and what was not ended ends with the cell. */
static void
test_a_cell_is_one_region(void) {
    hfi_location *location = begin();
    hfi_location_enter_cell(location, a);
    hfi_location_lift(location, 16);
    hfi_location_enter(location, HFI_OWNER_USER, b);
    CHECK(hfi_location_rewind_begin(location, 1) == HF_OK);
    hfi_location_leave(location, 16);
    hfi_location_enter_cell(location, d);
    location->hider = 64;
    hfi_location_lift(location, 32);
    CHECK(location->hider == 0);
    hfi_location_enter(location, 48, c);
    hfi_location_leave(location, 48);
    CHECK(hfi_location_rewind_end(location, 1, true) == HF_OK);
    CHECK(hfi_location_leave_user(location, b));
    hfi_location_enter(location, HFI_OWNER_USER, d);
    hfi_location_enter(location, 48, c); /* its return is never seen */
    hfi_location_leave(location, 32);
    CHECK(location->hider == 64 && location->depth == 2);
    location->hider = 0;
    hfi_location_lift(location, 16); /* nor this one's */
    hfi_location_keep_only(location, NULL, 0);
    CHECK(location->depth == 2);
    hfi_location_leave_cell(location, 0);
    hfi_location_leave_cell(location, 0);
    CHECK(location->depth == 0);
    CHECK(end("ab-+BdcCDA").rewound == 2);
}

/* Another visit of a region will do. A point that was dropped is no place to
 * go back to, however much follows. */
static void
test_rewinding_past_a_visit(void) {
    hfi_location *location = begin();
    hfi_location_enter(location, 16, a);
    CHECK(hfi_location_rewind_begin(location, 1) == HF_OK);
    hfi_location_enter(location, 32, b);
    hfi_location_leave(location, 32);
    hfi_location_leave(location, 16);
    CHECK(hfi_location_rewind_end(location, 1, false) == HF_OK);
    hfi_location_enter(location, 16, a);
    CHECK(hfi_location_rewind_begin(location, 1) == HF_OK);
    hfi_location_leave(location, 16);
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    hfi_location_leave(location, 32);
    hfi_location_enter(location, 32, b);
    hfi_location_leave(location, 32);
    CHECK(hfi_location_rewind_begin(location, 2) == HF_OK);
    CHECK(hfi_location_rewind_end(location, 1, true) == HF_OK);
    CHECK(hfi_location_rewind_end(location, 2, true) == HF_DECLINED);
    hfi_location_leave(location, 16);
    CHECK(end("abBAa-+A").rewound == 6);
}

static void
test_a_hider_is_lifted_and_given_back(void) {
    hfi_location *location = begin();
    location->hider = 64;
    hfi_location_enter_lifting(location, 16, a);
    CHECK(location->hider == 0);
    location->hider = 80; /* a calls something hidden, which ends a user region */
    hfi_location_enter(location, HFI_OWNER_USER, b);
    CHECK(hfi_location_leave_user(location, b));
    CHECK(location->hider == 80);
    location->hider = 0;
    hfi_location_leave(location, 16);
    CHECK(location->hider == 64);
    (void)end("abBA");
}

/* Below a lifting entry a region is taken out: the entry keeps what it lifted. */
static void
test_a_lifting_entry_that_is_split(void) {
    hfi_location *location = begin();
    hfi_location_enter(location, HFI_OWNER_USER, b);
    location->hider = 64;
    hfi_location_enter_lifting(location, 16, a);
    CHECK(hfi_location_leave_user(location, b));
    CHECK(location->hider == 0);
    hfi_location_leave(location, 16);
    CHECK(location->hider == 64);
    (void)end("baABaA");
}

static void
test_a_hider_that_is_gone_is_forgotten(void) {
    hfi_location *location = begin();
    hfi_live_frame live[] = {{16, a}};
    hfi_location_enter(location, 16, a);
    location->hider = 16;
    hfi_location_keep_only(location, live, 1);
    CHECK(location->hider == 16);
    location->hider = 64;
    hfi_location_keep_only(location, live, 1);
    CHECK(location->hider == 0);
    (void)end("aA");
}

static int
fake_rewind_begin(void *writer, uint32_t name) {
    (void)writer, (void)name;
    return put('<');
}

static int
fake_rewind_end(void *writer, uint32_t name, bool drop) {
    (void)writer, (void)name;
    return put(drop ? '>' : ']');
}

/* It gets each event when it happens, and keeps the marks to rewind to. */
static void
test_an_immediate_back_end(void) {
    hfi_backend immediate = fake;
    immediate.immediate = true;
    immediate.log_path = NULL;
    immediate.flushed = NULL;
    immediate.rewind_begin = fake_rewind_begin;
    immediate.rewind_end = fake_rewind_end;
    hfi_location *location = begin_with(&immediate);
    hfi_location_enter(location, 16, a);
    CHECK_TEXT(text, "a");
    CHECK(hfi_location_rewind_begin(location, 7) == HF_OK);
    hfi_location_enter(location, 32, b);
    hfi_location_leave(location, 32);
    CHECK_TEXT(text, "a<bB");
    CHECK(hfi_location_rewind_end(location, 7, true) == HF_OK);
    CHECK(hfi_location_rewind_begin(location, 8) == HF_OK);
    hfi_location_leave(location, 16);
    CHECK(hfi_location_rewind_end(location, 8, true) == HF_DECLINED);
    CHECK_TEXT(text, "a<bB><A]");
    (void)end("a<bB><A]");
}

int
main(void) {
    CHECK(mkdtemp(scratch));
    snprintf(log_path, sizeof log_path, "%s/log-0", scratch);
    test_what_is_open_is_left_at_the_end();
    test_unpaired_returns();
    test_user_regions_are_split_to_nest();
    test_only_live_frames_stay();
    test_recording_off_keeps_balance();
    test_a_back_end_that_refuses();
    test_a_recording_that_ends_before_it_is_written();
    test_an_immediate_back_end_that_refuses();
    test_a_full_log_is_followed_by_another();
    test_a_log_that_can_not_grow();
    test_rewinding();
    test_rewinding_past_a_visit();
    test_a_cell_is_one_region();
    test_an_immediate_back_end();
    test_a_hider_is_lifted_and_given_back();
    test_a_lifting_entry_that_is_split();
    test_a_hider_that_is_gone_is_forgotten();
    CHECK(rmdir(scratch) == 0);
    return 0;
}
