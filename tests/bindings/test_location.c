/* test_location.c - what is open on a thread, written by a back end that keeps text.
 *
 * Regions are numbered 0 to 25 and shown as a to z: "a" enters, "A" leaves.
 */
#include "support/check.h"
#include "recorder/recorder.h"

enum { a, b, c, d };

static char text[256]; /* what was written */
static int parameters; /* that were written */
static int flushes;    /* that were told */
static int room;       /* events until the back end refuses; negative: no limit */

static int
put(int letter) {
    size_t length = strlen(text);
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
fake_close(void *archive, const hfi_recording_summary *summary, hf_error *reterr) {
    (void)archive, (void)reterr;
    CHECK(summary->location_count == 1);
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
    room = -1;
    CHECK(hf_recorder_create(&options, &recorder, NULL) == HF_OK);
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

/* After the first refusal nothing is written on this location, but it goes on. */
static void
test_a_back_end_that_refuses(void) {
    hfi_location *location = begin();
    room = 2;
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    hfi_location_leave(location, 32);
    hfi_location_leave(location, 16);
    CHECK(end("ab").lost > 0);
}

/* The log is full in the middle: nothing is missing, and the pause is told. */
static void
test_a_full_log_is_written_out(void) {
    hfi_location *location = begin();
    room = 4;
    flushes = 0;
    hfi_location_enter(location, 16, a);
    hfi_location_enter(location, 32, b);
    for (int i = 0; i < 2500; i++) {
        hfi_location_enter(location, 48, c);
        hfi_location_leave(location, 48);
    }
    hfi_location_leave(location, 32);
    hfi_location_leave(location, 16);
    hfi_recording_totals totals = end("abcC");
    CHECK(totals.events == 4 && totals.events + totals.lost == 5004);
    CHECK(flushes == 0); /* the back end is broken by then */
    location = begin();
    for (int i = 0; i < 2500; i++)
        hfi_location_parameter_int(location, 0, i);
    CHECK(flushes == 1);
    CHECK(end("").events == 2500);
}

/* What is taken back stays in the profile; a region that is open then isn't left twice.
 */
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
    CHECK(end("adDA").events == 4);
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
    test_what_is_open_is_left_at_the_end();
    test_unpaired_returns();
    test_user_regions_are_split_to_nest();
    test_only_live_frames_stay();
    test_recording_off_keeps_balance();
    test_a_back_end_that_refuses();
    test_a_full_log_is_written_out();
    test_rewinding();
    test_an_immediate_back_end();
    test_a_hider_is_lifted_and_given_back();
    test_a_lifting_entry_that_is_split();
    test_a_hider_that_is_gone_is_forgotten();
    return 0;
}
