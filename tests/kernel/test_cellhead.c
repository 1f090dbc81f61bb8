/* test_cellhead.c - where the command of a cell stands, and lines that stay in number.
 */
#include "../support/check.h"
#include "commands/cellhead.h"

static void
test_parse(void) {
    static const struct {
        const char *cell, *before, *name, *argument, *body;
    } rows[] = {
        {"", "", "", "", ""},
        {"# a\n\n", "# a\n\n", "", "", ""},
        {"%%x", "", "%%x", "", ""},
        {"\n# a\r\n \t%%x  a  b \r\nbody\n", "\n# a\r\n", "%%x", "a  b", "body\n"},
        {"x=1\n%%y", "", "x=1", "", "%%y"},
        {"%%x\n\n", "", "%%x", "", "\n"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_cellhead head;

        hfi_cellhead_parse(hfi_span_of(rows[i].cell), &head);
        CHECK(hfi_span_equal(head.before, rows[i].before));
        CHECK(hfi_span_equal(head.name, rows[i].name));
        CHECK(hfi_span_equal(head.argument, rows[i].argument));
        CHECK(hfi_span_equal(head.body, rows[i].body));
        CHECK(hfi_cellhead_has_code(hfi_span_of(rows[i].cell)) == (*rows[i].name != 0));
    }
}

static void
test_blank(void) {
    hfi_span lines = hfi_span_of("# a\r\n\n%%x y \n");
    hfi_text text = HFI_TEXT_INIT;

    hfi_cellhead_blank(&text, lines, false);
    CHECK_TEXT(text.data, "# a\n#\n# %%x y\n");
    hfi_text_truncate(&text, 0);
    hfi_cellhead_blank(&text, lines, true);
    CHECK_TEXT(text.data, "\n\n\n");
    hfi_text_fini(&text);
}

int
main(void) {
    test_parse();
    test_blank();
    return 0;
}
