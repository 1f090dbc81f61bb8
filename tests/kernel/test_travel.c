/* test_travel.c - which words behind %holdfast are the frontend's, and in which cells.
 */
#include "feed.h"

static const struct {
    const char *words;
    hfi_travel_kind kind;
    long long from, to;
    unsigned long long limit;
} rows[] = {
    {"", HFI_TRAVEL_SHOW, -1, -1, 0},
    {"last", HFI_TRAVEL_SHOW, -1, -1, 0},
    {"some names", HFI_TRAVEL_SHOW, -1, -1, 0},
    {"history", HFI_TRAVEL_SHOW, -1, -1, 0},
    {"undo", HFI_TRAVEL_UNDO, -1, -1, 0},
    {"undo 1", HFI_TRAVEL_NONE, -1, -1, 0},
    {"checkout 12", HFI_TRAVEL_CHECKOUT, 12, -1, 0},
    {"checkout", HFI_TRAVEL_NONE, -1, -1, 0},
    {"checkout -1", HFI_TRAVEL_NONE, -1, -1, 0},
    {"checkout 1 2", HFI_TRAVEL_NONE, -1, -1, 0},
    {"checkout 1x", HFI_TRAVEL_NONE, -1, -1, 0},
    {"checkout 1234567890123456", HFI_TRAVEL_NONE, -1, -1, 0},
    {"diff", HFI_TRAVEL_DIFF, -1, -1, 0},
    {"diff 3", HFI_TRAVEL_DIFF, 3, -1, 0},
    {"diff 3\t4 ", HFI_TRAVEL_DIFF, 3, 4, 0},
    {"diff 3 4 5", HFI_TRAVEL_NONE, -1, -1, 0},
    {"save", HFI_TRAVEL_NONE, -1, -1, 0},
    {"save a file", HFI_TRAVEL_SAVE, -1, -1, 0},
    {"load x", HFI_TRAVEL_LOAD, -1, -1, 0},
    {"history 0", HFI_TRAVEL_LIMIT, -1, -1, 0},
    {"history 17", HFI_TRAVEL_LIMIT, -1, -1, 17},
    {"history 3k", HFI_TRAVEL_LIMIT, -1, -1, 3072},
    {"history 2G", HFI_TRAVEL_LIMIT, -1, -1, 2ull << 30},
    {"history 999999999999999T", HFI_TRAVEL_NONE, -1, -1, 0},
    {"history G", HFI_TRAVEL_NONE, -1, -1, 0},
    {"history 1.5G", HFI_TRAVEL_NONE, -1, -1, 0},
};

static void
test_words(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_travel travel = hfi_travel_parse(hfi_span_of(rows[i].words));
        if (travel.kind != rows[i].kind)
            printf("%s: %s\n", rows[i].words, hfi_travel_name(travel.kind));
        CHECK(travel.kind == rows[i].kind);
        if (travel.kind == HFI_TRAVEL_NONE)
            continue;
        CHECK(travel.from == rows[i].from && travel.to == rows[i].to);
        CHECK(travel.limit_bytes == rows[i].limit);
    }
}

static hfi_travel_kind
kind_in(hfi_commands *commands, const char *cell) {
    hfi_verdict verdict = feed_cell(commands, cell, "/");
    hfi_travel_kind kind = verdict.travel.kind;
    CHECK(!verdict.err);
    CHECK(kind == HFI_TRAVEL_NONE || verdict.kind == HFI_RUN_PLAIN);
    if (verdict.kind == HFI_RUN_PLAIN)
        CHECK_TEXT(verdict.code, cell); /* the magic sees it as well */
    hfi_verdict_fini(&verdict);
    return kind;
}

static void
test_cells(void) {
    hfi_commands *commands;
    CHECK(hfi_commands_create("python3", &commands, NULL) == HF_OK);
    CHECK(kind_in(commands, "%holdfast undo") == HFI_TRAVEL_UNDO);
    CHECK(kind_in(commands, "\n# back\n  %holdfast undo\n# so\n\n") == HFI_TRAVEL_UNDO);
    CHECK(kind_in(commands, "%holdfast undo\nx") == HFI_TRAVEL_NONE);
    CHECK(kind_in(commands, "x\n%holdfast undo") == HFI_TRAVEL_NONE);
    CHECK(kind_in(commands, "%holdfastundo") == HFI_TRAVEL_NONE);
    CHECK(kind_in(commands, "%holdfast") == HFI_TRAVEL_SHOW);
    hfi_verdict verdict = feed_cell(commands, "%%enable_multicellmode", "/");
    hfi_verdict_fini(&verdict);
    CHECK(kind_in(commands, "%holdfast undo") == HFI_TRAVEL_NONE); /* only marked */
    hfi_commands_close(commands);
}

int
main(void) {
    test_words();
    test_cells();
    return 0;
}
