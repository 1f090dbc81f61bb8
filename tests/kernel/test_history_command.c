/* test_history_command.c - which words behind %holdfast are the frontend's, and in
 * which cells.
 */
#include "commands/history.h"
#include "feed.h"

static const struct {
    const char *words;
    hfi_history_kind kind;
    long long from, to;
    unsigned long long limit;
} rows[] = {
    {"", HFI_HISTORY_SHOW, -1, -1, 0},
    {"last", HFI_HISTORY_SHOW, -1, -1, 0},
    {"some names", HFI_HISTORY_SHOW, -1, -1, 0},
    {"history", HFI_HISTORY_SHOW, -1, -1, 0},
    {"undo", HFI_HISTORY_UNDO, -1, -1, 0},
    {"undo 1", HFI_HISTORY_NONE, -1, -1, 0},
    {"undo --to 2", HFI_HISTORY_UNDO, -1, 2, 0},
    {"undo --to", HFI_HISTORY_NONE, -1, -1, 0},
    {"undo --to -2", HFI_HISTORY_NONE, -1, -1, 0},
    {"undo --to 2 3", HFI_HISTORY_NONE, -1, -1, 0},
    {"checkout 12", HFI_HISTORY_CHECKOUT, 12, -1, 0},
    {"checkout", HFI_HISTORY_NONE, -1, -1, 0},
    {"checkout -1", HFI_HISTORY_NONE, -1, -1, 0},
    {"checkout 1 2", HFI_HISTORY_NONE, -1, -1, 0},
    {"checkout 1x", HFI_HISTORY_NONE, -1, -1, 0},
    {"checkout 1234567890123456", HFI_HISTORY_NONE, -1, -1, 0},
    {"diff", HFI_HISTORY_DIFF, -1, -1, 0},
    {"diff 3", HFI_HISTORY_DIFF, 3, -1, 0},
    {"diff 3\t4 ", HFI_HISTORY_DIFF, 3, 4, 0},
    {"diff 3 4 5", HFI_HISTORY_NONE, -1, -1, 0},
    {"save", HFI_HISTORY_NONE, -1, -1, 0},
    {"save a file", HFI_HISTORY_SAVE, -1, -1, 0},
    {"publish", HFI_HISTORY_PUBLISH, -1, -1, 0},
    {"publish x", HFI_HISTORY_NONE, -1, -1, 0},
    {"load x", HFI_HISTORY_LOAD, -1, -1, 0},
    {"rerun", HFI_HISTORY_RERUN, -1, -1, 0},
    {"rerun 3", HFI_HISTORY_NONE, -1, -1, 0},
    {"protect", HFI_HISTORY_PROTECT, -1, -1, 0},
    {"protect never", HFI_HISTORY_PROTECT, -1, -1, 0},
    {"protect sometimes", HFI_HISTORY_NONE, -1, -1, 0},
    {"protect never always", HFI_HISTORY_NONE, -1, -1, 0},
    {"limit", HFI_HISTORY_SHOW, -1, -1, 0},
    {"history 0", HFI_HISTORY_LIMIT, -1, -1, 0},
    {"history 17", HFI_HISTORY_LIMIT, -1, -1, 17},
    {"history 3k", HFI_HISTORY_LIMIT, -1, -1, 3072},
    {"history 2G", HFI_HISTORY_LIMIT, -1, -1, 2ull << 30},
    {"history 999999999999999T", HFI_HISTORY_NONE, -1, -1, 0},
    {"history G", HFI_HISTORY_NONE, -1, -1, 0},
    {"history 1.5G", HFI_HISTORY_NONE, -1, -1, 0},
};

static void
test_words(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_history history = hfi_history_parse(hfi_part_text(rows[i].words));
        if (history.kind != rows[i].kind)
            printf("%s: %s\n", rows[i].words, hfi_history_name(history.kind));
        CHECK(history.kind == rows[i].kind);
        if (history.kind == HFI_HISTORY_NONE)
            continue;
        CHECK(history.from == rows[i].from && history.to == rows[i].to);
        CHECK(history.limit_bytes == rows[i].limit);
    }
}

static hfi_history_kind
kind_in(hfi_commands *commands, const char *cell) {
    hfi_directive directive = feed_cell(commands, cell, "/");
    hfi_history_kind kind = directive.history.kind;
    CHECK(!directive.err);
    CHECK(kind == HFI_HISTORY_NONE || directive.kind == HFI_RUN_PLAIN);
    if (directive.kind == HFI_RUN_PLAIN)
        CHECK_TEXT(directive.code, cell); /* the magic sees it as well */
    hfi_directive_fini(&directive);
    return kind;
}

static void
test_cells(void) {
    hfi_commands *commands;
    CHECK(hfi_commands_create("python3", &commands, NULL) == HF_OK);
    CHECK(kind_in(commands, "%holdfast undo") == HFI_HISTORY_UNDO);
    CHECK(kind_in(commands, "\n# back\n  %holdfast undo\n# so\n\n") ==
          HFI_HISTORY_UNDO);
    CHECK(kind_in(commands, "%holdfast undo\nx") == HFI_HISTORY_NONE);
    CHECK(kind_in(commands, "x\n%holdfast undo") == HFI_HISTORY_NONE);
    CHECK(kind_in(commands, "%holdfastundo") == HFI_HISTORY_NONE);
    CHECK(kind_in(commands, "%holdfast") == HFI_HISTORY_SHOW);
    CHECK(kind_in(commands, "%holdfast publish") == HFI_HISTORY_PUBLISH);
    CHECK(kind_in(commands, "# now\nholdfast.publish()") == HFI_HISTORY_PUBLISH);
    CHECK(kind_in(commands, "holdfast.publish()\nx") == HFI_HISTORY_NONE);
    CHECK(kind_in(commands, "holdfast.publish()  # now") == HFI_HISTORY_PUBLISH);
    CHECK(kind_in(commands, "holdfast.publish() or x") == HFI_HISTORY_NONE);
    CHECK(kind_in(commands, "holdfast.publish(x)") == HFI_HISTORY_NONE);
    hfi_directive directive = feed_cell(commands, "%%enable_multicellmode", "/");
    hfi_directive_fini(&directive);
    CHECK(kind_in(commands, "%holdfast undo") == HFI_HISTORY_NONE); /* only marked */
    hfi_commands_close(commands);
}

int
main(void) {
    test_words();
    test_cells();
    return 0;
}
