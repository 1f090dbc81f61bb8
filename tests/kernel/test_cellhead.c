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

        hfi_cellhead_parse(hfi_part_text(rows[i].cell), "#", &head);
        CHECK(hfi_part_is(head.before, rows[i].before));
        CHECK(hfi_part_is(head.name, rows[i].name));
        CHECK(hfi_part_is(head.argument, rows[i].argument));
        CHECK(hfi_part_is(head.body, rows[i].body));
        CHECK(hfi_cellhead_has_code(hfi_part_text(rows[i].cell), "#") ==
              (*rows[i].name != 0));
    }
}

/* The lines from the given byte on, with those above as comments of the language. */
static void
test_cut(void) {
    static const struct {
        const char *cell, *comment;
        size_t body;
        const char *code;
    } rows[] = {
        {"# a\r\n\n%%x y \nz", "#", 13, "# a\n#\n# %%x y\nz"},
        {"-- a\n%%x\nz", "--", 9, "-- a\n-- %%x\nz"},
        {"%%x\n\nz", NULL, 4, "\n\nz"},
        {"# a\n%%x\n# b\n%%y\nz", "#", 8, "\n\n\n%%y\nz"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_part cell = hfi_part_text(rows[i].cell);
        hfi_part body = {cell.data + rows[i].body, cell.size - rows[i].body};
        hfi_textbuf text = {0};

        hfi_cellhead_cut(cell, body, rows[i].comment, &text);
        CHECK_TEXT(text.data, rows[i].code);
        hfi_textbuf_fini(&text);
    }
}

/* Without a comment sign each line that isn't blank counts. */
static void
test_comment_sign(void) {
    hfi_cellhead head;

    hfi_cellhead_parse(hfi_part_text("-- a\n%%x\n"), "--", &head);
    CHECK(hfi_part_is(head.name, "%%x"));
    hfi_cellhead_parse(hfi_part_text("# a\n%%x\n"), NULL, &head);
    CHECK(hfi_part_is(head.name, "#"));
    CHECK(!hfi_cellhead_has_code(hfi_part_text("-- a\n\n"), "--"));
    CHECK(hfi_cellhead_has_code(hfi_part_text("-- a\n\n"), "#"));
}

static void
test_lift(void) {
    static const char *const runners[] = {"%%time", "%%timeit", "%%capture", NULL};
    static const char *const lifted[] = {"%%execute_with_scorep", "%%isolated", NULL};
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

        CHECK(hfi_cellhead_lift(hfi_part_text(rows[i].cell), "#", runners, lifted,
                                &text) == (rows[i].lifted != NULL));
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
    test_cut();
    test_comment_sign();
    return 0;
}
