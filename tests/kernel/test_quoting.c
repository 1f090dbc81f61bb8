/* test_quoting.c - the quotings, against strings worked out by hand. */
#include "../support/check.h"
#include "commands/quoting.h"

static void
expect(hfi_textbuf *text, const char *wanted) {
    CHECK(!text->failed);
    CHECK_TEXT(text->data, wanted);
    hfi_textbuf_fini(text);
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
        hfi_textbuf text = {0};

        hfi_quote_literal(&text, hfi_part_text(rows[i][0]), '"');
        expect(&text, rows[i][1]);
    }
}

static void
test_repr(void) {
    static const char *const rows[][2] = {
        {"a", "'a'"}, {"it's", "\"it's\""}, {"a\"b", "'a\"b'"}, {"'\"", "'\\'\"'"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_textbuf text = {0};

        hfi_quote_repr(&text, hfi_part_text(rows[i][0]));
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
        hfi_textbuf text = {0};

        hfi_quote_word(&text, hfi_part_text(rows[i][0]));
        expect(&text, rows[i][1]);
    }
}

static void
test_excerpt(void) {
    char wanted[128], source[256];
    hfi_textbuf text = {0};

    hfi_textbuf_add_excerpt(&text, hfi_part_text("a\nb\x1b[31m\xff"));
    expect(&text, "a?b?[31m?");
    /* cut before the two-byte letter that would end at byte 61 */
    memset(source, 'x', 59);
    strcpy(source + 59, "\xc3\xa4yz");
    memset(wanted, 'x', 59);
    strcpy(wanted + 59, "...");
    hfi_textbuf_add_excerpt(&text, hfi_part_text(source));
    expect(&text, wanted);
}

int
main(void) {
    test_literal();
    test_repr();
    test_word();
    test_excerpt();
    return 0;
}
