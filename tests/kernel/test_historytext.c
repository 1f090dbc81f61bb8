/* test_historytext.c - the words of %holdfast for any language. */
#include "../support/check.h"
#include "session/historytext.h"

static void
commit(hf_session *session, const char *key, const char *value) {
    hf_commit *one = NULL;
    hf_value entry = {.struct_size = sizeof entry,
                      .key = key,
                      .key_size = strlen(key),
                      .codec = 1,
                      .payload = value,
                      .payload_size = strlen(value)};
    hf_prepared token;
    CHECK(hf_commit_begin(session, &one, NULL) == HF_OK);
    CHECK(hf_commit_put(one, &entry, NULL) == HF_OK);
    CHECK(hf_commit_prepare_consume(one, &token, NULL) == HF_OK);
    CHECK(hf_session_publish(session, &token, NULL, NULL) == HF_OK);
}

/* Generation 1 has x; 2 another x, and y; 3 has x again, as in 1. */
typedef struct line {
    hf_session *session;
    hf_snapshot *snapshots[3];
    hfi_part x[1], y[1];
    hfi_keyed_step steps[3];
} line;

static void
line_begin(line *made) {
    hf_session_options options = {.struct_size = sizeof options,
                                  .capacity_bytes = 64 << 20};
    *made = (line){.x = {hfi_part_text("x")}, .y = {hfi_part_text("y")}};
    CHECK(hf_session_create(&options, &made->session, NULL) == HF_OK);
    commit(made->session, "x", "1");
    CHECK(hf_snapshot_acquire(made->session, &made->snapshots[0], NULL) == HF_OK);
    commit(made->session, "\1state", "...");
    commit(made->session, "y", "1");
    CHECK(hf_snapshot_acquire(made->session, &made->snapshots[1], NULL) == HF_OK);
    commit(made->session, "x", "2");
    CHECK(hf_snapshot_acquire(made->session, &made->snapshots[2], NULL) == HF_OK);
    made->steps[0] = (hfi_keyed_step){
        hfi_part_text("1"),
        {.cells = hfi_part_text("1"), .changed = {made->x, 1}, .unix_ns = 1}};
    made->steps[1] = (hfi_keyed_step){
        hfi_part_text("3"), {.cells = hfi_part_text("2"), .changed = {made->y, 1}}};
    made->steps[2] = (hfi_keyed_step){
        hfi_part_text("4"), {.cells = hfi_part_text("3, 4"), .changed = {made->x, 1}}};
}

static void
line_end(line *made) {
    for (size_t i = 0; i < 3; i++)
        hf_snapshot_release(made->snapshots[i]);
    CHECK(hf_session_destroy(made->session, NULL) == HF_OK);
    hf_session_close(made->session);
}

static void
expect_diff(line *made, size_t count, int64_t from, int64_t to, const char *wanted) {
    hfi_textbuf text = {0};
    hfi_map_history map = {.from = from, .to = to, .steps = {made->steps, count}};
    hfi_historytext_write_diff(&map, made->snapshots, &text);
    CHECK_TEXT(text.data, wanted);
    hfi_textbuf_fini(&text);
}

static void
test_diff(line *made) {
    hfi_parts changed = made->steps[2].value.changed;
    expect_diff(made, 0, -1, -1, "No step is kept yet.\n");
    expect_diff(made, 1, -1, -1, "From step 0 to step 1:\n+  x\n");
    expect_diff(made, 3, -1, -1, "From step 3 to step 4:\n~  x\n");
    expect_diff(made, 3, 1, 3, "From step 1 to step 3:\n+  y\n");
    expect_diff(made, 3, 3, 1, "From step 3 to step 1:\n-  y\n");
    expect_diff(made, 3, 3, 3, "From step 3 to step 3: no variable differs.\n");
    /* the entry of x differs, and the cell has changed another name */
    made->steps[2].value.changed = (hfi_parts){made->y, 1};
    expect_diff(made, 3, 3, 4, "From step 3 to step 4: no variable differs.\n");
    /* the worker doesn't say what the cell has changed */
    made->steps[2].value.changed = (hfi_parts){NULL, 0};
    expect_diff(made, 3, 3, 4, "From step 3 to step 4:\n~  x\n");
    made->steps[2].value.changed = changed;
}

static void
expect(line *made, hfi_map_history map, const char *wanted) {
    const hfi_text lock = {hfi_part_text("lock"), hfi_part_text("it is a lock")};
    hfi_textbuf text = {0};
    map.steps = (hfi_steps){made->steps, 3};
    hfi_historytext_write(&map, "%holdfast", made->session, (hfi_texts){&lock, 1},
                          &text);
    CHECK_TEXT(text.data, wanted);
    hfi_textbuf_fini(&text);
}

static void
test_words(line *made) {
    const hfi_text gone = {hfi_part_text("file"), hfi_part_text("it is open")};
    char wanted[512];
    expect(made,
           (hfi_map_history){.kind = hfi_part_text("undo"),
                             .undone = hfi_part_text("3, 4"),
                             .target = 3},
           "Undone: cells 3, 4. The variables are those of step 3.\nChanged: x.\n"
           "%holdfast checkout 3 takes it back.\n");
    expect(made,
           (hfi_map_history){.kind = hfi_part_text("checkout"),
                             .target = 1,
                             .unserializable = {&gone, 1}},
           "The variables are those of step 1.\nChanged: x.\n"
           "file isn't in that step: it is open.\n"
           "%holdfast checkout 3 takes it back.\n");
    expect(
        made,
        (hfi_map_history){.kind = hfi_part_text("save"), .file = hfi_part_text("/f")},
        "The variables are saved to /f.\nlock isn't in it: it is a lock.\n");
    expect(
        made,
        (hfi_map_history){.kind = hfi_part_text("load"), .file = hfi_part_text("/f")},
        "The variables are those of /f.\n%holdfast undo takes it back.\n");
    snprintf(wanted, sizeof wanted,
             "Saved: generation 4 of the session %s\n"
             "C:  hf_session_open_readonly(\"%s\", &session, &error)\n"
             "lock isn't in it: it is a lock.\n",
             hf_session_name(made->session), hf_session_name(made->session));
    expect(made, (hfi_map_history){.kind = hfi_part_text("publish")}, wanted);
}

static void
test_list(line *made) {
    hfi_textbuf text = {0};
    hfi_map_history map = {.kind = hfi_part_text("show"),
                           .steps = {made->steps, 3},
                           .pending = hfi_part_text("5"),
                           .kept_bytes = 2048,
                           .limit_bytes = 64 << 20,
                           .dropped = 2};
    made->steps[2].value.origin = 1;
    hfi_historytext_write(&map, "%holdfast", made->session, (hfi_texts){NULL, 0},
                          &text);
    made->steps[2].value.origin = 0;
    CHECK(strstr(text.data, "\n   1  ") != NULL &&
          strstr(text.data, "  2         y\n"));
    CHECK(strstr(text.data, "  3, 4      the variables of step 1\n") != NULL);
    CHECK(strstr(text.data,
                 "Not committed yet: what cell 5 may have changed.\n"
                 "2 KiB kept for it, of at most 64 MiB; 2 older dropped.\n") != NULL);
    hfi_textbuf_fini(&text);
}

int
main(void) {
    line made;
    line_begin(&made);
    test_diff(&made);
    test_words(&made);
    test_list(&made);
    line_end(&made);
    return 0;
}
