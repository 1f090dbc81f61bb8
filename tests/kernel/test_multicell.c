/* test_multicell.c - the generated program, against one that was read and approved.
 * That it runs is tested over the real kernel, in test_scorep_commands.py.
 */
#include "golden.h"
#include "commands/multicell.h"

static void
add(hfi_multicell *multicell, const char *cell) {
    hfi_multicell_add(multicell, hfi_part_text(cell));
    CHECK(!multicell->cells.failed);
}

static void
test_program(const char *directory) {
    hfi_multicell multicell = HFI_MULTICELL_INIT;
    hfi_textbuf program = {0};

    add(&multicell, "a = \"q\\\"'\\\\n\"\nb = '''x\n%y\n'''\n");
    add(&multicell, "");
    add(&multicell, "%%bash\r\necho '\"\"\"'\r\n");
    add(&multicell, "(\xc3\xa4, '\xff\t')");
    CHECK(multicell.count == 4 && !multicell.awaits);
    hfi_multicell_generate(&multicell, &program);
    CHECK(!program.failed);
    golden_expect(directory, "multicell_program.py.golden", program.data);
    hfi_textbuf_fini(&program);
    hfi_multicell_fini(&multicell);
    CHECK(!multicell.cells.data && !multicell.count);
}

static void
test_async(void) {
    static const char *const cells[] = {"await f()", "async with x: pass", "# awaited"};

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        hfi_multicell multicell = HFI_MULTICELL_INIT;
        hfi_textbuf program = {0};

        add(&multicell, "x = 1");
        CHECK(!multicell.awaits);
        add(&multicell, cells[i]);
        add(&multicell, "x = 1");
        CHECK(multicell.awaits);
        hfi_multicell_generate(&multicell, &program);
        CHECK(strstr(program.data, "\nasync def "));
        CHECK(strstr(program.data, "    await _holdfast_multicell("));
        hfi_textbuf_fini(&program);
        hfi_multicell_fini(&multicell);
    }
}

int
main(int argc, char **argv) {
    CHECK(argc == 2);
    test_program(argv[1]);
    test_async();
    return 0;
}
