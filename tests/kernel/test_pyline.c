/* test_pyline.c - which lines begin a statement. Each row is a source and one letter a
 * line: b blank, # comment, c code, m magic, M magic carried on, . inside.
 */
#include "../support/check.h"
#include "commands/pyline.h"

struct row {
    const char *source;
    const char *kinds;
};

static const struct row rows[] = {
    {"", ""},
    {"\n \n# x\n  # y\nz", "bb##c"},
    {"x = '''a\n%b\n'''\n%c", "c..m"},
    {"x = \"\"\"a\n'''\n%b\"\"\"; y = 'c'\nz", "c..c"},
    {"f(a\n%b)\nc", "c.c"},
    {"f([{\n\n# in\n}])\nc", "c...c"},
    {"x = 1 + \\\n%y\nz", "c.c"},
    {"x = 'a\\\n%b'\nc", "c.c"},
    {"x = 'open\n%b", "cm"},
    {"x = r'\\'\ny", "cc"},
    {"x = r'''\\'''\n'''\ny", "c.c"},
    {"x = '# no'  # it's\n%y", "cm"},
    {"x # (\n%y", "cm"},
    {"f'{a[\"(\"]}' ; x\n%y", "cm"},
    {"f'{{(' \n%y", "cm"},
    {"f'{x:(>{w}}' \n%y", "cm"},
    {"f'{x!r:>10}' f\"{'}'}\"\n%y", "cm"},
    {"f'''{\na}\n%b''' \n%y", "c..m"},
    {"f'{f\"{1}\"}' \n%y", "cm"},
    {"rb'''\n{%b'''\n%y", "c.m"},
    {"t'{x(1)}'\n%y", "cm"},
    {"if x:\n    %m\n    !ls 'a\n    ?x\n    y", "cmmmc"},
    {"%run a \\\n  b\nc", "mMc"},
    {"files = !ls 'a\nx", "mc"},
    {"files = !ls \\\n 'a\nx", "mMc"},
    {"t =  %timeit -o f(\nx", "mc"},
    {"print?\nprint??\nx", "mmc"},
    {"x = 1  # why?\nx = '?'\ny", "ccc"},
    {"x == 5\nx != 5\nf(a=%b)", "ccc"},
    {"a = b % c\nd = e[f!=g]", "cc"},
    {"x = 1\r\n%y\r\n\r\nz\r\n", "cmbc"},
    {")\n]\n%y", "ccm"},
    {"f'{\nx}'\ny", "c.c"},
};

static void
test_rows(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hfi_pyline_scanner scanner;
        hfi_pyline line;
        char kinds[64];
        size_t count = 0;

        hfi_pyline_begin(&scanner, hfi_part_text(rows[i].source));
        while (hfi_pyline_next(&scanner, &line)) {
            char letter = "b#cm."[line.kind];

            CHECK(count + 1 < sizeof kinds);
            kinds[count++] = line.carried ? 'M' : letter;
        }
        kinds[count] = '\0';
        if (strcmp(kinds, rows[i].kinds))
            fprintf(stderr, "of %s\n", rows[i].source);
        CHECK_TEXT(kinds, rows[i].kinds);
    }
}

static void
test_indent(void) {
    hfi_pyline_scanner scanner;
    hfi_pyline line;

    hfi_pyline_begin(&scanner, hfi_part_text(" \tx = 1  \r\n"));
    CHECK(hfi_pyline_next(&scanner, &line));
    CHECK(line.indent == 2 && hfi_part_is(line.text, " \tx = 1  "));
    CHECK(!hfi_pyline_next(&scanner, &line));
}

/* More open brackets than the stack holds: no write past it, and it still ends. */
static void
test_depth(void) {
    char source[4096];
    hfi_pyline_scanner scanner;
    hfi_pyline line;
    size_t count = 0;

    for (size_t i = 0; i < sizeof source - 1; i++)
        source[i] = i % 100 == 99 ? '\n' : "([{'"[i % 4];
    source[sizeof source - 1] = '\0';
    hfi_pyline_begin(&scanner, hfi_part_text(source));
    while (hfi_pyline_next(&scanner, &line))
        count++;
    CHECK(count == 41);
}

int
main(void) {
    test_rows();
    test_indent();
    test_depth();
    return 0;
}
