/* test_text.c - the quotings, against strings worked out by hand, and the span walkers.
 */
#include "../support/check.h"
#include "commands/text.h"

static void
expect(hfi_text *text, const char *wanted) {
    CHECK(!hfi_text_failed(text));
    CHECK_TEXT(text->data, wanted);
    hfi_text_fini(text);
}

static void
test_literal(void) {
    static const char *const rows[][2] = {
        {"", "\"\""},
        {"plain 'x'", "\"plain 'x'\""},
        {"q\"b\\n\n\t\r\x01\x7f", "\"q\\\"b\\\\n\\n\\t\\r\\x01\\x7f\""},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
         "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        /* overlong, surrogate, past the end of Unicode, cut short, stray */
        {"\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82",
         "\"\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_text text = HFI_TEXT_INIT;

        hfi_text_add_literal(&text, hfi_span_of(rows[i][0]), '"');
        expect(&text, rows[i][1]);
    }
}

static void
test_repr(void) {
    static const char *const rows[][2] = {
        {"a", "'a'"}, {"it's", "\"it's\""}, {"a\"b", "'a\"b'"}, {"'\"", "'\\'\"'"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_text text = HFI_TEXT_INIT;

        hfi_text_add_repr(&text, hfi_span_of(rows[i][0]));
        expect(&text, rows[i][1]);
    }
}

static void
test_word(void) {
    static const char *const rows[][2] = {{"", "''"},
                                          {"--mpp=mpi", "--mpp=mpi"},
                                          {"a b", "'a b'"},
                                          {"$x;`y`", "'$x;`y`'"},
                                          {"it's", "'it'\\''s'"},
                                          {"~/x", "'~/x'"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_text text = HFI_TEXT_INIT;

        hfi_text_add_word(&text, hfi_span_of(rows[i][0]));
        expect(&text, rows[i][1]);
    }
}

static void
test_excerpt(void) {
    char wanted[128], source[256];
    hfi_text text = HFI_TEXT_INIT;

    hfi_text_add_excerpt(&text, hfi_span_of("a\nb\x1b[31m\xff"));
    expect(&text, "a?b?[31m?");
    /* cut before the two-byte letter that would end at byte 61 */
    memset(source, 'x', 59);
    strcpy(source + 59, "\xc3\xa4yz");
    memset(wanted, 'x', 59);
    strcpy(wanted + 59, "...");
    hfi_text_add_excerpt(&text, hfi_span_of(source));
    expect(&text, wanted);
}

static void
test_truncate_and_take(void) {
    hfi_text text = HFI_TEXT_INIT;
    char *taken;

    CHECK(!hfi_text_take(&text));
    hfi_text_truncate(&text, 0);
    hfi_text_add(&text, "abc");
    hfi_text_add_format(&text, "%d", 42);
    hfi_text_truncate(&text, 4);
    text.failed = true;
    hfi_text_add(&text, "lost");
    hfi_text_truncate(&text, 4);
    hfi_text_add(&text, "!");
    taken = hfi_text_take(&text);
    CHECK_TEXT(taken, "abc4!");
    CHECK(!text.data && !text.length);
    free(taken);
}

/* A size that no machine has must be a remembered failure, not an overflow. */
static void
test_too_long(void) {
    hfi_text text = HFI_TEXT_INIT;

    hfi_text_add_span(&text, (hfi_span){"x", (size_t)-8});
    CHECK(hfi_text_failed(&text) && !text.data);
    hfi_text_fini(&text);
}

static void
test_spans(void) {
    hfi_span rest = hfi_span_of("one\r\n\n two \t three \nlast"), line, token;

    CHECK(hfi_span_next_line(&rest, &line) && hfi_span_equal(line, "one"));
    CHECK(hfi_span_next_line(&rest, &line) && line.length == 0);
    CHECK(hfi_span_next_line(&rest, &line));
    token = hfi_span_next_token(&line);
    CHECK(hfi_span_equal(token, "two") && hfi_span_equal(line, "three"));
    token = hfi_span_next_token(&line);
    CHECK(hfi_span_equal(token, "three") && !line.length);
    CHECK(!hfi_span_next_token(&line).length);
    CHECK(hfi_span_next_line(&rest, &line) && hfi_span_begins(line, "la"));
    CHECK(!hfi_span_begins(line, "lasting") && !hfi_span_equal(line, "las"));
    CHECK(!hfi_span_next_line(&rest, &line));
}

int
main(void) {
    test_literal();
    test_repr();
    test_word();
    test_excerpt();
    test_truncate_and_take();
    test_too_long();
    test_spans();
    return 0;
}
