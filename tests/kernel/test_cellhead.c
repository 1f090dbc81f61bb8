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

        hfi_cellhead_parse(hfi_part_text(rows[i].cell), &head);
        CHECK(hfi_part_is(head.before, rows[i].before));
        CHECK(hfi_part_is(head.name, rows[i].name));
        CHECK(hfi_part_is(head.argument, rows[i].argument));
        CHECK(hfi_part_is(head.body, rows[i].body));
        CHECK(hfi_cellhead_has_code(hfi_part_text(rows[i].cell)) ==
              (*rows[i].name != 0));
    }
}

static void
test_blank(void) {
    hfi_part lines = hfi_part_text("# a\r\n\n%%x y \n");
    hfi_textbuf text = {0};

    hfi_cellhead_blank(&text, lines, false);
    CHECK_TEXT(text.data, "# a\n#\n# %%x y\n");
    hfi_textbuf_truncate(&text, 0);
    hfi_cellhead_blank(&text, lines, true);
    CHECK_TEXT(text.data, "\n\n\n");
    hfi_textbuf_fini(&text);
}

static void
test_lift(void) {
    static const struct {
        const char *cell, *lifted; /* NULL: it stays */
    } rows[] = {
        {"%%time\n%%isolated\nx", "%%isolated\n%%time\nx"},
        {"# a\n%%capture out\n\n%%timeit\n# b\n  %%execute_with_scorep  --run=isolated "
         "\nx\ny",
         "%%execute_with_scorep --run=isolated\n# a\n%%capture out\n\n%%timeit\n# "
         "b\nx\ny"},
        {"%%time\n%%execute_with_scorep", "%%execute_with_scorep\n%%time\n"},
        {"%%execute_with_scorep\n%%time\nx", NULL},
        {"# a\n%%execute_with_scorep\nx", NULL},
        {"%%writefile f\n%%execute_with_scorep\nx", NULL},
        {"%%time\n%%bash\n%%execute_with_scorep\nx", NULL},
        {"%%time\nx\n%%execute_with_scorep", NULL},
        {"%%time\n%%enable_multicellmode", NULL},
        {"%%timer\n%%isolated\nx", NULL},
        {"%%time", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_textbuf text = {0};

        CHECK(hfi_cellhead_lift(hfi_part_text(rows[i].cell), &text) ==
              (rows[i].lifted != NULL));
        if (rows[i].lifted)
            CHECK_TEXT(text.data, rows[i].lifted);
        else
            CHECK(text.size == 0);
        hfi_textbuf_fini(&text);
    }
}

int
main(void) {
    test_parse();
    test_lift();
    test_blank();
    return 0;
}
